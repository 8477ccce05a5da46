// See the header.
#include "judge/judge.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "autodiff/transforms.h"
#include "base/user_code.h"
#include "ir/leaves.h"
#include "ir/rewrite.h"
#include "judge/compare.h"
#include "judge/contract.h"
#include "judge/error_bounds.h"
#include "judge/tolerance.h"
#include "passes/change_floats.h"
#include "passes/legalize.h"
#include "reference/interpreter.h"

namespace rlx {
namespace {

Judged wrong(std::string why) { return {Judgement::wrong, std::move(why)}; }

/// Whether errors are relative to the largest element of a result (error_bounds.h).
bool is_normwise(const Graph& g) {
  return std::any_of(g.nodes().begin(), g.nodes().end(),
                     [](const Node& node) { return error_bound_of(*node.op).norm == ErrorNorm::spectrum; });
}

/// 1, or the largest element where errors are relative to it.
double scale_of(const Graph& g, const Tensor& wanted) {
  double scale = 1;
  if (!is_normwise(g) || !is_float(wanted.dtype())) return scale;
  for (size_t i = 0; i < wanted.element_count(); ++i)
    if (const double v = std::abs(load<double>(wanted, i)); std::isfinite(v)) scale = std::max(scale, v);
  return scale;
}

Tensor widened(const Tensor& t) {
  if (t.dtype() != f32) return t;
  Tensor wide(f64, t.shape());
  for (size_t i = 0; i < t.element_count(); ++i) store<double>(wide, i, load<double>(t, i));
  return wide;
}

constexpr uint64_t kNudges = 8;  // an element that is sensitive may be lucky in one

/// The elements of an input of f32, in f64, each half a unit in its last place off, up or down.
Tensor nudged(const Tensor& wide, DType dtype, uint64_t seed) {
  if (dtype != f32) return wide;
  const Tensor ways = random_tensor(f64, wide.shape(), kSeedOfCases + 200 + seed, -1, 1);
  Tensor made(f64, wide.shape());
  for (size_t i = 0; i < wide.element_count(); ++i)
    store<double>(made, i, load<double>(wide, i) * (1 + std::copysign(0x1p-24, load<double>(ways, i))));
  return made;
}

/// The graph with every composite decomposed, for the references of some composites compute in f64 within.
Graph in_primitives(const Graph& g) {
  Target any;
  any.name = "any";
  any.refusal = [](const Question&) -> std::optional<std::string> { return std::nullopt; };
  LegalizeOptions options;
  options.common = true;
  return legalize(g, any, options).graph;
}

/// |x - y| / (1 + |y|) of an element; 0 if it is further off than gradients may ever be: there f32 has taken another
/// branch than f64, which is no rounding.
double own_error_at(const Tensor& x, const Tensor& y, size_t i) {
  const double wanted = load<double>(y, i), off = std::abs(load<double>(x, i) - wanted) / (1 + std::abs(wanted));
  return off <= kMostOfGradients ? off : 0;
}
double own_error(const Tensor& x, const Tensor& y) {
  double largest = 0;
  for (size_t i = 0; i < x.element_count(); ++i) largest = std::max(largest, own_error_at(x, y, i));
  return largest;
}

/// The results of a graph in f64, and how near to them those of f32 must be; made when they are first asked for, for
/// most graphs are within the tolerance of the reference.
class InF64 {
 public:
  /// `wanted` is the reference's.
  InF64(const Graph& g, Tensors inputs, Tensors wanted) : graph_(g), inputs_(inputs), wanted_(wanted) {}

  /// Whether result `r` is of f32 and near enough to f64's.
  bool is_near(size_t r, const Tensor& got) {
    if (got.type() != wanted_[r].type() || got.dtype() != f32) return false;
    if (!computed_) with_context("computing in f64 what the device's results are held to", [&] { compute(); });
    if (exact_[r].dtype() != f64) return false;
    const Tensor wide = widened(got);
    Tensor wanted(f64, wide.shape());
    for (size_t i = 0; i < wide.element_count(); ++i) {
      const double x = load<double>(wide, i), y = load<double>(exact_[r], i);
      store<double>(wanted, i, std::abs(x - y) <= allowed_at(r, i) * (1 + std::abs(y)) ? x : y);
    }
    return difference(wide, wanted, allowed(r)).empty();
  }

