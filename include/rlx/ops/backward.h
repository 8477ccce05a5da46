// Backward kinds: what the cotangent `ct` of a composite's result means for its operands, as ops of their own, so that
// a backend can claim them. The forward ops' `vjp` emits them; without a claim each is its formula. Those of one
// forward op that share their work are one op with several results. (Neighbours that need none: the gradient of cumsum
// is cumsum in reverse, that of take is scatter_add_rows, that of scan is a scan.)
#pragma once

#include "rlx/ops/activation.h"
#include "rlx/ops/attention.h"
#include "rlx/ops/conv.h"
#include "rlx/ops/norm.h"

namespace rlx {

namespace op {
extern const OpDef relu_backward, activation_backward, conv_backward_input, conv_backward_weight, max_pool_backward,
    softmax_cross_entropy_backward, attention_backward, rope_backward, layer_norm_backward, rms_norm_backward,
    group_norm_backward, batch_norm_inference_backward, ada_layer_norm_backward, gated_residual_backward;
}  // namespace op

// ---- element by element ----
/// ct where x is positive, else 0.
Value relu_backward(Value x, Value ct);

/// The element-wise functions that have a derivative here; `round` passes its cotangent on (straight through).
enum class ActivationKind {
  gelu,
  gelu_tanh,
  silu,
  relu,
  sigmoid,
  tanh,
  exp,
  log,
  sqrt,
  rsqrt,
  neg,
  abs,
  sin,
  cos,
  tan,
  atan,
  round,
  reciprocal,
  floor,
  ceil,
  sign,
  softplus,
  elu,
  erf,
  hard_swish,
  hard_sigmoid,
  mish,
  softsign,
  log_sigmoid
};
constexpr std::array<std::string_view, 29> names_of(ActivationKind) {
  return {"gelu",       "gelu_tanh",    "silu",  "relu",     "sigmoid",    "tanh",     "exp", "log",
          "sqrt",       "rsqrt",        "neg",   "abs",      "sin",        "cos",      "tan", "atan",
          "round",      "reciprocal",   "floor", "ceil",     "sign",       "softplus", "elu", "erf",
          "hard_swish", "hard_sigmoid", "mish",  "softsign", "log_sigmoid"};
}
struct ActivationBackwardAttrs {
  ActivationKind kind = ActivationKind::relu;
  RLX_FIELDS(ActivationBackwardAttrs, field("kind", &ActivationBackwardAttrs::kind));
};
/// ct times the derivative at x.
Value activation_backward(Value x, Value ct, ActivationKind kind);

// ---- windows ----
struct ConvBackwardAttrs {
  Axes stride = {}, padding = {}, dilation = {};  ///< those of `conv`
  int64_t groups = 1;
  Dims size;  ///< the spatial dims of the result: conv_backward_input's x, conv_backward_weight's kernel
  RLX_FIELDS(ConvBackwardAttrs, field("stride", &ConvBackwardAttrs::stride),
             field("padding", &ConvBackwardAttrs::padding), field("dilation", &ConvBackwardAttrs::dilation),
             field("groups", &ConvBackwardAttrs::groups), field("size", &ConvBackwardAttrs::size));
};
/// The cotangent of x of conv(x, w) with spatial dims `size`.
Value conv_backward_input(Value ct, Value w, ConvNdAttrs attrs, Dims size);
/// The cotangent of w of conv(x, w) with a kernel of `size`.
Value conv_backward_weight(Value x, Value ct, ConvNdAttrs attrs, Dims size);
/// The cotangent of x of a max (or min) pool: each ct goes to the first extreme of its window; padding takes none.
Value max_pool_backward(Value x, Value ct, PoolAttrs attrs);

// ---- losses, attention ----
/// (softmax(logits) - one_hot(labels)) ct along `axis`; NaN for a label that is no class.
Value softmax_cross_entropy_backward(Value logits, Value labels, Value ct, int64_t axis = -1);

struct AttentionGradients {
  Value q, k, v, bias;  ///< `bias` only if the mask is one
};
/// The probabilities are computed again from q and k: nothing is kept of the forward run.
AttentionGradients attention_backward(Value q, Value k, Value v, Value ct, Value mask, AttentionAttrs attrs);
/// ct turned by the opposite angles: the cotangent of rope's x.
Value rope_backward(Value ct, Value cos, Value sin, RopeAttrs attrs);

// ---- norms: results for x, then for gamma and beta where the attributes have them ----
std::vector<Value> layer_norm_backward(Value x, Value gamma, Value ct, LayerNormAttrs attrs);
std::vector<Value> rms_norm_backward(Value x, Value gamma, Value ct, LayerNormAttrs attrs);
std::vector<Value> group_norm_backward(Value x, Value gamma, Value ct, GroupNormAttrs attrs);
/// For x, gamma, beta, mean and variance.
std::vector<Value> batch_norm_inference_backward(Value x, Value gamma, Value mean, Value variance, Value ct,
                                                 BatchNormAttrs attrs);
/// For x, scale and shift.
std::vector<Value> ada_layer_norm_backward(Value x, Value scale, Value shift, Value ct, AdaLayerNormAttrs attrs);
/// For x, y and gate.
std::vector<Value> gated_residual_backward(Value y, Value gate, Value ct);

}  // namespace rlx
