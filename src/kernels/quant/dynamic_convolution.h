// Convolutions of f32 that are computed in integers, for dynamic_quantize_conv: each image is quantized by a scale of
// its own, kernels are 8-bit integers with a scale for each output channel. The quantized image has its channels
// innermost. Matrix tiles, or AVX-512's VNNI, read it where it lies (int8_tiles.h), if there is one group and channels
// are last. Else the
// values that an output needs are copied to a row (im2col), and the rows are multiplied by dynamic_product.h, in blocks
// that stay in the cache. Neighbour: conv/im2col.h, the same for floats.
#pragma once

#include <algorithm>

#include "kernels/conv/direct.h"
#include "kernels/conv/tile_image.h"
#include "kernels/quant/dynamic_product.h"

namespace rlx::kernels {

/// y = act(f32(sum) * w_scale[o] * scale of the image + bias[o] + residual), each operation rounded, the lesser scale
/// first. Pointers are arguments of each call.
struct DynamicConvolution {
  /// x and y are f32 and dense, with the channels first (dim 1) or last. x is not dilated, the kernel not reversed. Of
  /// the args, pointers are not read, but the strides of w are.
  ConvolutionArgs shape;
  /// The product that computes a group: k = input channels of the group times taps of the kernel, n = output channels
  /// of the group. Its `packed` is not read.
  Int8Weights weights;
  bool channels_last = false;
  bool by_tiles = false;  ///< tiles, or dot products in their place, read the quantized image, as `image` says
  TileImage image;
  bool is_narrow = false;  ///< x, residual and y are bf16, in which y is rounded once; only by tiles
  Activation activation = Activation::none;
  /// Outputs of a block, a multiple of kQuantizedRows. The constructor makes it as large as the cache allows.
  int64_t rows_at_once = 32;

  DynamicConvolution() = default;
  /// `x_largest`: the largest quantized value of x.
  DynamicConvolution(const ConvolutionArgs& args, bool are_channels_last, int32_t x_largest,
                     Int8DotIsa isa = best_int8_dot_isa());

  int64_t channels() const { return shape.in_channels / shape.groups; }
  int64_t inputs() const;     ///< pixels of an image of x
  int64_t outputs() const;    ///< pixels of an image of y
  int64_t blocks() const;     ///< blocks of outputs of an image
  int64_t tile_rows() const;  ///< by tiles: rows of an image, which blocks divide
  int64_t pieces() const;     ///< in which an image may be quantized
  /// Whether the quantized image itself is the left operand of the product, so that no rows are copied: with one tap,
  /// stride 1, no padding, one group and an even number of channels, where products are computed by `pairs`.
  bool reads_in_place() const;
};

/// Kernels of all groups, packed.
size_t convolution_weights_bytes(const DynamicConvolution& c);
/// Bytes that pack_convolution_weights() needs to lay out a group's weights; 0 if it packs them where they lie.
size_t convolution_packing_bytes(const DynamicConvolution& c);
/// The strides of `weights` are those of `shape`: w_out_stride, w_in_stride, w_strides. `out` and `scratch` are aligned
/// to 64 bytes.
void pack_convolution_weights(const DynamicConvolution& c, const int8_t* weights, char* out,
                              std::byte* scratch) noexcept;

/// What is known of some numbers of x, or of an image.
struct ImageRange {
  uint32_t largest = 0;       ///< the bits of the largest magnitude, as largest_magnitude() has it
  bool has_negative = false;  ///< a number has a sign; only looked for where it matters

  void include(const ImageRange& other) {
    largest = std::max(largest, other.largest), has_negative = has_negative || other.has_negative;
  }
};
/// Of `count` numbers of x, from `first` on.
ImageRange image_range(const DynamicConvolution& c, const void* x, int64_t first, int64_t count) noexcept;
/// How an image is quantized.
struct ImageScale {
  float scale;
  /// They multiply unsigned bytes, too: values up to 255 take one plane, if none of the image is negative.
  bool is_one_plane;
};
ImageScale image_scale(const DynamicConvolution& c, const ImageRange& range);

/// Bytes of a quantized image.
size_t quantized_image_bytes(const DynamicConvolution& c);
/// Quantizes pieces [first, last) of an image that begins at `x`. `scale` is that of the whole image. `values` is the
/// memory of the whole quantized image, aligned to 64 bytes.
void quantize_image(const DynamicConvolution& c, const void* x, int64_t first, int64_t last, ImageScale scale,
                    std::byte* values) noexcept;

/// What convolve_block() computes: a block of outputs of an image, for a range of a group's output channels that begins
/// at a multiple of DynamicProduct::kColumns.
struct ConvolutionBlock {
  const std::byte* values;  ///< of the image, quantized
  ImageScale scale;         ///< of the image
  int64_t group, block, begin, end;
  const char* packed;              ///< all groups, as pack_convolution_weights() wrote them
  const float *w_scale, *bias;     ///< of all output channels; bias may be null
  const void* residual = nullptr;  ///< of the image, f32 or bf16, or null
  void* y = nullptr;               ///< of the image
};
/// Scratch of a calling thread.
size_t convolution_block_bytes(const DynamicConvolution& c);
void convolve_block(const DynamicConvolution& c, const ConvolutionBlock& b, std::byte* scratch) noexcept;

}  // namespace rlx::kernels
