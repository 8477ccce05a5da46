// Mixed precision; see the header. The classes are those of PyTorch's autocast (torch.amp, "autocast op reference"),
// where our op has a counterpart; what has none and is not element-wise stays in f32.
#include "passes/mixed_precision.h"

#include <algorithm>
#include <cmath>

#include "ir/leaves.h"
#include "ir/rewrite.h"
#include "passes/bound_values.h"
#include "passes/subgraphs.h"
#include "rlx/ops.h"
#include "rlx/ops/dynamic_quantize.h"

namespace rlx {
namespace {

struct PrecisionOfOp {
  std::string_view op;
  OpPrecision precision;
};
constexpr OpPrecision kLow = OpPrecision::low, kRowWise = OpPrecision::rows, kFollows = OpPrecision::follows,
                      kFull = OpPrecision::full;

// What is not listed follows if it is element-wise or only moves data, and else runs in f32.
constexpr PrecisionOfOp kPrecisions[] = {
    // Products: nearly all of the time, and sums that are kept in f32 inside.
    {"matmul", kLow},
    {"linear", kLow},
    {"fused_matmul", kLow},
    {"lora_matmul", kLow},
    {"grouped_matmul", kLow},
    {"dequant_matmul", kLow},
    {"dot_general", kLow},
    {"conv", kLow},
    {"conv_transpose", kLow},
    {"convolution", kLow},
    {"fused_conv", kLow},
    {"attention", kLow},
    // Element-wise, and yet beyond what few digits or a short exponent hold: powers, exponentials, logarithms, poles.
    {"exp", kFull},
    {"expm1", kFull},
    {"exp2", kFull},
    {"log", kFull},
    {"log1p", kFull},
    {"log2", kFull},
    {"log10", kFull},
    {"pow", kFull},
    {"square", kFull},
    {"squared_difference", kFull},
    {"reciprocal", kFull},
    {"rsqrt", kFull},
    {"sinh", kFull},
    {"cosh", kFull},
    {"tan", kFull},
    {"asin", kFull},
    {"acos", kFull},
    {"erfinv", kFull},
    {"softplus", kFull},
    {"log_sigmoid", kFull},
    {"logaddexp", kFull},
    // Sums over many elements, and what is made of them.
    {"reduce", kFull},
    {"mean", kFull},
    {"variance", kFull},
    {"moments", kFull},
    {"norm", kFull},
    {"cumsum", kFull},
    {"cumprod", kFull},
    {"softmax", kRowWise},
    {"log_softmax", kFull},
    {"logsumexp", kFull},
    {"layer_norm", kRowWise},
    {"fused_residual_layer_norm", kRowWise},
    {"fused_residual_rms_norm", kRowWise},
    {"rms_norm", kRowWise},
    {"group_norm", kRowWise},
    {"instance_norm", kRowWise},
    {"layer_norm_2d", kRowWise},
    {"batch_norm_inference", kRowWise},
    {"l2_normalize", kFull},
    // Losses.
    {"softmax_cross_entropy_with_logits", kFull},
    {"softmax_cross_entropy", kFull},
    {"nll", kFull},
    {"cross_entropy", kFull},
    {"mse", kFull},
    {"binary_cross_entropy_with_logits", kFull},
    {"huber", kFull},
    {"kl_divergence", kFull},
    // Neither element-wise nor plain moves, and as good in few digits.
    {"dropout", kFollows},
    {"pool", kFollows},
    {"glu", kFollows},
    {"fused_swiglu", kFollows},
    {"rope", kFollows},
    {"take", kFollows},
};

struct Mixer {
  const Graph& from;
  DType low;
  MixedFor purpose;
  std::vector<bool> bound = {};        // of `from`, for inference: made of params and constants alone
  std::map<Ref, double> numbers = {};  // of `from`: one number, written in the graph, maybe stretched

  bool is_number(Ref r) const { return numbers.contains(r); }
  void note_number(const Node& node, Ref self) {
    if (node.types[0].dtype != f32) return;
    if (node.op == &op::constant) {
      const Tensor& value = node.attrs.as<ConstantAttrs>().value;
      if (value.element_count() == 1) numbers[self] = load_number(value, 0);
    } else if ((node.op == &op::broadcast_in_dim || node.op == &op::reshape) && is_number(node.operands[0])) {
      numbers[self] = numbers[node.operands[0]];
    }
  }
  /// Neither lost nor infinite in the low type.
  bool fits(double v) const {
    double most = low == f16 ? 65504 : 3.3e38, least = low == f16 ? 0x1p-14 : 0x1p-126;
    return v == 0 || std::isinf(v) || std::isnan(v) || (std::abs(v) <= most && std::abs(v) >= least);
  }
  /// Whether an f32 operand may be rounded where the others are of the low type: a number, and for inference weights,
  /// but for a constant with elements out of the low type's range, as masks have them.
  bool may_round(Ref r) const {
    if (is_number(r)) return fits(numbers.at(r));
    if (bound.empty() || !bound[static_cast<size_t>(r.node)]) return false;
    if (from.node(r).op != &op::constant) return true;
    const auto values = from.node(r).attrs.as<ConstantAttrs>().value.values<float>();
    const float most = low == f16 ? 65504.0f : 3.3e38f;
    return std::all_of(values.begin(), values.end(), [&](float v) { return !(std::abs(v) > most) || std::isinf(v); });
  }

