// How long a running sum of f32 may be. Kernels that promise the error bound of docs/runtime.md, "Sums of f32", divide
// longer sums into partial sums of this length.
#pragma once

#include <cstdint>

namespace rlx::kernels {

/// A long sum is the sum of partial sums over at most so many terms each (Blanchard, Higham, Mary, "A class of fast and
/// accurate summation algorithms", SIAM J. Sci. Comput. 42, 2020). The rounding errors of a running sum of equal terms
/// have one sign while it passes a binade: n terms lose up to n / 4 units of 2^-24 of their sum. 256 is the largest
/// power of 2 for which this is within 3.97 sqrt(n), the promise; for partial sums of 256 it is so up to n = 2^24. The
/// number is even, so that pairs of bf16 stay together.
inline constexpr int64_t kPartialSumTerms = 256;

}  // namespace rlx::kernels
