// Mixed precision; see the header. The classes are those of PyTorch's autocast (torch.amp, "autocast op reference"),
// where our op has a counterpart and no reason stands beside it; what has none and is not element-wise stays in f32.
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
  OpPrecision inference;
  OpPrecision training = inference, beside_integers = inference, beside_integer_images = beside_integers;
};
constexpr OpPrecision kLow = OpPrecision::low, kRowWise = OpPrecision::rows, kFollows = OpPrecision::follows,
                      kFull = OpPrecision::full;

// What is not listed follows if it is element-wise or only moves data, and else runs in f32.
constexpr PrecisionOfOp kPrecisions[] = {
    // Products: nearly all of the time, and sums that are kept in f32 inside. Beside integers those are left that have
    // few terms, of which each counts, or no weights; the convolutions among them are faster in f32.
    {"matmul", kLow, kLow, kFollows},
    {"linear", kLow, kLow, kFollows},
    {"fused_matmul", kLow, kLow, kFollows},
    {"lora_matmul", kLow, kLow, kFollows},
    {"grouped_matmul", kLow, kLow, kFollows},
    {"segment_matmul", kLow, kLow, kFollows},
    {"dequant_matmul", kLow, kFull, kFollows},  // gradients pass through blocks in f32
    {"dynamic_quantize_matmul", kFull, kFull, kFollows},
    {"dynamic_quantize_conv", kFull, kFull, kFull, kFollows},
    {"dot_general", kLow, kLow, kFollows},
    {"conv", kLow, kLow, kFull, kLow},
    {"conv_transpose", kLow, kLow, kFull, kLow},
    {"convolution", kLow, kLow, kFull, kLow},
    {"fused_conv", kLow, kLow, kFull, kLow},
    {"attention", kLow, kLow, kFollows},  // keys and values that a caller keeps in f32 are many
    // Their gradients go step by step through lstm_layer, which is f32.
    {"lstm", kLow, kFull, kLow},
    {"gru", kLow, kFull, kLow},
    {"rnn", kLow, kFull, kLow},
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
    {"softmax", kRowWise, kFull, kFollows},
    {"log_softmax", kFull},
    {"logsumexp", kFull},
    {"layer_norm", kRowWise, kFull},
    {"fused_residual_layer_norm", kRowWise, kFull},
    {"fused_residual_rms_norm", kRowWise, kFull},
    {"rms_norm", kRowWise, kFull},
    {"group_norm", kRowWise, kFull, kFollows},
    {"instance_norm", kRowWise, kFull, kFollows},
    {"layer_norm_2d", kRowWise, kFull, kFollows},
    {"batch_norm_inference", kRowWise, kFull, kFollows},
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
    // Element-wise or moves, but of other numbers where the dtype is another.
    {"complex", kFull},
    {"complex_norm_sq_backward", kFull},  // beside c64 its other operand is f32
    {"bitcast", kFull},
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
  std::vector<bool> bound = {};        // of `from`, but for training: made of params and constants alone
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

  enum class Taken {
    like_the_others,
    as_it_arrives,  ///< a mask beside scores
    as_f32,         ///< scales and the bias beside codes
  };
  static Taken taken(const Node& node, size_t operand) {
    if (node.op == &op::attention && operand > 2) return Taken::as_it_arrives;
    bool has_bias = false, has_factor = false;
    if (node.op == &op::dynamic_quantize_matmul) {
      const auto& a = node.attrs.as<DynamicQuantizeMatmulAttrs>();
      has_bias = a.has_bias, has_factor = a.has_factor;
    } else if (node.op == &op::dynamic_quantize_conv) {
      has_bias = node.attrs.as<DynamicQuantizeConvAttrs>().has_bias;
    } else {
      return Taken::like_the_others;
    }
    const bool is_by_column = operand >= 2 && operand < size_t{3} + has_bias + has_factor;
    return is_by_column ? Taken::as_f32 : Taken::like_the_others;
  }
  /// The operands that were f32, as `dtype`.
  std::vector<Value> as(const Site& site, DType dtype) const {
    std::vector<Value> in(site.operands.begin(), site.operands.end());
    for (size_t i = 0; i < in.size(); ++i) {
      const Taken how = taken(site.node, i);
      if (from.type(site.node.operands[i]).dtype != f32 || how == Taken::as_it_arrives) continue;
      const DType wanted = how == Taken::as_f32 ? f32 : dtype;
      if (in[i].dtype() != wanted) in[i] = convert(in[i], wanted);
    }
    return in;
  }
  /// Whether a recurrent layer begins in a state that a run is given, as one that reads a text in pieces does. What one
  /// run leaves for the next is f32: rounded each time, a cell that changes little would not change at all.
  bool continues(const Node& node) const {
    if (node.op != &op::lstm && node.op != &op::gru && node.op != &op::rnn) return false;
    const auto& names = node.op->operands;
    const auto states = std::count_if(names.begin(), names.end(), [](std::string_view n) { return n.ends_with('?'); });
    for (size_t i = names.size() - static_cast<size_t>(states); i < node.operands.size(); ++i) {
      const Ref r = node.operands[i];
      if (!is_number(r) && (bound.empty() || !bound[static_cast<size_t>(r.node)])) return true;
    }
    return false;
  }

  std::optional<std::vector<Value>> rule(const Site& site) {
    const Node& node = site.node;
    const OpDef& op = *node.op;
    Ref self{static_cast<int32_t>(site.index), 0};
    if (op.is_primitive() && node.operands.empty()) return note_number(node, self), std::nullopt;
    note_number(node, self);
    if (is_number(self)) return std::nullopt;
    bool any_f32 = false, any_low = false, any_full = false, any_widened = false;
    for (size_t i = 0; i < node.operands.size(); ++i) {
      const Taken how = taken(node, i);
      if (from.type(node.operands[i]).dtype != f32 || how == Taken::as_it_arrives) continue;
      any_f32 = true;
      if (how == Taken::as_f32) {
        any_widened = any_widened || site.operands[i].dtype() == low;
        continue;
      }
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
    OpPrecision precision = precision_of(op, purpose);
    // Scales beside codes are f32.
    if (&op == &op::dequant_matmul && node.operands.size() > 2) precision = OpPrecision::full;
    if (continues(node)) precision = OpPrecision::full;
    switch (precision) {
      case OpPrecision::low: return site.to.emit(op, as(site, low), node.attrs);
      case OpPrecision::rows: {
        std::vector<Value> out = site.to.emit(op, as(site, any_low && !any_full ? low : f32), node.attrs);
        for (Value& y : out)
          if (y.dtype() == f32) y = convert(y, low);
        return out;
      }
      case OpPrecision::full:
        if (!any_low && !any_widened) return std::nullopt;
        return site.to.emit(op, as(site, f32), node.attrs);
      case OpPrecision::follows: break;
    }
    if (!any_low && !any_widened) return std::nullopt;
    if (&op == &op::convert) return std::nullopt;  // says itself what comes out
    return site.to.emit(op, as(site, any_full || !any_low ? f32 : low), node.attrs);
  }
};

}  // namespace

OpPrecision precision_of(const OpDef& op, MixedFor purpose) {
  for (const PrecisionOfOp& row : kPrecisions)
    if (row.op == op.name) switch (purpose) {
        case MixedFor::training: return row.training;
        case MixedFor::inference: return row.inference;
        case MixedFor::beside_integers: return row.beside_integers;
        case MixedFor::beside_integer_images: return row.beside_integer_images;
      }
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
