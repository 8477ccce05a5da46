// Roots of unity. Multiples of a quarter turn are exact; all others are the C library's cosine and sine of an angle of
// at most an eighth of a turn, so that symmetric roots are symmetric to the bit.
#pragma once

#include <cmath>
#include <complex>
#include <cstdint>

namespace rlx {

/// e^(-2 pi i k / n), for 0 <= k.
inline std::complex<double> root_of_unity(int64_t k, int64_t n) {
  // The angle is the nearest quarter turn and at most an eighth beside it.
  k %= n;
  int64_t quarter = (8 * k + n) / (2 * n), beside = 4 * k - quarter * n;
  double angle = M_PI_2 * static_cast<double>(beside) / static_cast<double>(n);
  double c = std::cos(angle), s = std::sin(angle);
  switch (quarter % 4) {
    case 0: return {c, -s};
    case 1: return {-s, -c};
    case 2: return {-c, s};
    default: return {s, c};
  }
}

}  // namespace rlx
