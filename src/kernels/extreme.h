// Where the largest or the least element stands along the middle axis of a dense [outer, extent, inner] view: the first
// of equals, and the first NaN if there is one. Neighbours: reduce.h (the extreme itself), sort.h (the k largest).
#pragma once

#include <cstdint>

#include "rlx/dtype.h"

namespace rlx::kernels {

struct ExtremeArgs {
  DType dtype = f32;  ///< bool, an integer, f16, bf16, f32 or f64
  bool largest = true;
  const void* x = nullptr;
  int32_t* places = nullptr;  ///< [outer, inner]
  int64_t extent = 0, inner = 1;
};

/// Computes the places [begin, end) of the outer * inner. For inner > 1 split ranges at multiples of 16 where possible.
void extreme_places(const ExtremeArgs& args, int64_t begin, int64_t end) noexcept;

}  // namespace rlx::kernels
