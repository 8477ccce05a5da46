// The pass list, straight down. The runner owns what all passes need: it verifies after each, times it, dumps it, and
// leaves out what was asked to be left out.
#include "compile/pipeline.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "compile/backends.h"
#include "compile/dump.h"
#include "ir/verify.h"
#include "passes/legalize.h"

namespace rlx {
namespace {

struct Pass {
  std::string_view name;
  Graph (*run)(const Graph&);
};

// What stands before legalization sees the user's ops, and recognizes what they mean.
const Pass kBefore[] = {
    {"prune", prune},  // what no output needs is not worth a look
};

// What stands behind it sees only what the target takes, and may only make what the target takes.
const Pass kAfter[] = {
    {"prune_legal", prune},
};

bool verbose() {
  const char* v = std::getenv("RLX_VERBOSE");
  return v && *v && std::string_view(v) != "0";
}

}  // namespace

std::vector<std::string> pass_names() {
  std::vector<std::string> names;
  for (std::span<const Pass> passes : {std::span<const Pass>(kBefore), std::span<const Pass>(kAfter)})
    for (const Pass& pass : passes) names.emplace_back(pass.name);
  return names;
}

Pipelined run_pipeline(const Graph& g, const Backend& backend, const CompileOptions& options) {
  for (const std::string& name : options.skip_passes) {
    auto names = pass_names();
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      std::string list;
      for (const std::string& each : names) list += (list.empty() ? "" : ", ") + each;
      fail(ErrorCode::invalid_argument, "there is no pass '", name, "' to skip; there are ", list);
    }
  }
  StageDump dump(g);
  auto stage = [&](std::string_view name, const Graph& before, auto run) {
    auto begin = std::chrono::steady_clock::now();
    Graph after = with_context([&] { return text_of("running pass '", name, "'"); }, [&] {
      Graph made = run(before);
      verify(made);
      return made;
    });
    if (verbose())
      std::fprintf(stderr, "rlx: %-22.*s %8.3f ms  %5zu -> %5zu nodes\n", static_cast<int>(name.size()), name.data(),
                   std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count(), before.nodes().size(), after.nodes().size());
    dump.stage(name, after);
    return after;
  };
  auto run_all = [&](std::span<const Pass> passes, Graph graph) {
    for (const Pass& pass : passes)
      if (!options.skip_passes.contains(std::string(pass.name))) graph = stage(pass.name, graph, pass.run);
    return graph;
  };
  verify(g);
  Graph graph = run_all(kBefore, g);

  LegalizeOptions legal{options.kernel_dispatch == KernelDispatch::common, options.force_common, options.force_native};
  std::vector<Target> others;
  for (const auto& other : all_backends())
    if (other->name() != backend.name() && other->unavailable().empty()) others.push_back(other->target());
  DispatchReport report;
  graph = stage("legalize", graph, [&](const Graph& before) {
    Legalized result = legalize(before, backend.target(), legal, others);
    report = std::move(result.report);
    return std::move(result.graph);
  });
  if (report.count(Verdict::missing) == 0) graph = run_all(kAfter, std::move(graph));
  return {std::move(graph), std::move(report)};
}

}  // namespace rlx
