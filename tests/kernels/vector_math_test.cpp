// The functions of kernels/vector/vector_math-inl.h on every instruction set of this processor, against the C library
// in double. The bounds are those that the header promises, which were measured over all floats; here every 16381st.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/vector_math_test.cpp"
#include "kernels/vector/highway_targets.h"
// Above: the instruction sets must be chosen before any Highway header.
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/vector/vector_math-inl.h"

#ifndef RLX_VECTOR_MATH_TEST_FUNCTIONS
#define RLX_VECTOR_MATH_TEST_FUNCTIONS
enum class Function { exp, exp_or_zero, log, tanh, erf, sigmoid, silu, gelu_erf, gelu_tanh };
#endif

HWY_BEFORE_NAMESPACE();
namespace rlx::kernels {
namespace HWY_NAMESPACE {
namespace {

template <class T>
void apply(Function function, const T* x, T* y, size_t count) {
  const hn::ScalableTag<T> d;
  for (size_t i = 0; i + hn::Lanes(d) <= count; i += hn::Lanes(d)) {
    const auto v = hn::LoadU(d, x + i);
    auto r = v;
    switch (function) {
      case Function::exp: r = Exp(d, v); break;
      case Function::exp_or_zero: r = ExpOrZero(d, v); break;
      case Function::log: r = Log(d, v); break;
      case Function::tanh: r = Tanh(d, v); break;
      case Function::erf: r = Erf(d, v); break;
      case Function::sigmoid: r = Sigmoid(d, v); break;
      case Function::silu: r = Silu(d, v); break;
      case Function::gelu_erf: r = GeluErf(d, v); break;
      case Function::gelu_tanh: r = GeluTanh(d, v); break;
    }
    hn::StoreU(r, d, y + i);
  }
}
void apply_f32(Function function, const float* x, float* y, size_t count) { apply(function, x, y, count); }
void apply_f64(Function function, const double* x, double* y, size_t count) { apply(function, x, y, count); }

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace rlx::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace rlx::kernels {
namespace {

HWY_EXPORT(apply_f32);
HWY_EXPORT(apply_f64);

double exact(Function function, double x) {
  switch (function) {
    case Function::exp:
    case Function::exp_or_zero: return std::exp(x);
    case Function::log: return std::log(x);
    case Function::tanh: return std::tanh(x);
    case Function::erf: return std::erf(x);
    case Function::sigmoid: return 1 / (1 + std::exp(-x));
    case Function::silu: return x / (1 + std::exp(-x));
    case Function::gelu_erf: return x * 0.5 * std::erfc(x * -std::sqrt(0.5));
    case Function::gelu_tanh: return x * 0.5 * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
  }
  return 0;
}

// Floats of all magnitudes and both signs, between the bounds.
std::vector<float> floats(float lo, float hi) {
  std::vector<float> x;
  for (uint64_t bits = 0; bits < (uint64_t{1} << 32); bits += 16381) {
    const float v = std::bit_cast<float>(static_cast<uint32_t>(bits));
    if (v >= lo && v <= hi) x.push_back(v);
  }
  while (x.size() % 64) x.push_back(lo);
  return x;
}

struct Promise {
  Function function;
  float lo, hi;
  double ulps;
  bool absolute = false;  ///< `ulps` are half-ulps of max(1, |x|)
};

template <class F>
void on_every_target(F f) {
  for (int64_t rest = hwy::SupportedTargets() & HWY_TARGETS; rest != 0; rest &= rest - 1) {
    hwy::SetSupportedTargetsForTest(rest & -rest);
    CAPTURE(std::string(hwy::TargetName(rest & -rest)));
    f();
    hwy::SetSupportedTargetsForTest(0);
  }
}

}  // namespace

TEST_CASE("vector functions are within their promised distance from the true value") {
  constexpr float kMax = std::numeric_limits<float>::max();
  const Promise promises[] = {{Function::exp, -kMax, kMax, 0.8},
                              {Function::exp_or_zero, -87.3f, 88.0f, 1.0},
                              {Function::log, 0.0f, kMax, 0.9},
                              {Function::tanh, -kMax, kMax, 1.1},
                              {Function::erf, -kMax, kMax, 1.4},
                              {Function::sigmoid, -kMax, kMax, 1.5},
                              {Function::silu, -87.0f, kMax, 2.1},
                              {Function::gelu_erf, -kMax, kMax, 2.0, true},
                              {Function::gelu_tanh, -1e12f, 1e12f, 2.1, true}};
  on_every_target([&] {
    for (const Promise& p : promises) {
      const std::vector<float> x = floats(p.lo, p.hi);
      std::vector<float> y(x.size());
      HWY_DYNAMIC_DISPATCH(apply_f32)(p.function, x.data(), y.data(), x.size());
      double worst = 0;
      float worst_at = 0;
      for (size_t i = 0; i < x.size(); ++i) {
        const double want = exact(p.function, x[i]);
        if (std::isinf(static_cast<float>(want))) {
          if (static_cast<float>(want) != y[i]) worst = 1e9, worst_at = x[i];
          continue;
        }
        int exponent = 0;
        std::frexp(want, &exponent);
        const double ulp = p.absolute ? std::ldexp(std::fmax(1.0, std::fabs(x[i])), -24)
                                      : std::ldexp(1.0, std::max(exponent, -125) - 24);
        const double error = std::fabs(y[i] - want) / ulp;
        if (!(error <= worst)) worst = error, worst_at = x[i];
      }
      CAPTURE(static_cast<int>(p.function));
      CAPTURE(worst_at);
      CHECK(worst <= p.ulps);
    }
  });
}

TEST_CASE("vector functions give the limits at infinity, and NaN for NaN") {
  constexpr float kInf = std::numeric_limits<float>::infinity(), kNaN = std::numeric_limits<float>::quiet_NaN();
  const struct {
    Function function;
    float at_minus, at_plus;
  } limits[] = {{Function::exp, 0, kInf}, {Function::tanh, -1, 1}, {Function::erf, -1, 1}, {Function::sigmoid, 0, 1}};
  on_every_target([&] {
    std::vector<float> x(16, kNaN), y(16);
    x[0] = -kInf, x[1] = kInf;
    for (const auto& limit : limits) {
      HWY_DYNAMIC_DISPATCH(apply_f32)(limit.function, x.data(), y.data(), x.size());
      CAPTURE(static_cast<int>(limit.function));
      CHECK(y[0] == limit.at_minus);
      CHECK(y[1] == limit.at_plus);
    }
    for (Function function : {Function::exp, Function::exp_or_zero, Function::log, Function::tanh, Function::erf,
                              Function::sigmoid, Function::silu, Function::gelu_erf, Function::gelu_tanh}) {
      HWY_DYNAMIC_DISPATCH(apply_f32)(function, x.data(), y.data(), x.size());
      CAPTURE(static_cast<int>(function));
      CHECK(std::isnan(y[5]));
    }
    x = {0.0f, -0.0f, -1.0f, kInf, 1.0f, -kInf, 1e-42f, 2.0f, 1, 1, 1, 1, 1, 1, 1, 1};
    HWY_DYNAMIC_DISPATCH(apply_f32)(Function::log, x.data(), y.data(), x.size());
    CHECK(y[0] == -kInf);
    CHECK(y[1] == -kInf);
    CHECK(std::isnan(y[2]));
    CHECK(y[3] == kInf);
    CHECK(y[4] == 0);
    CHECK(std::isnan(y[5]));
    CHECK(std::fabs(y[6] - std::log(1e-42f)) < 1e-5f);
    HWY_DYNAMIC_DISPATCH(apply_f32)(Function::tanh, x.data(), y.data(), x.size());
    CHECK(std::signbit(y[1]));
  });
}

TEST_CASE("in f64 the vector functions are the C library's") {
  on_every_target([&] {
    std::vector<double> x, y(64);
    for (int i = 0; i < 64; ++i) x.push_back((i - 31) * 0.37);
    for (Function function : {Function::exp, Function::tanh, Function::erf, Function::sigmoid, Function::silu,
                              Function::gelu_erf, Function::gelu_tanh}) {
      HWY_DYNAMIC_DISPATCH(apply_f64)(function, x.data(), y.data(), x.size());
      CAPTURE(static_cast<int>(function));
      for (size_t i = 0; i < x.size(); ++i) CHECK(y[i] == doctest::Approx(exact(function, x[i])).epsilon(1e-13));
    }
  });
}

}  // namespace rlx::kernels
#endif  // HWY_ONCE
