// See the header.
#include "judge/judge.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "autodiff/transforms.h"
#include "base/user_code.h"
#include "ir/leaves.h"
#include "judge/compare.h"
#include "judge/contract.h"
#include "judge/error_bounds.h"
#include "judge/tolerance.h"
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

Judged compared(const Graph& g, Tensors got, Tensors wanted) {
  if (got.size() != wanted.size()) return wrong(difference(got, wanted));
  for (size_t r = 0; r < got.size(); ++r) {
    const double scale = scale_of(g, wanted[r]);
    const double tolerance = scale > 1 ? scale * tolerance_of(wanted[r].dtype()) : -1;
    if (auto why = difference(got[r], wanted[r], tolerance); !why.empty())
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

Judged judge(const Graph& g, Tensors inputs, const GraphRunner& run) {
  const std::vector<Tensor> wanted = interpret(g, inputs);
  try {
    return compared(g, run(g, inputs), wanted);
  } catch (const Error& error) {
    return wrong(text_of("it does not run: ", error.what()));
  }
}

Judged judge(const Graph& g, Tensors inputs, const Device& device, std::span<const int> threads) {
  const DispatchReport report = dispatch_report(g, device);
  const std::string missing = missing_of(report);
  if (supports(g, device) != missing.empty())
    return wrong(text_of("supports() says ", missing.empty() ? "no" : "yes", ", and the report ",
                         missing.empty() ? "takes it" : text_of("that it is missing: ", missing)));
  const std::vector<Tensor> wanted = missing.empty() ? interpret(g, inputs) : std::vector<Tensor>();
  Judged worst{Judgement::agrees, {}, 0, worst_verdict(report)};
  for (const int count : threads) {
    try {
      const CompiledGraph compiled = Session(device, {count}).compile(g, {});
      if (!missing.empty())
        return wrong(text_of("the report says that it is missing (", missing, "), and it compiles"));
      if (compiled.report().json() != report.json())
        return wrong(text_of("compiled it has another report: ", compiled.report(), " instead of ", report));
      Judged here = compared(g, compiled.run_ordered(inputs), wanted);
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
        const auto add = [&](const Graph& g, const std::vector<Tensor>& inputs, bool is_gradient) {
          JudgedCase one{std::string(op.name), c.text(), is_gradient, c.types.empty() ? f64 : c.types[0].dtype, {}};
          try {
            one.judged = judge(g, inputs, device, options.threads);
            if (options.times && one.judged.judgement == Judgement::agrees)
              one.microseconds = time_of(Session(device, {1}).compile(g, {}), inputs);
          } catch (const std::exception& error) {
            one.judged = wrong(error.what());
          }
          all.push_back(std::move(one));
        };
        const Graph g = c.graph(op);
        std::vector<Tensor> inputs = c.inputs();
        add(g, inputs, false);
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
      all.push_back({"(contract)", std::string(rule.name), false, f32, judge_rule(rule, device)});
  report_progress(ops.size(), "");
  return all;
}

}  // namespace rlx
