// 8-bit products with sums of 32 bits, by multiply-adds of pairs of 16 bits (pmaddwd; multiplications of 32 bits where
// there is no such instruction, as on Arm): for processors without 8-bit dot products. The left operand is stored as 16
// bits, the right one as 8, widened in registers. (Multiply-adds of 8 bits, pmaddubsw, would multiply twice as many at
// once, but saturate their 16-bit sums.) Neighbour: vnni.h.
#pragma once

#include <cstdint>

namespace rlx::kernels {

/// Columns of a panel of the right operand.
inline constexpr int64_t kPairColumns = 16;
/// Pairs along k; if k is odd, the second half of the last one is 0.
inline int64_t pair_count(int64_t k) { return (k + 1) / 2; }
/// Bytes of a panel: for each pair along k, both values of each column.
inline int64_t pair_panel_bytes(int64_t k) { return pair_count(k) * 2 * kPairColumns; }

/// Packs `columns` (1 to kPairColumns) columns of k weights, of which element (p, j) is at w[p * k_stride + j *
/// n_stride]. Writes all pair_panel_bytes(k) of `out`: zeros where there is no column, and for the last half of an odd
/// k.
void pack_pair_panel(const int8_t* w, int64_t k, int64_t k_stride, int64_t n_stride, int64_t columns,
                     char* out) noexcept;

/// Writes sums[i * kPairColumns + j] for `rows` rows and one panel; the sums wrap. Row i of the left operand begins at
/// left[i * stride] and has pair_count(k) pairs; `sums` has room for rows * kPairColumns.
void multiply_int8_pairs(int64_t k, int64_t rows, const int16_t* left, int64_t stride, const char* panel,
                         int32_t* sums) noexcept;

}  // namespace rlx::kernels
