// Convolutions of quantized images with 8-bit weights on matrix tiles, or by VNNI's dot products
// (gemm/fma/dot_tiles.h), for dynamic_convolution.h: both read the quantized image where it lies (conv/tile_image.h),
// so that no rows are copied, and the epilogue follows each 32 pixels of 32 channels. Neighbour: conv/narrow_tiles.h,
// of bf16.
#pragma once

#include "kernels/conv/tile_image.h"
#include "kernels/gemm/gemm.h"
#include "kernels/vector/narrow_float.h"

namespace rlx::kernels {

/// The operands of an image: y = act(f32(sum) * w_scale * scale + bias + residual), each operation rounded, the lesser
/// scale first.
struct Int8TilesCall {
  /// Values from -127 to 127, or with `is_unsigned` from 0 to 255. With `low`, a value is 128 * values[i] + low[i];
  /// then values[i] is from -128 to 127, low[i] from 0 to 127, and `is_unsigned` is not read.
  const char *values = nullptr, *low = nullptr;
  bool is_unsigned = false;
  /// Null: by tiles. Else by dot products, whose left operand is unsigned: `values` that are signed have 128 added, and
  /// these are 128 times the sums of the weights of each channel, modulo 2^32, up to a multiple of 32 channels.
  const int32_t* column_sums = nullptr;
  const char* weights = nullptr;
  const float* w_scale = nullptr;  ///< of each channel
  const float* bias = nullptr;     ///< null: none
  float scale = 1;
  DType dtype = f32;               ///< of residual and y, f32 or bf16, to which results are rounded once
  const void* residual = nullptr;  ///< null: none
  void* y = nullptr;
  int64_t channels = 0;  ///< of y
  Activation activation = Activation::none;
};
/// Computes tiles [begin, end) of image.tiles(), for panels [first, last) of output channels.
void convolve_int8_tiles(const TileImage& image, const Int8TilesCall& call, int64_t begin, int64_t end, int64_t first,
                         int64_t last) noexcept;

/// The bits, as f32, of the largest magnitude (largest_magnitude() of dynamic_product.h), with bit 0, which is 0 in
/// numbers of bf16, set if any number has a sign, -0 and NaN included.
uint32_t bf16_range(const BF16* x, int64_t count) noexcept;
/// Quantizes numbers of f32 or bf16 as quantize_numbers() does; `low` is null if there is one plane. With
/// `is_unsigned`, values below 0 become 0. `flip` is exclusive-ored to `values`: 0x80 adds 128.
void quantize_bytes(DType dtype, const void* x, int64_t count, float scale, bool is_unsigned, uint8_t flip,
                    char* values, char* low) noexcept;

}  // namespace rlx::kernels
