// See the header.
#include "runtime/program_cache.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/hash.h"
#include "base/printable_text.h"
#include "compile/pipeline.h"
#include "io/atomic_file.h"
#include "io/cache_folder.h"
#include "io/json_tree.h"
#include "ir/leaves.h"
#include "passes/bound_values.h"
#include "passes/legalize.h"
#include "rlx/graph_file.h"
#include "rlx/io.h"
#include "rlx/version.h"

namespace rlx {
namespace {

constexpr size_t kMostPrograms = 64;

bool asked_for(const char* variable) {
  const char* v = std::getenv(variable);
  return v && *v && std::string_view(v) != "0";
}

/// The entry on disk: key.rlx (the legal graph, with large constants beside it), key.given.rlx (what it was made from),
/// key.json (the report), and key.sums: a line with the checksum and the name of each of the others.
struct DiskEntry {
  std::filesystem::path legal, given, report, sums;
  DiskEntry(const std::string& dir, const std::string& key)
      : legal(std::filesystem::path(dir) / (key + ".rlx")), given(std::filesystem::path(dir) / (key + ".given.rlx")),
        report(std::filesystem::path(dir) / (key + ".json")), sums(std::filesystem::path(dir) / (key + ".sums")) {}

  /// Of these and the constants beside them, those that there are, be they links to nothing.
  std::vector<std::filesystem::path> present() const {
    std::vector<std::filesystem::path> all;
    std::error_code error;
    for (const auto& graph : {legal, given})
      for (const char* extension : {".rlx", ".safetensors"})
        all.push_back(std::filesystem::path(graph).replace_extension(extension));
    all.push_back(report);
    all.push_back(sums);
    std::erase_if(all, [&](const auto& path) { return !exists(symlink_status(path, error)); });
    return all;
  }
  /// What key.sums holds of the files as they are now. No file of ours is empty.
  std::string sums_now() const {
    std::string text = "rlx sums 1\n";
    for (const auto& file : present())
      if (file != sums)
        text += hex_text(checksum(FileBytes::read(file.string())->bytes())) + " " + file.filename().string() + "\n";
    return text;
  }
};

std::string content_of(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// Fails unless every file of the entry is, byte for byte, the one that was written: a graph with one changed digit
/// still parses, and would be believed.
void check_sums(const DiskEntry& entry) {
  std::istringstream now(entry.sums_now()), written(content_of(entry.sums));
  for (std::string a, b;;) {
    const bool more = static_cast<bool>(std::getline(now, a)), wanted = static_cast<bool>(std::getline(written, b));
    if (!more && !wanted) return;
    if (more != wanted || a != b)
      fail(ErrorCode::parse, "its files do not have the sums that they were written with: '", wanted ? b : "nothing",
           "' was written, and there is '", more ? a : "nothing", "'");
  }
}

DispatchReport report_from(const std::string& text) {
  const JsonTree json = parse_json(text);
  DispatchReport report{json.at("target").string(), {}};
  for (const JsonTree& line : json.at("nodes").elements()) {
    auto names = names_of(Verdict{});
    const std::string& named = line.at("verdict").string();
    auto verdict = std::find(names.begin(), names.end(), named) - names.begin();
    if (verdict == std::ssize(names)) fail(ErrorCode::parse, "'", named, "' is no verdict");
    report.lines.push_back(
        {line.at("node").string(), line.at("op").string(), static_cast<Verdict>(verdict), line.at("reason").string()});
  }
  return report;
}

/// Fails unless `legal` has the signature of `g` and only nodes that the backend takes: somebody may have written it.
void check_entry(const Graph& legal, const Graph& g, const Backend& backend) {
  auto leaves = [](const Graph& of, const std::vector<Ref>& refs) {
    std::vector<std::pair<std::string, Type>> all;
    for (Ref r : refs) all.emplace_back(of.node(r).name, of.type(r));
    return all;
  };
  if (leaves(legal, legal.inputs()) != leaves(g, g.inputs()) ||
      leaves(legal, legal.params()) != leaves(g, g.params()) || legal.output_types() != g.output_types())
    fail(ErrorCode::parse, "its inputs, params and outputs are not those of '", g.name(), "'");
  Target target = backend.target();
  for (const Node& node : legal.nodes()) {
    if (node.op == &op::input || node.op == &op::param || node.op == &op::constant) continue;
    std::vector<Type> types;
    for (Ref r : node.operands) types.push_back(legal.type(r));
    if (auto why = target.refuses({node, types, [&](size_t i) { return is_weight(legal, node.operands[i]); }}))
      fail(ErrorCode::parse, "it has the op '", node.op->name, "': ", *why);
  }
}

/// What an earlier process compiled; nothing if there is no such entry, or if it is damaged or of another graph.
std::optional<Pipelined> load_entry(const DiskEntry& entry, const Graph& g, const Backend& backend) {
  std::error_code error;
  if (!std::filesystem::exists(entry.sums, error)) return {};
  try {
    for (const auto& file : entry.present()) require_own_entry(file.string());
    check_sums(entry);
    if (!(load_graph(entry.given.string()) == g)) return {};
    const std::string text = content_of(entry.report);
    Graph legal = load_graph(entry.legal.string());
    check_entry(legal, g, backend);
    for (const auto& file : entry.present()) mark_as_used(file.string());
    return Pipelined{std::move(legal), report_from(text)};
  } catch (const std::exception& e) {
    // A cache is no source of truth: what cannot be read is compiled again, and said.
    say("compiled graph '", entry.legal.string(), "' is left aside and made again: ", e.what());
    return {};
  }
}
void save_entry(const DiskEntry& entry, const Graph& g, const Pipelined& made) {
  try {
    namespace fs = std::filesystem;
    make_cache_folder(entry.legal.parent_path().string());
    for (const fs::path& file : entry.present())
      if (fs::is_symlink(file)) fs::remove(file);  // else it is its target that would be written
    save_graph(entry.legal.string(), made.graph);
    save_graph(entry.given.string(), g);
    for (const fs::path& file : entry.present()) fs::permissions(file, fs::perms::owner_read | fs::perms::owner_write);
    const auto write = [](const fs::path& path, const std::string& text) {
      AtomicFile file(path.string(), AtomicFile::Links::replace);
      file.write(text);
      file.commit();
    };
    write(entry.report, made.report.json());
    write(entry.sums, entry.sums_now());  // last: an entry is there once its sums are
    trim_cache_folder(entry.sums.parent_path().string(), entry.sums.string());
  } catch (const std::exception& e) {
    say("the compiled graph could not be kept: ", e.what());
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
  h = mix(mix(h, static_cast<size_t>(options.precision)), options.strict);
  h = mix(mix(h, static_cast<size_t>(options.accuracy)), options.batch_invariant);
  config.options_hash = mix(h, backend.claims_hash());
  return config;
}

std::shared_ptr<const CachedProgram> ProgramCache::find_or_make(const Graph& g, const Backend& backend,
                                                                const CompileOptions& options) {
  std::string key = config_of(g, backend, options).cache_key();
  std::scoped_lock lock(mutex_);
  for (const Entry& entry : entries_)
    if (entry.key == key && entry.graph == g) return entry.program;
  std::optional<Pipelined> made;
  if (!options.cache_dir.empty()) made = load_entry({options.cache_dir, key}, g, backend);
  if (!made) {
    made = run_pipeline(g, backend.target(), options);
    if (asked_for("RLX_DISPATCH_REPORT")) say("'", g.name(), "' ", made->report);
    require_complete(made->report, options.strict);
    if (!options.cache_dir.empty()) save_entry({options.cache_dir, key}, g, *made);
  }
  auto program = std::make_shared<const CachedProgram>(
      CachedProgram{backend.lower(std::move(made->graph)), std::move(made->report), key});
  if (entries_.size() >= kMostPrograms) entries_.erase(entries_.begin());
  entries_.push_back({std::move(key), g, program});
  return program;
}

}  // namespace rlx