  /// The operands that were f32, as `dtype`; the first `count` of them.
  std::vector<Value> as(const Site& site, DType dtype, size_t count = SIZE_MAX) const {
    std::vector<Value> in(site.operands.begin(), site.operands.end());
    for (size_t i = 0; i < std::min(count, in.size()); ++i)
      if (from.type(site.node.operands[i]).dtype == f32 && in[i].dtype() != dtype) in[i] = convert(in[i], dtype);
    return in;
  }

  static bool convolves(const OpDef& op) {
    for (const OpDef* each : {&op::conv, &op::convolution, &op::conv_transpose, &op::fused_conv})
      if (&op == each) return true;
    return false;
  }
  /// Follows x. Where that is of the low type the residual is, too, and the rest stays f32.
  std::vector<Value> in_integers(const Site& site) const {
    std::vector<Value> in = as(site, f32);
    const bool is_low = site.operands[0].dtype() == low;
    const auto narrowed = [&](Value v) { return v.dtype() == low ? v : convert(v, low); };
    if (is_low) in[0] = site.operands[0];
    if (is_low && site.node.attrs.as<DynamicQuantizeConvAttrs>().has_residual)
      in.back() = narrowed(site.operands.back());
    return site.to.emit(*site.node.op, std::move(in), site.node.attrs);
  }

  std::optional<std::vector<Value>> rule(const Site& site) {
    const Node& node = site.node;
    const OpDef& op = *node.op;
    Ref self{static_cast<int32_t>(site.index), 0};
    if (op.is_primitive() && node.operands.empty()) return note_number(node, self), std::nullopt;
    note_number(node, self);
    if (is_number(self)) return std::nullopt;
    bool any_f32 = false, any_low = false, any_full = false;
    for (size_t i = 0; i < node.operands.size(); ++i) {
      if (from.type(node.operands[i]).dtype != f32) continue;
      any_f32 = true;
      if (site.operands[i].dtype() == low) any_low = true;
      else if (!may_round(node.operands[i])) any_full = true;
    }
    if (!any_f32) return std::nullopt;
    // (The bodies of a custom_fn are left as its author wrote them.)
    if (holds_programs(node) && &op != &op::custom_fn) {
      Attrs attrs =
          with_subgraphs(node.attrs, [&](const Graph& body) { return in_mixed_precision(body, low, purpose); });
      return site.to.emit(op, as(site, f32), std::move(attrs));
    }
    OpPrecision precision = precision_of(op);
    if (precision == OpPrecision::rows && purpose == MixedFor::training) precision = OpPrecision::full;
    if (purpose == MixedFor::images) {
      if (&op == &op::dynamic_quantize_conv && any_low) return in_integers(site);
      if (precision == OpPrecision::low && !convolves(op)) precision = OpPrecision::full;
      if (precision == OpPrecision::rows) precision = OpPrecision::follows;
    }
    // Scales beside codes are f32, and gradients pass through blocks in f32.
    if (&op == &op::dequant_matmul && (node.operands.size() > 2 || purpose == MixedFor::training))
      precision = OpPrecision::full;
    switch (precision) {
      case OpPrecision::low: return site.to.emit(op, as(site, low, &op == &op::attention ? 3 : SIZE_MAX), node.attrs);
      case OpPrecision::rows: {
        std::vector<Value> out = site.to.emit(op, as(site, any_low && !any_full ? low : f32), node.attrs);
        for (Value& y : out)
          if (y.dtype() == f32) y = convert(y, low);
        return out;
      }
      case OpPrecision::full:
        if (!any_low) return std::nullopt;
        return site.to.emit(op, as(site, f32), node.attrs);
      case OpPrecision::follows: break;
    }
    if (!any_low) return std::nullopt;
    if (&op == &op::convert) return std::nullopt;  // says itself what comes out
    return site.to.emit(op, as(site, any_full ? f32 : low), node.attrs);
  }
};

}  // namespace

OpPrecision precision_of(const OpDef& op) {
  for (const PrecisionOfOp& row : kPrecisions)
    if (row.op == op.name) return row.precision;
  return op.elementwise || op.moves_data ? OpPrecision::follows : OpPrecision::full;
}

Graph in_mixed_precision(const Graph& g, DType low, MixedFor purpose) {
  if (low != f16 && low != bf16)
    fail(ErrorCode::invalid_argument, "mixed precision computes in f16 or bf16, got ", low);
  Mixer mixer{g, low, purpose};
  if (purpose != MixedFor::training) mixer.bound = bound_nodes(g);
  Graph to(g.name());
  std::vector<Value> inputs;
  for (Ref r : g.inputs()) inputs.push_back(to.input(g.node(r).name, g.type(r)));
  auto out = replay(to, g, inputs, [&](const Site& site) { return mixer.rule(site); });
  for (size_t o = 0; o < out.size(); ++o) {
    DType declared = g.type(g.outputs()[o].ref).dtype;
    to.output(out[o].dtype() == declared ? out[o] : convert(out[o], declared), g.outputs()[o].name);
  }
  return prune(to);
}

}  // namespace rlx
