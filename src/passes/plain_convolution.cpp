// See the header.
#include "passes/plain_convolution.h"

#include <algorithm>

#include "rlx/ops/conv.h"
#include "rlx/ops/dynamic_quantize.h"

namespace rlx {
namespace {

/// Empty where a dim is a symbol.
std::optional<Axes> numbers(const Dims& dims) {
  Axes all;
  for (const Dim& d : dims) {
    if (!d.is_static()) return {};
    all.push_back(d.value());
  }
  return all;
}
bool is_in_order(const Axes& layout) {
  for (size_t i = 0; i < layout.size(); ++i)
    if (layout[i] != static_cast<int64_t>(i)) return false;
  return true;
}

}  // namespace

bool has_convolutions(const Graph& g) {
  return std::any_of(g.nodes().begin(), g.nodes().end(), [](const Node& node) {
    return node.op == &op::conv || node.op == &op::convolution || node.op == &op::fused_conv ||
           node.op == &op::dynamic_quantize_conv;
  });
}

std::optional<DirectConvolution> plain_convolution(const Node& node, Values operands) {
  if (node.types.size() != 1) return {};
  const DType dtype = node.types[0].dtype;
  if (node.op == &op::fused_conv && (dtype == f32 || dtype == bf16)) {
    const auto& a = node.attrs.as<FusedConvAttrs>();
    if (a.channels_last || operands[0].dtype() != dtype) return {};
    return DirectConvolution{operands[0], operands[1], a.has_bias ? operands[2] : Value(),
                             a.has_residual ? operands.back() : Value(), a};
  }
  if (dtype != f32 || (node.op != &op::conv && node.op != &op::convolution)) return {};
  if (operands[0].dtype() != f32 || operands[1].dtype() != f32 || operands[0].rank() < 3) return {};
  DirectConvolution c{operands[0], operands[1], {}, {}, {}};
  if (node.op == &op::conv) {
    const auto& a = node.attrs.as<ConvNdAttrs>();
    c.attrs = {.stride = a.stride, .padding = a.padding, .dilation = a.dilation, .groups = a.groups};
    return c;
  }
  const auto& a = node.attrs.as<ConvAttrs>();
  const auto low = numbers(a.padding_low), high = numbers(a.padding_high);
  if (!low || !high || a.batch_group_count != 1) return {};
  if (std::any_of(a.lhs_dilation.begin(), a.lhs_dilation.end(), [](int64_t d) { return d != 1; })) return {};
  if (!is_in_order(a.lhs_layout) || !is_in_order(a.rhs_layout) || !is_in_order(a.out_layout)) return {};
  c.attrs = {.stride = a.strides, .padding = *low, .dilation = a.rhs_dilation, .groups = a.feature_group_count};
  if (*high != *low) {
    const size_t spatial = static_cast<size_t>(operands[0].rank()) - 2;
    c.attrs.padding_high = high->empty() ? Axes(spatial, 0) : *high;
    if (low->empty()) c.attrs.padding = Axes(spatial, 0);
  }
  return c;
}

}  // namespace rlx
