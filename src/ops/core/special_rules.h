// What the decompositions of special functions share. A branch that is not selected must not compute with an argument
// outside its domain: it would give NaN, and zero times NaN in a derivative is NaN.
#pragma once

#include <cmath>

#include "ops/core/elementwise_rules.h"
#include "ops/core/special_coefficients.h"

namespace rlx {

inline Value above(Value x, double bound) { return compare(x, full_like(x, bound), Comparison::gt); }
inline Value below(Value x, double bound) { return compare(x, full_like(x, bound), Comparison::lt); }
inline Value equals(Value x, double value) { return compare(x, full_like(x, value), Comparison::eq); }
inline Value both(Value x, Value y) { return bitwise_and(x, y); }
inline Value at_least(Value x, double bound) { return maximum(x, full_like(x, bound)); }
inline Value at_most(Value x, double bound) { return minimum(x, full_like(x, bound)); }
/// x where the condition holds, else `otherwise`, a number for which the following computation is defined.
inline Value where_or(Value condition, Value x, double otherwise) {
  return select(condition, x, full_like(x, otherwise));
}

inline Value horner(Value t, std::span<const double> c) {
  if (c.size() == 1) return full_like(t, c[0]);
  Value p = t * c.back() + c[c.size() - 2];
  for (size_t i = c.size() - 2; i-- > 0;) p = p * t + c[i];
  return p;
}
inline Value polynomial(Value t, const Polynomial& p) { return horner(t, t.dtype() == f64 ? p.wide : p.narrow); }

/// x for sin(pi x) and cos(pi x), as a whole number plus `part`, which is in [-1/2, 1/2]. The results are exact if x is
/// a multiple of 1/2, however large x is.
struct HalfTurns {
  Value part, sign;  ///< sign is -1 to the power of the whole number
};
HalfTurns half_turns(Value x);
Value sin_pi(const HalfTurns& turns);
Value cos_pi(const HalfTurns& turns);

/// e^(s x^2) for x >= 0 and s = -1, -1/2 or 1, without the rounding error of x^2 in the exponent.
Value exp_of_square(Value x, double s);
/// e^(x^2) erfc(x) of x >= 0.
Value scaled_erfc(Value x);

/// A composite y = f(x) on floats. `f` is a function of the C library that serves as its reference, if there is one;
/// otherwise the decomposition does.
struct Special {
  std::string_view name, doc, source;
  Value (*parts)(Value);
  Value (*derivative)(Value x, Value y);
  double lo = -3, hi = 3;         ///< of the samples
  double far_lo = 0, far_hi = 0;  ///< the range of a second sample; there is none if they are equal
  double (*f)(double) = nullptr;
};
OpDef define_special(const Special& s);

}  // namespace rlx
