// Special functions around the error function, Bessel functions and small ones; those around the gamma function stand
// in gamma.cpp. Coefficients: scripts/special_coefficients.py.
#include "rlx/ops/special.h"

#include "ops/core/special_rules.h"
#include "rlx/ops/elementary.h"

namespace rlx {

HalfTurns half_turns(Value x) {
  Value whole = round_nearest_even(x), half = whole * 0.5;
  return {x - whole, 1.0 - 4.0 * (half - floor(half))};
}
Value sin_pi(const HalfTurns& t) { return t.sign * sin(t.part * M_PI); }
Value cos_pi(const HalfTurns& t) { return t.sign * cos(t.part * M_PI); }

Value exp_of_square(Value x, double s) {
  x = at_most(x, 40);  // e^(-800) is 0 and e^1600 infinite, also in f64
  // Of few digits, so that its square is exact; x^2 = head^2 + (x - head) (x + head).
  Value head = round_nearest_even(x * 16.0) * 0.0625;
  return exp(head * head * s) * exp((x - head) * (x + head) * s);
}

Value scaled_erfc(Value x) { return polynomial(1.0 - 7.5 / (x + 3.75), kScaledErfc) / (1.0 + 2.0 * x); }

OpDef define_special(const Special& s) {
  OpSpec<NoAttrs> spec{
      .name = s.name,
      .doc = s.doc,
      .source = s.source,
      .operands = {"x"},
      .elementwise = true,
      .infer = [](Types in) { return require_kind(in[0], kReal), in[0]; },
      .decompose = [parts = s.parts](Values in) { return parts(in[0]); },
      .samples =
          [s] {
            std::vector<Sample> all;
            for (const Dims& dims : {Dims{3, 4}, Dims{}, Dims{2, 0}, Dims{1, 5}})
              all.push_back({.dims = {dims}, .lo = s.lo, .hi = s.hi});
            if (s.far_lo < s.far_hi) all.push_back({.dims = {{7}}, .lo = s.far_lo, .hi = s.far_hi});
            return all;
          },
  };
  if (s.f) spec.reference = [f = s.f](Tensors in) { return map_elements<double, double>(in[0].dtype(), in[0], f); };
  return with_derivative(define(std::move(spec)), s.derivative);
}

namespace {

constexpr double kRootTwoPi = 2.50662827463100050241576528481;  // sqrt(2 pi)
constexpr double kRootPi = 1.77245385090551602729816748334;

// ---- the error function and the normal distribution ----
/// erfinv(x) / x as a function of w = -ln(1 - x^2) >= 0; infinite where w is.
Value erfinv_quotient(Value w) {
  Value root = sqrt(at_least(w, 6.25));
  Value near = polynomial(at_most(w, 6.25) / 3.125 - 1.0, kErfinvNear);
  Value middle = polynomial(at_most(root, 5) * 0.8 - 3.0, kErfinvMiddle);
  constexpr double kLow = 1 / 27.5, kHigh = 1 / 5.0;
  Value far = root * polynomial((2.0 / at_least(root, 5) - (kLow + kHigh)) / (kHigh - kLow), kErfinvFar);
  return select(above(w, 25), far, select(above(w, 6.25), middle, near));
}
Value erfinv_parts(Value x) { return x * erfinv_quotient(-log((1.0 - x) * (1.0 + x))); }
Value ndtri_parts(Value p) { return (2.0 * p - 1.0) * erfinv_quotient(-log(4.0 * p * (1.0 - p))) * M_SQRT2; }

Value erfcx_parts(Value x) {
  Value z = abs(x), positive = scaled_erfc(z);
  return select(below(x, 0), 2.0 * exp_of_square(z, 1) - positive, positive);
}
Value ndtr_parts(Value x) {
  Value z = abs(x), tail = 0.5 * scaled_erfc(z * M_SQRT1_2) * exp_of_square(z, -0.5);
  return select(below(x, 0), tail, 1.0 - tail);
}
Value log_ndtr_parts(Value x) {
  Value z = abs(x), half = 0.5 * scaled_erfc(z * M_SQRT1_2);
  return select(below(x, 0), log(half) - 0.5 * z * z, log1p(-(half * exp_of_square(z, -0.5))));
}
Value normal_density(Value x) { return exp_of_square(abs(x), -0.5) / kRootTwoPi; }

// ---- modified Bessel functions ----
Value bessel_near(Value a, const Polynomial& p) { return polynomial(at_most(a, 8) * 0.25 - 1.0, p); }
Value bessel_far(Value a, const Polynomial& p) {
  Value b = at_least(a, 8);
  return polynomial(16.0 / b - 1.0, p) / sqrt(b);
}
Value i0e_parts(Value x) {
  Value a = abs(x);
  return select(below(a, 8), bessel_near(a, kI0Near), bessel_far(a, kI0Far));
}
Value i1e_parts(Value x) {
  Value a = abs(x);
  return select(below(a, 8), x * bessel_near(a, kI1Near), sign(x) * bessel_far(a, kI1Far));
}
/// f(x) e^|x|, f being one of these: in two steps, for e^|x| overflows before the product does.
Value unscaled(Value (*f)(Value), Value x) {
  x = at_least(at_most(x, 1e5), -1e5);  // infinite from there on; 0 at infinity times infinity would not be
  Value h = exp(abs(x) * 0.5);
  return h * f(x) * h;
}
Value i0_parts(Value x) { return unscaled(i0e_parts, x); }
Value i1_parts(Value x) { return unscaled(i1e_parts, x); }
/// y / x, 1/2 at 0: of i1 and of i1e.
Value over_x(Value y, Value x) {
  Value none = equals(x, 0);
  return select(none, full_like(x, 0.5), y / select(none, full_like(x, 1), x));
}

// ---- small ones ----
Value logit_parts(Value x) {
  // Around 1/2, where the logarithms would cancel, 2x - 1 is exact.
  Value middle = both(above(x, 0.25), below(x, 0.75)), inside = where_or(middle, x, 0.5);
  return select(middle, log1p((2.0 * inside - 1.0) / (1.0 - inside)), log(x) - log1p(-x));
}
Value entr_parts(Value x) {
  Value positive = above(x, 0), safe = where_or(positive, x, 1);
  Value none = zeros_like(x), outside = select(below(x, 0), full_like(x, -INFINITY), select(equals(x, 0), none, x));
  return select(positive, -(safe * log(safe)), outside);
}
Value sinc_parts(Value x) {
  Value none = equals(x, 0), safe = select(none, full_like(x, 1), x), infinite = is_inf(x);
  Value y = sin_pi(half_turns(where_or(bitwise_not(infinite), safe, 1))) / (safe * M_PI);
  return select(none, full_like(x, 1), y);
}
Value sinc_derivative(Value x, Value y) {
  // Near 0 the difference below cancels: sum over n >= 1 of (-1)^n 2n / (2n + 1)! pi^2n x^(2n - 1).
  std::vector<double> series;
  double factor = 1;
  for (int n = 1; n <= 10; ++n) {
    factor *= -M_PI * M_PI / (2 * n * (2 * n + 1));
    series.push_back(2 * n * factor);
  }
  Value near = below(abs(x), 0.25), a = where_or(near, x, 0), b = where_or(bitwise_not(near), x, 1);
  Value infinite = is_inf(b), c = where_or(bitwise_not(infinite), b, 1);
  Value far = (cos_pi(half_turns(c)) - y) / b;
  return select(near, a * horner(a * a, series), far);
}
/// x times a logarithm of y that is `f` of it; 0 where x is, unless y is NaN.
Value times_log(Value x, Value y, Value (*f)(Value), double harmless) {
  Value none = both(equals(x, 0), compare(y, y, Comparison::eq));
  return select(none, zeros_like(x), x * f(select(none, full_like(y, harmless), y)));
}
Value hypot_parts(Value x, Value y) {
  Value a = abs(x), b = abs(y), most = maximum(a, b), least = minimum(a, b);
  Value divisor = select(equals(most, 0), full_like(most, 1), most), ratio = least / divisor;
  Value infinite = bitwise_or(is_inf(x), is_inf(y));
  return select(infinite, full_like(x, INFINITY), most * sqrt(1.0 + ratio * ratio));
}

/// A composite of two floats.
OpDef special_binary(std::string_view name, std::string_view doc, std::string_view source, Value (*parts)(Value, Value),
                     double (*f)(double, double), double lo, double hi) {
  OpDef op = define_binary<kReal>(name, doc, f, parts, lo, hi);
  op.source = source;
  auto samples = op.samples;
  op.samples = [samples, lo, hi] {
    auto all = samples();
    all.push_back({.dims = {{2, 0}, {2, 0}}, .lo = lo, .hi = hi});
    all.push_back({.dims = {{1, 5, 1}, {1, 5, 1}}, .lo = lo, .hi = hi});
    for (size_t i = all.size() - 2; i < all.size(); ++i) all[i].attrs = all[0].attrs;
    return all;
  };
  return op;
}

}  // namespace

OpDef define_erfinv() {
  return define_special({"erfinv", "the number whose erf is x; infinite at -1 and 1, NaN beyond",
                         "Giles, GPU Computing Gems 2 (2011), 10: the variables", erfinv_parts,
                         [](Value, Value y) { return exp(y * y) * (kRootPi / 2); }, -0.95, 0.95, 0.99, 0.9999});
}
OpDef define_erfcx() {
  return define_special({"erfcx", "e^(x^2) erfc(x)",
                         "Shepherd, Laframboise, Math. Comp. 36 (1981): the function that is expanded", erfcx_parts,
                         [](Value x, Value y) { return 2.0 * x * y - 2 / kRootPi; }, -2, 3, 20, 90});
}
OpDef define_ndtr() {
  return define_special({"ndtr",
                         "the normal distribution function: (1 + erf(x / sqrt 2)) / 2, accurate where it is small", "",
                         ndtr_parts, [](Value x, Value) { return normal_density(x); }, -4, 4, -30, -6,
                         [](double x) { return 0.5 * std::erfc(-x * M_SQRT1_2); }});
}
OpDef define_log_ndtr() {
  return define_special({"log_ndtr", "ln of ndtr(x), where that is 0 to the last digit too", "", log_ndtr_parts,
                         [](Value x, Value) { return (2 / kRootTwoPi) / erfcx(x * -M_SQRT1_2); }, -5, 5, -300, -10});
}
OpDef define_ndtri() {
  return define_special({"ndtri", "the number whose ndtr is x; infinite at 0 and 1, NaN beyond",
                         "Giles, GPU Computing Gems 2 (2011), 10: the variables", ndtri_parts,
                         [](Value, Value y) { return kRootTwoPi / exp_of_square(abs(y), -0.5); }, 0.1, 0.9, 0.02,
                         0.06});
}
OpDef define_logit() {
  return define_special(
      {"logit", "ln(x / (1 - x))", "", logit_parts, [](Value x, Value) { return 1.0 / (x * (1.0 - x)); }, 0.05, 0.95,
       0.45, 0.55,
       [](double x) { return x > 0.3 && x < 0.7 ? 2 * std::atanh(2 * x - 1) : std::log(x) - std::log1p(-x); }});
}
OpDef define_entr() {
  return define_special({"entr", "-x ln x; 0 at 0, -infinity below", "", entr_parts,
                         [](Value x, Value) { return -(log(x) + 1.0); }, 0.1, 4});
}
OpDef define_sinc() {
  return define_special({"sinc", "sin(pi x) / (pi x); 1 at 0", "", sinc_parts, sinc_derivative, -4, 4, -0.2, 0.2});
}
OpDef define_i0e() {
  return define_special({"i0e", "e^-|x| I0(x), I0 the modified Bessel function of order 0", "DLMF 10.25; SciPy i0e",
                         i0e_parts, [](Value x, Value y) { return i1e(x) - sign(x) * y; }, -6, 6, 9, 60});
}
OpDef define_i0() {
  return define_special({"i0", "the modified Bessel function of order 0", "DLMF 10.25; SciPy i0", i0_parts,
                         [](Value x, Value) { return i1(x); }, -6, 6, 8.5, 12});
}
OpDef define_i1e() {
  return define_special({"i1e", "e^-|x| I1(x), I1 the modified Bessel function of order 1", "DLMF 10.25; SciPy i1e",
                         i1e_parts, [](Value x, Value y) { return i0e(x) - sign(x) * y - over_x(y, x); }, -6, 6, 9,
                         60});
}
OpDef define_i1() {
  return define_special({"i1", "the modified Bessel function of order 1", "DLMF 10.25; SciPy i1", i1_parts,
                         [](Value x, Value y) { return i0(x) - over_x(y, x); }, -6, 6, 8.5, 12});
}

OpDef define_xlogy() {
  return with_partials(special_binary(
                           "xlogy", "lhs ln(rhs); 0 where lhs is 0, unless rhs is NaN", "SciPy xlogy",
                           [](Value x, Value y) { return times_log(x, y, log, 1); },
                           [](double x, double y) { return x == 0 && !std::isnan(y) ? 0 : x * std::log(y); }, 0.2, 4),
                       [](Value x, Value y, Value, Value ct) -> Many<Value> {
                         return {ct * log(y), ct * x / y};
                       });
}
OpDef define_xlog1py() {
  return with_partials(
      special_binary(
          "xlog1py", "lhs ln(1 + rhs); 0 where lhs is 0, unless rhs is NaN", "SciPy xlog1py",
          [](Value x, Value y) { return times_log(x, y, log1p, 0); },
          [](double x, double y) { return x == 0 && !std::isnan(y) ? 0 : x * std::log1p(y); }, -0.8, 4),
      [](Value x, Value y, Value, Value ct) -> Many<Value> {
        return {ct * log1p(y), ct * x / (1.0 + y)};
      });
}
OpDef define_hypot() {
  return with_partials(
      special_binary(
          "hypot",
          "sqrt(lhs^2 + rhs^2), without overflow; infinite if either is, the other NaN or not; its derivative at 0, 0 "
          "is 0",
          "IEEE 754-2019, hypot", hypot_parts, [](double x, double y) { return std::hypot(x, y); }, -4, 4),
      [](Value x, Value y, Value z, Value ct) -> Many<Value> {
        Value d = ct / select(equals(z, 0), full_like(z, 1), z);
        return {d * x, d * y};
      });
}

}  // namespace rlx
