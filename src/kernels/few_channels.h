// Convolutions of images of a few channels, as the first of a network is: of 3 channels even tiles would be mostly
// empty. A vector holds output channels, which stand side by side; what the taps of some neighbouring outputs read is
// broadcast. And products that are as thin, by the same code. Neighbours: depthwise_channels.h, convolution_tiles.h.
#pragma once

#include "kernels/convolution.h"
#include "kernels/convolution_finish.h"

namespace rlx::kernels {

/// Whether it is one: f32, up to 4 input channels, no groups, 2 spatial dims, output channels side by side, no gaps in
/// the input, and paddings and distances not larger than what they belong to.
bool has_few_channels(const ConvolutionArgs& args);

/// Floats of the weights as the kernel wants them, and writing them from args.w: [taps][input channels][output
/// channels].
int64_t few_channels_weights_count(const ConvolutionArgs& args);
void pack_few_channels_weights(const ConvolutionArgs& args, float* packed) noexcept;

/// Of a thread: rows of the input, padded.
size_t few_channels_scratch_bytes(const ConvolutionArgs& args);
/// The rows [begin, end) of batch * out_dims[0], finished. The residual lies as y does. Weights that are not finite
/// make NaN of the padding beside an image, and nothing of the padding above and below it.
void few_channels(const ConvolutionArgs& args, const float* packed, const ConvolutionFinish& finish, int64_t begin,
                  int64_t end, void* scratch) noexcept;

/// y[rows, n] = x[rows, k] w[k, n], finished in registers, all of it dense: for so few columns, or so short sums, that
/// what follows a product takes as long as it does. The residual lies as y does.
struct ThinProduct {
  int64_t rows = 0, k = 0, n = 0;
  const float *x = nullptr, *weights = nullptr;
  float* y = nullptr;
  ConvolutionFinish finish;
};
void thin_product(const ThinProduct& product) noexcept;

}  // namespace rlx::kernels