 private:
  void compute() {
    std::vector<Tensor> wide;
    for (const Tensor& t : inputs_) wide.push_back(widened(t));
    exact_ = interpret(change_floats(graph_, {f32}, f64), wide);
    parts_ = interpret(in_primitives(graph_), inputs_);
    for (uint64_t draw = 0; draw < kNudges; ++draw) {
      std::vector<Tensor> off;
      for (size_t i = 0; i < wide.size(); ++i) off.push_back(nudged(wide[i], inputs_[i].dtype(), 100 * draw + i));
      nudged_.push_back(interpret(change_floats(graph_, {f32}, f64), off));
    }
    computed_ = true;
  }
  /// For each element of a result.
  double allowed(size_t r) const {
    return capped(std::max(own_error(wanted_[r], exact_[r]), own_error(parts_[r], exact_[r])));
  }
  /// For one element, by what inputs that are off do to it, so that a sensitive element excuses no other.
  double allowed_at(size_t r, size_t i) const {
    double own = 0;
    for (const std::vector<Tensor>& off : nudged_) own = std::max(own, own_error_at(off[r], exact_[r], i));
    return capped(own);
  }
  static double capped(double own) { return std::min(tolerance_of(f32) + kTimesOwnError * own, kMostOfGradients); }

  const Graph& graph_;
  Tensors inputs_, wanted_;
  bool computed_ = false;
  std::vector<Tensor> exact_, parts_;        // of f64; of f32, rounded after each primitive
  std::vector<std::vector<Tensor>> nudged_;  // of f64, from inputs that are half a unit off
};

/// `in_f64`: null where the results are held to the reference alone.
Judged compared(const Graph& g, Tensors got, Tensors wanted, InF64* in_f64) {
  if (got.size() != wanted.size()) return wrong(difference(got, wanted));
  for (size_t r = 0; r < got.size(); ++r) {
    const double scale = scale_of(g, wanted[r]);
    const double tolerance = scale > 1 ? scale * tolerance_of(wanted[r].dtype()) : -1;
    if (auto why = difference(got[r], wanted[r], tolerance); !why.empty() && !(in_f64 && in_f64->is_near(r, got[r])))
      return wrong(text_of("result ", r, " ", why));
  }
  return {Judgement::agrees, {}, largest_difference(got, wanted)};
}

Verdict worst_verdict(const DispatchReport& report) {
  Verdict worst = Verdict::native;
  for (const DispatchLine& line : report.lines) worst = std::max(worst, line.verdict);
  return worst;
}

std::string missing_of(const DispatchReport& report) {
  for (const DispatchLine& line : report.lines)
    if (line.verdict == Verdict::missing) return text_of(line.op, ": ", line.reason);
  return "";
}

/// The numbers of threads that make a difference: MLX has threads of its own and heeds none.
std::span<const int> heeded(std::span<const int> threads, const Device& device) {
  return device.name().starts_with("mlx") ? threads.first(std::min<size_t>(threads.size(), 1)) : threads;
}

/// The graph with params for inputs.
Graph with_params(const Graph& g) {
  return with_leaves(g, [](Graph& to, const Node& leaf) { return to.param(leaf.name, leaf.types[0]); });
}

/// Microseconds of the fastest of some runs.
double time_of(const CompiledGraph& compiled, Tensors inputs) {
  using Clock = std::chrono::steady_clock;
  constexpr int kRuns = 5;
  double best = 1e30;
  for (int i = 0; i < kRuns; ++i) {
    const auto begin = Clock::now();
    compiled.run_ordered(inputs);
    best = std::min(best, std::chrono::duration<double, std::micro>(Clock::now() - begin).count());
  }
  return best;
}

}  // namespace

Judged judge(const Graph& g, Tensors inputs, const GraphRunner& run, HeldTo held) {
  const std::vector<Tensor> wanted = interpret(g, inputs);
  InF64 in_f64(g, inputs, wanted);
  std::vector<Tensor> got;
  try {
    got = run(g, inputs);
  } catch (const Error& error) {
    return wrong(text_of("it does not run: ", error.what()));
  }
  return compared(g, got, wanted, held == HeldTo::reference ? nullptr : &in_f64);
}

Judged judge(const Graph& given_graph, Tensors inputs, const Device& device, std::span<const int> threads, HeldTo held,
             GivenAs given, const CompileOptions& options) {
  const Graph g = given == GivenAs::params ? with_params(given_graph) : given_graph;
  const DispatchReport report = dispatch_report(g, device, options);
  const std::string missing = missing_of(report);
  if (!options.narrow && supports(g, device) != missing.empty())  // which has no options
    return wrong(text_of("supports() says ", missing.empty() ? "no" : "yes", ", and the report ",
                         missing.empty() ? "takes it" : text_of("that it is missing: ", missing)));
  const std::vector<Tensor> wanted = missing.empty() ? interpret(given_graph, inputs) : std::vector<Tensor>();
  InF64 in_f64(given_graph, inputs, wanted);
  Judged worst{Judgement::agrees, {}, 0, worst_verdict(report)};
  for (const int count : heeded(threads, device)) {
    try {
      CompiledGraph compiled = Session(device, {.threads = count}).compile(g, options);
      if (!missing.empty())
        return wrong(text_of("the report says that it is missing (", missing, "), and it compiles"));
      if (compiled.report().json() != report.json())
        return wrong(text_of("compiled it has another report: ", compiled.report(), " instead of ", report));
      if (given == GivenAs::params)
        for (size_t i = 0; i < inputs.size(); ++i) compiled.set_param(g.node(g.params()[i]).name, inputs[i]);
      const std::vector<Tensor> got = compiled.run_ordered(given == GivenAs::params ? Tensors() : inputs);
      Judged here = compared(given_graph, got, wanted, held == HeldTo::reference ? nullptr : &in_f64);
      if (here.judgement != Judgement::agrees) {
        here.why = text_of("on ", count, count == 1 ? " thread: " : " threads: ", here.why);
        return here;
      }
      worst.error = std::max(worst.error, here.error);
    } catch (const Error& error) {
      const auto* refusal = dynamic_cast<const CompileError*>(&error);
      if (refusal && refusal->report().json() != report.json())
        return wrong(text_of("compiling is refused by another report: ", refusal->report(), " instead of ", report));
      if (!missing.empty() && refusal) return {Judgement::refused, missing, 0, Verdict::missing};
      if (!missing.empty())
        return wrong(text_of("it is refused with another error than of what is missing: ", error.what()));
      return wrong(text_of("the report takes it, and it does not run: ", error.what()));
    }
  }
  return worst;
}

std::optional<Graph> gradient_of(const OpDef& op, const Case& c) {
  if (!op.differentiable) return std::nullopt;
  const Graph g = c.graph(op);
  const Mask wrt = differentiable_inputs(g), given = differentiable_outputs(g);
  const auto any = [](const Mask& mask) { return std::find(mask.begin(), mask.end(), true) != mask.end(); };
  if (!any(wrt) || !any(given)) return std::nullopt;
  return value_and_vjp(g, wrt, given);
}

std::vector<JudgedCase> judge_device(const Device& device, const JudgeOptions& options,
                                     const std::function<void(size_t, size_t, std::string_view)>& progress) {
  const Session available(device);  // else one error for each case would say that it is not
  std::vector<const OpDef*> ops;
  for (const std::string& name : options.ops) ops.push_back(&find_op(name));
  if (ops.empty())
    for (const OpDef* each : all_ops())
      if (each != &op::input && each != &op::param && each != &op::constant) ops.push_back(each);
  const auto report_progress = [&](size_t done, std::string_view op) {
    if (progress) user_code("the progress callback", [&] { progress(done, ops.size(), op); });
  };
  std::vector<JudgedCase> all;
  for (size_t i = 0; i < ops.size(); ++i) {
    const OpDef& op = *ops[i];
    report_progress(i, op.name);
    for (const Sample& sample : op.samples()) {
      for (const Case& c : cases_of(op, sample)) {
        const auto add = [&](const Graph& g, const std::vector<Tensor>& inputs, bool is_gradient,
                             GivenAs given = GivenAs::inputs) {
          JudgedCase one{std::string(op.name),
                         c.text(),
                         is_gradient,
                         given == GivenAs::params,
                         c.types.empty() ? f64 : c.types[0].dtype,
                         {}};
          try {
            one.judged = judge(g, inputs, device, options.threads,
                               is_gradient ? HeldTo::reference_or_f64 : HeldTo::reference, given);
            if (options.times && given == GivenAs::inputs && one.judged.judgement == Judgement::agrees)
              one.microseconds = time_of(Session(device, {1}).compile(g, {}), inputs);
          } catch (const std::exception& error) {
            one.judged = wrong(error.what());
          }
          all.push_back(std::move(one));
        };
        const Graph g = c.graph(op);
        std::vector<Tensor> inputs = c.inputs();
        add(g, inputs, false);
        if (options.params && !inputs.empty()) add(g, inputs, false, GivenAs::params);
        if (!options.gradients) continue;
        std::optional<Graph> gradient = gradient_of(op, c);
        if (!gradient) continue;
        const auto types = gradient->input_types();
        for (size_t k = inputs.size(); k < types.size(); ++k)
          inputs.push_back(random_tensor(types[k].dtype, shape_of(types[k].dims), kSeedOfCases + 100 + k, -1, 1));
        add(*gradient, inputs, true);
      }
      if (options.first_sample_only) break;
    }
  }
  if (options.ops.empty())
    for (const ContractRule& rule : contract_rules())
      all.push_back({"(contract)", std::string(rule.name), false, false, f32, judge_rule(rule, device)});
  report_progress(ops.size(), "");
  return all;
}

}  // namespace rlx
