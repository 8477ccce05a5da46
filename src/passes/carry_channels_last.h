// The layout of images: channels first or last. Neighbours: fuse_convolution before it, fuse_elementwise behind it.
#pragma once

#include "rlx/graph.h"

namespace rlx {

/// Gives the convolutions that plain_convolution.h recognizes, and dynamic_quantize_conv, images with contiguous
/// channels ([N, spatial..., C]), and carries that layout through the ops between them: element-wise ops, windows,
/// pads, slices, concatenations, reductions. The kernels prefer this layout; without the pass each of them would
/// convert its operands and its result.
///
///   before  %2 = conv(%0, %1)            after  %2 = transpose(%0) {permutation = [0, 2, 3, 1]}
///           %3 = tanh(%2)                       %3 = fused_conv(%2, %1) {channels_last = true}
///           %5 = conv(%3, %4)                   %4 = tanh(%3)
///           return %5                           %6 = fused_conv(%4, %5) {channels_last = true}
///                                               %7 = transpose(%6) {permutation = [0, 3, 1, 2]}
///                                               return %7
///
/// Returns the graph as it was if the transposes at the edges would move more than three quarters of what the
/// convolutions read and write. That is so in the graph of a training step, whose gradients need most values in the old
/// layout.
Graph carry_channels_last(const Graph& g);

}  // namespace rlx
