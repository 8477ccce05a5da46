// See the header.
#include "passes/activations.h"

#include "rlx/ops.h"

namespace rlx {

std::optional<Activation> activation_of(const Node& node) {
  if (node.op == &op::relu) return Activation::relu;
  if (node.op == &op::gelu) return Activation::gelu;
  if (node.op == &op::gelu_tanh) return Activation::gelu_tanh;
  if (node.op == &op::silu) return Activation::silu;
  if (node.op == &op::logistic) return Activation::sigmoid;
  if (node.op == &op::tanh) return Activation::tanh;
  if (node.op == &op::relu6) return Activation::relu6;
  if (node.op == &op::hard_swish) return Activation::hard_swish;
  if (node.op != &op::clamp) return {};
  const auto& range = node.attrs.as<ClampAttrs>();
  if (range.min != 0 || range.max != 6) return {};
  return Activation::relu6;
}

}  // namespace rlx
