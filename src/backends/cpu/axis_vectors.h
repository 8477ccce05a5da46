// The vectors of a tensor along an axis, for kernels that work on one vector at a time (sort, cumulate, argmax). Users:
// lower_axis_vectors.cpp, lower_sort.cpp.
#pragma once

#include "rlx/ops/shape.h"

namespace rlx::cpu {

/// A dense tensor seen as [outer, extent, inner]. A vector has `extent` elements, which are `inner` apart.
struct AxisVectors {
  int64_t outer = 1, extent = 1, inner = 1;
  AxisVectors(const Shape& shape, int64_t axis) {
    auto at = size_t(valid_axis(axis, shape.size()));
    for (size_t d = 0; d < shape.size(); ++d) (d < at ? outer : d > at ? inner : extent) *= shape[d];
  }
  int64_t count() const { return outer * inner; }
  /// Callers split a range of vectors over threads at multiples of this.
  int64_t grain() const { return inner > 1 ? 16 : 1; }
};

}  // namespace rlx::cpu
