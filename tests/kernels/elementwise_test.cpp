// Element-wise ops on floats, booleans and complex numbers against the C library in double.
#include "kernels/elementwise_test.h"

#include <algorithm>
#include <complex>

using namespace rlx;
using namespace rlx::test;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

struct Unary {
  Op op;
  const char* name;
  double (*exact)(double);
  double lo, hi;             ///< where it is sampled densely
  double f32_roundings = 4;  ///< allowed error of the f32 result, in roundings (half-ulps)
  bool of_argument = false;  ///< roundings of the argument where that is larger than the result
};
double logistic(double x) { return 1 / (1 + std::exp(-x)); }
double gelu(double x) { return x * 0.5 * std::erfc(-x * 0.70710678118654752440); }
double gelu_tanh(double x) { return x * logistic(2 * 0.79788456080286535588 * (x + 0.044715 * x * x * x)); }
double silu(double x) { return x * logistic(x); }
double lgamma(double x) {
  int sign_of_gamma = 0;
  return lgamma_r(x, &sign_of_gamma);
}
double sign(double x) { return x == 0 || std::isnan(x) ? x : std::copysign(1.0, x); }
double round_even(double x) { return std::nearbyint(x); }

const Unary kUnary[] = {
    {Op::abs, "abs", [](double x) { return std::abs(x); }, -9, 9, 0},
    {Op::neg, "neg", [](double x) { return -x; }, -9, 9, 0},
    {Op::sign, "sign", sign, -9, 9, 0},
    {Op::floor, "floor", [](double x) { return std::floor(x); }, -9, 9, 0},
    {Op::ceil, "ceil", [](double x) { return std::ceil(x); }, -9, 9, 0},
    {Op::trunc, "trunc", [](double x) { return std::trunc(x); }, -9, 9, 0},
    {Op::round_nearest_even, "round_nearest_even", round_even, -9, 9, 0},
    {Op::round_nearest_afz, "round_nearest_afz", [](double x) { return std::round(x); }, -9, 9, 0},
    {Op::exp, "exp", [](double x) { return std::exp(x); }, -110, 95},
    {Op::exp2, "exp2", [](double x) { return std::exp2(x); }, -150, 130},
    {Op::expm1, "expm1", [](double x) { return std::expm1(x); }, -20, 90},
    {Op::log, "log", [](double x) { return std::log(x); }, 0, 20},
    {Op::log2, "log2", [](double x) { return std::log2(x); }, 0, 20},
    {Op::log1p, "log1p", [](double x) { return std::log1p(x); }, -1, 20, 6},
    {Op::sqrt, "sqrt", [](double x) { return std::sqrt(x); }, 0, 100, 1},
    {Op::rsqrt, "rsqrt", [](double x) { return 1 / std::sqrt(x); }, 0, 100, 3},
    {Op::cbrt, "cbrt", [](double x) { return std::cbrt(x); }, -100, 100},
    {Op::reciprocal, "reciprocal", [](double x) { return 1 / x; }, -9, 9, 1},
    {Op::sin, "sin", [](double x) { return std::sin(x); }, -30, 30, 5},
    {Op::cos, "cos", [](double x) { return std::cos(x); }, -30, 30, 5},
    {Op::tan, "tan", [](double x) { return std::tan(x); }, -30, 30, 10},
    {Op::asin, "asin", [](double x) { return std::asin(x); }, -1, 1},
    {Op::acos, "acos", [](double x) { return std::acos(x); }, -1, 1},
    {Op::atan, "atan", [](double x) { return std::atan(x); }, -9, 9},
    {Op::sinh, "sinh", [](double x) { return std::sinh(x); }, -9, 9},
    {Op::cosh, "cosh", [](double x) { return std::cosh(x); }, -9, 9},
    {Op::tanh, "tanh", [](double x) { return std::tanh(x); }, -12, 12, 5},
    {Op::asinh, "asinh", [](double x) { return std::asinh(x); }, -9, 9},
    {Op::acosh, "acosh", [](double x) { return std::acosh(x); }, 1, 9},
    {Op::atanh, "atanh", [](double x) { return std::atanh(x); }, -1, 1},
    {Op::erf, "erf", [](double x) { return std::erf(x); }, -5, 5},
    {Op::erfc, "erfc", [](double x) { return std::erfc(x); }, -5, 5},
    {Op::lgamma, "lgamma", lgamma, -9, 20, 5, true},
    {Op::logistic, "logistic", logistic, -20, 20, 5},
    {Op::gelu_erf, "gelu_erf", gelu, -9, 9, 3, true},
    {Op::gelu_tanh, "gelu_tanh", gelu_tanh, -9, 9, 40, true},
    {Op::relu, "relu", [](double x) { return x < 0 ? 0 : x; }, -9, 9, 0},
    {Op::silu, "silu", silu, -20, 20, 6},
    {Op::real, "real", [](double x) { return x; }, -9, 9, 0},
};

