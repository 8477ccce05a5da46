// Activations. Those without attributes (relu, gelu, silu, ...) have their builders in rlx/ops/elementwise.h,
// as all element-wise ops have; here stand the others, and the list from which fused ops choose one.
#pragma once

#include "rlx/ops/elementwise.h"

namespace rlx {

namespace op {
extern const OpDef leaky_relu, elu, celu, hard_sigmoid;
}  // namespace op

// clang-format off
RLX_UNARY(relu)
RLX_UNARY(relu6)
RLX_UNARY(gelu)
RLX_UNARY(gelu_tanh)
RLX_UNARY(silu)
RLX_UNARY(softplus)
RLX_UNARY(log_sigmoid)
RLX_UNARY(mish)
RLX_UNARY(softsign)
RLX_UNARY(selu)
RLX_UNARY(hard_swish)
// clang-format on

/// What a fused op applies at its end.
enum class Activation { none, relu, gelu, gelu_tanh, silu, sigmoid, tanh, relu6, hard_swish };
constexpr std::array<std::string_view, 9> names_of(Activation) {
  return {"none", "relu", "gelu", "gelu_tanh", "silu", "sigmoid", "tanh", "relu6", "hard_swish"};
}
Value activate(Value x, Activation kind);
inline Value sigmoid(Value x) { return logistic(x); }

struct LeakyReluAttrs {
  double slope = 0.01;
  RLX_FIELDS(LeakyReluAttrs, field("slope", &LeakyReluAttrs::slope));
};
Value leaky_relu(Value x, double slope = 0.01);
/// leaky_relu with a slope for each element, broadcast to x.
Value prelu(Value x, Value slope);

struct EluAttrs {
  double alpha = 1;
  RLX_FIELDS(EluAttrs, field("alpha", &EluAttrs::alpha));
};
Value elu(Value x, double alpha = 1);
Value celu(Value x, double alpha = 1);

struct HardSigmoidAttrs {
  double alpha = 1.0 / 6, beta = 0.5;
  RLX_FIELDS(HardSigmoidAttrs, field("alpha", &HardSigmoidAttrs::alpha), field("beta", &HardSigmoidAttrs::beta));
};
Value hard_sigmoid(Value x, double alpha = 1.0 / 6, double beta = 0.5);

}  // namespace rlx
