// Matrix-tile products whose left operand is integers with a scale for each step along k. The integers are one bf16
// term, so that a step takes three products beside a right operand of three terms, where f32 numbers take six. User:
// quant/tiled_blocks.cpp.
#pragma once

#include <cstdint>
#include <span>

namespace rlx::kernels {

/// 32 rows of the left operand, packed in one term as two halves of 16, neither of them null, and where their sums are.
struct ScaledRows {
  const char *upper, *lower;
  const float* scales;  ///< scales[step * 32 + row]
  float* sums;
};
/// Within a TileScope, for each block of rows: sums[i * stride + j] += the sum over steps of the scale of row i times
/// the product of row i and column j in the step. `right` is 32 columns packed in three terms. One call for many blocks
/// takes less time than a call for each: products of a block are scaled and added while tiles multiply the next one.
void add_scaled_steps(int64_t steps, std::span<const ScaledRows> blocks, const char* right, int64_t stride) noexcept;

}  // namespace rlx::kernels
