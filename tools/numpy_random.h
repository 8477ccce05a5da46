// The numbers of NumPy's `default_rng(seed).uniform(low, high)`, bit for bit, so that a benchmark computes on the same
// arrays as its counterparts in Python and their results can be compared. Not a source of randomness for anything else.
#pragma once

#include <cstdint>
#include <span>

namespace rlx::tools {

/// PCG XSL RR 128/64 (O'Neill, "PCG: a family of simple fast space-efficient statistically good algorithms for random
/// number generation", 2014), seeded as NumPy's SeedSequence does (O'Neill, "Developing a seed_seq alternative", 2015).
class NumpyRandom {
 public:
  explicit NumpyRandom(uint32_t seed);
  uint64_t next();
  /// 53 random bits, in [0, 1).
  double next_double() { return static_cast<double>(next() >> 11) * 0x1p-53; }
  /// uniform(low, high, size).astype(float32)
  void uniform(double low, double high, std::span<float> values);

 private:
  __extension__ using Word128 = unsigned __int128;
  Word128 state_, increment_;
};

}  // namespace rlx::tools
