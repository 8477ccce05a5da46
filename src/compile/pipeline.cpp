// The pass list, straight down. The runner owns what all passes need: it verifies after each, times it, dumps it, and
// leaves out what was asked to be left out.
#include "compile/pipeline.h"

#include <algorithm>
#include <chrono>
#include <iomanip>
#include <sstream>

#include "backends/registry.h"
#include "base/growth_limit.h"
#include "base/log.h"
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
#include "passes/hoist_invariants.h"
#include "passes/legalize.h"
#include "passes/merge_equal_nodes.h"
#include "passes/mixed_precision.h"
#include "passes/quantize_products.h"
#include "passes/simplify.h"
#include "passes/simplify_products.h"
#include "passes/subgraphs.h"
#include "passes/trim_control_flow.h"
#include "passes/widen_regions.h"
#include "rlx/ops/dynamic_quantize.h"

namespace rlx {
namespace {

/// A pass that serves many targets.
struct SharedPass {
  std::string_view name;
  Graph (*run)(const Graph&, const Target&, const CompileOptions&);
};

/// A pass that asks for no target, on the graph and on the bodies of its control flow.
template <Graph (*kPass)(const Graph&)>
Graph on(const Graph& g, const Target&, const CompileOptions&) {
  return with_bodies(g, kPass);
}
/// The same for one that may round less often.
template <Graph (*kPass)(const Graph&, Rounding)>
Graph rounding(const Graph& g, const Target&, const CompileOptions& options) {
  Rounding where = options.rounding;
  return with_bodies(g, [&](const Graph& body) { return kPass(body, where); });
}
/// The float that takes the place of f32, f32 itself if none does. Beside integers it is what the target is fast in.
DType float_in_place_of_f32(const CompileOptions& options, const Target& target) {
  const DType computed = computed_in(options, target);
  return computed == i8 ? target.fast_float : computed;
}
Graph widen_regions_for(const Graph& g, const Target& target, const CompileOptions& options) {
  const bool may = options.rounding == Rounding::relaxed || float_in_place_of_f32(options, target) != f32;
  return may ? with_bodies(g, widen_regions) : g;
}
Graph quantize_products_for(const Graph& g, const Target& target, const CompileOptions& options) {
  if (options.compute != Compute::as_i8) return g;
  return quantize_products(g, [&](const Question& q) { return !target.refuses(q); });
}
Graph mixed_precision_for(const Graph& g, const Target& target, const CompileOptions& options) {
  const DType low = float_in_place_of_f32(options, target);
  if (low == f32) return g;
  if (options.compute != Compute::as_i8) return in_mixed_precision(g, low, MixedFor::inference);
  const auto& nodes = g.nodes();
  const bool images =
      std::any_of(nodes.begin(), nodes.end(), [](const Node& n) { return n.op == &op::dynamic_quantize_conv; }) &&
      takes_images_of(low, [&](const Question& q) { return !target.refuses(q); });
  return in_mixed_precision(g, low, images ? MixedFor::beside_integer_images : MixedFor::beside_integers);
}

Graph sums_in_f64_for(const Graph& g, const Target&, const CompileOptions& options) {
  return options.accuracy == Accuracy::exact ? sums_in_f64(g) : g;
}

Graph trim(const Graph& g, const Target&, const CompileOptions&) { return trim_control_flow(g); }
Graph fuse_elementwise_for(const Graph& g, const Target& target, const CompileOptions& options) {
  if (!target.fuses_elementwise || options.kernel_dispatch == KernelDispatch::common)
    return g;  // op by op was asked for
  return with_bodies(g, [&](const Graph& body) { return fuse_elementwise(body, target.fuses_elementwise); });
}
/// Op by op was not asked for, nor one of these as its parts.
bool may_fuse_convolutions(const Target& target, const CompileOptions& options) {
  for (const char* op : {"fused_conv", "conv", "batch_norm_inference"})
    if (options.force_common.contains(op)) return false;
  return target.fuses_convolutions && options.kernel_dispatch == KernelDispatch::native;
}
Graph fuse_convolution_for(const Graph& g, const Target& target, const CompileOptions& options) {
  return may_fuse_convolutions(target, options) ? with_bodies(g, fuse_convolution) : g;
}
Graph carry_channels_last_for(const Graph& g, const Target& target, const CompileOptions& options) {
  const bool may = may_fuse_convolutions(target, options) && target.prefers_channels_last;
  return may ? with_bodies(g, carry_channels_last) : g;
}

// What stands before legalization sees the user's ops, and recognizes what they mean.
const SharedPass kBefore[] = {
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
    {"quantize_products", quantize_products_for},  // if integers were asked for: what is fused is in one epilogue
    {"mixed_precision", mixed_precision_for},      // less than f32, or what is beside integers: fused, rounded once
    {"sums_in_f64", sums_in_f64_for},              // if exact sums were asked for: what is fused is rounded once
};

// What stands behind it sees only what the target takes, and may only make what the target takes.
const SharedPass kAfter[] = {
    {"simplify", on<simplify>},              // decompositions stretch, convert and reshape without knowing each other
    {"fold_constants", on<fold_constants>},  // the numbers that they bring
    {"carry_channels_last", carry_channels_last_for},  // all else is as small as it will get; regions are not yet made
    {"merge_equal_nodes", on<merge_equal_nodes>},      // and what they compute twice
    {"hoist_invariants", on<hoist_invariants>},        // of loops that were composites until now
    {"trim_control_flow", trim},                       // and what they no longer read
    {"fuse_elementwise", fuse_elementwise_for},        // late: what a region has taken in, nobody else can see
    {"widen_regions", widen_regions_for},              // rounds less within them, if that was allowed
};

/// The names of a target's own passes, those of its next stages too.
void add_own_names(const Target& target, std::vector<std::string>& names) {
  for (const Pass& pass : target.first) names.emplace_back(pass.name);
  if (!target.next) return;
  for (const Pass& pass : target.next->passes) names.emplace_back(pass.name);
  add_own_names(target.next->target, names);
}

/// One compile: what all passes need from whoever runs them.
class Runner {
 public:
  Runner(const Graph& g, const CompileOptions& options, const PipelineTrace& trace)
      : options_(options), is_verbose_(is_logged(LogLevel::debug) && !trace.is_silent), dump_(g, trace) {}

