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
// is what the condition of f makes of that, and no more is lost. Weights in blocks arrive packed: y may be f of them,
// or of their decoded values rounded as other operands are, once and to nearest.
//
// int8. For products, |y - f(x, w)| is at most f(|x|, h(w)) + f(h(x), |w|) + f(h(x), h(w)), h being half a step of the
// codes, max / (2 largest), of each row, image or output, beside f32's own roundings. Where a row's outliers have
// larger codes, max is that of the other numbers, and half a step at least the row's largest / (2 16383).
//
// Where an op computes something in f32 that f32 does not hold (the square of 1e30), narrow results are excused where
// those of `compute = f32` on the same x' are off as far; they are counted.
#include <doctest/doctest.h>

#include <chrono>
#include <cmath>
#include <map>
#include <set>

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

/// The op alone, its first operand an input, the others params.
Graph weighted(const OpDef& op, const Case& c) {
  Graph g("weighted");
  std::vector<Value> operands;
  for (size_t i = 0; i < c.types.size(); ++i)
    operands.push_back(i == 0 ? g.input("x0", c.types[0]) : g.param(text_of("x", i), c.types[i]));
  for (const Value& v : g.emit(op, operands, c.attrs)) g.output(v);
  return g;
}

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
      compiled_ = Session(Device::from_environment(), {1}).compile(graph_, options);
    }
    if (takes_one_) inputs.push_back(Tensor::of<float>({1, 1}, {1}));
    const std::vector<Tensor> got = runner ? runner(rule_, inputs) : compiled_->run_ordered(inputs);
    const Ruled wanted = ruled(rule_, op_, inputs);
    const std::vector<Tensor> exact = in_f64(op_, wanted.node->attrs, wanted.operands);
    own_.clear(), nudged_.clear(), unrounded_.reset(), rounded_blocks_.reset(), overflows_.reset();
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
        if (const auto rounded_blocks = of_rounded_blocks(wanted, r, i))
          if (is_near(y, *rounded_blocks, once, rounding, e)) continue;
        if (is_not_rounded(y, exact, r, i, e)) continue;
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
  /// A result that is converted to f32 within the fused region that made it is not rounded either, nor made infinite.
  static bool is_not_rounded(double y, const std::vector<Tensor>& exact, size_t r, size_t i, double e) {
    if (exact.empty() || !is_float(exact[r].dtype())) return false;
    const double f = load<double>(exact[r], i);
    return std::isfinite(f) && std::abs(y - f) <= e + 16 * 0x1p-24 * std::abs(f);
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
  /// The element where the decoded values of operands in blocks are rounded to the low type; none without such
  /// operands.
  std::optional<double> of_rounded_blocks(const Ruled& wanted, size_t r, size_t i) {
    if (!rounded_blocks_) {
      rounded_blocks_.emplace();
      std::vector<Tensor> operands = as_f64(wanted.operands);
      bool has_blocks = false;
      for (Tensor& t : operands) {
        if (!is_block(t.dtype())) continue;
        has_blocks = true;
        t = as_f64(run_op(op::dequantize_blocks, DequantizeBlocksAttrs{low_}, std::array{t})[0]);
      }
      if (has_blocks) *rounded_blocks_ = run_op(op_, wanted.node->attrs, operands);
    }
    if (rounded_blocks_->empty()) return {};
    return load<double>((*rounded_blocks_)[r], i);
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
          compiled_f32_.push_back(Session(Device::from_environment(), {1}).compile(case_.graph(op_), options));
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
  std::optional<std::vector<Tensor>> rounded_blocks_;  // empty: no operand is in blocks
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

namespace {

/// A sample with extents for which the pass puts the op's weights, its second operand, into integers, if there are any.
std::optional<Case> with_weights(const OpDef& op, const Sample& s) {
  const auto own = in_f32(op, s);
  if (!own || own->types.size() < 2) return {};
  for (const Type& t : own->types)
    if (t.dtype != f32) return {};
  constexpr int64_t kTerms = 70, kOutputs = 66;  // no multiples of what kernels take at a time
  constexpr int64_t kMost = 1 << 15;             // elements: the reference is slow
  const auto of_weights = [](const std::vector<Place>& places) {
    return std::any_of(places.begin(), places.end(), [](Place p) { return p.operand == 1; });
  };
  for (const auto& terms : choices(s)) {
    const Sample deep = with_extent(s, terms, kTerms, false);
    if (!of_weights(terms) || !takes(op, deep)) continue;
    for (const auto& outputs : choices(deep)) {
      const Sample wide = with_extent(deep, outputs, kOutputs, false);
      if (!of_weights(outputs) || !takes(op, wide)) continue;
      const auto c = in_f32(op, wide);
      if (!c || std::any_of(c->types.begin(), c->types.end(),
                            [](const Type& t) { return element_count(shape_of(t.dims)) > kMost; }))
        continue;
      const Graph quantized = quantize_products(weighted(op, *c));
      for (const Node& node : quantized.nodes())
        if (node.op == &op::dynamic_quantize_matmul || node.op == &op::dynamic_quantize_conv) return c;
    }
  }
  return {};
}

/// Of convolutions, whose own samples become too large, or are of an empty batch.
std::vector<Sample> convolution_samples(const OpDef& op) {
  if (&op == &op::conv) return {{.dims = {{2, 10, 5, 4}, {40, 10, 3, 3}}, .attrs = ConvNdAttrs{{}, {1, 1}}}};
  if (&op != &op::fused_conv) return {};
  return {{.dims = {{2, 10, 5, 4}, {40, 10, 3, 3}, {40}, {2, 40, 5, 4}},
           .attrs = FusedConvAttrs{.padding = {1, 1}, .has_bias = true, .has_residual = true}}};
}

/// An op with weights under compute = int8.
class IntegerOp {
 public:
  IntegerOp(const OpDef& op, const Case& c)
      : op_(op), case_(c), graph_(weighted(op, c)), rule_(quantize_products(graph_)) {
    CompileOptions options = CompileOptions::from_environment();
    options.compute = Compute::as_i8;
    compiled_ = Session(Device::from_environment(), {1}).compile(graph_, options);
    for (const Node& node : rule_.nodes()) {
      if (node.op == &op::dynamic_quantize) w_axes_ = node.attrs.as<DynamicQuantizeAttrs>().axes;
      if (node.op == &op::dynamic_quantize_matmul) {
        x_axes_ = {static_cast<int64_t>(node.types[0].rank()) - 1};
        largest_ = node.attrs.as<DynamicQuantizeMatmulAttrs>().x_largest;
        outliers_ = node.attrs.as<DynamicQuantizeMatmulAttrs>().x_outliers;
      }
      if (node.op == &op::dynamic_quantize_conv) {
        x_axes_ = axes_from(1, rule_.type(node.operands[0]).rank() - 1);
        largest_ = node.attrs.as<DynamicQuantizeConvAttrs>().x_largest;
      }
    }
  }
  /// Whether the processor has a kernel for it, or it stays f32.
  bool applies() const { return compiled_->report().table().find("dynamic_quantize_") != std::string::npos; }
  std::string judge(const std::vector<Tensor>& inputs, Tally& tally) {
    std::map<std::string, Tensor> params;
    for (size_t i = 1; i < inputs.size(); ++i) params[text_of("x", i)] = inputs[i];
    for (const auto& [name, value] : params) compiled_->set_param(name, value);
    const Tensor got = compiled_->run_ordered(std::vector{inputs[0]})[0];
    const Tensor wanted = interpret(rule_, std::vector{inputs[0]}, params)[0];
    if (got.type() != wanted.type()) return text_of("is ", got.type());
    double extra = 0;  // a bias, a residual: whose sums with the product f32 rounds
    for (size_t i = 2; i < inputs.size(); ++i)
      for (size_t k = 0; k < inputs[i].element_count(); ++k)
        if (const double v = std::abs(load<double>(inputs[i], k)); std::isfinite(v)) extra = std::max(extra, v);
    const auto bounds = bound(inputs);
    for (size_t i = 0; i < got.element_count(); ++i) {
      ++tally.elements;
      const double y = load<double>(got, i), rule = load<double>(wanted, i);
      std::string why;
      if (std::isnan(rule)   ? !std::isnan(y)
          : std::isinf(rule) ? y != rule
                             : !(std::abs(y - rule) <= 0x1p-20 * (std::abs(rule) + extra) + kFlushed))
        return text_of("[", i, "] is ", y, " instead of the rule's ", rule);
      if (!bounds || !std::isfinite(rule)) continue;
      const double f = load<double>((*bounds)[0], i), most = load<double>((*bounds)[1], i);
      if (!std::isfinite(f)) continue;
      if (!(std::abs(y - f) <= most * (1 + 0x1p-11) + 0x1p-22 * (std::abs(f) + most + extra) + kFlushed))
        return text_of("[", i, "] is ", y, ", more than ", most, " from f64's ", f);
      felt_ = felt_ || std::abs(y - f) > most / 50;
    }
    return "";
  }
  bool is_felt() const { return felt_; }

 private:
  Tensor run(Tensor x, Tensor w, std::vector<Tensor> others, bool zero) const {
    std::vector<Tensor> in = {std::move(x), std::move(w)};
    for (const Tensor& t : others) in.push_back(zero ? Tensor(f64, t.shape()) : as_f64(t));
    return run_op(op_, case_.attrs, in)[0];
  }
  /// Half a step of the codes of each element.
  static Tensor half_steps(const Tensor& t, const Axes& axes, int64_t largest, int64_t outliers = 0) {
    const std::vector<Tensor> in = {t};
    return interpret(trace(std::vector{t.type()},
                           [&](Graph&, Values v) {
                             const Value scale = dynamic_quantize(v[0], axes, largest, outliers).scale;
                             Axes kept;
                             for (int64_t axis = 0; axis < v[0].rank(); ++axis)
                               if (std::find(axes.begin(), axes.end(), axis) == axes.end()) kept.push_back(axis);
                             return Many<Value>(broadcast_in_dim(scale, v[0].dims(), kept) * 0.5);
                           }),
                     in)[0];
  }
  static Tensor magnitudes(const Tensor& t) {
    Tensor all(f64, t.shape());
    for (size_t i = 0; i < t.element_count(); ++i) store<double>(all, i, std::abs(load<double>(t, i)));
    return all;
  }
  /// The result in f64 and how far from it one in integers may be, of ops that are linear in x.
  std::optional<std::array<Tensor, 2>> bound(const std::vector<Tensor>& inputs) const {
    for (const Tensor& t : inputs)
      for (size_t i = 0; i < t.element_count(); ++i)
        if (!std::isfinite(load<double>(t, i))) return {};
    const Tensor x = as_f64(inputs[0]), w = as_f64(inputs[1]);
    const std::vector<Tensor> others(inputs.begin() + 2, inputs.end());
    Tensor opposite(f64, x.shape());
    for (size_t i = 0; i < x.element_count(); ++i) store<double>(opposite, i, -2 * load<double>(x, i));
    const Tensor once = run(x, w, others, true), twice = run(opposite, w, others, true);
    for (size_t i = 0; i < once.element_count(); ++i)
      if (std::abs(load<double>(twice, i) + 2 * load<double>(once, i)) > 1e-9 * std::abs(load<double>(once, i)))
        return {};  // an activation
    const Tensor hx = half_steps(x, x_axes_, largest_, outliers_), hw = half_steps(w, w_axes_, 127);
    const Tensor a = run(magnitudes(x), hw, others, true), b = run(hx, magnitudes(w), others, true),
                 c = run(hx, hw, others, true);
    Tensor most(f64, a.shape());
    for (size_t i = 0; i < most.element_count(); ++i)
      store<double>(most, i, load<double>(a, i) + load<double>(b, i) + load<double>(c, i));
    return std::array{run(x, w, others, false), most};
  }

  const OpDef& op_;
  Case case_;
  Graph graph_, rule_;
  std::optional<CompiledGraph> compiled_;
  Axes w_axes_, x_axes_;
  int64_t largest_ = 0, outliers_ = 0;
  bool felt_ = false;
};

}  // namespace

TEST_CASE("every op that compute = int8 puts into integers is within half a step of each number, at any size") {
  const auto begin = std::chrono::steady_clock::now();
  Tally tally;
  std::set<std::string_view> reached, felt;
  for (const OpDef* op : all_ops()) {
    if (precision_of(*op) != OpPrecision::low) continue;
    std::vector<Sample> samples = convolution_samples(*op);
    const size_t given = samples.size();
    for (const Sample& own : op->samples()) samples.push_back(own);
    size_t found = 0;
    for (size_t s = 0; s < samples.size() && (found < 1 || test::checks_all()); ++s) {
      std::string_view of = "its extents";
      try {
        const auto c = s < given ? in_f32(*op, samples[s]) : with_weights(*op, samples[s]);
        if (!c) continue;
        IntegerOp integers(*op, *c);
        if (!integers.applies()) continue;
        const size_t before = tally.elements;
        for (const Hostile& hostile : kHostile)
          for (const Where where : {Where::first_operand, Where::all_operands}) {
            of = hostile.name;
            const std::string why = integers.judge(hostile_inputs(*c, hostile, where), tally);
            CHECK_MESSAGE(why.empty(), op->name, " sample ", s, ", ", hostile.name,
                          std::string(where == Where::all_operands ? ", all operands: " : ": "), why, " for ",
                          c->text());
          }
        if (tally.elements == before) continue;  // of an empty batch
        reached.insert(op->name), ++tally.graphs, ++found;
        if (integers.is_felt()) felt.insert(op->name);
      } catch (const Error& e) {
        CHECK_MESSAGE(false, op->name, " sample ", s, ", ", of, ": ", std::string(e.what()));
      }
    }
  }
  for (const char* name : {"matmul", "linear", "fused_matmul", "conv", "fused_conv"})
    CHECK_MESSAGE(reached.contains(name), std::string(name));
  CHECK(felt.size() >= 2);  // the bound is one that is felt
  MESSAGE(tally.elements, " elements of ", tally.graphs, " graphs of ", reached.size(), " ops; ",
          std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(), " s");
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

TEST_CASE("a fused activation gives PyTorch's values of infinities, NaN and large numbers, in every compute") {
  constexpr float kInf = INFINITY, kNaN = NAN;
  const std::vector<float> given = {-kInf, kInf, kNaN, -1000, 1000, 0};
  const std::pair<Activation, std::vector<float>> rows[] = {{Activation::relu, {0, kInf, kNaN, 0, 1000, 0}},
                                                            {Activation::gelu, {kNaN, kInf, kNaN, 0, 1000, 0}},
                                                            {Activation::gelu_tanh, {kNaN, kInf, kNaN, 0, 1000, 0}},
                                                            {Activation::silu, {kNaN, kInf, kNaN, 0, 1000, 0}},
                                                            {Activation::sigmoid, {0, 1, kNaN, 0, 1, 0.5}},
                                                            {Activation::tanh, {-1, 1, kNaN, -1, 1, 0}},
                                                            {Activation::relu6, {0, 6, kNaN, 0, 6, 0}},
                                                            {Activation::hard_swish, {kNaN, kInf, kNaN, 0, 1000, 0}}};
  // The bias makes the numbers; products by few rows, by many, and convolutions have epilogues of their own.
  const int64_t n = 96, k = 64;
  std::vector<float> bias;
  for (int64_t j = 0; j < n; ++j) bias.push_back(given[static_cast<size_t>(j) % given.size()]);
  for (const auto& row : rows)
    for (const Compute compute : {Compute::as_f32, Compute::as_bf16, Compute::as_f16, Compute::as_i8})
      for (const char* kind : {"few rows", "many rows", "image"}) {
        const Activation activation = row.first;
        const std::vector<float>& wanted = row.second;
        const bool is_image = kind[0] == 'i';
        const int64_t pixels = kind[0] == 'f' ? 2 : is_image ? 36 : 70;
        Graph g("layer");
        const Value b = g.param("b", f32, {n});
        if (is_image) {
          const Value y = conv(g.input("x", f32, {1, k, 6, 6}), g.param("w", f32, {n, k, 3, 3}), {.padding = {1, 1}});
          g.output(activate(y + broadcast_in_dim(b, y.dims(), {1}), activation));
        } else {
          g.output(activate(linear(g.input("x", f32, {pixels, k}), g.param("w", f32, {n, k}), b), activation));
        }
        CompileOptions options = CompileOptions::from_environment();
        options.compute = compute;
        CompiledGraph compiled = Session(Device::from_environment(), {1}).compile(g, options);
        compiled.set_param("b", Tensor::of<float>({n}, bias));
        compiled.set_param("w", Tensor(f32, is_image ? Shape{n, k, 3, 3} : Shape{n, k}));
        const Tensor y = compiled.run({{"x", Tensor(f32, is_image ? Shape{1, k, 6, 6} : Shape{pixels, k})}})[0];
        size_t wrong = 0;
        for (int64_t i = 0; i < pixels * n; ++i) {
          const int64_t channel = is_image ? i / pixels : i % n;
          const float got = y.values<float>()[static_cast<size_t>(i)],
                      want = wanted[static_cast<size_t>(channel) % given.size()];
          wrong += std::isnan(want) ? !std::isnan(got) : !(got == want || std::fabs(got - want) <= 1e-6f);
        }
        CHECK_MESSAGE(wrong == 0, names_of(activation)[static_cast<size_t>(activation)], ", ",
                      names_of(compute)[static_cast<size_t>(compute)], ", ", std::string(kind), ": ", wrong);
      }
}