/// Dense samples, then numbers of every size and both signs, then what is special.
std::vector<double> arguments(double lo, double hi) {
  std::vector<double> x;
  for (int i = 0; i <= 700; ++i) x.push_back(lo + (hi - lo) * i / 700);
  for (int e = -149; e < 128; e += 3)
    for (double m : {1.0, 1.37, -1.0, -1.61}) x.push_back(std::ldexp(m, e));
  for (double v :
       {0.0, -0.0, 0.5, -0.5, 1.5, 2.5, -2.5, 8388609.0, 0.49999997, 1e9, 12345.678, kInfinity, -kInfinity, kNaN})
    x.push_back(v);
  return x;
}
Elements elements(DType t, const std::vector<double>& values) {
  Elements x(t, static_cast<int64_t>(values.size()));
  for (size_t i = 0; i < values.size(); ++i) x.set(static_cast<int64_t>(i), values[i]);
  return x;
}

}  // namespace

TEST_CASE("unary ops equal the C library within a few roundings, in every float dtype") {
  for_each_target([] {
    for (const Unary& u : kUnary) {
      for (DType t : float_dtypes()) {
        const Elements x = elements(t, arguments(u.lo, u.hi)), y = apply_op(u.op, t, x);
        for (int64_t i = 0; i < x.size(); ++i) {
          const double want = u.exact(x[i]);
          if (std::isnan(want) && std::isnan(y[i])) continue;
          const bool overflows =
              !is_close(t, std::abs(want), 0) &&
              std::abs(want) > std::ldexp(2 - 0.75 * rounding(t), (1 << (info(t).exponent_bits - 1)) - 1);
          if (overflows ? std::isinf(y[i]) && std::signbit(y[i]) == std::signbit(want)
                        : is_close(t, y[i], want, u.f32_roundings, u.of_argument ? std::abs(x[i]) : 0))
            continue;
          INFO(std::string(u.name), " ", std::string(name_of(t)), " of ", x[i], " gives ", y[i], ", not ", want);
          CHECK(false);
        }
      }
    }
  });
}

TEST_CASE("gelu of a number far below 0 is 0") {
  for_each_target([] {
    for (DType t : {f32, bf16}) {
      const Elements y = apply_op(Op::gelu_erf, t, elements(t, {-20, -100, -1e4, -1e30, -3e38}));
      for (int64_t i = 0; i < y.size(); ++i) CHECK(y[i] == 0);
    }
  });
}

TEST_CASE("exact ops keep the sign of zero") {
  for_each_target([] {
    for (DType t : float_dtypes()) {
      const Elements x = elements(t, std::vector<double>(40, -0.0));
      for (Op op : {Op::sign, Op::floor, Op::ceil, Op::trunc, Op::round_nearest_even, Op::round_nearest_afz, Op::sqrt,
                    Op::tanh, Op::sin, Op::expm1, Op::erf, Op::cbrt, Op::log1p}) {
        CAPTURE(static_cast<int>(op));
        CHECK(std::signbit(apply_op(op, t, x)[3]));
      }
      CHECK(!std::signbit(apply_op(Op::neg, t, x)[3]));
      CHECK(!std::signbit(apply_op(Op::abs, t, x)[3]));
    }
  });
}

