// What windows do along memory: one tap of many neighbouring outputs at a time. Neighbour: window.cpp, which knows
// where.
#pragma once

#include <cstdint>

#include "kernels/reduce.h"

namespace rlx::kernels {

/// totals[i] = totals[i] (op) x[i] for sum, prod, max and min; a NaN on either side stays.
void combine_rows(ReduceOp op, float* totals, const float* x, int64_t count) noexcept;

}  // namespace rlx::kernels
