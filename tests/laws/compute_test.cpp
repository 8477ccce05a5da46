// What CompileOptions::compute promises of each op (docs/runtime.md, "Reduced precision"), held to f64 over numbers of
// hostile sizes. Neighbour: tests/runtime/compute_test.cpp, for graphs of several ops and for what the report says.
//
// f16 and bf16. The pass says of an op in which dtype its operands arrive and its results leave
// (passes/mixed_precision.h); between them lies arithmetic in f32. So of the operands x' that the pass rounds, each
// once and to nearest, a result y is
//   |y - f(x')| <= u |f(x')| + s + e
// with f in f64, u the unit roundoff of the dtype of the result (2^-11 of f16, 2^-8 of bf16), s half the distance of
// its subnormal numbers, and e what f32 is off: 16 roundings, or for results that cancel four times what inputs that
// are half a unit in f32's last place off move f(x'), as in the judge of gradients (judge/tolerance.h). Where f(x')
// rounds to an infinity of that dtype, y is it; where it is NaN, y is NaN. Since x' is within u |x| of x, f(x') - f(x)
// is what the condition of f makes of that, and no more is lost.
//
// int8. For products, |y - f(x, w)| is at most f(|x|, h(w)) + f(h(x), |w|) + f(h(x), h(w)), h being half a step of the
// codes, max / (2 largest), of each row, image or output, beside f32's own roundings.
//
// Where an op computes something in f32 that f32 does not hold (the square of 1e30), narrow results are excused where
// those of `compute = f32` on the same x' are off as far; they are counted.
#include <doctest/doctest.h>

#include <chrono>
#include <cmath>
#include <map>

#include "ir/rewrite.h"
#include "judge/compare.h"
#include "judge/tolerance.h"
#include "laws/varied_extents.h"
#include "passes/legalize.h"
#include "passes/mixed_precision.h"
#include "passes/quantize_products.h"
#include "passes/subgraphs.h"
#include "reference/interpreter.h"
#include "rlx/element.h"
#include "rlx/ops.h"
#include "rlx/ops/dynamic_quantize.h"
#include "rlx/session.h"
#include "support/sanitized.h"

using namespace rlx;
using namespace rlx::laws;

