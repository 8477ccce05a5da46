// Vectorized helpers of sort.cpp for 32-bit keys.
#pragma once

#include <cstdint>

namespace rlx::kernels {

/// keys[i]: the bits of x[i] as an unsigned number that orders as the values do (-0 as 0, NaN above all numbers);
/// complemented if `descending`.
void keys_of_f32(const float* x, int64_t n, bool descending, uint32_t* keys) noexcept;

/// Writes the indices, in ascending order, of all keys up to a bound that at least k keys do not exceed, and returns
/// their count: the k smallest keys are among them. `work` holds top_k_work(k) numbers, `indices` n. 0 < k <= n / 8 and
/// n >= kMinTopKKeys.
inline constexpr int64_t kMinTopKKeys = 256;
int64_t top_k_work(int64_t k);
int64_t top_k_candidates(const uint32_t* keys, int64_t n, int64_t k, uint32_t* work, uint32_t* indices) noexcept;

}  // namespace rlx::kernels
