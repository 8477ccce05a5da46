// Convolutions of bf16 on matrix tiles, channels last: y = round(act(sum + bias + residual)), with sums in f32
// (gemm/amx/tiles.h), or where there are none by AVX-512's dot products of bf16 (gemm/fma/dot_tiles.h). Both read the
// image itself or a copy with its padding (tile_image.h); the epilogue follows each 32 pixels of 32 channels. Like all
// instructions for bf16, they take subnormal numbers for 0. Neighbour:
// amx_convolution.h, for f32.
#pragma once

#include <span>

#include "kernels/conv/tile_image.h"
#include "kernels/gemm/gemm.h"
#include "kernels/vector/narrow_float.h"

namespace rlx::kernels {

/// Whether tiles, or dot products, compute it: bf16, and what TileImage supports.
bool has_narrow_tiles(const ConvolutionArgs& args);

/// The operands of an image.
struct NarrowTilesCall {
  const char* image = nullptr;  ///< x or the copy, as TileImage has it
  const char* weights = nullptr;
  const float* bias = nullptr;     ///< image.panels() * 32 floats, of any value past `channels`; null: none
  const BF16* residual = nullptr;  ///< null: none
  BF16* y = nullptr;
  int64_t channels = 0;  ///< of y
  Activation activation = Activation::none;
  std::span<const std::byte> next = {};  ///< is read afterwards, and may be prefetched
};
/// Computes tiles [begin, end) of image.tiles(), for panels [first, last) of output channels.
void convolve_narrow_tiles(const TileImage& image, const NarrowTilesCall& call, int64_t begin, int64_t end,
                           int64_t first, int64_t last) noexcept;

}  // namespace rlx::kernels