  /// For one stage of a target and those behind it.
  Pipelined run(Graph graph, const Target& target) {
    run_own(target.first, graph);
    run_shared(kBefore, graph, target);
    DispatchReport report;
    stage("legalize", graph, [&](const Graph& before) {
      Legalized result = legalize(before, target, legal_options(), [&] { return others(target); });
      report = std::move(result.report);
      return std::move(result.graph);
    });
    if (report.count(Verdict::missing) > 0) return {std::move(graph), std::move(report)};
    run_shared(kAfter, graph, target);
    if (target.notes) report.notes = target.notes(graph);
    if (!target.next || !target.next->is_needed(graph)) return {std::move(graph), std::move(report)};
    if (target.next->missing) {
      const std::vector<DispatchLine> missing = target.next->missing(graph);
      report.lines.insert(report.lines.end(), missing.begin(), missing.end());
      if (!missing.empty()) return {std::move(graph), std::move(report)};
    }
    Graph next = graph;
    try {
      run_own(target.next->passes, next);
    } catch (const Error& error) {
      // It cannot be taken apart, which is one more thing that the target does not run.
      if (error.code() != ErrorCode::unsupported) throw;
      report.lines.push_back({graph.name(), "graph", Verdict::missing, error.what()});
      return {std::move(graph), std::move(report)};
    }
    Pipelined rest = run(std::move(next), target.next->target);
    for (DispatchLine& line : rest.report.lines)
      if (line.verdict == Verdict::missing) report.lines.push_back(std::move(line));
    return {target.next->is_only_checked ? std::move(graph) : std::move(rest.graph), std::move(report)};
  }

