// The vectorized inner loop of reduce_window: combines one tap of many neighbouring outputs. Neighbour: window.cpp,
// which calls it.
#pragma once

#include <cstdint>

#include "kernels/reduce/reduce.h"

namespace rlx::kernels {

/// totals[i] = totals[i] (op) x[i] for sum, prod, max and min; a NaN on either side gives NaN. x: f32, bf16 or f16.
void combine_rows(ReduceOp op, DType dtype, float* totals, const void* x, int64_t count) noexcept;

/// to[i] = x[i], exactly, of bf16 or f16.
void widen_row(DType dtype, const void* x, int64_t count, float* to) noexcept;

/// y[i] is the largest (or the smallest) of rows[r][i], `count` of them, at least one; NaN if one is. f32, bf16 or f16.
void extreme_of_rows(bool is_max, DType dtype, const void* const* rows, int64_t count, int64_t n, void* y) noexcept;

}  // namespace rlx::kernels
