// What can be asked of a graph and a device without running anything.
#include "rlx/compile.h"

#include <cstdlib>

#include "backends/registry.h"
#include "compile/pipeline.h"
#include "rlx/fields.h"

namespace rlx {

CompileOptions CompileOptions::from_environment() {
  CompileOptions options;
  if (const char* text = std::getenv("RLX_KERNEL_DISPATCH"); text && *text) {
    auto names = names_of(KernelDispatch{});
    auto found = std::find(names.begin(), names.end(), std::string_view(text));
    if (found == names.end())
      fail(ErrorCode::invalid_argument, "RLX_KERNEL_DISPATCH is '", text, "'; it is native or common");
    options.kernel_dispatch = static_cast<KernelDispatch>(found - names.begin());
  }
  if (const char* text = std::getenv("RLX_SKIP"); text && *text) {
    std::string_view rest = text;
    while (!rest.empty()) {
      std::string_view name = rest.substr(0, rest.find(','));
      if (!name.empty()) options.skip_passes.emplace(name);
      rest.remove_prefix(std::min(rest.size(), name.size() + 1));
    }
  }
  if (const char* text = std::getenv("RLX_CACHE_DIR")) options.cache_dir = text;
  return options;
}

DispatchReport dispatch_report(const Graph& g, const Device& device, const CompileOptions& options) {
  return run_pipeline(g, backend_of(device)->target(), options).report;
}
Graph legalize(const Graph& g, const Device& device, const CompileOptions& options) {
  Pipelined result = run_pipeline(g, backend_of(device)->target(), options);
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
