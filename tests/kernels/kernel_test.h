// What the kernel tests share: the same checks for every instruction set this machine has, arrays of any dtype that
// are written and read as doubles, and how far a result may be from the exact one.
#pragma once

#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>
#include <limits>
#include <string>
#include <vector>

#include "hwy/targets.h"
#include "kernels/vector/highway_dispatch.h"
#include "kernels/vector/highway_targets.h"
#include "rlx/element.h"

namespace rlx::test {

/// Runs `body` once for each target that is compiled in and that this machine can run.
template <class F>
void for_each_target(F body) {
  struct Restore {
    ~Restore() { kernels::limit_targets(0); }
  } restore;
  const int64_t targets = kernels::available_targets() & HWY_TARGETS;
  for (int64_t bit = 1; bit > 0 && bit <= targets; bit <<= 1) {
    if (!(targets & bit)) continue;
    kernels::limit_targets(bit);
    INFO("target ", std::string(hwy::TargetName(bit)));
    body();
  }
}

/// Reproducible numbers: a linear congruential generator (Knuth's MMIX constants).
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 2654435761u + 1) {}
  uint64_t bits() {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return state_ ^ (state_ >> 29);
  }
  int64_t below(int64_t n) { return static_cast<int64_t>((bits() >> 11) % static_cast<uint64_t>(n)); }
  double between(double lo, double hi) { return lo + (hi - lo) * static_cast<double>(bits() >> 11) * 0x1p-53; }

 private:
  uint64_t state_;
};

/// Elements of a real, integer or boolean dtype; each write rounds or wraps to the dtype, each read is exact (up to
/// 53 bits).
class Elements {
 public:
  Elements(DType dtype, int64_t count) : tensor_(dtype, Shape{count}) {}
  DType dtype() const { return tensor_.dtype(); }
  int64_t size() const { return static_cast<int64_t>(tensor_.element_count()); }
  void* data() { return tensor_.mutable_data(); }
  const void* data() const { return tensor_.data(); }
  template <class T>
  T* as() {
    return reinterpret_cast<T*>(tensor_.mutable_data());
  }
  double operator[](int64_t i) const { return load_number(tensor_, static_cast<size_t>(i)); }
  std::vector<double> values() const {
    std::vector<double> all;
    for (int64_t i = 0; i < size(); ++i) all.push_back((*this)[i]);
    return all;
  }
  void set(int64_t i, double v) {
    const auto at = static_cast<size_t>(i);
    if (is_float(dtype())) store<double>(tensor_, at, v);
    else if (kind_of(dtype()) == Kind::signed_int || v < 0) store<int64_t>(tensor_, at, static_cast<int64_t>(v));
    else store<uint64_t>(tensor_, at, static_cast<uint64_t>(v));
  }
  static Elements random(DType dtype, int64_t count, uint64_t seed, double lo = -2, double hi = 2) {
    Elements a(dtype, count);
    Random r(seed);
    for (int64_t i = 0; i < count; ++i) a.set(i, r.between(lo, hi));
    return a;
  }
  static Elements filled(DType dtype, int64_t count, double value) {
    Elements a(dtype, count);
    for (int64_t i = 0; i < count; ++i) a.set(i, value);
    return a;
  }

 private:
  Tensor tensor_;
};

/// Half a unit in the last place of a number of this size, as a fraction of it.
inline double rounding(DType t) { return std::ldexp(1.0, -1 - info(t).mantissa_bits); }

/// Whether `got` may stand for the exact `want`: one rounding to the dtype on top of an f32 computation (f64: of
/// itself) that may be off by `f32_units` roundings of numbers of size `scale` or of the result.
inline bool is_close(DType t, double got, double want, double f32_units = 8, double scale = 0) {
  if (std::isnan(want)) return std::isnan(got);
  if (std::isinf(want)) return got == want;
  const double computed = f32_units * (t == f64 ? rounding(f64) : rounding(f32)) * std::max(scale, std::abs(want));
  const double stored = is_low_precision(t) ? rounding(t) * (std::abs(want) + computed) : 0;
  // Below the least normal number roundings have a fixed size; integers have none.
  const int exponent_bits = info(t).exponent_bits;
  const double least = exponent_bits > 0 ? std::ldexp(1.0, 2 - (1 << (exponent_bits - 1))) : 0;
  return std::abs(got - want) <= computed + stored + least * rounding(t) * 2;
}

/// Ends the test if element `at` is not close (see is_close). Says so in one check per call only when it fails:
/// the tests compare millions of numbers.
inline void require_close(DType t, int64_t at, double got, double want, double f32_units = 8, double scale = 0) {
  if (!is_close(t, got, want, f32_units, scale)) {
    INFO(std::string(name_of(t)), " element ", at, ": got ", got, ", want ", want);
    REQUIRE(is_close(t, got, want, f32_units, scale));
  }
}

inline const std::vector<DType>& float_dtypes() {
  static const std::vector<DType> all{f32, f16, bf16, f64};
  return all;
}
inline const std::vector<DType>& integer_dtypes() {
  static const std::vector<DType> all{i8, i16, i32, i64, u8, u16, u32, u64};
  return all;
}

/// Scratch as the kernels want it: aligned to 64 bytes.
class Scratch {
 public:
  explicit Scratch(size_t bytes) : data_(std::aligned_alloc(64, (bytes / 64 + 1) * 64)) {}
  ~Scratch() { std::free(data_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  void* data() { return data_; }

 private:
  void* data_;
};

}  // namespace rlx::test