 private:
  template <class Run>
  void stage(std::string_view name, Graph& graph, Run run) {
    const auto begin = std::chrono::steady_clock::now();
    Graph after = with_context([&] { return text_of("running pass '", name, "'"); },
                               [&] {
                                 const GrowthLimit limit(room_to_grow(graph), [&] {
                                   return text_of("graph '", graph.name(), "' of ", graph.nodes().size(), " nodes");
                                 });
                                 Graph made = run(graph);
                                 verify(made);
                                 return made;
                               });
    if (is_verbose_) {
      const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
      std::ostringstream line;
      line << std::left << std::setw(22) << name << std::right << std::fixed << std::setprecision(3) << std::setw(9)
           << took.count() << " ms  " << std::setw(5) << graph.nodes().size() << " -> " << std::setw(5)
           << after.nodes().size() << " nodes";
      log_message(LogLevel::debug, line.str());
    }
    dump_.stage(name, after);
    graph = std::move(after);
  }
  bool is_skipped(std::string_view name) const { return options_.skip_passes.contains(std::string(name)); }
  void run_own(std::span<const Pass> passes, Graph& graph) {
    for (const Pass& pass : passes) stage(pass.name, graph, pass.run);
  }
  void run_shared(std::span<const SharedPass> passes, Graph& graph, const Target& target) {
    for (const SharedPass& pass : passes)
      if (!is_skipped(pass.name))
        stage(pass.name, graph, [&](const Graph& before) { return pass.run(before, target, options_); });
  }
  LegalizeOptions legal_options() const {
    return {options_.kernel_dispatch == KernelDispatch::common, options_.force_common, options_.force_native};
  }
  /// Who else may take what is missing.
  static std::vector<Target> others(const Target& target) {
    std::vector<Target> all;
    const std::string own = target.name.substr(0, target.name.find(':'));
    for (const auto& backend : all_backends())
      if (backend->unavailable().empty() && backend->name() != own) all.push_back(backend->target());
    return all;
  }

  const CompileOptions& options_;
  const bool is_verbose_;
  StageDump dump_;
};

}  // namespace

DType computed_in(const CompileOptions& options, const Target& target) {
  switch (options.compute) {
    case Compute::as_f16: return f16;
    case Compute::as_bf16: return bf16;
    case Compute::as_i8: return i8;
    case Compute::automatic: return options.accuracy == Accuracy::exact ? f32 : target.fast_float;
    case Compute::as_f32: break;
  }
  return f32;
}

std::vector<std::string> pass_names() {
  std::vector<std::string> names;
  for (std::span<const SharedPass> passes : {std::span<const SharedPass>(kBefore), std::span<const SharedPass>(kAfter)})
    for (const SharedPass& pass : passes)
      if (std::find(names.begin(), names.end(), pass.name) == names.end()) names.emplace_back(pass.name);
  return names;
}

Pipelined run_pipeline(const Graph& g, const Target& whole, const CompileOptions& options, const PipelineTrace& trace) {
  const bool is_narrowed = options.narrow && whole.narrowed;
  const Target& target = is_narrowed ? *whole.narrowed : whole;
  if (options.accuracy == Accuracy::exact && options.compute != Compute::as_f32 &&
      options.compute != Compute::automatic)
    fail(ErrorCode::invalid_argument, "accuracy exact is for products in f64, and compute is ",
         names_of(options.compute)[static_cast<size_t>(options.compute)], "; give one of the two");
  auto names = pass_names();
  for (const std::string& name : options.skip_passes) {
    if (std::find(names.begin(), names.end(), name) != names.end()) continue;
    std::vector<std::string> own;
    add_own_names(target, own);
    if (std::find(own.begin(), own.end(), name) != own.end())
      fail(ErrorCode::invalid_argument, "the pass '", name, "' cannot be skipped: ", target.name,
           " takes no graph without it");
    std::string list;
    for (const std::string& each : names) list += (list.empty() ? "" : ", ") + each;
    fail(ErrorCode::invalid_argument, "there is no pass '", name, "' to skip; there are ", list);
  }
  verify(g);
  Pipelined result = Runner(g, options, trace).run(g, target);
  if (const DType narrow = computed_in(options, target); narrow != f32)
    result.report.target += narrow != i8               ? text_of(", f32 computed in ", narrow)
                            : target.fast_float == f32 ? ", f32 computed in int8"
                                                       : text_of(", f32 computed in int8 and ", target.fast_float);
  if (is_narrowed) result.report.target += ", 64 bits narrowed to 32";
  if (is_logged(LogLevel::debug) && !trace.is_silent)
    log_message(LogLevel::debug, "'", g.name(), "' for ", result.report.target, "\n", result.report.table());
  return result;
}

}  // namespace rlx
