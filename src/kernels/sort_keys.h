// What sorting and top_k do with 32-bit keys in vectors.
#pragma once

#include <cstdint>

namespace rlx::kernels {

/// Bits of floats as unsigned numbers in the order of the values: -0 as 0, NaN above all; complemented if `descending`.
void keys_of_f32(const float* x, int64_t n, bool descending, uint32_t* keys) noexcept;

/// Places, ascending, of keys among which the least k are: all up to a bound that at least k of them reach. Returns how
/// many. `work` holds `least_places_work(k)` numbers, `places` n; 0 < k <= n / 8 and n >= kLeastForPlaces.
inline constexpr int64_t kLeastForPlaces = 256;
int64_t least_places_work(int64_t k);
int64_t least_places(const uint32_t* keys, int64_t n, int64_t k, uint32_t* work, uint32_t* places) noexcept;

}  // namespace rlx::kernels
