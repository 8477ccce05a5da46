// argmax and argmin along the middle axis of a dense [outer, extent, inner] view: the index of the first of equal
// elements, and of the first NaN if there is one. Neighbours: reduce.h (the maximum itself), sort.h (the k largest).
#pragma once

#include <cstdint>

#include "rlx/dtype.h"

namespace rlx::kernels {

struct ArgmaxArgs {
  DType dtype = f32;    ///< bool, any integer, f16, bf16, f32 or f64
  bool largest = true;  ///< false: argmin
  const void* x = nullptr;
  int32_t* indices = nullptr;  ///< [outer, inner]
  int64_t extent = 0, inner = 1;
};

/// Computes results [begin, end) of the outer * inner. If inner > 1, split ranges at multiples of 16 where possible.
void argmax_indices(const ArgmaxArgs& args, int64_t begin, int64_t end) noexcept;

}  // namespace rlx::kernels
