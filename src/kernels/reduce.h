// Reductions over one axis of a collapsed [outer, reduce, inner] view. Floats are summed with many accumulators
// (f32) or in blocks, f16 and bf16 in f32 and rounded once, integers wrap. Neighbours: rows.h (softmax, norms),
// window.h (reduce_window), extreme.h (where an extreme stands).
#pragma once

#include <cstddef>
#include <cstdint>

#include "rlx/dtype.h"

namespace rlx::kernels {

/// `all` and `any` are bitwise and/or for integers. max and min pass NaN on.
enum class ReduceOp : uint8_t { sum, prod, max, min, all, any };

struct ReduceArgs {
  ReduceOp op = ReduceOp::sum;
  DType dtype = f32;  ///< of x; any byte-sized dtype (complex: sum and prod)
  /// Of y: `dtype`, or the dtype of the accumulator (`reduce_accumulator`), for results that are combined later.
  DType out_dtype = f32;
  const void* x = nullptr;
  void* y = nullptr;  ///< [outer, inner], contiguous
  int64_t outer = 1, reduce = 1, inner = 1;
  int64_t outer_stride = 0, reduce_stride = 0;  ///< of x, in elements; the inner elements are contiguous
  double scale = 1;  ///< float sums only: multiplies before the one rounding (1/n gives the mean)
};

/// f32 for f16, bf16 and f8; otherwise the dtype itself.
DType reduce_accumulator(DType dtype);

/// Computes the results [begin, end) of the outer*inner. An empty reduction gives the neutral element: 0, 1, the
/// lowest value (-inf), the highest (inf), all bits set (true), 0 (false). For inner > 1 split ranges at multiples
/// of 16 where possible.
void reduce(const ReduceArgs& args, int64_t begin, int64_t end) noexcept;

}  // namespace rlx::kernels
