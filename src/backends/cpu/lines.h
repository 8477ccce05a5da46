// The lines of a tensor along an axis, as kernels that work on one line at a time count them. Neighbours:
// lower_lines.cpp, lower_sort.cpp.
#pragma once

#include "rlx/ops/shape.h"

namespace rlx::cpu {

/// [outer, extent, inner]: a line is `extent` elements, `inner` apart.
struct Lines {
  int64_t outer = 1, extent = 1, inner = 1;
  Lines(const Shape& shape, int64_t axis) {
    auto at = size_t(valid_axis(axis, shape.size()));
    for (size_t d = 0; d < shape.size(); ++d) (d < at ? outer : d > at ? inner : extent) *= shape[d];
  }
  int64_t count() const { return outer * inner; }
  int64_t grain() const { return inner > 1 ? 16 : 1; }
};

}  // namespace rlx::cpu
