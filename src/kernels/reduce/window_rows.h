// The vectorized inner loop of reduce_window: combines one tap of many neighbouring outputs. Neighbour: window.cpp,
// which calls it.
#pragma once

#include <cstdint>

#include "kernels/reduce/reduce.h"

namespace rlx::kernels {

/// totals[i] = totals[i] (op) x[i] for sum, prod, max and min; a NaN on either side gives NaN.
void combine_rows(ReduceOp op, float* totals, const float* x, int64_t count) noexcept;

}  // namespace rlx::kernels
