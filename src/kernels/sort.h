// Stable argsort along an axis, and top_k. Order of values: numbers, then NaN (as NumPy); -0 equals 0; complex by
// real part, then imaginary part. The sorted values themselves are a gather of the indices.
#pragma once

#include <cstddef>
#include <cstdint>

#include "rlx/dtype.h"

namespace rlx::kernels {

struct SortArgs {
  DType dtype = f32;  ///< any byte-sized dtype
  const void* x = nullptr;
  // Line `l` of the outer*inner lines starts at x + (l / inner) * outer_stride + (l % inner) * inner_stride, and its
  // `extent` elements stand `axis_stride` apart (all in elements).
  int64_t extent = 0, inner = 1;
  int64_t outer_stride = 0, inner_stride = 1, axis_stride = 1;
  bool descending = false;  ///< the largest first (NaN before all numbers); equal ones still by smaller index

  void* indices = nullptr;  ///< [outer, k, inner] contiguous
  DType index_dtype = i32;  ///< i32 or i64
  int64_t k = 0;            ///< how many of each line to write: extent for argsort
};

size_t sort_scratch_bytes(DType dtype, int64_t extent);
/// Lines [line_begin, line_end) of outer*inner: the first k indices of the stable order. For k well below extent it
/// selects instead of sorting everything, so top_k is this with descending = true.
void argsort(const SortArgs& args, int64_t line_begin, int64_t line_end, void* scratch) noexcept;

}  // namespace rlx::kernels
