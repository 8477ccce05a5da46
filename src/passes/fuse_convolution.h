// A convolution and what is done to its result. Neighbours: fuse_matmul, the same for products; carry_channels_last,
// which then lays the channels side by side.
#pragma once

#include "rlx/graph.h"

namespace rlx {

/// Folds normalization, bias, residual and activation into the convolution in front of them:
/// activation(conv(x, w) + bias + residual).
///
///   before  %4 = conv(%0, %1)                                        after  %4 = fused_conv(%0, %1, %2, %3)
///           %5 = broadcast_in_dim(%2) {dims = [1, 8, 4, 4], axes = [1]}       {has_bias = true,
///           %6 = add(%4, %5)                                                   has_residual = true,
///           %7 = add(%6, %3)                                                   activation = relu}
///           %8 = relu(%7)
///
/// Each step only in that order, and only if nothing else uses what it takes in. A batch_norm_inference, or a product
/// with a number for each channel, goes into weights and bias where these and it are known once params are bound, and a
/// second bias into the first: so w is scaled before the sum and not the sum after it. That rounds otherwise, by a unit
/// in the last place of each product, and what passes the range of f32 is w scaled instead of the sum scaled. f32
/// alone, for which there are kernels.
Graph fuse_convolution(const Graph& g);

}  // namespace rlx
