// See the header.
#include "runtime/program_cache.h"

#include <chrono>
#include <cstdlib>
#include <filesystem>

#include "backends/registry.h"
#include "base/log.h"
#include "base/printable_text.h"
#include "compile/split_compile.h"
#include "io/cache_folder.h"
#include "ops/core/registered.h"
#include "passes/legalize.h"
#include "rlx/version.h"
#include "runtime/artifact.h"
#include "runtime/split_program.h"

namespace rlx {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostPrograms = 64;

bool asked_for(const char* variable) {
  const char* v = std::getenv(variable);
  return v && *v && std::string_view(v) != "0";
}

/// What an earlier process compiled, in the file `path`; nothing if there is no such file, or if it is damaged or of
/// another graph.
std::shared_ptr<const CachedProgram> load_entry(const std::string& path, const std::string& key, const Graph& g,
                                                const std::shared_ptr<const Backend>& backend, const std::string& isa) {
  std::error_code error;
  if (!fs::exists(path, error)) return nullptr;
  try {
    require_own_entry(path);
    Artifact artifact = read_artifact(path);
    if (!(artifact.source == graph_file_of(g))) return nullptr;  // printing is faster than parsing
    auto program = program_of(artifact, *backend_for(artifact.info.report, backend, isa));
    mark_as_used(path);
    log_message(LogLevel::info, "read the compiled '", g.name(), "' from '", path, "'");
    return std::make_shared<const CachedProgram>(
        CachedProgram{std::move(program), std::move(artifact.info.report), key});
  } catch (const std::exception& e) {
    // A cache is no source of truth: what cannot be read is compiled again, and said.
    log_message(LogLevel::warning, "compiled graph '", path, "' is left aside and made again: ", e.what());
    return nullptr;
  }
}
void save_entry(const std::string& path, const Graph& g, const CachedProgram& made,
                const std::shared_ptr<const Backend>& backend, const CompileOptions& options) {
  try {
    const std::string folder = fs::path(path).parent_path().string();
    make_cache_folder(folder);
    if (fs::is_symlink(path)) fs::remove(path);  // else it is its target that would be written
    write_artifact(path, artifact_of(g, *made.program, *backend_for(made.report, backend, options.isa), signature_of(g),
                                     options, made.report));
    fs::permissions(path, fs::perms::owner_read | fs::perms::owner_write);
    trim_cache_folder(folder, path);
  } catch (const std::exception& e) {
    log_message(LogLevel::warning, "the compiled graph could not be kept: ", e.what());
  }
}

}  // namespace

ExecutionConfig config_of(const Graph& g, const Backend& backend, const CompileOptions& options) {
  ExecutionConfig config;
  config.variant = backend.name();
  for (const Type& t : g.input_types()) config.shapes.push_back(text_of(t));
  config.mode = options.mode;
  config.dispatch = options.kernel_dispatch;
  config.graph_hash = hash_of(g);
  size_t h = hash_of(std::string(RLX_VERSION));
  for (const auto* names : {&options.force_common, &options.force_native, &options.skip_passes, &options.donate}) {
    for (const std::string& name : *names) h = mix(h, hash_of(name));
    h = mix(h, names->size());
  }
  h = mix(mix(mix(h, static_cast<size_t>(options.rounding)), options.strict), options.narrow);
  h = mix(mix(h, static_cast<size_t>(options.accuracy)), options.batch_invariant);
  h = mix(mix(h, static_cast<size_t>(options.compute)), hash_of(options.isa));
  for (const TargetFact& fact : backend.facts()) h = mix(h, hash_of(fact.value));
  const auto add_device = [&](const std::string& name) {
    h = mix(h, hash_of(name));
    const Device device = Device::parse(name);
    if (!find_backend(device)) return;
    const auto other = backend_with(device, options.isa);
    for (const TargetFact& fact : other->facts()) h = mix(h, hash_of(fact.value));
    h = mix(h, other->claims_hash());
  };
  for (const std::string& name : options.fallback) add_device(name);
  for (const Placement& p : options.placement) {
    h = mix(h, hash_of(p.nodes));
    add_device(p.device);
  }
  h = mix(mix(h, options.fallback.size()), options.placement.size());
  config.options_hash = mix(h, backend.claims_hash());
  return config;
}

std::shared_ptr<const CachedProgram> ProgramCache::find_or_make(const Graph& g,
                                                                const std::shared_ptr<const Backend>& backend,
                                                                const CompileOptions& options) {
  std::string key = config_of(g, *backend, options).cache_key();
  const auto found = [&]() -> std::shared_ptr<const CachedProgram> {
    for (const Entry& entry : entries_)
      if (entry.key == key && entry.graph == g) return entry.program;
    return nullptr;
  };
  {
    std::scoped_lock lock(mutex_);
    if (auto program = found()) return program;
  }
  // Compiled without the lock, as rules of ops from outside may compile graphs themselves. Of two threads that compile
  // one graph, one program is kept.
  // By an op's name alone nobody knows whether the next process registers the same: such graphs are not kept.
  const bool may_be_kept = !options.cache_dir.empty() && !has_registered_op(g);
  const std::string path =
      may_be_kept ? (fs::path(options.cache_dir) / (key + std::string(kArtifactSuffix))).string() : "";
  std::shared_ptr<const CachedProgram> program;
  if (!path.empty()) program = load_entry(path, key, g, backend, options.isa);
  if (!program) {
    const auto begin = std::chrono::steady_clock::now();
    CompiledParts made = compile_parts(g, Device::parse(backend->name()), options);
    if (asked_for("RLX_DISPATCH_REPORT")) say("'", g.name(), "' ", made.report);
    require_complete(made.report, options.strict);
    program = std::make_shared<const CachedProgram>(
        CachedProgram{made.split ? lower_split(g, std::move(*made.split), std::move(made.legal), options.isa)
                                 : backend->lower(std::move(made.legal[0])),
                      std::move(made.report), key});
    if (is_logged(LogLevel::info)) {
      const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
      const DispatchReport& report = program->report;
      log_message(LogLevel::info, "compiled '", g.name(), "' for ", report.target, " in ", took.count(),
                  " ms: ", report.lines.size(), " nodes, ", report.count(Verdict::native), " native");
    }
    if (!path.empty()) save_entry(path, g, *program, backend, options);
  }
  std::scoped_lock lock(mutex_);
  if (auto other = found()) return other;
  if (entries_.size() >= kMostPrograms) entries_.erase(entries_.begin());
  entries_.push_back({std::move(key), g, program});
  return program;
}

}  // namespace rlx
