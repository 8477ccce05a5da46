// Rounding to odd: what lies between two floats becomes the one with an odd last bit. Rounding the result once more, to
// a type narrower by two bits or more, then gives what rounding the exact value would (Boldo and Melquiond 2008).
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace rlx {

inline float rounded_to_odd(double v) {
  const auto nearest = static_cast<float>(v);
  if (std::isinf(nearest) && std::isfinite(v)) return std::copysign(std::numeric_limits<float>::max(), nearest);
  if (static_cast<double>(nearest) == v || std::isnan(v)) return nearest;
  const bool is_larger = std::abs(static_cast<double>(nearest)) > std::abs(v);
  return std::bit_cast<float>((std::bit_cast<uint32_t>(nearest) - (is_larger ? 1u : 0u)) | 1u);
}

/// x + y. What is lost by the sum is found by TwoSum (Knuth, TAOCP 2, 4.2.2), which is exact unless it overflows.
inline double sum_to_odd(double x, double y) {
  const double sum = x + y, of_y = sum - x, lost = (x - (sum - of_y)) + (y - of_y);
  if (lost == 0 || !std::isfinite(sum)) return sum;
  const bool is_larger = (lost < 0) == (sum > 0);
  return std::bit_cast<double>((std::bit_cast<uint64_t>(sum) - (is_larger ? 1u : 0u)) | 1u);
}

}  // namespace rlx
