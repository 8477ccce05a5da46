// Elementary functions and arithmetic as composites of the primitives. Each decomposition is accurate over
// the whole range of its dtype: a backend that has no such function of its own runs it as it stands.
#include "rlx/ops/elementary.h"

#include <cmath>

#include "ops/core/special_rules.h"
#include "tensor/round_to_odd.h"

namespace rlx {

Value clamp(Value x, double min, double max) { return emit(op::clamp, {x}, ClampAttrs{min, max}); }
Value fma(Value x, Value y, Value z) {
  Dims dims = broadcast_dims(std::array{x, y, z});
  return emit(op::fma, {broadcast_to(x, dims), broadcast_to(y, dims), broadcast_to(z, dims)});
}
Value is_inf(Value x) { return compare(abs(x), full_like(x, INFINITY), Comparison::eq); }
Value logical_not(Value x) { return bitwise_not(convert(x, boolean)); }
Value logical_and(Value lhs, Value rhs) { return bitwise_and(convert(lhs, boolean), convert(rhs, boolean)); }
Value logical_or(Value lhs, Value rhs) { return bitwise_or(convert(lhs, boolean), convert(rhs, boolean)); }
Value logical_xor(Value lhs, Value rhs) { return bitwise_xor(convert(lhs, boolean), convert(rhs, boolean)); }

namespace {

OpDef elementary(std::string_view name, std::string_view doc, std::string_view source, double (*f)(double),
                 Value (*parts)(Value), double lo = -4, double hi = 4) {
  OpDef op = define_unary<kReal>(name, doc, f, parts, lo, hi);
  op.source = source;
  return op;
}

Value one_minus_square(Value x) { return (1.0 - x) * (1.0 + x); }  // no cancellation near 1

Value erfc_parts(Value x) {
  Value z = abs(x), tail = scaled_erfc(z) * exp_of_square(z, -1);
  return select(below(x, 0), 2.0 - tail, tail);
}

// Halves of e^|x| are made of e^(|x|/2) twice: e^|x| itself overflows before the result does.
Value sinh_parts(Value x) {
  Value a = abs(x), h = exp(a * 0.5), e = expm1(minimum(a, full_like(x, 1)));
  Value large = (0.5 * h) * h - (0.5 / h) / h;
  return sign(x) * select(below(a, 1), 0.5 * (e + e / (e + 1.0)), large);
}
Value cosh_parts(Value x) {
  Value h = exp(abs(x) * 0.5);
  return (0.5 * h) * h + (0.5 / h) / h;
}

// From here on sqrt(x^2 + 1) is x to the last bit, also in f64; x^2 overflows f32 at 2^64.
constexpr double kSquareIsAll = 1 << 30;
Value log_of_double(Value x) { return log(x) + M_LN2; }
Value asinh_parts(Value x) {
  Value a = abs(x), b = minimum(a, full_like(x, kSquareIsAll)), square_b = b * b;
  Value small = log1p(b + square_b / (1.0 + sqrt(1.0 + square_b)));
  return sign(x) * select(above(a, kSquareIsAll), log_of_double(a), small);
}
Value acosh_parts(Value x) {
  Value t = minimum(x, full_like(x, kSquareIsAll)) - 1.0;
  Value small = log1p(t + sqrt(t) * sqrt(t + 2.0));  // two roots: one of t (t + 2) would take x < -1
  return select(above(x, kSquareIsAll), log_of_double(x), small);
}
Value atanh_parts(Value x) {
  Value a = abs(x);
  return 0.5 * (sign(x) * log1p(2.0 * a / (1.0 - a)));
}

/// Whether a division that truncates left a remainder r of the wrong sign for one that rounds down.
Value wrong_side(Value r, Value y) {
  Value zero = zeros_like(y);
  Value differ = compare(compare(r, zero, Comparison::lt), compare(y, zero, Comparison::lt), Comparison::ne);
  Value counts = bitwise_and(compare(r, zero, Comparison::ne), compare(y, zero, Comparison::ne));
  return bitwise_and(differ, counts);
}
Value floor_mod_parts(Value x, Value y) {
  Value r = rem(x, y);
  return select(wrong_side(r, y), r + y, r);
}
Value floor_div_parts(Value x, Value y) {
  Value r = rem(x, y);
  if (!is_float(x.dtype())) return select(wrong_side(r, y), x / y - 1.0, x / y);
  Value q = (x - r) / y;
  q = select(wrong_side(r, y), q - 1.0, q);
  Value whole = floor(q);  // q is whole but for rounding
  whole = select(above(q - whole, 0.5), whole + 1.0, whole);
  return select(equals(y, 0), x / y, whole);
}

template <class T>
T floor_mod_of(T x, T y) {
  T r = remainder_of(x, y);
  return r != T(0) && y != T(0) && (r < T(0)) != (y < T(0)) ? static_cast<T>(r + y) : r;
}
template <class T>
T floor_div_of(T x, T y) {
  if constexpr (std::is_same_v<T, double>) {
    double r = std::fmod(x, y), q = std::nearbyint((x - r) / y);
    return y == 0 ? x / y : r != 0 && (r < 0) != (y < 0) ? q - 1 : q;
  } else {
    if (y == 0) return static_cast<T>(-1);  // all bits set, as `div` has it
    if (std::is_signed_v<T> && y == T(-1)) return static_cast<T>(-static_cast<uint64_t>(x));
    return static_cast<T>(x / y - (x % y != 0 && (x < T(0)) != (y < T(0))));
  }
}

}  // namespace

// ---- unary ----
OpDef define_square() {
  return define_unary<kNumber>(
      "square", "x * x",
      [](auto x) {
        if constexpr (std::is_integral_v<decltype(x)>)
          return static_cast<decltype(x)>(static_cast<uint64_t>(x) * static_cast<uint64_t>(x));
        else return x * x;
      },
      [](Value x) { return x * x; });
}
OpDef define_reciprocal() {
  return define_unary<kReal | kComplex>(
             "reciprocal", "1 / x", [](auto x) { return decltype(x)(1) / x; }, [](Value x) { return 1.0 / x; }, 0.2,
             5) |
         Covers{"Activation", "ActivationBackward"};
}
OpDef define_exp2() {
  return with_derivative(
      elementary(
          "exp2", "2^x", "", [](double x) { return std::exp2(x); }, [](Value x) { return pow(full_like(x, 2), x); }),
      [](Value, Value y) { return y * std::log(2.0); });
}
OpDef define_log2() {
  return with_derivative(elementary(
                             "log2", "the logarithm to base 2", "", [](double x) { return std::log2(x); },
                             [](Value x) { return log(x) / M_LN2; }, 0.1, 9),
                         [](Value x, Value) { return 1.0 / (x * std::log(2.0)); });
}
OpDef define_log10() {
  return with_derivative(elementary(
                             "log10", "the logarithm to base 10", "", [](double x) { return std::log10(x); },
                             [](Value x) { return log(x) / M_LN10; }, 0.1, 99),
                         [](Value x, Value) { return 1.0 / (x * std::log(10.0)); });
}
OpDef define_erfc() {
  return with_derivative(elementary(
                             "erfc", "1 - erf(x), accurate where it is small",
                             "Shepherd, Laframboise, Math. Comp. 36 (1981): the function that is expanded",
                             [](double x) { return std::erfc(x); }, erfc_parts, -6, 6),
                         [](Value x, Value) { return exp(-(x * x)) * (-2 / std::sqrt(M_PI)); });
}
OpDef define_asin() {
  return with_derivative(
      elementary(
          "asin", "the angle in [-pi/2, pi/2] whose sine is x; NaN beyond [-1, 1]", "",
          [](double x) { return std::asin(x); }, [](Value x) { return atan2(x, sqrt(one_minus_square(x))); }, -1, 1),
      [](Value x, Value) { return rsqrt(one_minus_square(x)); });
}
OpDef define_acos() {
  return with_derivative(
      elementary(
          "acos", "the angle in [0, pi] whose cosine is x; NaN beyond [-1, 1]", "",
          [](double x) { return std::acos(x); }, [](Value x) { return atan2(sqrt(one_minus_square(x)), x); }, -1, 1),
      [](Value x, Value) { return -rsqrt(one_minus_square(x)); });
}
OpDef define_atan() {
  return with_derivative(
             elementary(
                 "atan", "the angle in [-pi/2, pi/2] whose tangent is x", "", [](double x) { return std::atan(x); },
                 [](Value x) { return atan2(x, full_like(x, 1)); }, -9, 9),
             [](Value x, Value) { return 1.0 / (1.0 + x * x); }) |
         Covers{"Activation", "ActivationBackward"};
}
OpDef define_sinh() {
  return with_derivative(elementary(
                             "sinh", "(e^x - e^-x) / 2", "", [](double x) { return std::sinh(x); }, sinh_parts),
                         [](Value x, Value) { return cosh(x); });
}
OpDef define_cosh() {
  return with_derivative(elementary(
                             "cosh", "(e^x + e^-x) / 2", "", [](double x) { return std::cosh(x); }, cosh_parts),
                         [](Value x, Value) { return sinh(x); });
}
OpDef define_asinh() {
  return with_derivative(
      elementary(
          "asinh", "the number whose sinh is x", "", [](double x) { return std::asinh(x); }, asinh_parts, -9, 9),
      [](Value x, Value) { return rsqrt(1.0 + x * x); });
}
OpDef define_acosh() {
  return with_derivative(elementary(
                             "acosh", "the number >= 0 whose cosh is x; NaN below 1", "",
                             [](double x) { return std::acosh(x); }, acosh_parts, 1, 9),
                         [](Value x, Value) { return rsqrt((x - 1.0) * (x + 1.0)); });
}
OpDef define_atanh() {
  return with_derivative(elementary(
                             "atanh", "the number whose tanh is x; NaN beyond [-1, 1]", "",
                             [](double x) { return std::atanh(x); }, atanh_parts, -0.99, 0.99),
                         [](Value x, Value) { return 1.0 / one_minus_square(x); });
}

// ---- binary ----
OpDef define_floor_mod() {
  return define_binary<kInteger | kReal>(
      "floor_mod", "lhs - rhs * floor(lhs / rhs): the sign of rhs, as Python's %; integer x mod 0 is x",
      [](auto x, auto y) { return floor_mod_of(x, y); }, floor_mod_parts, -9, 9);
}
OpDef define_floor_div() {
  return define_binary<kInteger | kReal>(
      "floor_div", "floor(lhs / rhs), as Python's //; integer x / 0 has all bits set",
      [](auto x, auto y) { return floor_div_of(x, y); }, floor_div_parts, -9, 9);
}
OpDef define_squared_difference() {
  return define_binary<kNumber>(
      "squared_difference", "(lhs - rhs)^2",
      [](auto x, auto y) {
        if constexpr (std::is_integral_v<decltype(x)>) {
          uint64_t d = static_cast<uint64_t>(x) - static_cast<uint64_t>(y);
          return static_cast<decltype(x)>(d * d);
        } else {
          return (x - y) * (x - y);
        }
      },
      [](Value x, Value y) { return square(x - y); });
}
OpDef define_logaddexp() {
  OpDef op = define_binary<kReal>(
      "logaddexp", "ln(e^lhs + e^rhs), without overflow",
      [](double x, double y) {
        if (x == y) return x + M_LN2;  // infinities included
        return std::fmax(x, y) + std::log1p(std::exp(-std::abs(x - y)));
      },
      [](Value x, Value y) {
        Value apart = maximum(x, y) + log1p(exp(-abs(x - y)));
        return select(compare(x, y, Comparison::eq), x + M_LN2, apart);
      },
      -40, 40);
  // e^x / (e^x + e^y); of equals, infinite ones too, half.
  return with_partials(std::move(op), [](Value x, Value y, Value, Value ct) -> Many<Value> {
    Value apart = select(compare(x, y, Comparison::eq), zeros_like(x), x - y);
    return {ct * logistic(apart), ct * logistic(-apart)};
  });
}

// ---- with three operands or with attributes ----
// A primitive: with two roundings it is another op, and with one it is composed of dozens.
OpDef define_fma() {
  return define<>({
      .name = "fma",
      .doc = "x * y + z, rounded once",
      .source = "IEEE 754-2019, fusedMultiplyAdd",
      .operands = {"x", "y", "z"},
      .covers = {"Fma"},
      .elementwise = true,
      .infer = [](Types in) { return require_kind(require_same(in), kReal), in[0]; },
      .reference =
          [](Tensors in) {
            Array<double> x(in[0]), y(in[1]), z(in[2]);
            bool wide = in[0].dtype() == f64;
            for (size_t i = 0; i < x.data.size(); ++i) {
              double &a = x.data[i], b = y.data[i], c = z.data[i];
              // The product of two floats narrower than f64 is exact in it.
              a = wide ? std::fma(a, b, c) : sum_to_odd(a * b, c);
            }
            return x.rounded_to(in[0].dtype());
          },
      .vjp = [](Values in, Value, Value ct) -> Many<Value> {
        return {ct * in[1], ct * in[0], ct};
      },
      .samples = elementwise_samples(kReal, 3, -2, 2),
  });
}
OpDef define_clamp() {
  return define<ClampAttrs>({
      .name = "clamp",
      .doc = "x limited to [min, max]; NaN stays NaN. The derivative is 1 also at min and max",
      .operands = {"x"},
      .covers = {"Clamp"},
      .elementwise = true,
      .infer =
          [](Types in, const ClampAttrs& a) {
            require_kind(in[0], kInteger | kReal);
            if (!(a.min <= a.max))
              fail(ErrorCode::invalid_argument, "min must not exceed max, got ", a.min, " and ", a.max);
            for (double bound : {a.min, a.max})
              if (is_integer(in[0].dtype) && std::isfinite(bound) &&
                  load_number(full(in[0].dtype, {}, bound), 0) != bound)
                fail(ErrorCode::invalid_argument, in[0].dtype, " cannot hold the bound ", bound);
            return in[0];
          },
      .reference =
          [](Tensors in, const ClampAttrs& a) {
            return with_kinds<kInteger | kReal>(in[0].dtype(), [&]<class T>() {
              return map_elements<T, T>(in[0].dtype(), in[0], [&](T x) {
                if (static_cast<double>(x) < a.min) return static_cast<T>(a.min);
                return static_cast<double>(x) > a.max ? static_cast<T>(a.max) : x;
              });
            });
          },
      .decompose =
          [](Values in, const ClampAttrs& a) {
            Value x = in[0];  // a bound of infinity is none; an integer could not hold it
            if (std::isfinite(a.min)) x = maximum(x, full_like(x, a.min));
            if (std::isfinite(a.max)) x = minimum(x, full_like(x, a.max));
            return x;
          },
      .vjp =
          [](Values in, Value, Value ct, const ClampAttrs& a) {
            Value inside = both(compare(in[0], full_like(in[0], a.min), Comparison::ge),
                                compare(in[0], full_like(in[0], a.max), Comparison::le));
            return select(inside, ct, zeros_like(ct));
          },
      .samples = {{.dims = {{3, 4}}, .attrs = ClampAttrs{-0.5, 1}},
                  {.dims = {{5}}, .attrs = ClampAttrs{.max = 0.25}},
                  {.dims = {{}}, .attrs = ClampAttrs{}},
                  {.dims = {{7}}, .dtypes = {i32}, .attrs = ClampAttrs{.min = -3, .max = 5}, .lo = -9, .hi = 9}},
  });
}
OpDef define_stop_gradient() {
  return define<>({
      .name = "stop_gradient",
      .doc = "x; no gradient flows back through it",
      .operands = {"x"},
      .covers = {"StopGradient"},
      .elementwise = true,
      .moves_data = true,
      .differentiable = false,
      .overwrites = 0,
      .infer = [](Types in) { return in[0]; },
      .reference = [](Tensors in) { return in[0]; },
      .decompose = [](Values in) { return in[0]; },
      .samples = {{.dims = {{3, 4}}},
                  {.dims = {{2}}, .dtypes = {i32}},
                  {.dims = {{}}},
                  {.dims = {{1, 0, 3}}, .dtypes = {boolean}}},
  });
}

}  // namespace rlx