namespace {

struct Binary {
  Op op;
  const char* name;
  double (*exact)(double, double);
  double f32_roundings = 1;
};
double max_or_nan(double x, double y) { return std::isnan(x) || std::isnan(y) ? kNaN : std::max(x, y); }
double min_or_nan(double x, double y) { return std::isnan(x) || std::isnan(y) ? kNaN : std::min(x, y); }
const Binary kBinary[] = {
    {Op::add, "add", [](double x, double y) { return x + y; }},
    {Op::sub, "sub", [](double x, double y) { return x - y; }},
    {Op::mul, "mul", [](double x, double y) { return x * y; }},
    {Op::div, "div", [](double x, double y) { return x / y; }},
    {Op::rem, "rem", [](double x, double y) { return std::fmod(x, y); }, 0},
    {Op::pow, "pow", [](double x, double y) { return std::pow(x, y); }, 4},
    {Op::max, "max", max_or_nan, 0},
    {Op::min, "min", min_or_nan, 0},
    {Op::atan2, "atan2", [](double x, double y) { return std::atan2(x, y); }, 4},
};
struct Compare {
  Op op;
  bool (*exact)(double, double);
};
const Compare kCompare[] = {
    {Op::eq, [](double x, double y) { return x == y; }}, {Op::ne, [](double x, double y) { return x != y; }},
    {Op::lt, [](double x, double y) { return x < y; }},  {Op::le, [](double x, double y) { return x <= y; }},
    {Op::gt, [](double x, double y) { return x > y; }},  {Op::ge, [](double x, double y) { return x >= y; }},
};
/// All pairs of some values, as two arrays.
std::pair<Elements, Elements> pairs(DType t) {
  const std::vector<double> values{0,  -0.0, 1,     -1,  0.5,   2,         -2.5,       3,    7.25,
                                   -9, 100,  -1e-3, 1e4, -6e-5, kInfinity, -kInfinity, kNaN, 1.3333};
  std::vector<double> x, y;
  for (double a : values)
    for (double b : values) x.push_back(a), y.push_back(b);
  return {elements(t, x), elements(t, y)};
}

}  // namespace

TEST_CASE("binary ops equal the C library, comparisons follow IEEE 754, max and min pass NaN on") {
  for_each_target([] {
    for (DType t : float_dtypes()) {
      const auto both = pairs(t);
      const Elements &x = both.first, &y = both.second;
      for (const Binary& b : kBinary) {
        const Elements z = apply_op(b.op, t, x, y);
        for (int64_t i = 0; i < x.size(); ++i) {
          const double want = b.exact(x[i], y[i]);
          const bool overflows =
              std::abs(want) >= std::ldexp(2 - 0.75 * rounding(t), (1 << (info(t).exponent_bits - 1)) - 1);
          if (overflows ? std::isinf(z[i]) : is_close(t, z[i], want, b.f32_roundings)) continue;
          INFO(std::string(b.name), " ", std::string(name_of(t)), " of ", x[i], " and ", y[i], " gives ", z[i],
               ", not ", want);
          CHECK(false);
        }
      }
      for (const Compare& c : kCompare) {
        const Elements z = apply_op(c.op, boolean, x, y);
        for (int64_t i = 0; i < x.size(); ++i) REQUIRE((z[i] != 0) == c.exact(x[i], y[i]));
      }
    }
  });
}

TEST_CASE("the total order is -NaN, -inf, ..., -0, +0, ..., inf, NaN") {
  const std::vector<double> ordered{-kNaN, -kInfinity, -1, -0.0, 0.0, 1, kInfinity, kNaN};
  for (DType t : {f32, f64}) {
    for (size_t i = 0; i < ordered.size(); ++i) {
      for (size_t j = 0; j < ordered.size(); ++j) {
        const Elements x = elements(t, {ordered[i]}), y = elements(t, {ordered[j]});
        CHECK((apply_op(Op::total_lt, boolean, x, y)[0] != 0) == (i < j));
        CHECK((apply_op(Op::total_le, boolean, x, y)[0] != 0) == (i <= j));
        CHECK((apply_op(Op::total_gt, boolean, x, y)[0] != 0) == (i > j));
        CHECK((apply_op(Op::total_ge, boolean, x, y)[0] != 0) == (i >= j));
        CHECK((apply_op(Op::total_eq, boolean, x, y)[0] != 0) == (i == j));
        CHECK((apply_op(Op::total_ne, boolean, x, y)[0] != 0) == (i != j));
      }
    }
  }
}