namespace {

struct Hostile {
  std::string_view name;
  /// Element i of `count`, in rows of `row`, in place of the sample's number.
  double (*at)(double drawn, size_t i, size_t row, size_t count);
};
constexpr double kSizes[] = {1e-30, 1e-5, 1, 1e4, 7e4, 1e30}, kSizesOfF16[] = {1e-5, 1, 100, 1e-3};
constexpr Hostile kHostile[] = {
    {"as drawn", [](double v, size_t, size_t, size_t) { return v; }},
    {"1e-30", [](double v, size_t, size_t, size_t) { return v * 1e-30; }},
    {"1e-5", [](double v, size_t, size_t, size_t) { return v * 1e-5; }},
    {"1e4", [](double v, size_t, size_t, size_t) { return v * 1e4; }},
    {"beyond f16", [](double v, size_t, size_t, size_t) { return std::copysign(7e4, v); }},
    {"1e30", [](double v, size_t, size_t, size_t) { return v * 1e30; }},
    {"of all sizes", [](double v, size_t i, size_t, size_t) { return v * kSizes[i % 6]; }},
    {"of sizes within f16", [](double v, size_t i, size_t, size_t) { return v * kSizesOfF16[i % 4]; }},
    {"zeros of both signs", [](double, size_t i, size_t, size_t) { return i % 3 ? 0.0 : -0.0; }},
    {"subnormal", [](double v, size_t, size_t, size_t) { return v * 1e-40; }},
    {"an infinity", [](double v, size_t i, size_t, size_t count) { return i == count / 2 ? INFINITY : v; }},
    {"an infinity below", [](double v, size_t i, size_t, size_t count) { return i == count / 2 ? -INFINITY : v; }},
    {"a NaN", [](double v, size_t i, size_t, size_t count) { return i == count / 2 ? NAN : v; }},
    {"a row of 1e30", [](double v, size_t i, size_t row, size_t) { return i / row == 0 ? v * 1e30 : v; }},
    {"a column of 3e4", [](double v, size_t i, size_t row, size_t) { return i % row == 0 ? v * 3e4 : v; }},
};
enum class Where { first_operand, all_operands };

/// The case's inputs, those of f32 of hostile sizes: the first of them, or all.
std::vector<Tensor> hostile_inputs(const Case& c, const Hostile& hostile, Where where) {
  std::vector<Tensor> inputs = c.inputs();
  for (Tensor& t : inputs) {
    if (t.dtype() != f32) continue;
    const size_t count = t.element_count(), row = t.shape().empty() ? 1 : static_cast<size_t>(t.shape().back());
    const auto values = t.mutable_values<float>();
    for (size_t i = 0; i < count; ++i) values[i] = static_cast<float>(hostile.at(values[i], i, row, count));
    if (where == Where::first_operand) break;
  }
  return inputs;
}

/// The sample in f32, if there is such a case of it.
std::optional<Case> in_f32(const OpDef& op, const Sample& s) {
  for (const Case& c : cases_of(op, s)) {
    const auto has = [&](DType d) {
      return std::any_of(c.types.begin(), c.types.end(), [&](const Type& t) { return t.dtype == d; });
    };
    if (has(f32) && !has(f64)) return c;
  }
  return {};
}

Tensor as_f64(const Tensor& t) {
  if (!is_float(t.dtype()) || t.dtype() == f64) return t;
  Tensor wide(f64, t.shape());
  for (size_t i = 0; i < t.element_count(); ++i) store<double>(wide, i, load<double>(t, i));
  return wide;
}
std::vector<Tensor> as_f64(Tensors all) {
  std::vector<Tensor> wide;
  for (const Tensor& t : all) wide.push_back(as_f64(t));
  return wide;
}
std::vector<Tensor> in_f64(const OpDef& op, const Attrs& attrs, Tensors operands) {
  try {
    return run_op(op, attrs, as_f64(operands));
  } catch (const Error&) {
    return {};  // an op that has a dtype among its attributes
  }
}

/// What the rule of an op makes of inputs: the node's operands, and the graph's results.
struct Ruled {
  const Node* node = nullptr;
  std::vector<Tensor> operands, results;
};
Ruled ruled(const Graph& rule, const OpDef& op, Tensors inputs) {
  Ruled all;
  std::vector<std::vector<Tensor>> values;
  size_t next = 0;
  for (const Node& node : rule.nodes()) {
    if (node.op == &op::input) {
      values.push_back({inputs[next++]});
      continue;
    }
    std::vector<Tensor> operands;
    for (Ref r : node.operands) operands.push_back(values[static_cast<size_t>(r.node)][static_cast<size_t>(r.result)]);
    values.push_back(run_op(*node.op, node.attrs, operands));
    if (node.op == &op && node.name == "judged") all.node = &node, all.operands = operands;
  }
  for (const Output& o : rule.outputs())
    all.results.push_back(values[static_cast<size_t>(o.ref.node)][static_cast<size_t>(o.ref.result)]);
  return all;
}

/// Of a result of the rule's graph: the least dtype that it was rounded to on its way out.
DType rounded_to(const Graph& rule, size_t result, DType low) {
  const Node& node = rule.node(rule.outputs()[result].ref);
  return node.op == &op::convert && rule.type(node.operands[0]).dtype == low ? low : node.types[0].dtype;
}
struct Rounding {
  double unit, half_step;
};
Rounding rounding_of(DType t) {
  if (t == f16) return {0x1p-11, 0x1p-25};
  if (t == bf16) return {0x1p-8, 0x1p-134};
  return {0x1p-24, 0x1p-150};
}

/// Tiles and exponentials flush numbers below 2^-126, or make them that; some in one result.
constexpr double kFlushed = 16 * 0x1p-126;
/// Of recurrent layers h is rounded before each step's product, which is as if its weights were off by that.
bool rounds_within(const OpDef& op) { return &op == &op::lstm || &op == &op::gru || &op == &op::rnn; }

struct Tally {
  size_t elements = 0, excused = 0, graphs = 0;
  std::map<std::string_view, size_t> of_op = {};
};

/// An op in f16 or bf16: compiled once, judged on one set of numbers after the other.
class NarrowOp {
 public:
  NarrowOp(const OpDef& op, const Case& c, DType low) : op_(op), case_(c), low_(low) {
    // An op that follows is narrow where its operands come from a product: here one by 1, which changes nothing.
    const bool follows = precision_of(op) == OpPrecision::follows;
    graph_ = Graph("narrow");
    std::vector<Value> operands;
    for (size_t i = 0; i < c.types.size(); ++i) operands.push_back(graph_.input(text_of("x", i), c.types[i]));
    if (follows) {
      const Value one = graph_.input("one", f32, {1, 1});
      for (Value& v : operands)
        if (v.dtype() == f32) v = reshape(matmul(reshape(v, {element_count(v.dims()), 1}), one), v.dims());
    }
    graph_.set_scope("judged");
    const std::vector<Value> results = graph_.emit(op, operands, c.attrs);
    graph_.set_scope("");
    for (size_t r = 0; r < results.size(); ++r) graph_.output(results[r], text_of("y", r));
    rule_ = in_mixed_precision(graph_, low, MixedFor::inference);
    takes_one_ = follows;
  }
  /// Whether the pass changes anything of the op.
  bool applies() const {
    for (const Node& node : rule_.nodes())
      if (node.op == &op_ && node.name == "judged")
        for (Ref r : node.operands)
          if (rule_.type(r).dtype == low_) return true;
    for (size_t r = 0; r < rule_.outputs().size(); ++r)
      if (rounded_to(rule_, r, low_) == low_) return true;
    return false;
  }

