// Depthwise convolutions where channels stand side by side: a vector holds channels, so the edges of the image cost
// nothing and any stride is as good as another. Neighbour: depthwise.h, for channels in planes.
#pragma once

#include "kernels/convolution.h"
#include "kernels/convolution_finish.h"

namespace rlx::kernels {

/// Whether it is one: f32, as many groups as input and output channels, 1 or 2 spatial dims, channels side by side in
/// x and y, no gaps in the input, no kernel read backwards.
bool is_depthwise_of_channels(const ConvolutionArgs& args);

/// Floats of the weights as `depthwise_of_channels` wants them.
int64_t depthwise_weights_count(const ConvolutionArgs& args);
/// Writes them from args.w: [taps][channels].
void pack_depthwise_weights(const ConvolutionArgs& args, float* packed) noexcept;
/// The rows [begin, end) of batch * out_dims[0] (batch alone for one spatial dim), finished. The residual's rows lie as
/// y's would, were it dense.
void depthwise_of_channels(const ConvolutionArgs& args, const float* packed, const ConvolutionFinish& finish,
                           int64_t begin, int64_t end) noexcept;

}  // namespace rlx::kernels
