// Scalar reference loops on f32 and f64 for every op that is defined on floats. Tests compare f32.cpp with the same C
// library functions; ops without a vectorized loop there run here.
#include <bit>
#include <cmath>
#include <type_traits>

#include "kernels/elementwise/loops.h"
#include "tensor/round_to_odd.h"

namespace rlx::kernels::elementwise {
namespace {

using Op = ElementwiseOp;

template <class T, class F>
void map_unary(void* dst, const void* a, int64_t n, F f) {
  const T* x = static_cast<const T*>(a);
  auto* y = static_cast<std::invoke_result_t<F, T>*>(dst);
  for (int64_t i = 0; i < n; ++i) y[i] = f(x[i]);
}
template <class T, class F>
void map_binary(void* dst, const void* a, const void* b, int64_t n, F f) {
  const T* x = static_cast<const T*>(a);
  const T* y = static_cast<const T*>(b);
  auto* z = static_cast<std::invoke_result_t<F, T, T>*>(dst);
  for (int64_t i = 0; i < n; ++i) z[i] = f(x[i], y[i]);
}

/// A kernel from a function object without captures.
template <class T, class F>
Kernel unary(F) {
  return [](void* dst, const void* a, const void*, const void*, int64_t n) noexcept { map_unary<T>(dst, a, n, F()); };
}
template <class T, class F>
Kernel binary(F) {
  return [](void* dst, const void* a, const void* b, const void*, int64_t n) noexcept {
    map_binary<T>(dst, a, b, n, F());
  };
}
template <class T, class F>
Kernel ternary(F) {
  return [](void* dst, const void* a, const void* b, const void* c, int64_t n) noexcept {
    const T* x = static_cast<const T*>(a);
    const T* y = static_cast<const T*>(b);
    const T* z = static_cast<const T*>(c);
    for (int64_t i = 0; i < n; ++i) static_cast<T*>(dst)[i] = F()(x[i], y[i], z[i]);
  };
}

/// A key that orders as IEEE 754 totalOrder does: all bits but the sign are flipped in negative numbers.
template <class T>
auto total_key(T v) {
  using I = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;
  using U = std::make_unsigned_t<I>;
  const I bits = std::bit_cast<I>(v);
  return static_cast<I>(static_cast<U>(bits) ^ (static_cast<U>(bits >> (sizeof(T) * 8 - 1)) >> 1));
}

template <class T>
T max_or_nan(T x, T y) {
  return x != x || x > y ? x : y;
}
template <class T>
T min_or_nan(T x, T y) {
  return x != x || x < y ? x : y;
}
template <class T>
T round_even(T x) {  // does not depend on the rounding mode that the caller has set
  const T t = std::round(x);
  return std::abs(x - std::trunc(x)) == T(0.5) ? std::copysign(T(2) * std::round(x / T(2)), x) : t;
}

template <class T>
Kernel find(Op op) {
  constexpr T one = 1, half = T(0.5);
  switch (op) {
    case Op::abs: return unary<T>([](T x) { return std::abs(x); });
    case Op::neg: return unary<T>([](T x) { return -x; });
    case Op::sign: return unary<T>([](T x) { return x == 0 || x != x ? x : std::copysign(one, x); });
    case Op::floor: return unary<T>([](T x) { return std::floor(x); });
    case Op::ceil: return unary<T>([](T x) { return std::ceil(x); });
    case Op::trunc: return unary<T>([](T x) { return std::trunc(x); });
    case Op::round_nearest_even: return unary<T>([](T x) { return round_even(x); });
    case Op::round_nearest_afz: return unary<T>([](T x) { return std::round(x); });
    case Op::exp: return unary<T>([](T x) { return std::exp(x); });
    case Op::exp2: return unary<T>([](T x) { return std::exp2(x); });
    case Op::expm1: return unary<T>([](T x) { return std::expm1(x); });
    case Op::log: return unary<T>([](T x) { return std::log(x); });
    case Op::log2: return unary<T>([](T x) { return std::log2(x); });
    case Op::log1p: return unary<T>([](T x) { return std::log1p(x); });
    case Op::sqrt: return unary<T>([](T x) { return std::sqrt(x); });
    case Op::rsqrt: return unary<T>([](T x) { return one / std::sqrt(x); });
    case Op::cbrt: return unary<T>([](T x) { return std::cbrt(x); });
    case Op::reciprocal: return unary<T>([](T x) { return one / x; });
    case Op::sin: return unary<T>([](T x) { return std::sin(x); });
    case Op::cos: return unary<T>([](T x) { return std::cos(x); });
    case Op::tan: return unary<T>([](T x) { return std::tan(x); });
    case Op::asin: return unary<T>([](T x) { return std::asin(x); });
    case Op::acos: return unary<T>([](T x) { return std::acos(x); });
    case Op::atan: return unary<T>([](T x) { return std::atan(x); });
    case Op::sinh: return unary<T>([](T x) { return std::sinh(x); });
    case Op::cosh: return unary<T>([](T x) { return std::cosh(x); });
    case Op::tanh: return unary<T>([](T x) { return std::tanh(x); });
    case Op::asinh: return unary<T>([](T x) { return std::asinh(x); });
    case Op::acosh: return unary<T>([](T x) { return std::acosh(x); });
    case Op::atanh: return unary<T>([](T x) { return std::atanh(x); });
    case Op::erf: return unary<T>([](T x) { return std::erf(x); });
    case Op::erfc: return unary<T>([](T x) { return std::erfc(x); });
    case Op::lgamma:
      return unary<T>([](T x) {
        int sign = 0;
        return static_cast<T>(lgamma_r(static_cast<double>(x), &sign));  // lgamma writes to a global
      });
    case Op::logistic: return unary<T>([](T x) { return one / (one + std::exp(-x)); });
    case Op::gelu_erf: return unary<T>([](T x) { return half * x * std::erfc(-x * T(0.70710678118654752440)); });
    case Op::gelu_tanh:
      return unary<T>(
          [](T x) { return half * x * (one + std::tanh(T(0.79788456080286535588) * (x + T(0.044715) * x * x * x))); });
    case Op::relu: return unary<T>([](T x) { return x < 0 ? T(0) : x; });
    case Op::silu: return unary<T>([](T x) { return x / (one + std::exp(-x)); });
    case Op::is_finite: return unary<T>([](T x) { return std::isfinite(x); });
    case Op::real:
    case Op::conj: return unary<T>([](T x) { return x; });
    case Op::imag: return unary<T>([](T) { return T(0); });
    case Op::add: return binary<T>([](T x, T y) { return x + y; });
    case Op::sub: return binary<T>([](T x, T y) { return x - y; });
    case Op::mul: return binary<T>([](T x, T y) { return x * y; });
    case Op::div: return binary<T>([](T x, T y) { return x / y; });
    case Op::rem: return binary<T>([](T x, T y) { return std::fmod(x, y); });
    case Op::pow: return binary<T>([](T x, T y) { return std::pow(x, y); });
    case Op::atan2: return binary<T>([](T x, T y) { return std::atan2(x, y); });
    case Op::max: return binary<T>([](T x, T y) { return max_or_nan(x, y); });
    case Op::min: return binary<T>([](T x, T y) { return min_or_nan(x, y); });
    case Op::eq: return binary<T>([](T x, T y) { return x == y; });
    case Op::ne: return binary<T>([](T x, T y) { return x != y; });
    case Op::lt: return binary<T>([](T x, T y) { return x < y; });
    case Op::le: return binary<T>([](T x, T y) { return x <= y; });
    case Op::gt: return binary<T>([](T x, T y) { return x > y; });
    case Op::ge: return binary<T>([](T x, T y) { return x >= y; });
    case Op::total_eq: return binary<T>([](T x, T y) { return total_key(x) == total_key(y); });
    case Op::total_ne: return binary<T>([](T x, T y) { return total_key(x) != total_key(y); });
    case Op::total_lt: return binary<T>([](T x, T y) { return total_key(x) < total_key(y); });
    case Op::total_le: return binary<T>([](T x, T y) { return total_key(x) <= total_key(y); });
    case Op::total_gt: return binary<T>([](T x, T y) { return total_key(x) > total_key(y); });
    case Op::total_ge: return binary<T>([](T x, T y) { return total_key(x) >= total_key(y); });
    case Op::clamp: return ternary<T>([](T low, T x, T high) { return min_or_nan(max_or_nan(low, x), high); });
    case Op::fma: return ternary<T>([](T x, T y, T z) { return std::fma(x, y, z); });
    default: return nullptr;
  }
}

}  // namespace

// The product of two f16 or bf16 numbers is exact in f64. The sum is rounded to odd, so that the rounding to the narrow
// dtype that follows is the only one (rounding to nearest twice would be wrong at ties).
Kernel find_narrow_fma() {
  return ternary<float>([](float x, float y, float z) {
    return rounded_to_odd(sum_to_odd(static_cast<double>(x) * static_cast<double>(y), static_cast<double>(z)));
  });
}
Kernel find_float(ElementwiseOp op, DType dtype) { return dtype == f64 ? find<double>(op) : find<float>(op); }

}  // namespace rlx::kernels::elementwise
