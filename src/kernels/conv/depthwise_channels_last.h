// Depthwise convolutions of channels-last arrays: a vector holds channels, so the edges of the image cost nothing, and
// all strides are equally fast. Neighbour: depthwise.h, for channels in planes.
#pragma once

#include "kernels/conv/direct.h"
#include "kernels/conv/epilogue.h"

namespace rlx::kernels {

/// Whether depthwise_of_channels() computes the convolution. It needs f32, as many groups as input and output channels,
/// 1 or 2 spatial dims, contiguous channels in x and y, no lhs_dilation, and no negative strides of w.
bool is_depthwise_of_channels(const ConvolutionArgs& args);

/// Number of floats of the packed weights.
int64_t depthwise_weights_count(const ConvolutionArgs& args);
/// Packs args.w to [taps][channels].
void pack_depthwise_weights(const ConvolutionArgs& args, float* packed) noexcept;
/// Computes the output rows [begin, end) of batch * out_dims[0] (of batch, for one spatial dim) and applies the
/// epilogue. The residual is a dense array of y's dims, also where y is not dense.
void depthwise_of_channels(const ConvolutionArgs& args, const float* packed, const ConvolutionEpilogue& epilogue,
                           int64_t begin, int64_t end) noexcept;

}  // namespace rlx::kernels
