// Factorizations, which MLX has on streams of the processor alone, by LAPACK. They are computed in f64 and rounded
// once, so that f32 has the digits that the tolerances ask for.
//
// linalg::inv, solve and tri_inv are not here: of a singular matrix they give an error, and not the infinities and NaN
// of `inverse` and `solve`, which are made of `lu`. eigh and svd give one where elements are not finite, so that they
// are handed zeros then.
#include <mlx/linalg.h>

#include <array>
#include <limits>

#include "backends/mlx/lowerings.h"
#include "rlx/ops/linalg.h"

namespace rlx::mlx_backend {
namespace {

constexpr double kLeadingShare = 0.45;  // kLeadingShare of ops/linalg/linalg_rules.h

mx::array in_f64(Lowering& l) { return mx::astype(l.in[0], mx::float64, l.s); }
mx::array adjoint(const mx::array& x, mx::Stream s) { return mx::swapaxes(x, -1, -2, s); }
mx::array nan_of(const mx::array& x) { return mx::array(std::numeric_limits<double>::quiet_NaN(), x.dtype()); }

/// The symmetric matrix of which `reads` tells the triangle.
mx::array symmetric(const mx::array& x, Triangle reads, mx::Stream s) {
  if (reads == Triangle::both) return mx::multiply(mx::add(x, adjoint(x, s), s), mx::array(0.5, x.dtype()), s);
  const bool lower = reads == Triangle::lower;
  const mx::array own = lower ? mx::tril(x, 0, s) : mx::triu(x, 0, s);
  const mx::array strict = lower ? mx::tril(x, -1, s) : mx::triu(x, 1, s);
  return mx::add(own, adjoint(strict, s), s);
}

/// Of each matrix of a stack, as [..., 1, 1], whether all elements are finite.
mx::array is_whole(const mx::array& x, mx::Stream s) {
  return mx::all(mx::isfinite(x, s), std::vector<int>{-2, -1}, true, s);
}

/// -1 for each column, as [..., 1, k], whose leading component is negative, else 1.
mx::array signs_of_columns(const mx::array& v, mx::Stream s) {
  const mx::array size = mx::abs(v, s);
  const mx::array enough =
      mx::greater_equal(size, mx::multiply(mx::max(size, -2, true, s), mx::array(kLeadingShare, v.dtype()), s), s);
  const mx::array place = mx::argmax(mx::astype(enough, mx::int32, s), -2, true, s);
  const mx::array leading = mx::take_along_axis(v, place, -2, s);
  return mx::where(mx::less(leading, mx::array(0.0, v.dtype()), s), mx::array(-1.0, v.dtype()),
                   mx::array(1.0, v.dtype()), s);
}

}  // namespace

namespace when {
std::optional<std::string> can_factor_thin(const Question& q) {
  const Dims& x = q.operands[0].dims;
  if (q.node.attrs.as<FullAttrs>().full && x[x.size() - 2] != x.back())
    return "MLX has no square factors of a matrix that is not square";
  return is_float(q);
}
}  // namespace when

Lowered lower_cholesky(Lowering& l) {
  const auto& a = l.attrs<CholeskyAttrs>();
  mx::array y = mx::linalg::cholesky(symmetric(in_f64(l), a.reads, l.s), false, l.s);
  // Where LAPACK stops, it leaves a pivot that is not positive.
  const mx::array on = mx::greater(mx::diagonal(y, 0, -2, -1, l.s), mx::array(0.0, y.dtype()), l.s);
  const mx::array is_definite = mx::expand_dims(mx::all(on, -1, true, l.s), -1, l.s);
  y = mx::tril(mx::where(is_definite, y, nan_of(y), l.s), 0, l.s);
  return {narrowed(l, a.lower ? y : adjoint(y, l.s))};
}

Lowered lower_qr(Lowering& l) {
  const auto [q, r] = mx::linalg::qr(in_f64(l), l.s);
  return {narrowed(l, q, 0), narrowed(l, r, 1)};
}

Lowered lower_eigh(Lowering& l) {
  mx::array x = symmetric(in_f64(l), l.attrs<TriangleAttrs>().reads, l.s);
  const mx::array whole = is_whole(x, l.s);
  x = mx::where(whole, x, mx::array(0.0, x.dtype()), l.s);
  auto [values, vectors] = mx::linalg::eigh(x, "L", l.s);
  values = mx::where(mx::squeeze(whole, -1, l.s), values, nan_of(values), l.s);
  vectors = mx::where(whole, mx::multiply(vectors, signs_of_columns(vectors, l.s), l.s), nan_of(vectors), l.s);
  return {narrowed(l, values, 0), narrowed(l, vectors, 1)};
}

namespace {

/// u, s and vt of min(m, n) columns and rows. MLX makes square u and vt, so that a tall matrix is factored by QR first.
std::array<mx::array, 3> thin_svd(const mx::array& x, mx::Stream s) {
  if (x.shape(-2) < x.shape(-1)) {
    const auto [u, values, vt] = thin_svd(adjoint(x, s), s);
    return {adjoint(vt, s), values, adjoint(u, s)};
  }
  if (x.shape(-2) == x.shape(-1)) {
    const std::vector<mx::array> usv = mx::linalg::svd(x, true, s);
    return {usv[0], usv[1], usv[2]};
  }
  const auto [q, r] = mx::linalg::qr(x, s);
  const std::vector<mx::array> usv = mx::linalg::svd(r, true, s);
  return {mx::matmul(q, usv[0], s), usv[1], usv[2]};
}

}  // namespace

Lowered lower_svd(Lowering& l) {
  mx::array x = in_f64(l);
  const mx::array whole = is_whole(x, l.s);
  x = mx::where(whole, x, mx::array(0.0, x.dtype()), l.s);
  auto [u, s, vt] = thin_svd(x, l.s);
  const mx::array signs = signs_of_columns(u, l.s);
  s = mx::where(mx::squeeze(whole, -1, l.s), s, nan_of(x), l.s);
  u = mx::where(whole, mx::multiply(u, signs, l.s), nan_of(x), l.s);
  vt = mx::where(whole, mx::multiply(vt, adjoint(signs, l.s), l.s), nan_of(x), l.s);
  return {narrowed(l, u, 0), narrowed(l, s, 1), narrowed(l, vt, 2)};
}

Lowered lower_lu(Lowering& l) {
  // Of a matrix without columns the permutation has elements still, and MLX divides by the size of a matrix.
  if (l.in[0].size() == 0) {
    const mx::array rows = mx::arange(0, l.in[0].shape(-2), 1, mx::int32, l.s);
    return {mx::zeros(l.shape(0), l.dtype(0), l.s), mx::zeros(l.shape(1), l.dtype(1), l.s),
            mx::astype(mx::broadcast_to(rows, l.shape(2), l.s), l.dtype(2), l.s)};
  }
  const mx::array packed = mx::linalg::lu_factor(in_f64(l), l.s).first;
  const std::vector<mx::array> all = packed.outputs();  // the factors, the pivots, and where each row went
  return {narrowed(l, packed, 0), narrowed(l, all[1], 1), narrowed(l, mx::argsort(all[2], -1, l.s), 2)};
}

}  // namespace rlx::mlx_backend