TEST_CASE("select, clamp, fma and is_finite do what they say in every float dtype") {
  for_each_target([] {
    for (DType t : float_dtypes()) {
      const auto both = pairs(t);
      const Elements &x = both.first, &y = both.second;
      Elements pred(boolean, x.size());
      for (int64_t i = 0; i < x.size(); ++i) pred.set(i, i % 3 == 0);
      const Elements chosen = apply_op(Op::select, t, pred, x, y), finite = apply_op(Op::is_finite, boolean, x);
      const Elements low = Elements::filled(t, x.size(), -1), high = Elements::filled(t, x.size(), 2);
      const Elements clamped = apply_op(Op::clamp, t, low, x, high), fused = apply_op(Op::fma, t, x, y, x);
      for (int64_t i = 0; i < x.size(); ++i) {
        const double want = i % 3 == 0 ? x[i] : y[i];
        CHECK((chosen[i] == want || (std::isnan(chosen[i]) && std::isnan(want))));
        CHECK((finite[i] != 0) == std::isfinite(x[i]));
        CHECK((std::isnan(x[i]) ? std::isnan(clamped[i]) : clamped[i] == std::clamp(x[i], -1.0, 2.0)));
        const double product = std::fma(x[i], y[i], x[i]);
        if (std::abs(product) < 65000 || std::isnan(product)) CHECK(is_close(t, fused[i], product, 1));
      }
    }
  });
}

TEST_CASE("boolean ops are logic, with false before true") {
  const Elements x = elements(boolean, {0, 0, 1, 1}), y = elements(boolean, {0, 1, 0, 1});
  const auto is = [&](Op op, std::vector<double> want) {
    const Elements z = apply_op(op, boolean, x, y);
    for (int64_t i = 0; i < 4; ++i) CHECK(z[i] == want[static_cast<size_t>(i)]);
  };
  for (Op op : {Op::logical_and, Op::mul, Op::min}) is(op, {0, 0, 0, 1});
  for (Op op : {Op::logical_or, Op::add, Op::max}) is(op, {0, 1, 1, 1});
  for (Op op : {Op::logical_xor, Op::ne}) is(op, {0, 1, 1, 0});
  is(Op::eq, {1, 0, 0, 1});
  is(Op::lt, {0, 1, 0, 0});
  is(Op::ge, {1, 0, 1, 1});
  const Elements inverse = apply_op(Op::logical_not, boolean, y);
  CHECK((inverse[0] == 1 && inverse[1] == 0));
  const Elements chosen = apply_op(Op::select, boolean, x, y, x);
  CHECK((chosen[1] == 0 && chosen[2] == 0 && chosen[3] == 1));
}

