// Reductions over the middle axis of an [outer, reduce, inner] view. f32 is summed with many accumulators or in blocks;
// f16 and bf16 are accumulated in f32 and rounded once; integers wrap. Neighbours: rows.h (softmax, norms), window.h
// (reduce_window), argmax.h (the index of the maximum).
#pragma once

#include <cstddef>
#include <cstdint>

#include "rlx/dtype.h"

namespace rlx::kernels {

/// `all` and `any` are bitwise and/or for integers. max and min of values with a NaN are NaN.
enum class ReduceOp : uint8_t { sum, prod, max, min, all, any };

struct ReduceArgs {
  ReduceOp op = ReduceOp::sum;
  DType dtype = f32;  ///< of x and y; any byte-sized dtype (complex: sum and prod)
  const void* x = nullptr;
  void* y = nullptr;  ///< [outer, inner], contiguous
  int64_t outer = 1, reduce = 1, inner = 1;
  int64_t outer_stride = 0, reduce_stride = 0;  ///< of x, in elements; the inner elements are contiguous
  double scale = 1;  ///< float sums only: factor of the sum before its one rounding (1/n gives the mean)
};

/// Computes results [begin, end) of the outer * inner. An empty reduction gives the neutral element: 0, 1, the lowest
/// value (-inf), the highest (inf), all bits set (true), 0 (false). If inner > 1, split ranges at multiples of 16 where
/// possible.
void reduce(const ReduceArgs& args, int64_t begin, int64_t end) noexcept;

}  // namespace rlx::kernels
