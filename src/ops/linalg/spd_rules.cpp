// See the header.
#include "ops/linalg/spd_rules.h"

#include "rlx/ops/elementary.h"

namespace rlx::spd {

// ---- types ----
const Dim& require_spd(const Type& x, std::string_view name) {
  if (is_complex(x.dtype))
    fail(ErrorCode::invalid_argument, name, " must be f32 or f64, got ", x, "; these ops are for real matrices");
  return require_square(x, name);
}
void require_same(const Type& x, const Type& wanted, std::string_view name, std::string_view like) {
  if (x != wanted) fail(ErrorCode::shape_mismatch, name, " must be ", wanted, " to go with ", like, ", got ", x);
}
void require_floor(double floor) {
  if (std::isnan(floor) || floor == std::numeric_limits<double>::infinity())
    fail(ErrorCode::invalid_argument, "floor must be a number, or -inf for none, got ", floor);
}

namespace {

bool has_floor(const SpdMatrixFnAttrs& a) { return a.floor != kNoFloor; }
Value rectified(Value w, double floor) { return floor == kNoFloor ? w : maximum(w, full_like(w, floor)); }

/// sum of coefficients[k] x^k.
Value polynomial(Value x, const std::vector<double>& coefficients) {
  Value y = full_like(x, coefficients.back());
  for (size_t k = coefficients.size() - 1; k-- > 0;) y = y * x + coefficients[k];
  return y;
}
/// f^(k)(1) / k!, for exp at 0.
double taylor(SpdFunction f, int k) {
  double c = 1;
  switch (f) {
    case SpdFunction::log: return k == 0 ? 0 : (k % 2 == 1 ? 1.0 : -1.0) / k;
    case SpdFunction::exp:
      for (int i = 2; i <= k; ++i) c /= i;
      return c;
    case SpdFunction::sqrt:
    case SpdFunction::inverse_sqrt:
      for (int i = 0; i < k; ++i) c *= ((f == SpdFunction::sqrt ? 0.5 : -0.5) - i) / (i + 1);
      return c;
    case SpdFunction::identity: return k <= 1;
  }
  return 0;
}

/// The divided difference of max(floor, .): 1 above, 0 below, a share between. At the floor itself it is that of below.
Value rectified_difference(Value a, Value b, double floor) {
  Value least = full_like(a, floor), zero = zeros_like(a), one = full_like(a, 1);
  Value above_a = compare(a, least, Comparison::gt), above_b = compare(b, least, Comparison::gt);
  Value one_above = bitwise_xor(above_a, above_b);
  Value share = (rectified(a, floor) - rectified(b, floor)) / select(one_above, a - b, one);
  return select(one_above, share, select(above_a, one, zero));
}

/// Of second order, of sorted arguments; no floor.
Value second_difference(Value lo, Value mid, Value hi, SpdFunction f) {
  if (f == SpdFunction::identity) return zeros_like(lo);
  // Where the three are near each other the Taylor series at their mean, whose k-th term has the complete homogeneous
  // polynomial of degree k: 13 terms reach 1e-16 below this spread.
  Value m = (lo + mid + hi) * (1.0 / 3), span = hi - lo;
  bool absolute = f == SpdFunction::exp;
  Value near = compare(span, absolute ? full_like(span, 0.25) : m * 0.06, Comparison::lt);
  Value one = full_like(m, 1);
  Value at = select(near, m, one), scale = absolute ? exp(at) : function_of(at, {f});
  if (f == SpdFunction::log) scale = one;
  if (!absolute) scale = scale / (at * at);
  auto part = [&](Value x) {
    Value u = select(near, x - m, zeros_like(m));
    return absolute ? u : u / at;
  };
  Value x = part(lo), y = part(mid), z = part(hi), first = one, second = one, third = one;
  Value series = one * taylor(f, 2);
  for (int k = 1; k < 13; ++k) {
    first = first * x, second = second * y + first, third = third * z + second;
    series = series + third * taylor(f, k + 2);
  }
  Value far = divided_difference(mid, hi, f) - divided_difference(lo, mid, f);
  return select(near, series * scale, far / select(near, one, span));
}

}  // namespace

// ---- functions of eigenvalues ----
Value function_of(Value w, const SpdMatrixFnAttrs& a) {
  w = rectified(w, a.floor);
  switch (a.function) {
    case SpdFunction::log: return log(w);
    case SpdFunction::exp: return exp(w);
    case SpdFunction::sqrt: return sqrt(w);
    case SpdFunction::inverse_sqrt: return 1.0 / sqrt(w);
    case SpdFunction::identity: break;
  }
  return w;
}

Value divided_difference(Value a, Value b, SpdFunction f) {
  Value one = full_like(a, 1), d = a - b;
  switch (f) {
    case SpdFunction::identity: return one;
    case SpdFunction::sqrt: return 1.0 / (sqrt(a) + sqrt(b));
    case SpdFunction::inverse_sqrt: {
      Value ra = sqrt(a), rb = sqrt(b);
      return -1.0 / (ra * rb * (ra + rb));
    }
    case SpdFunction::log: {
      // ln a - ln b = 2 atanh(s), s = (a - b) / (a + b): an even series of s where that is small.
      Value s = d / (a + b), near = compare(abs(s), full_like(s, 0.1), Comparison::lt);
      s = select(near, s, zeros_like(s));
      Value series = polynomial(s * s, {1, 1. / 3, 1. / 5, 1. / 7, 1. / 9, 1. / 11, 1. / 13, 1. / 15, 1. / 17});
      return select(near, series * 2.0 / (a + b), log(select(near, full_like(a, 2), a / b)) / select(near, one, d));
    }
    case SpdFunction::exp: {
      // e^a - e^b = 2 e^((a + b) / 2) sinh(h), h = (a - b) / 2.
      Value h = d * 0.5, near = compare(abs(h), full_like(h, 0.5), Comparison::lt);
      h = select(near, h, zeros_like(h));
      std::vector<double> terms;
      for (int k = 0; k < 8; ++k) terms.push_back(taylor(f, 2 * k + 1));
      Value middle = select(near, (a + b) * 0.5, zeros_like(a));
      return select(near, exp(middle) * polynomial(h * h, terms), (exp(a) - exp(b)) / select(near, one, d));
    }
  }
  return {};
}

Value divided_differences(Value w, const SpdMatrixFnAttrs& a) {
  Dims dims = w.dims();
  dims.push_back(w.dim(-1));
  Value x = broadcast_to(as_column(w), dims), y = broadcast_to(as_row(w), dims);
  if (!has_floor(a)) return divided_difference(x, y, a.function);
  Value share = rectified_difference(x, y, a.floor);
  // Where both are below, f may be infinite: a root at 0.
  Value none = compare(share, zeros_like(share), Comparison::eq);
  auto safe = [&](Value v) { return select(none, full_like(v, 1), rectified(v, a.floor)); };
  return divided_difference(safe(x), safe(y), a.function) * share;
}

Value second_divided_differences(Value w, const SpdMatrixFnAttrs& a) {
  Dims dims = w.dims();
  dims.push_back(w.dim(-1)), dims.push_back(w.dim(-1));
  Value x = broadcast_to(as_column(as_column(w)), dims), y = broadcast_to(as_column(as_row(w)), dims);
  Value z = broadcast_to(as_row(as_row(w)), dims);
  Value lo = minimum(minimum(x, y), z), hi = maximum(maximum(x, y), z);
  Value mid = maximum(minimum(x, y), minimum(maximum(x, y), z));
  if (!has_floor(a)) return second_difference(lo, mid, hi, a.function);
  // (f∘g)[a, b, c] = f[g(a), g(b), g(c)] g[a, c] g[b, c] + f[g(a), g(b)] g[a, b, c].
  Value outer = rectified_difference(lo, hi, a.floor), upper = rectified_difference(mid, hi, a.floor);
  Value lower = rectified_difference(lo, mid, a.floor), least = full_like(lo, a.floor);
  Value none = compare(hi, least, Comparison::le), one = full_like(lo, 1);
  Value mixed = bitwise_and(compare(hi, least, Comparison::gt), compare(lo, least, Comparison::le));
  Value bend = select(mixed, (upper - lower) / select(mixed, hi - lo, one), zeros_like(lo));
  auto safe = [&](Value v) { return select(none, one, rectified(v, a.floor)); };
  return second_difference(safe(lo), safe(mid), safe(hi), a.function) * outer * upper +
         divided_difference(safe(lo), safe(mid), a.function) * bend;
}

// ---- matrices ----
Value from_spectrum(Value values, Value vectors) { return matmul(vectors * as_row(values), transposed(vectors)); }
Value into_basis(Value x, Value vectors) { return matmul(matmul(transposed(vectors), x), vectors); }
Value out_of_basis(Value x, Value vectors) { return matmul(matmul(vectors, x), transposed(vectors)); }
Value derivative(Value values, Value vectors, Value ct, const SpdMatrixFnAttrs& a) {
  Value y = out_of_basis(divided_differences(values, a) * into_basis(symmetric(ct), vectors), vectors);
  return nan_where(bitwise_not(reduce_all(is_finite(function_of(values, a)), {values.rank() - 1})), y, 2);
}
Value congruence_bar(Value s, Value x, Value ct) {
  return matmul(matmul(ct, s), transposed(x)) + matmul(matmul(transposed(x), s), ct);
}
Value inner(Value x, Value y) { return reduce_sum(x * y, {x.rank() - 2, x.rank() - 1}); }
Value floored(Value x, double floor) { return floor == kNoFloor ? x : spd_matrix_fn(x, SpdFunction::identity, floor); }
Value floored_backward(Value x, Value ct, double floor) {
  return floor == kNoFloor ? symmetric(ct) : spd_matrix_fn_backward(x, ct, {SpdFunction::identity, floor});
}

}  // namespace rlx::spd
