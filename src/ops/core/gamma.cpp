// The gamma function's family: lgamma, digamma, zeta, polygamma and the incomplete gamma functions. Numbers of terms
// are fixed, so that a graph has no loop: each series is used where so many of its terms are enough.
#include <cmath>

#include "ops/control/subgraph_rules.h"
#include "ops/core/special_rules.h"
#include "rlx/ops/elementary.h"
#include "rlx/ops/special.h"

namespace rlx {

Value polygamma(Value x, int64_t n) { return emit(op::polygamma, {x}, PolygammaAttrs{n}); }
Value multigammaln(Value a, int64_t d) {
  if (d < 1) fail(ErrorCode::invalid_argument, "the multivariate gamma function needs a dim, got ", d);
  Value sum = lgamma(a);
  for (int64_t j = 1; j < d; ++j) sum = sum + lgamma(a - 0.5 * static_cast<double>(j));
  return sum + 0.25 * static_cast<double>(d * (d - 1)) * std::log(M_PI);
}

namespace {

constexpr double kAsymptotic = 8;  // from here on Stirling's series serves
const double kHalfLogTwoPi = 0.5 * std::log(2 * M_PI);

/// sum_j c_j x^(1 - 2j), j = 1, 2, ...
Value inverse_powers(Value x, std::span<const double> c) {
  Value inverse = 1.0 / x;
  return horner(inverse * inverse, c) * inverse;
}

/// x > 0 moved into [1, 2) by whole steps: gamma(x) = gamma(y) product, digamma(x) = digamma(y) + sum. Below 1 it is
/// one step upward, where product is 1/x (`inverted`: x itself) and sum -1/x.
struct Moved {
  Value from_one, from_two;  ///< y - 1 and y - 2: exact, also for x near 1 and 2
  Value product, inverted, sum;
};
Moved moved(Value x) {
  Value small = below(x, 1), y = x, product = full_like(x, 1), sum = zeros_like(x);
  for (int step = 0; step < int(kAsymptotic) - 1; ++step) {
    Value large = compare(y, full_like(y, 2), Comparison::ge), next = y - 1.0;
    product = select(large, product * next, product);
    sum = select(large, sum + 1.0 / select(large, next, full_like(next, 1)), sum);
    y = select(large, next, y);
  }
  return {select(small, x, y - 1.0), select(small, x - 1.0, y - 2.0), select(small, x, product), small,
          select(small, -1.0 / where_or(small, x, 1), sum)};
}

/// Of x >= 0.
Value lgamma_positive(Value x) {
  Value large = compare(x, full_like(x, kAsymptotic), Comparison::ge);
  Moved m = moved(where_or(bitwise_not(large), x, 1.5));
  Value logarithm = log(m.product);
  Value small =
      m.from_one * m.from_two * polynomial(2.0 * m.from_one - 1.0, kLgamma) + select(m.inverted, -logarithm, logarithm);
  Value z = where_or(large, x, kAsymptotic);
  Value stirling = (z - 0.5) * (log(z) - 1.0) + (inverse_powers(z, kStirling) + (kHalfLogTwoPi - 0.5));
  return select(large, stirling, small);
}
Value lgamma_parts(Value x) {
  Value negative = below(x, 0), infinite = is_inf(x), finite = where_or(bitwise_not(infinite), x, 1);
  Value positive = lgamma_positive(select(negative, 1.0 - finite, finite));
  // gamma(x) gamma(1 - x) = pi / sin(pi x)
  Value turned = std::log(M_PI) - log(abs(sin_pi(half_turns(where_or(negative, finite, 0.5))))) - positive;
  return select(infinite, full_like(x, INFINITY), select(negative, turned, positive));
}

Value digamma_positive(Value x) {
  Value large = compare(x, full_like(x, kAsymptotic), Comparison::ge);
  Moved m = moved(where_or(bitwise_not(large), x, 1.5));
  // y - root, near the root too: its first digits and the rest are taken off one after the other.
  double whole = kDigammaRoot - 1, first = x.dtype() == f64 ? whole : double{static_cast<float>(whole)};
  Value from_root = (m.from_one - first) - ((whole - first) + kDigammaRootRest);
  Value small = from_root * polynomial(2.0 * m.from_one - 1.0, kDigamma) + m.sum;
  Value z = where_or(large, x, kAsymptotic);
  Value series = log(z) - 0.5 / z - inverse_powers(z, kDigammaSeries) / z;
  return select(large, series, small);
}
Value digamma_parts(Value x) {
  Value negative = below(x, 0), safe = where_or(negative, x, 0.5);
  Value positive = digamma_positive(select(negative, 1.0 - x, x));
  HalfTurns turns = half_turns(safe);
  // psi(1 - x) - psi(x) = pi / tan(pi x); no value at the poles.
  Value pole = equals(turns.part, 0), part = select(pole, full_like(x, 0.25), turns.part);
  Value turned = positive - M_PI / tan(part * M_PI);
  return select(negative, select(pole, full_like(x, NAN), turned), positive);
}

/// sum over k >= 0 of (q + k)^-s, of s > 1 and q > 0: ten terms, the rest by the Euler-Maclaurin formula.
Value zeta_positive(Value s, Value q) {
  constexpr int kTerms = 10;
  Value sum = pow(q, -s);
  for (int k = 1; k < kTerms; ++k) sum = sum + pow(q + double(k), -s);
  Value a = q + double(kTerms), last = pow(a, -s);
  // Of a large s all that matters is the first term; s / a to high powers would overflow.
  Value most = 16.0 * a, steep = compare(s, most, Comparison::gt), bounded = select(steep, most, s);
  Value term = bounded / a, tail = a / (s - 1.0) + 0.5;
  for (size_t j = 0; j < std::size(kEulerMaclaurin); ++j) {
    tail = tail + term * kEulerMaclaurin[j];
    double next = 2.0 * double(j) + 1;
    term = term * ((bounded + next) / a) * ((bounded + (next + 1)) / a);
  }
  return sum + last * tail;
}
Value zeta_parts(Value s, Value q) {
  Value in_domain = above(s, 1), order = where_or(in_domain, s, 2);
  Value positive = above(q, 0), negative = both(below(q, 0), is_finite(q));
  Value safe = where_or(negative, q, -0.5), part = safe - floor(safe);
  Value pole = bitwise_or(equals(q, 0), both(negative, equals(part, 0)));
  part = where_or(bitwise_not(equals(part, 0)), part, 0.5);
  // Of negative q and whole s the terms below 0 are a finite sum, which is a difference of two zetas.
  Value whole = equals(order - round_nearest_even(order), 0), half = order * 0.5;
  Value parity = 1.0 - 4.0 * (half - floor(half));
  Value first = zeta_positive(order, select(positive, where_or(is_finite(q), q, 1), part));
  Value below_zero = first + parity * (zeta_positive(order, 1.0 - part) - zeta_positive(order, 1.0 - safe));
  Value y = select(positive, where_or(is_finite(q), first, 0), select(whole, below_zero, full_like(q, NAN)));
  y = select(pole, full_like(q, INFINITY), y);
  Value outside = select(equals(s, 1), full_like(s, INFINITY), full_like(s, NAN));
  Value numbers = both(compare(q, q, Comparison::eq), compare(s, s, Comparison::eq));
  return select(numbers, select(in_domain, y, outside), full_like(q, NAN));
}

double factorial(int64_t n) { return n < 2 ? 1 : static_cast<double>(n) * factorial(n - 1); }
constexpr int64_t kMostDerivatives = 100;

// ---- incomplete gamma functions ----
constexpr double kLargeA = 20;  // from here on Stirling's and Temme's series serve

/// x^a e^-x / gamma(a + 1), of a, x > 0 and finite.
Value gamma_density(Value a, Value x) {
  Value large = compare(a, full_like(a, kLargeA), Comparison::ge);
  Value small_a = where_or(bitwise_not(large), a, 1), large_a = where_or(large, a, kLargeA);
  Value small = small_a * log(x) - x - lgamma(small_a + 1.0);
  // By the distance from the peak: a ln x - x - ln gamma(a + 1) is a difference of large numbers.
  Value m = (x - large_a) / large_a, near = both(above(m, -0.5), below(m, 1)), inside = where_or(near, m, 0.5);
  Value ratio = where_or(bitwise_not(near), x / large_a, 4);
  Value remainder = select(near, inside * inside * 0.5 * polynomial((inside - 0.25) / 0.75, kLog1pRemainder),
                           (ratio - 1.0) - log(ratio));
  Value exponent = -(large_a * remainder) - inverse_powers(large_a, kStirling);
  return select(large, exp(exponent) * rsqrt(large_a * (2 * M_PI)), exp(select(large, zeros_like(a), small)));
}

/// Both functions for a >= 20 and x / a in (1/2, 2): DLMF 8.12.
struct Incomplete {
  Value lower, upper;
};
Incomplete temme(Value a, Value x) {
  Value m = (x - a) / a, remainder = polynomial((m - 0.25) / 0.75, kLog1pRemainder);
  Value eta = m * sqrt(remainder), inverse = 1.0 / a;
  Value t = (eta * 2.0 - (kTemmeLow + kTemmeHigh)) / (kTemmeHigh - kTemmeLow), sum;
  for (size_t k = std::size(kTemme); k-- > 0;) {
    auto wide = kTemme[k].wide, narrow = kTemme[k].narrow;
    auto c = a.dtype() == f64 ? wide : narrow;
    if (c.size() == 1 && c[0] == 0) continue;
    sum = sum ? sum * inverse + horner(t, c) : horner(t, c);
  }
  Value far = sum * exp(-(a * (m * m * remainder) * 0.5)) * rsqrt(a * (2 * M_PI)), w = eta * sqrt(a * 0.5);
  return {0.5 * erfc(-w) - far, 0.5 * erfc(w) + far};
}

/// Of a, x > 0 and finite.
Incomplete incomplete_gamma(Value a, Value x) {
  constexpr int kTerms = 60;
  Value uniform = both(compare(a, full_like(a, kLargeA), Comparison::ge),
                       both(compare(x, a * 0.5, Comparison::gt), compare(x, a * 2.0, Comparison::lt)));
  Value far = bitwise_and(bitwise_not(uniform),
                          both(compare(x, a + 1.0, Comparison::ge), compare(x, full_like(x, 1.5), Comparison::ge)));
  Value near = bitwise_not(bitwise_or(uniform, far));
  Incomplete peak = temme(where_or(uniform, a, 32), where_or(uniform, x, 32));
  Value density = gamma_density(where_or(bitwise_not(uniform), a, 1), where_or(bitwise_not(uniform), x, 1));

  // lower = density (1 + x/(a+1) (1 + x/(a+2) (1 + ...))): DLMF 8.7.1
  Value an = where_or(near, a, 1), xn = where_or(near, x, 1), series = full_like(x, 1);
  for (int n = kTerms; n >= 1; --n) series = 1.0 + series * xn / (an + double(n));
  Value lower = density * series;

  // upper = density a / (x+1-a - 1(1-a)/(x+3-a - 2(2-a)/(x+5-a - ...))): DLMF 8.9.2
  Value af = where_or(far, a, 1), xf = where_or(far, x, 4), start = xf - af, fraction = start + double(2 * kTerms + 1);
  for (int n = kTerms; n >= 1; --n) fraction = (start + double(2 * n - 1)) - ((double(n) - af) * double(n)) / fraction;
  Value upper = density * af / fraction;

  // Of a < 1 and small x the upper one is small and not a difference from 1: x^a / gamma(a + 1) is nearly 1.
  Value slight = both(near, both(below(a, 1), below(x, 1.5)));
  Value as = where_or(slight, a, 0.5), xs = where_or(slight, x, 0.5);
  Value log_power = as * log(xs) - as * (as - 1.0) * polynomial(2.0 * as - 1.0, kLgamma);
  Value rest = zeros_like(x);
  for (int n = 28; n >= 1; --n) rest = (1.0 / (as + double(n)) + rest) * (xs * (-1.0 / n));
  Value small_upper = -expm1(log_power) - exp(log_power) * as * rest;

  return {select(uniform, peak.lower, select(far, 1.0 - upper, lower)),
          select(uniform, peak.upper, select(far, upper, select(slight, small_upper, 1.0 - lower)))};
}
template <bool kUpper>
Value incomplete_parts(Value a, Value x) {
  Value finite = both(is_finite(a), is_finite(x)), inside = both(finite, both(above(a, 0), above(x, 0)));
  Incomplete both_of = incomplete_gamma(where_or(inside, a, 1), where_or(inside, x, 1));
  Value y = kUpper ? both_of.upper : both_of.lower;
  // At the edges all is below x, or all above; nothing is defined at a = x = 0 and a = x = infinity.
  auto both_values = [&](double lower) { return full_like(x, kUpper ? 1 - lower : lower); };
  Value all_below =
      bitwise_or(both(equals(a, 0), above(x, 0)), both(equals(x, INFINITY), both(is_finite(a), above(a, 0))));
  Value all_above =
      bitwise_or(both(equals(x, 0), above(a, 0)),
                 both(equals(a, INFINITY), both(is_finite(x), compare(x, zeros_like(x), Comparison::ge))));
  Value edge = select(all_below, both_values(1), select(all_above, both_values(0), full_like(x, NAN)));
  return select(inside, y, edge);
}

template <bool kUpper>
OpDef define_incomplete(std::string_view name, std::string_view doc) {
  return define<>({
      .name = name,
      .doc = doc,
      .source = "DLMF 8.7.1, 8.9.2, 8.12 (Temme, SIAM J. Math. Anal. 10 (1979)); Gautschi, ACM TOMS 5 (1979)",
      .operands = {"a", "x"},
      .elementwise = true,
      .infer = [](Types in) { return require_kind(require_same(in), kReal), in[0]; },
      .decompose = [](Values in) { return incomplete_parts<kUpper>(in[0], in[1]); },
      // By x it is the density of the gamma distribution; by a no closed form is known.
      .vjp = [](Values in, Values results, Values cts, const NoAttrs&, const Transforms& t) -> Many<Value> {
        Value a = in[0], x = in[1], ct = cts[0];
        Graph parts =
            trace(std::array{a.type(), x.type()}, [](Values v) { return incomplete_parts<kUpper>(v[0], v[1]); });
        Value by_a = inlined(a.graph(), t.vjp(parts, {true, false}, {true}), std::array{a, x, ct})[0];
        Value inside = both(both(above(a, 0), above(x, 0)), both(is_finite(a), is_finite(x)));
        Value safe_a = where_or(inside, a, 1), safe_x = where_or(inside, x, 1);
        Value density = gamma_density(safe_a, safe_x) * (safe_a / safe_x);
        // At x = 0: 0, 1 or infinite as a is above, at or below 1.
        Value at_zero =
            select(equals(a, 1), full_like(x, 1), select(below(a, 1), full_like(x, INFINITY), zeros_like(x)));
        density = select(inside, density, where_or(both(equals(x, 0), above(a, 0)), at_zero, 0));
        // Where the function is NaN its derivatives are, too, which selecting what is inside makes 0. They are products
        // with NaN, not selected, so that the transpose of this rule, which jvp uses, has them as well.
        Value one = select(compare(results[0], results[0], Comparison::eq), full_like(x, 1), full_like(x, NAN));
        return {by_a * one, ct * ((kUpper ? -density : density) * one)};
      },
      .samples = {{.dims = {{3}, {3}}, .lo = 0.2, .hi = 4},
                  {.dims = {{}, {}}, .lo = 2, .hi = 9},
                  {.dims = {{2, 2}, {2, 2}}, .lo = 21, .hi = 60},
                  {.dims = {{2, 0}, {2, 0}}, .lo = 1},
                  {.dims = {{1, 3}, {1, 3}}, .lo = 0.05, .hi = 0.9}},
  });
}

}  // namespace

OpDef define_lgamma() {
  return define_special({"lgamma", "ln |gamma(x)|; infinite at 0, -1, -2, ... and at both infinities", "DLMF 5.5, 5.11",
                         lgamma_parts, [](Value x, Value) { return digamma(x); }, 0.1, 4, -3.9, -3.1,
                         [](double x) {
                           int sign = 0;
                           return lgamma_r(x, &sign);  // lgamma writes to a global
                         }});
}
OpDef define_digamma() {
  return define_special({"digamma", "the derivative of lgamma; NaN at -1, -2, ..., infinite at 0", "DLMF 5.5, 5.11",
                         digamma_parts, [](Value x, Value) { return polygamma(x, 1); }, 0.2, 5, -3.9, -3.1});
}
OpDef define_zeta() {
  return define<>({
      .name = "zeta",
      .doc = "Hurwitz' zeta function: the sum of (q + k)^-s over k = 0, 1, ...; infinite at s = 1 and at q = 0, -1, "
             "..., NaN "
             "for s < 1, and for q < 0 unless s is whole",
      .source = "DLMF 25.11; Euler-Maclaurin formula",
      .operands = {"s", "q"},
      .elementwise = true,
      .infer = [](Types in) { return require_kind(require_same(in), kReal), in[0]; },
      .decompose = [](Values in) { return zeta_parts(in[0], in[1]); },
      .samples = {{.dims = {{3, 2}, {3, 2}}, .lo = 1.2, .hi = 6},
                  {.dims = {{}, {}}, .lo = 2, .hi = 9},
                  {.dims = {{2, 0}, {2, 0}}, .lo = 2},
                  {.dims = {{5}, {5}}, .lo = 9, .hi = 30}},
  });
}
OpDef define_polygamma() {
  return define<PolygammaAttrs>({
      .name = "polygamma",
      .doc = "the n-th derivative of digamma: (-1)^(n+1) n! zeta(n + 1, x)",
      .source = "DLMF 5.15, 25.11.12",
      .operands = {"x"},
      .elementwise = true,
      .infer =
          [](Types in, const PolygammaAttrs& a) {
            if (a.n < 0 || a.n > kMostDerivatives)
              fail(ErrorCode::invalid_argument, "n must lie between 0 and ", kMostDerivatives, ", got ", a.n);
            return require_kind(in[0], kReal), in[0];
          },
      .decompose =
          [](Values in, const PolygammaAttrs& a) {
            Value x = in[0];
            if (a.n == 0) return digamma(x);
            return zeta(full_like(x, static_cast<double>(a.n + 1)), x) * ((a.n % 2 ? 1 : -1) * factorial(a.n));
          },
      .vjp = [](Values in, Value, Value ct, const PolygammaAttrs& a) { return ct * polygamma(in[0], a.n + 1); },
      .samples = {{.dims = {{3, 2}}, .lo = 0.5, .hi = 5},
                  {.dims = {{}}, .attrs = PolygammaAttrs{0}, .lo = 0.5, .hi = 5},
                  {.dims = {{2, 0}}, .attrs = PolygammaAttrs{3}, .lo = 1},
                  {.dims = {{4}}, .attrs = PolygammaAttrs{2}, .lo = -2.8, .hi = -2.2}},
  });
}
OpDef define_igamma() {
  return define_incomplete<false>(
      "igamma",
      "the regularized lower incomplete gamma function: the integral of t^(a-1) e^-t from 0 to x over gamma(a)");
}
OpDef define_igammac() {
  return define_incomplete<true>("igammac", "1 - igamma(a, x), the integral from x on, accurate where it is small");
}

}  // namespace rlx
