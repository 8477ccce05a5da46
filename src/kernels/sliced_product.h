// Products with sliced weights (sliced_weights.h): rows of the other operand in four slices, and 16 of them by 16
// columns. Who does which part of a product is in gemm_sliced.cpp.
#pragma once

#include <cstdint>

#include "kernels/sliced_weights.h"

namespace rlx::kernels {

/// Up to 16 rows of f32, element by element side by side. Of each row the factor of what a one stands for, 0 for one
/// that slices do not stand for; of rows that are missing, zeros, it is 1. `out`: layout.steps() times kRowStepBytes.
void slice_rows(const float* rows, int64_t stride, int64_t lines, const SlicedLayout& layout, const float* balances,
                char* out, float* units) noexcept;

/// Memory that will be read after what is at hand, asked for while tiles multiply.
struct MemoryAhead {
  const char *at = nullptr, *end = nullptr;
  int64_t stride =
      256;  ///< of what is asked for, twelve times a step; the processor asks for what is between by itself
};
/// Asks for as much as multiply_slices() does, for a block that is multiplied otherwise.
void ask_ahead(const SlicedLayout& layout, MemoryAhead& ahead) noexcept;
/// sums[i * stride + j] of 16 rows and 16 columns, by the units of both. Within a TileScope.
void multiply_slices(const SlicedColumns& columns, int64_t block, const char* rows, const float* row_units, float* sums,
                     int64_t stride, MemoryAhead& ahead) noexcept;

}  // namespace rlx::kernels
