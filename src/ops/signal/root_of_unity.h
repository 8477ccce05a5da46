// Roots of unity. Multiples of a quarter turn are exact; all others are the C library's cosine and sine of an angle of
// at most an eighth of a turn, so that symmetric roots are symmetric to the bit.
#pragma once

#include <cmath>
#include <complex>
#include <cstdint>

namespace rlx {

/// Cosine and sine of `beside` n-th parts of a quarter turn. Of few parts, which are what butterflies are made of, they
/// are computed with more digits, so that they are the nearest doubles where the C library has such; of many parts that
/// would take long, and they are within an ulp.
inline std::complex<double> cos_and_sin(int64_t beside, int64_t n) {
  constexpr int64_t kFew = 4096;
  if (n <= kFew) {
    constexpr long double kQuarterTurn = 1.5707963267948966192313216916397514L;
    const long double angle = kQuarterTurn * static_cast<long double>(beside) / static_cast<long double>(n);
    return {static_cast<double>(std::cos(angle)), static_cast<double>(std::sin(angle))};
  }
  const double angle = M_PI_2 * static_cast<double>(beside) / static_cast<double>(n);
  return {std::cos(angle), std::sin(angle)};
}

/// e^(-2 pi i k / n), for 0 <= k.
inline std::complex<double> root_of_unity(int64_t k, int64_t n) {
  // The angle is the nearest quarter turn and at most an eighth beside it.
  k %= n;
  int64_t quarter = (8 * k + n) / (2 * n), beside = 4 * k - quarter * n;
  const std::complex<double> w = cos_and_sin(beside, n);
  const double c = w.real(), s = w.imag();
  switch (quarter % 4) {
    case 0: return {c, -s};
    case 1: return {-s, -c};
    case 2: return {-c, s};
    default: return {s, c};
  }
}

}  // namespace rlx
