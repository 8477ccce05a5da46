// Convolutions of images of a few channels, such as the first one of a network: with 3 input channels, matrix tiles
// would be mostly empty. A vector holds contiguous output channels. Each input that a few neighbouring outputs read is
// broadcast to a vector. Skinny matrix products use the same code. Neighbours: depthwise_channels_last.h,
// amx_convolution.h.
#pragma once

#include "kernels/conv/direct.h"
#include "kernels/conv/epilogue.h"

namespace rlx::kernels {

/// Whether few_channels() computes the convolution. It needs f32, up to 4 input channels, at least 8 contiguous output
/// channels, no groups, 2 spatial dims, no lhs_dilation, paddings no larger than the kernel, and strides and dilations
/// of up to 64.
bool has_few_channels(const ConvolutionArgs& args);

/// Number of floats of the packed weights. They are ordered [taps][input channels][output channels].
int64_t few_channels_weights_count(const ConvolutionArgs& args);
/// Packs args.w.
void pack_few_channels_weights(const ConvolutionArgs& args, float* packed) noexcept;

/// Bytes of scratch that each calling thread needs, for padded rows of the input.
size_t few_channels_scratch_bytes(const ConvolutionArgs& args);
/// Computes the output rows [begin, end) of all batch * out_dims[0] rows and applies the epilogue. The residual has y's
/// layout. Weights that are not finite give NaN with the padding left and right of an image (0 * inf), but not with the
/// padding above and below it, which is skipped.
void few_channels(const ConvolutionArgs& args, const float* packed, const ConvolutionEpilogue& epilogue, int64_t begin,
                  int64_t end, void* scratch) noexcept;

/// y[rows, n] = epilogue(x[rows, k] weights[k, n]). All arrays are dense and row-major, and the residual has y's
/// layout. The epilogue is applied in registers: this is for n or k so small that a separate epilogue would take as
/// long as the product.
struct SkinnyProduct {
  int64_t rows = 0, k = 0, n = 0;
  const float *x = nullptr, *weights = nullptr;
  float* y = nullptr;
  ConvolutionEpilogue epilogue;
};
void skinny_product(const SkinnyProduct& product) noexcept;

}  // namespace rlx::kernels
