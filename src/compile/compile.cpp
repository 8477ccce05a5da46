// What can be asked of a graph and a device without running anything.
#include "rlx/compile.h"

#include <cstdlib>

#include "backends/registry.h"
#include "compile/pipeline.h"
#include "compile/split_compile.h"
#include "rlx/fields.h"

namespace rlx {

namespace {

/// Words with commas in between.
std::vector<std::string> words_in(std::string_view text) {
  std::vector<std::string> words;
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(','));
    if (!word.empty()) words.emplace_back(word);
    text.remove_prefix(std::min(text.size(), word.size() + 1));
  }
  return words;
}

}  // namespace

Placement Placement::parse(std::string_view text) {
  const size_t equals = text.rfind('=');
  if (equals == std::string_view::npos || equals == 0 || equals + 1 == text.size())
    fail(ErrorCode::invalid_argument, "a placement is PATTERN=DEVICE, and this is '", text, "'");
  return {std::string(text.substr(0, equals)), std::string(text.substr(equals + 1))};
}

CompileOptions CompileOptions::from_environment() {
  CompileOptions options;
  if (const char* text = std::getenv("RLX_KERNEL_DISPATCH"); text && *text) {
    auto names = names_of(KernelDispatch{});
    auto found = std::find(names.begin(), names.end(), std::string_view(text));
    if (found == names.end())
      fail(ErrorCode::invalid_argument, "RLX_KERNEL_DISPATCH is '", text, "'; it is native or common");
    options.kernel_dispatch = static_cast<KernelDispatch>(found - names.begin());
  }
  if (const char* text = std::getenv("RLX_SKIP"))
    for (std::string& name : words_in(text)) options.skip_passes.insert(std::move(name));
  if (const char* text = std::getenv("RLX_FALLBACK")) options.fallback = words_in(text);
  if (const char* text = std::getenv("RLX_CACHE_DIR")) options.cache_dir = text;
  return options;
}

DispatchReport dispatch_report(const Graph& g, const Device& device, const CompileOptions& options) {
  return compile_parts(g, device, options).report;
}
Graph legalize(const Graph& g, const Device& device, const CompileOptions& options) {
  require_instruction_set({device}, options.isa);
  Pipelined result = run_pipeline(g, backend_with(device, options.isa)->target(), options);
  require_complete(result.report, options.strict);
  return std::move(result.graph);
}
bool supports(const Graph& g, const Device& device) {
  auto backend = find_backend(device);
  return backend && run_pipeline(g, backend->target(), {}).report.count(Verdict::missing) == 0;
}

std::string ExecutionConfig::cache_key() const {
  size_t h = mix(graph_hash, options_hash);
  h = mix(h, hash_of(variant));
  for (const std::string& shape : shapes) h = mix(h, hash_of(shape));
  constexpr char kHex[] = "0123456789abcdef";
  std::string key = variant + "-" + std::string(names_of(dispatch)[static_cast<size_t>(dispatch)]) + "-" +
                    std::string(names_of(mode)[static_cast<size_t>(mode)]) + "-";
  for (int shift = 60; shift >= 0; shift -= 4) key += kHex[(h >> shift) & 15];
  return key;
}

}  // namespace rlx
