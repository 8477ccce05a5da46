// A convolution as fused_conv has it, whichever op says it. Neighbours: fuse_convolution, carry_channels_last.
#pragma once

#include "rlx/ops/fused_blocks.h"

namespace rlx {

struct DirectConvolution {
  Value x, w, bias, residual;
  FusedConvAttrs attrs;

  Value emit() const { return fused_conv(x, w, bias, residual, attrs); }
};

/// Is there anything for passes about convolutions to do?
bool has_convolutions(const Graph& g);

/// conv, fused_conv, and a convolution that is no more than these: channels as dim 1, nothing dilated but the kernel,
/// padding in numbers. f32, and fused_conv of bf16. `operands`: the node's, in the graph where it is to be emitted.
std::optional<DirectConvolution> plain_convolution(const Node& node, Values operands);

}  // namespace rlx