  /// What is wrong; empty if nothing. `runner`: in place of the compiled graph.
  std::string judge(std::vector<Tensor> inputs, Tally& tally, const Runner& runner = {}) {
    if (!compiled_ && !runner) {
      CompileOptions options = CompileOptions::from_environment();
      options.compute = low_ == f16 ? Compute::as_f16 : Compute::as_bf16;
      compiled_ = Session(Device::cpu(), {1}).compile(graph_, options);
    }
    if (takes_one_) inputs.push_back(Tensor::of<float>({1, 1}, {1}));
    const std::vector<Tensor> got = runner ? runner(rule_, inputs) : compiled_->run_ordered(inputs);
    const Ruled wanted = ruled(rule_, op_, inputs);
    const std::vector<Tensor> exact = in_f64(op_, wanted.node->attrs, wanted.operands);
    own_.clear(), nudged_.clear(), unrounded_.reset(), overflows_.reset();
    for (size_t r = 0; r < got.size(); ++r) {
      if (got[r].type() != wanted.results[r].type()) return text_of("is ", got[r].type());
      if (got[r].dtype() != f32) {
        if (std::string why = difference(got[r], wanted.results[r]); !why.empty()) return why;
        continue;
      }
      const DType rounded = rounded_to(rule_, r, low_);
      const Rounding rounding = rounding_of(rounded);
      for (size_t i = 0; i < got[r].element_count(); ++i) {
        ++tally.elements;
        const double y = load<double>(got[r], i), once = load<double>(wanted.results[r], i);
        double f = once;
        // Ops that depend on their dtype, as the next greater number does, are another function in f64.
        if (!exact.empty() && is_float(exact[r].dtype()) && std::isfinite(once)) f = load<double>(exact[r], i);
        if (std::abs(f - once) > 1.01 * (rounding.unit * std::abs(f) + rounding.half_step)) f = once;
        double e = 16 * 0x1p-24 * std::abs(f) + kFlushed;
        if (is_near(y, f, once, rounding, e)) continue;
        e += kTimesOwnError * sensitivity(wanted, exact, r, i, 0x1p-24);
        if (is_near(y, f, once, rounding, e)) continue;
        if (rounds_within(op_)) e += kTimesOwnError * sensitivity(wanted, exact, r, i, rounding_of(low_).unit);
        else e += of_operands_not_rounded(wanted, exact, inputs, r, i);
        if (is_near(y, f, once, rounding, e)) continue;
        if (is_excused(y, f, rounding, wanted, r, i)) {
          ++tally.excused, ++tally.of_op[op_.name];
          continue;
        }
        std::ostringstream out;
        out.precision(9);
        out << "result " << r << " [" << i << "] is " << y << " instead of " << f << " (rounded " << once << "; f32 "
            << load<double>(own_[0][r], i) << ", e " << e << ")";
        return out.str();
      }
    }
    return "";
  }

