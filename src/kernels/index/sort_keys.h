// Vectorized helpers of sort.cpp for 32-bit keys.
#pragma once

#include <cstdint>

namespace rlx::kernels {

/// Writes to keys[i] the bits of x[i] as an unsigned number. The numbers order as the values do, with -0 equal to 0 and
/// NaN above all numbers; with `descending` all bits are flipped.
void keys_of_f32(const float* x, int64_t n, bool descending, uint32_t* keys) noexcept;

/// The smallest n for which top_k_candidates() may be called.
inline constexpr int64_t kMinTopKKeys = 256;
/// The count of numbers of `work`.
int64_t top_k_work(int64_t k);
/// Writes the indices of all keys up to a bound, in ascending order, and returns their count. At least k keys are
/// within the bound, so the k smallest are among them. `work` holds top_k_work(k) numbers and `indices` holds n; 0 < k
/// <= n / 8 and n >= kMinTopKKeys.
int64_t top_k_candidates(const uint32_t* keys, int64_t n, int64_t k, uint32_t* work, uint32_t* indices) noexcept;

}  // namespace rlx::kernels
