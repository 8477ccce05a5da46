// See the header.
#include "ops/linalg/jacobi.h"

#include "rlx/ops/elementary.h"

namespace rlx::jacobi {

Rotations::Rotations(Value alpha, Value beta, Value w) {
  DType dtype = w.dtype();
  Value size = abs(w), none = compare(size, zeros_like(size), Comparison::eq), one = full_like(size, 1);
  Value safe = select(none, one, size);
  Value zeta = (beta - alpha) / (safe * 2.0);
  Value slope = one / (abs(zeta) + sqrt(zeta * zeta + 1.0));
  Value t = select(compare(zeta, zeros_like(zeta), Comparison::lt), -slope, slope);
  t = select(none, zeros_like(t), t);
  Value cosine = one / sqrt(t * t + 1.0);
  c = convert(cosine, dtype), s = convert(cosine * t, dtype), shift = t * size;
  e = select(none, full_like(w, 1), conjugate(w) / convert(safe, dtype));
}

Value Rotations::columns(Value x) const {
  int64_t n = x.dim(2).value(), half = n / 2;
  Value p = slice_axis(x, 2, 0, half), q = slice_axis(x, 2, half, n) * as_row(e), cc = as_row(c), ss = as_row(s);
  return concatenate({cc * p - ss * q, ss * p + cc * q}, 2);
}
Value Rotations::rows(Value x) const {
  int64_t n = x.dim(1).value(), half = n / 2;
  Value p = slice_axis(x, 1, 0, half), q = slice_axis(x, 1, half, n) * as_column(conjugate(e));
  Value cc = as_column(c), ss = as_column(s);
  return concatenate({cc * p - ss * q, ss * p + cc * q}, 1);
}

Value next_round(Value x, int64_t axis) {
  int64_t n = x.dim(axis).value(), half = n / 2;
  if (half < 2) return x;
  auto part = [&](int64_t from, int64_t to) { return slice_axis(x, axis, from, to); };
  std::vector<Value> parts = {part(0, 1), part(half, half + 1)};
  if (half > 2) parts.push_back(part(1, half - 1));
  parts.push_back(part(half + 1, n)), parts.push_back(part(half - 1, half));
  return concatenate(parts, axis);
}

}  // namespace rlx::jacobi
