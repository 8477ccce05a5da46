// Products of tiles whose left operand is one bf16 term, beside a right one in three: tiles.h has the rest, tiles.cpp
// both. User: quant/tiled_blocks.cpp, for weights of bf16 and x of f32.
#pragma once

#include "kernels/gemm/amx/tiles.h"

namespace rlx::kernels {

/// As multiply_bf16_tiles() with the 32 columns packed at `right` in three terms: three products a step, whose sum is
/// that of the six of multiply_tiles(), as the other terms of a bf16 are 0.
void multiply_one_by_three_terms(int64_t steps, const TileRows& upper, const TileRows& lower, const char* right,
                                 float* sums, int64_t stride) noexcept;
/// As min_magnitude_of(), for rows that are multiplied with others in three terms: numbers that are not finite or at
/// least 2^62 are out of split range, too.
float min_magnitude_beside_three(const TileSource& from, int64_t rows, int64_t k) noexcept;
/// As pack_left_tiles() in one term, of f32: each number is rounded to bf16.
float pack_left_rounded(const TileSource& from, int64_t rows, int64_t k, char* out) noexcept;
/// to[i * to_stride + j] += from[i * stride + j], 16 x 16. Needs AVX-512, but no matrix tiles.
void add_tile(const float* from, int64_t stride, float* to, int64_t to_stride) noexcept;

}  // namespace rlx::kernels
