// Products with split weights (split_weights.h): splits rows of the other operand in four, and multiplies 16 rows by 16
// columns. How a product is divided into tasks is in ozaki_gemm.cpp.
#pragma once

#include <cstdint>

#include "kernels/gemm/ozaki/split_weights.h"

namespace rlx::kernels {

/// Splits `count` rows, up to 16, of f32 that are adjacent along k. Writes layout.steps() * kRowStepBytes bytes to
/// `out`, where missing rows are zeros, and to row_scales the 16 factors that multiply_splits() applies to the rows'
/// sums: 1 for missing rows, 0 for rows that are out of split range.
void split_rows(const float* rows, int64_t stride, int64_t count, const SplitLayout& layout, const float* balances,
                char* out, float* row_scales) noexcept;

/// Memory that is read later and is prefetched while tiles multiply.
struct Prefetch {
  const char *at = nullptr, *end = nullptr;
  int64_t stride = 256;  ///< bytes between prefetches, of which a step has twelve; the hardware fetches what is between
};
/// Prefetches as much as multiply_splits() does, for a block that takes the fp32 fallback.
void prefetch_some(const SplitLayout& layout, Prefetch& memory) noexcept;
/// Writes sums[i * stride + j] of 16 split rows by 16 columns, scaled by row and column. `row_scales` come from
/// split_rows(). Must be called within a TileScope.
void multiply_splits(const SplitColumns& columns, int64_t block, const char* rows, const float* row_scales, float* sums,
                     int64_t stride, Prefetch& memory) noexcept;

}  // namespace rlx::kernels
