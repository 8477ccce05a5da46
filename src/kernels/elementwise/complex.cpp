// The element-wise loops on c64 and c128. Products use the textbook formula, quotients Smith's; transcendental
// functions are computed in c128 and rounded.
#include <cmath>
#include <complex>
#include <limits>

#include "kernels/elementwise/loops.h"

namespace rlx::kernels::elementwise {
namespace {

using Op = ElementwiseOp;
using Wide = std::complex<double>;

template <class C, class Out = C, class F>
Kernel unary(F) {
  return [](void* dst, const void* a, const void*, const void*, int64_t n) noexcept {
    const C* x = static_cast<const C*>(a);
    for (int64_t i = 0; i < n; ++i) static_cast<Out*>(dst)[i] = static_cast<Out>(F()(x[i]));
  };
}
template <class C, class F>
Kernel wide(F) {
  return [](void* dst, const void* a, const void*, const void*, int64_t n) noexcept {
    const C* x = static_cast<const C*>(a);
    for (int64_t i = 0; i < n; ++i) static_cast<C*>(dst)[i] = static_cast<C>(F()(Wide(x[i])));
  };
}
template <class C, class Out = C, class F>
Kernel binary(F) {
  return [](void* dst, const void* a, const void* b, const void*, int64_t n) noexcept {
    const C* x = static_cast<const C*>(a);
    const C* y = static_cast<const C*>(b);
    for (int64_t i = 0; i < n; ++i) static_cast<Out*>(dst)[i] = static_cast<Out>(F()(x[i], y[i]));
  };
}

template <class C>
C product(C x, C y) {
  return {x.real() * y.real() - x.imag() * y.imag(), x.real() * y.imag() + x.imag() * y.real()};
}
/// Divides by the larger of the divisor's real and imaginary part first, so that no square overflows (Smith 1962).
template <class C>
C quotient(C x, C y) {
  if (std::abs(y.real()) >= std::abs(y.imag())) {
    if (y.real() == 0 && y.imag() == 0) return {x.real() / std::abs(y.real()), x.imag() / std::abs(y.real())};
    const auto r = y.imag() / y.real(), scale = y.real() + y.imag() * r;
    return {(x.real() + x.imag() * r) / scale, (x.imag() - x.real() * r) / scale};
  }
  const auto r = y.real() / y.imag(), scale = y.real() * r + y.imag();
  return {(x.real() * r + x.imag()) / scale, (x.imag() * r - x.real()) / scale};
}
/// exp(x) - 1 without cancellation: expm1(a) cos b - 2 sin^2(b / 2) is its real part.
Wide expm1(Wide x) {
  const double s = std::sin(x.imag() / 2), e = std::exp(x.real());
  return {std::expm1(x.real()) * std::cos(x.imag()) - 2 * s * s, e * std::sin(x.imag())};
}
/// x^y. std::pow computes exp(y log x), which is NaN for most powers of 0. As in NumPy, 0^0 is 1, and 0 to a power is 0
/// if the power's real part is positive, else NaN.
Wide power(Wide x, Wide y) {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  if (x == Wide(0)) return y == Wide(0) ? Wide(1) : y.real() > 0 ? Wide(0) : Wide(nan, nan);
  return std::pow(x, y);
}
Wide log1p(Wide x) {
  const double a = x.real(), b = x.imag();
  return {std::log1p(a * (2 + a) + b * b) / 2, std::atan2(b, 1 + a)};
}

/// |x|. Squares of f32 numbers neither overflow nor underflow in f64. The C library handles a NaN beside an infinity.
double length(std::complex<float> x) {
  const double re = x.real(), im = x.imag(), y = std::sqrt(re * re + im * im);
  return y == y ? y : std::abs(Wide(x));
}
double length(Wide x) { return std::abs(x); }

template <class C>
Kernel find(Op op) {
  using R = typename C::value_type;
  switch (op) {
    case Op::abs: return unary<C, R>([](C x) { return length(x); });
    case Op::real: return unary<C, R>([](C x) { return x.real(); });
    case Op::imag: return unary<C, R>([](C x) { return x.imag(); });
    case Op::is_finite: return unary<C, bool>([](C x) { return std::isfinite(x.real()) && std::isfinite(x.imag()); });
    case Op::neg: return unary<C>([](C x) { return -x; });
    case Op::conj: return unary<C>([](C x) { return std::conj(x); });
    case Op::sign:
      return unary<C>([](C x) {
        const double y = length(x);
        return y == 0 || y != y ? Wide(x) : Wide(x) / y;
      });
    case Op::exp: return wide<C>([](Wide x) { return std::exp(x); });
    case Op::expm1: return wide<C>([](Wide x) { return expm1(x); });
    case Op::log: return wide<C>([](Wide x) { return std::log(x); });
    case Op::log1p: return wide<C>([](Wide x) { return log1p(x); });
    case Op::sqrt: return wide<C>([](Wide x) { return std::sqrt(x); });
    case Op::rsqrt: return wide<C>([](Wide x) { return 1.0 / std::sqrt(x); });
    case Op::cbrt: return wide<C>([](Wide x) { return x == 0.0 ? x : std::pow(x, 1.0 / 3.0); });
    case Op::reciprocal: return unary<C>([](C x) { return quotient(C(1), x); });
    case Op::sin: return wide<C>([](Wide x) { return std::sin(x); });
    case Op::cos: return wide<C>([](Wide x) { return std::cos(x); });
    case Op::tan: return wide<C>([](Wide x) { return std::tan(x); });
    case Op::asin: return wide<C>([](Wide x) { return std::asin(x); });
    case Op::acos: return wide<C>([](Wide x) { return std::acos(x); });
    case Op::atan: return wide<C>([](Wide x) { return std::atan(x); });
    case Op::sinh: return wide<C>([](Wide x) { return std::sinh(x); });
    case Op::cosh: return wide<C>([](Wide x) { return std::cosh(x); });
    case Op::tanh: return wide<C>([](Wide x) { return std::tanh(x); });
    case Op::asinh: return wide<C>([](Wide x) { return std::asinh(x); });
    case Op::acosh: return wide<C>([](Wide x) { return std::acosh(x); });
    case Op::atanh: return wide<C>([](Wide x) { return std::atanh(x); });
    case Op::logistic: return wide<C>([](Wide x) { return 1.0 / (1.0 + std::exp(-x)); });
    case Op::add: return binary<C>([](C x, C y) { return x + y; });
    case Op::sub: return binary<C>([](C x, C y) { return x - y; });
    case Op::mul: return binary<C>([](C x, C y) { return product(x, y); });
    case Op::div: return binary<C>([](C x, C y) { return quotient(x, y); });
    case Op::pow: return binary<C>([](C x, C y) { return power(Wide(x), Wide(y)); });
    case Op::eq: return binary<C, bool>([](C x, C y) { return x == y; });
    case Op::ne: return binary<C, bool>([](C x, C y) { return x != y; });
    case Op::fma:
      return [](void* dst, const void* a, const void* b, const void* c, int64_t n) noexcept {
        const C* x = static_cast<const C*>(a);
        const C* y = static_cast<const C*>(b);
        const C* z = static_cast<const C*>(c);
        for (int64_t i = 0; i < n; ++i) static_cast<C*>(dst)[i] = product(x[i], y[i]) + z[i];
      };
    case Op::complex:  // from two real registers
      return [](void* dst, const void* a, const void* b, const void*, int64_t n) noexcept {
        const R* re = static_cast<const R*>(a);
        const R* im = static_cast<const R*>(b);
        for (int64_t i = 0; i < n; ++i) static_cast<C*>(dst)[i] = C(re[i], im[i]);
      };
    default: return nullptr;
  }
}

}  // namespace

Kernel find_complex(ElementwiseOp op, DType dtype) {
  return dtype == c64 ? find<std::complex<float>>(op) : find<std::complex<double>>(op);
}

}  // namespace rlx::kernels::elementwise
