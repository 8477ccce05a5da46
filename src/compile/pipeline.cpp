// The pass list, straight down. The runner owns what all passes need: it verifies after each, times it, dumps it, and
// leaves out what was asked to be left out.
#include "compile/pipeline.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "base/growth_limit.h"
#include "compile/backends.h"
#include "compile/dump.h"
#include "ir/verify.h"
#include "passes/carry_channels_last.h"
#include "passes/change_floats.h"
#include "passes/fold_constants.h"
#include "passes/fuse_attention.h"
#include "passes/fuse_convolution.h"
#include "passes/fuse_elementwise.h"
#include "passes/fuse_matmul.h"
#include "passes/fuse_residual_norm.h"
#include "passes/fuse_rows.h"
#include "passes/fuse_shared_input.h"
#include "passes/hoist_invariants.h"
#include "passes/legalize.h"
#include "passes/merge_equal_nodes.h"
#include "passes/simplify.h"
#include "passes/simplify_products.h"
#include "passes/subgraphs.h"
#include "passes/trim_control_flow.h"
#include "passes/widen_regions.h"

namespace rlx {
namespace {

struct Pass {
  std::string_view name;
  Graph (*run)(const Graph&, const Backend&, const CompileOptions&);
};

/// A pass that asks for no target, on the graph and on the bodies of its control flow.
template <Graph (*kPass)(const Graph&)>
Graph on(const Graph& g, const Backend&, const CompileOptions&) {
  return with_bodies(g, kPass);
}
/// The same for one that may round less often.
template <Graph (*kPass)(const Graph&, Rounding)>
Graph rounding(const Graph& g, const Backend&, const CompileOptions& options) {
  Rounding where = options.precision == Precision::relaxed ? Rounding::at_the_end : Rounding::after_each;
  return with_bodies(g, [&](const Graph& body) { return kPass(body, where); });
}
Graph widen_regions_for(const Graph& g, const Backend&, const CompileOptions& options) {
  return options.precision == Precision::relaxed ? with_bodies(g, widen_regions) : g;
}

Graph sums_in_f64_for(const Graph& g, const Backend&, const CompileOptions& options) {
  return options.accuracy == Accuracy::exact ? sums_in_f64(g) : g;
}

Graph trim(const Graph& g, const Backend&, const CompileOptions&) { return trim_control_flow(g); }
Graph fuse_elementwise_for(const Graph& g, const Backend& backend, const CompileOptions& options) {
  if (options.kernel_dispatch == KernelDispatch::common) return g;  // op by op was asked for
  return with_bodies(g, [&](const Graph& body) {
    return fuse_elementwise(body, [&](const Node& node) { return backend.fuses_elementwise(node); });
  });
}
Graph fuse_shared_input_for(const Graph& g, const Backend& backend, const CompileOptions&) {
  return backend.hoists_params() ? fuse_shared_input(g) : g;  // else each run would join the weights again
}

/// Op by op was not asked for, nor one of these as its parts.
bool may_finish_convolutions(const Backend& backend, const CompileOptions& options) {
  for (const char* op : {"fused_conv", "conv", "batch_norm_inference"})
    if (options.force_common.contains(op)) return false;
  return backend.finishes_convolutions() && options.kernel_dispatch == KernelDispatch::native;
}
Graph fuse_convolution_for(const Graph& g, const Backend& backend, const CompileOptions& options) {
  return may_finish_convolutions(backend, options) ? with_bodies(g, fuse_convolution) : g;
}
Graph carry_channels_last_for(const Graph& g, const Backend& backend, const CompileOptions& options) {
  const bool may = may_finish_convolutions(backend, options) && backend.convolves_channels_last();
  return may ? with_bodies(g, carry_channels_last) : g;
}

// What stands before legalization sees the user's ops, and recognizes what they mean.
const Pass kBefore[] = {
    {"prune", on<prune>},                          // what no output needs is not worth a look
    {"merge_equal_nodes", on<merge_equal_nodes>},  // a loop of a value and of its gradient, while they still are equal
    {"trim_control_flow", trim},                   // nor is what loops compute for nobody, of which gradients have much
    {"simplify", on<simplify>},                    // what does nothing stands between the ops that the others look for
    {"fold_constants", on<fold_constants>},        // a scale that is computed is no number yet
    {"simplify_products", on<simplify_products>},  // and a layer written as dot_general no layer
    {"merge_equal_nodes", on<merge_equal_nodes>},  // before the fusions, which take in what has a single user
    {"hoist_invariants", on<hoist_invariants>},    // before the fusions: what they join depends on the trip
    {"fuse_rows", rounding<fuse_rows>},            // a softmax that is written out may be attention's
    {"fuse_attention", rounding<fuse_attention>},  // before fuse_matmul and fuse_elementwise take its scale and bias
    {"simplify", on<simplify>},                    // cancels the transposes that attention's layout made superfluous
    {"fuse_convolution", fuse_convolution_for},    // as fuse_matmul, and with the norms that only scale
    {"fuse_matmul", rounding<fuse_matmul>},        // a sum is free in a product ...
    {"fuse_residual_norm", rounding<fuse_residual_norm>},  // ... so norms get those that no product took
    {"sums_in_f64", sums_in_f64_for},              // if exact sums were asked for: what is fused is rounded once
    {"fuse_shared_input", fuse_shared_input_for},  // when bias and activation are known: products must agree in them
};

// What stands behind it sees only what the target takes, and may only make what the target takes.
const Pass kAfter[] = {
    {"simplify", on<simplify>},              // decompositions stretch, convert and reshape without knowing each other
    {"fold_constants", on<fold_constants>},  // the numbers that they bring
    {"carry_channels_last", carry_channels_last_for},  // all else is as small as it will get; regions are not yet made
    {"merge_equal_nodes", on<merge_equal_nodes>},      // and what they compute twice
    {"hoist_invariants", on<hoist_invariants>},        // of loops that were composites until now
    {"trim_control_flow", trim},                       // and what they no longer read
    {"fuse_elementwise", fuse_elementwise_for},        // late: what a region has taken in, nobody else can see
    {"widen_regions", widen_regions_for},              // rounds less within them, if that was allowed
};

bool verbose() {
  const char* v = std::getenv("RLX_VERBOSE");
  return v && *v && std::string_view(v) != "0";
}

}  // namespace

std::vector<std::string> pass_names() {
  std::vector<std::string> names;
  for (std::span<const Pass> passes : {std::span<const Pass>(kBefore), std::span<const Pass>(kAfter)})
    for (const Pass& pass : passes)
      if (std::find(names.begin(), names.end(), pass.name) == names.end()) names.emplace_back(pass.name);
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
    Graph after = with_context([&] { return text_of("running pass '", name, "'"); },
                               [&] {
                                 const GrowthLimit limit(room_to_grow(before), [&] {
                                   return text_of("graph '", before.name(), "' of ", before.nodes().size(), " nodes");
                                 });
                                 Graph made = run(before);
                                 verify(made);
                                 return made;
                               });
    if (verbose())
      std::fprintf(stderr, "rlx: %-22.*s %8.3f ms  %5zu -> %5zu nodes\n", static_cast<int>(name.size()), name.data(),
                   std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count(),
                   before.nodes().size(), after.nodes().size());
    dump.stage(name, after);
    return after;
  };
  auto run_all = [&](std::span<const Pass> passes, Graph graph) {
    for (const Pass& pass : passes)
      if (!options.skip_passes.contains(std::string(pass.name)))
        graph = stage(pass.name, graph, [&](const Graph& before) { return pass.run(before, backend, options); });
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
