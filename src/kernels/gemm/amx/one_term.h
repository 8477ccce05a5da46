// Matrix-tile products of a left operand in one bf16 term, its packing, and addition of tiles. They are defined in
// tiles.cpp. User: quant/tiled_blocks.cpp, whose left operand is the weights.
#pragma once

#include "kernels/gemm/amx/tiles.h"

namespace rlx::kernels {

/// As multiply_bf16_tiles() with the 32 columns packed at `right` in three terms: three products a step, whose sum is
/// that of the six of multiply_tiles(), but for the order of roundings, as the other terms of a bf16 are 0.
void multiply_one_by_three_terms(int64_t steps, const TileRows& upper, const TileRows& lower, const char* right,
                                 float* sums, int64_t stride) noexcept;
/// As min_magnitude_of(), for rows whose right operand has three terms: it also returns 0 if a number is not finite or
/// is at least 2^62.
float min_magnitude_beside_three(const TileSource& from, int64_t rows, int64_t k) noexcept;
/// As pack_left_tiles() with TileForm::one, for numbers of f32, which are rounded to bf16. The minimum magnitude is
/// that of the f32 numbers.
float pack_left_rounded(const TileSource& from, int64_t rows, int64_t k, char* out) noexcept;
/// to[i * to_stride + j] += from[i * stride + j], 16 x 16. Needs AVX-512, but no matrix tiles.
void add_tile(const float* from, int64_t stride, float* to, int64_t to_stride) noexcept;

}  // namespace rlx::kernels