 private:
  static bool is_near(double y, double f, double once, const Rounding& rounding, double noise) {
    if (std::isnan(once)) return std::isnan(y);
    if (std::isinf(once)) return y == once;
    return std::abs(y - f) <= rounding.unit * (1 + 0x1p-10) * std::abs(f) + rounding.half_step + noise;
  }
  /// What operands that are `unit` of themselves off do to an element.
  double sensitivity(const Ruled& wanted, const std::vector<Tensor>& exact, size_t r, size_t i, double unit) {
    if (exact.empty()) return 0;
    std::vector<std::vector<Tensor>>& nudged = nudged_[unit];
    if (nudged.empty())
      for (uint64_t draw = 0; draw < 8; ++draw) {
        std::vector<Tensor> off = as_f64(wanted.operands);
        for (size_t o = 0; o < off.size(); ++o) {
          if (off[o].dtype() != f64) continue;
          const Tensor ways = random_tensor(f64, off[o].shape(), kSeed + 100 * draw + o, -1, 1);
          for (size_t k = 0; k < off[o].element_count(); ++k)
            store<double>(off[o], k, load<double>(off[o], k) * (1 + std::copysign(unit, load<double>(ways, k))));
        }
        nudged.push_back(run_op(op_, wanted.node->attrs, off));
      }
    double most = 0;
    for (const std::vector<Tensor>& off : nudged)
      if (is_float(off[r].dtype()))
        most = std::max(most, std::abs(load<double>(off[r], i) - load<double>(exact[r], i)));
    return std::isfinite(most) ? most : 0;
  }
  /// An operand that is converted within a fused region is not rounded (docs/ir.md, "Low precision"): what that does.
  double of_operands_not_rounded(const Ruled& wanted, const std::vector<Tensor>& exact, Tensors inputs, size_t r,
                                 size_t i) {
    if (exact.empty() || !is_float(exact[r].dtype())) return 0;
    if (!unrounded_) {
      unrounded_.emplace();
      for (size_t o = 0; o < wanted.operands.size(); ++o) {
        if (wanted.operands[o].dtype() != low_ || inputs[o].dtype() != f32) continue;
        std::vector<Tensor> operands = as_f64(wanted.operands);
        operands[o] = as_f64(inputs[o]);
        unrounded_->push_back(run_op(op_, wanted.node->attrs, operands));
      }
    }
    double sum = 0;
    for (const std::vector<Tensor>& with : *unrounded_)
      if (const double apart = std::abs(load<double>(with[r], i) - load<double>(exact[r], i)); std::isfinite(apart))
        sum += apart;
    return sum;
  }
  /// Whether f32 itself, by the op's kernel or by its parts, is off as far on the same operands, or overflows.
  bool is_excused(double y, double f, const Rounding& rounding, const Ruled& wanted, size_t r, size_t i) {
    if (own_.empty()) {
      std::vector<Tensor> operands;
      for (size_t o = 0; o < wanted.operands.size(); ++o) {
        const Tensor& t = wanted.operands[o];
        Tensor same(case_.types[o].dtype, t.shape());
        if (t.dtype() == same.dtype()) same = t;
        else
          for (size_t k = 0; k < t.element_count(); ++k) store<double>(same, k, load<double>(t, k));
        operands.push_back(same);
      }
      if (compiled_f32_.empty())
        for (const KernelDispatch dispatch : {KernelDispatch::native, KernelDispatch::common}) {
          CompileOptions options;
          options.kernel_dispatch = dispatch;
          compiled_f32_.push_back(Session(Device::cpu(), {1}).compile(case_.graph(op_), options));
        }
      for (const CompiledGraph& compiled : compiled_f32_) own_.push_back(compiled.run_ordered(operands));
    }
    for (const std::vector<Tensor>& results : own_) {
      const double own = load<double>(results[r], i), off = std::isfinite(f) ? std::abs(own - f) : 0;
      if (std::isnan(own)   ? !std::isfinite(y)
          : std::isinf(own) ? y == own
                            : std::abs(y - own) <= rounding.unit * (1 + 0x1p-10) * std::abs(own) + rounding.half_step +
                                                       kTimesOwnError * off)
        return true;
    }
    if (!overflows_) overflows_ = passes_f32(wanted);
    return *overflows_;
  }
  /// Whether a number on the way from finite operands is beyond f32: of such sums the infinity depends on their order.
  bool passes_f32(const Ruled& wanted) const {
    const std::vector<Tensor> operands = as_f64(wanted.operands);
    std::vector<Type> types;
    for (const Tensor& t : operands) types.push_back(t.type());
    Target any;
    any.name = "any";
    any.refusal = [](const Question&) -> std::optional<std::string> { return std::nullopt; };
    LegalizeOptions common;
    common.common = true;
    const Graph whole = trace(types, [&](Graph& g, Values in) {
      return g.emit(op_, {in.begin(), in.end()}, wanted.node->attrs);
    });
    const Graph parts = legalize(whole, any, common).graph;
    Graph all("every value");
    std::vector<Value> inputs;
    for (const Type& t : types) inputs.push_back(all.input(text_of("x", inputs.size()), t));
    replay(all, parts, inputs, [&](const Site& site) -> std::optional<std::vector<Value>> {
      auto out = site.to.emit(*site.node.op, {site.operands.begin(), site.operands.end()}, site.node.attrs);
      for (const Value& v : out)
        if (v.dtype() == f64) all.output(v);
      return out;
    });
    for (const Tensor& t : interpret(all, operands))
      for (size_t i = 0; i < t.element_count(); ++i)
        if (const double v = std::abs(load<double>(t, i)); v > 3.4e38 && std::isfinite(v)) return true;
    return false;
  }

