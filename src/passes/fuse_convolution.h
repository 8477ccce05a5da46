// A convolution and what is done to its result. Neighbours: fuse_matmul, the same for products; carry_channels_last,
// which runs later and gives images contiguous channels.
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
/// The steps are folded only in that order, and only if nothing else uses the value in between. A batch_norm_inference,
/// or a multiplication by one number for each channel, is folded into weights and bias if its operands, the weights and
/// the bias are known once params are bound. A second bias is added to the first under the same condition.
///
/// Scaling w instead of the sum changes the rounding, by an ulp of each product; and where w scaled passes the range of
/// f32 the result does, even if the scaled sum would not. The pass is for f32 alone, for which there are kernels.
Graph fuse_convolution(const Graph& g);

}  // namespace rlx
