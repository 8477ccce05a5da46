// Running sums, products and maxima along the middle axis of a dense [outer, extent, inner] view. f32, f16, bf16 and
// c64 accumulate in double; integers wrap; once a running maximum is NaN, it stays NaN. Neighbour: reduce.h, for the
// last result alone.
#pragma once

#include <cstdint>

#include "rlx/dtype.h"

namespace rlx::kernels {

enum class CumulateOp : uint8_t { sum, prod, max };

struct CumulateArgs {
  CumulateOp op = CumulateOp::sum;
  DType dtype = f32;  ///< bool, an integer, f16, bf16, f32 or f64; sums and products also c64 and c128
  const void* x = nullptr;
  void* y = nullptr;  ///< may be x
  int64_t extent = 0, inner = 1;
  bool exclusive = false;  ///< a result leaves out the element at its own index; the first is 0, 1 or the lowest value
  bool reverse = false;    ///< accumulate from the last element to the first
};

/// Computes the vectors [begin, end) of the outer * inner; a vector is the `extent` elements along the axis. If inner >
/// 1, split ranges at multiples of 16 where possible.
void cumulate(const CumulateArgs& args, int64_t begin, int64_t end) noexcept;

/// Inclusive running sums of f32 along each of `rows` dense rows of `extent` elements.
void cumulate_row_sums(const float* x, float* y, int64_t rows, int64_t extent) noexcept;

}  // namespace rlx::kernels