  const OpDef& op_;
  Case case_;
  DType low_;
  Graph graph_{"narrow"}, rule_{"rule"};
  bool takes_one_ = false;
  std::optional<CompiledGraph> compiled_;
  std::vector<CompiledGraph> compiled_f32_;
  // Of one set of numbers, made when they are asked for:
  std::vector<std::vector<Tensor>> own_;
  std::optional<std::vector<std::vector<Tensor>>> unrounded_;
  std::optional<bool> overflows_;
  std::map<double, std::vector<std::vector<Tensor>>> nudged_;  // by unit
};

}  // namespace

TEST_CASE("every op that compute = f16 or bf16 narrows is its operands' function in f64, rounded once, at any size") {
  const auto begin = std::chrono::steady_clock::now();
  Tally tally;
  std::map<OpPrecision, size_t> narrowed;
  for (const OpDef* op : all_ops()) {
    if (op == &op::input || op == &op::param || op == &op::constant || op == &op::convert) continue;
    const OpPrecision precision = precision_of(*op);
    if (precision == OpPrecision::full) continue;
    bool is_narrowed = false;
    const auto samples = op->samples();
    const size_t most = test::checks_all() || precision != OpPrecision::follows ? samples.size() : 1;
    for (size_t s = 0; s < std::min(most, samples.size()); ++s)
      for (const DType low : {f16, bf16}) {
        const auto c = in_f32(*op, samples[s]);
        if (!c) continue;
        std::string why;
        std::string_view of;
        try {
          NarrowOp narrow(*op, *c, low);
          if (!narrow.applies()) continue;
          is_narrowed = true, ++tally.graphs;
          for (const Hostile& hostile : kHostile)
            for (const Where where : {Where::first_operand, Where::all_operands}) {
              of = hostile.name;
              why = narrow.judge(hostile_inputs(*c, hostile, where), tally);
              CHECK_MESSAGE(why.empty(), op->name, " in ", text_of(low), " sample ", s, ", ", hostile.name,
                            std::string(where == Where::all_operands ? ", all operands: " : ": "), why, " for ",
                            c->text());
            }
        } catch (const Error& e) {
          CHECK_MESSAGE(false, op->name, " sample ", s, ", ", of, ": ", std::string(e.what()));
        }
      }
    if (is_narrowed) ++narrowed[precision];
  }
  CHECK(narrowed[OpPrecision::low] >= 15);
  CHECK(narrowed[OpPrecision::rows] >= 9);
  CHECK(narrowed[OpPrecision::follows] > 100);
  CHECK(tally.excused * 20 < tally.elements);
  MESSAGE(tally.elements, " elements of ", tally.graphs, " graphs of ", narrowed[OpPrecision::low], " + ",
          narrowed[OpPrecision::rows], " + ", narrowed[OpPrecision::follows], " ops; ", tally.excused, " excused; ",
          std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(), " s");
  for (const auto& [name, count] : tally.of_op) MESSAGE(name, ": ", count, " excused");
}

