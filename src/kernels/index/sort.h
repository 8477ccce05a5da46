// Stable argsort along an axis, and top_k. Values are ordered as NumPy orders them: numbers, then NaN; -0 equals 0;
// complex by real part, then imaginary part. To get sorted values, gather by the indices.
#pragma once

#include <cstddef>
#include <cstdint>

#include "rlx/dtype.h"

namespace rlx::kernels {

struct SortArgs {
  DType dtype = f32;  ///< any byte-sized dtype
  const void* x = nullptr;
  // Vector `v` of the outer * inner vectors along the axis starts at x + (v / inner) * outer_stride + v % inner; its
  // `extent` elements are `axis_stride` apart (strides are in elements).
  int64_t extent = 0, inner = 1;
  int64_t outer_stride = 0, axis_stride = 1;
  bool descending = false;  ///< the largest first (NaN before all numbers); equal elements still by ascending index

  void* indices = nullptr;  ///< [outer, k, inner] contiguous
  DType index_dtype = i32;  ///< i32 or i64
  int64_t k = 0;            ///< how many indices of each vector to write: `extent` for argsort
};

size_t sort_scratch_bytes(DType dtype, int64_t extent);
/// Writes the first k indices of the stable order, for vectors [begin, end) of the outer * inner. If k is well below
/// extent it selects instead of sorting all, so top_k is argsort with descending = true.
void argsort(const SortArgs& args, int64_t begin, int64_t end, void* scratch) noexcept;

}  // namespace rlx::kernels