namespace {

using Complex64 = std::complex<float>;
using Complex128 = std::complex<double>;
struct ComplexUnary {
  Op op;
  Complex128 (*exact)(Complex128);
};
const ComplexUnary kComplexUnary[] = {
    {Op::neg, [](Complex128 x) { return -x; }},
    {Op::conj, [](Complex128 x) { return std::conj(x); }},
    {Op::exp, [](Complex128 x) { return std::exp(x); }},
    {Op::expm1, [](Complex128 x) { return std::exp(x) - 1.0; }},
    {Op::log, [](Complex128 x) { return std::log(x); }},
    {Op::log1p, [](Complex128 x) { return std::log(x + 1.0); }},
    {Op::sqrt, [](Complex128 x) { return std::sqrt(x); }},
    {Op::rsqrt, [](Complex128 x) { return 1.0 / std::sqrt(x); }},
    {Op::reciprocal, [](Complex128 x) { return 1.0 / x; }},
    {Op::sin, [](Complex128 x) { return std::sin(x); }},
    {Op::cos, [](Complex128 x) { return std::cos(x); }},
    {Op::tan, [](Complex128 x) { return std::tan(x); }},
    {Op::tanh, [](Complex128 x) { return std::tanh(x); }},
    {Op::sign, [](Complex128 x) { return x / std::abs(x); }},
    {Op::logistic, [](Complex128 x) { return 1.0 / (1.0 + std::exp(-x)); }},
};

template <class C>
void check_complex(DType t, double tolerance) {
  const std::vector<C> x{{1, 2}, {-0.5, 0.25}, {3, -4}, {0, 1}, {-2, 0}, {1e-3f, -2e-3f}, {0.7f, 0.1f}};
  const std::vector<C> y{{2, -1}, {0.5, 4}, {1, 1}, {-3, 0.5}, {0.25, -0.75}, {1, 0}, {-1, -2}};
  const auto n = static_cast<int64_t>(x.size());
  std::vector<C> z(x.size());
  const auto near = [&](C got, Complex128 want) {
    return std::abs(Complex128(got) - want) <= tolerance * (1 + std::abs(want));
  };
  for (const ComplexUnary& u : kComplexUnary) {
    apply_op(u.op, t, {{t, x.data()}}, z.data(), n);
    for (size_t i = 0; i < x.size(); ++i) CHECK(near(z[i], u.exact(Complex128(x[i]))));
  }
  const std::pair<Op, Complex128 (*)(Complex128, Complex128)> binary[] = {
      {Op::add, [](Complex128 a, Complex128 b) { return a + b; }},
      {Op::sub, [](Complex128 a, Complex128 b) { return a - b; }},
      {Op::mul, [](Complex128 a, Complex128 b) { return a * b; }},
      {Op::div, [](Complex128 a, Complex128 b) { return a / b; }},
      {Op::pow, [](Complex128 a, Complex128 b) { return std::pow(a, b); }}};
  for (const auto& [op, exact] : binary) {
    apply_op(op, t, {{t, x.data()}, {t, y.data()}}, z.data(), n);
    for (size_t i = 0; i < x.size(); ++i) CHECK(near(z[i], exact(Complex128(x[i]), Complex128(y[i]))));
  }
  const DType real_dtype = real_part(t);
  Elements re(real_dtype, n), im(real_dtype, n), size(real_dtype, n), equal(boolean, n);
  apply_op(Op::real, real_dtype, {{t, x.data()}}, re.data(), n);
  apply_op(Op::imag, real_dtype, {{t, x.data()}}, im.data(), n);
  apply_op(Op::abs, real_dtype, {{t, x.data()}}, size.data(), n);
  apply_op(Op::eq, boolean, {{t, x.data()}, {t, x.data()}}, equal.data(), n);
  apply_op(Op::complex, t, {{real_dtype, re.data()}, {real_dtype, im.data()}}, z.data(), n);
  for (size_t i = 0; i < x.size(); ++i) {
    CHECK(z[i] == x[i]);
    CHECK(std::abs(size[static_cast<int64_t>(i)] - std::abs(Complex128(x[i]))) <= tolerance * 5);
    CHECK(equal[static_cast<int64_t>(i)] == 1);
  }
}

}  // namespace

TEST_CASE("complex ops equal std::complex in double") {
  check_complex<Complex64>(c64, 3e-7);
  check_complex<Complex128>(c128, 1e-14);
}

TEST_CASE("expm1 and log1p of small complex numbers do not cancel") {
  const Complex128 x{1e-12, -2e-12};
  Complex128 y;
  apply_op(Op::expm1, c128, {{c128, &x}}, &y, 1);
  CHECK(std::abs(y - (x + x * x / 2.0)) < 1e-27);
  apply_op(Op::log1p, c128, {{c128, &x}}, &y, 1);
  CHECK(std::abs(y - (x - x * x / 2.0)) < 1e-27);
}

TEST_CASE("an op without a meaning for its dtypes is refused, with its name") {
  kernels::ElementwiseProgram p;
  const auto x = p.load(f32, 0);
  CHECK_THROWS_WITH_AS(p.apply(Op::popcnt, f32, x), "element-wise popcnt does not take f32 to f32", Error);
  CHECK_THROWS_WITH_AS(p.apply(Op::lt, f32, x, x), "element-wise lt does not take f32 to f32", Error);
}