TEST_CASE("the law of narrow ops finds sums in the narrow dtype, numbers cut off and saturated (a test of the test)") {
  // What a kernel might do instead of the rule, which is a graph: convert, matmul, convert.
  const auto with_matmul = [](const Graph& rule, const std::function<Value(Value, Value)>& product) {
    return rewritten(rule, [&](const Site& site) -> std::optional<std::vector<Value>> {
      if (site.node.op != &op::matmul) return {};
      return std::vector{product(site.operands[0], site.operands[1])};
    });
  };
  const auto sums_in_low = [&](const Graph& rule, Tensors in) {
    return interpret(with_matmul(rule,
                                 [](Value x, Value w) {
                                   Value sum;
                                   for (int64_t k = 0; k < x.dim(-1).value(); ++k) {
                                     const Value term = matmul(slice(x, {0, k}, {x.dim(0), k + 1}, {1, 1}),
                                                               slice(w, {k, 0}, {k + 1, w.dim(1)}, {1, 1}));
                                     sum = sum ? sum + term : term;
                                   }
                                   return sum;
                                 }),
                     in);
  };
  const auto cut_off = [](const Graph& rule, Tensors in) {
    std::vector<Tensor> out = interpret(rule, in);
    for (Tensor& t : out)
      for (float& v : t.mutable_values<float>()) v *= 1 - 0x1p-8f;
    return out;
  };
  const auto saturated = [](const Graph& rule, Tensors in) {
    std::vector<Tensor> out = interpret(rule, in);
    for (Tensor& t : out)
      for (float& v : t.mutable_values<float>()) v = std::isnan(v) ? v : std::clamp(v, -65504.0f, 65504.0f);
    return out;
  };
  const Sample sample{.dims = {{5, 40}, {40, 6}}};
  const Case c = *in_f32(op::matmul, sample);
  const auto is_found = [&](DType low, const Runner& runner) {
    Tally tally;
    NarrowOp narrow(op::matmul, c, low);
    for (const Hostile& hostile : kHostile)
      if (!narrow.judge(hostile_inputs(c, hostile, Where::first_operand), tally, runner).empty()) return true;
    return false;
  };
  for (const DType low : {f16, bf16}) {
    CHECK(!is_found(low, [](const Graph& rule, Tensors in) { return interpret(rule, in); }));
    CHECK(is_found(low, sums_in_low));
    CHECK(is_found(low, cut_off));
  }
  CHECK(is_found(f16, saturated));
}
