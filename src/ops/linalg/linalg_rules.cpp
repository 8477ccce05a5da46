// See the header.
#include "ops/linalg/linalg_rules.h"

#include "rlx/ops/elementary.h"
#include "rlx/ops/take.h"

namespace rlx {

// ---- types ----
void require_matrices(const Type& x, std::string_view name) {
  if (x.dtype != f32 && x.dtype != f64 && x.dtype != c64 && x.dtype != c128)
    fail(ErrorCode::invalid_argument, name, " must be f32, f64, c64 or c128, got ", x,
         is_low_precision(x.dtype) || is_integer(x.dtype) ? "; convert it to f32 first" : "");
  if (x.rank() < 2)
    fail(ErrorCode::shape_mismatch, name, " must be a matrix or a stack of them, got ", x, " of rank ", x.rank());
  for (const Dim& extent : {rows_of(x), cols_of(x)})
    if (extent.is_static() && extent.value() > INT32_MAX)
      fail(ErrorCode::unsupported, name, " has an extent of ", extent, " (", x,
           "); LAPACK and pivots count in 32 bits, up to ", INT32_MAX);
}
const Dim& require_square(const Type& x, std::string_view name) {
  require_matrices(x, name);
  if (rows_of(x) != cols_of(x))
    fail(ErrorCode::shape_mismatch, name, " must be square, got ", x, " with ", rows_of(x), " rows and ", cols_of(x),
         " columns");
  return cols_of(x);
}
Dims batch_of(const Dims& dims) { return {dims.begin(), dims.end() - 2}; }
Dim least_extent(const Type& x) {
  const Dim &m = rows_of(x), &n = cols_of(x);
  if (m == n) return m;
  if (!m.is_static() || !n.is_static())
    fail(ErrorCode::unsupported, "which of ", m, " and ", n, " is smaller is not known for ", x,
         "; give one of them as a number");
  return std::min(m.value(), n.value());
}
Dims with_batch(const Type& x, Dims dims) {
  Dims all = batch_of(x.dims);
  all.insert(all.end(), dims.begin(), dims.end());
  return all;
}
int64_t known_extent(const Dim& d, std::string_view op) {
  if (!d.is_static())
    fail(ErrorCode::unsupported, "the decomposition of '", op, "' is for a given size, not for ", d, " rows");
  return d.value();
}
bool is_vectors(const Type& a, const Type& b) {
  bool vectors = b.rank() + 1 == a.rank();
  if (!vectors && b.rank() != a.rank())
    fail(ErrorCode::shape_mismatch, "b must be matrices of rank ", a.rank(), " or vectors of rank ", a.rank() - 1,
         " for a ", a, ", got ", b);
  Dims wanted = batch_of(a.dims);
  wanted.push_back(rows_of(a));
  if (!std::equal(wanted.begin(), wanted.end(), b.dims.begin())) {
    if (!vectors) wanted.push_back(b.dims.back());
    fail(ErrorCode::shape_mismatch, "b must be ", Type{b.dtype, wanted}, " for a ", a, ", got ", b);
  }
  return vectors;
}

// ---- arithmetic on stacks ----
Value transposed(Value x) { return swap_axes(x, -1, -2); }
Value adjoint(Value x) { return conjugate(transposed(x)); }
Value real_of(Value x) { return is_complex(x.dtype()) ? real(x) : x; }
Value imag_of(Value x) { return is_complex(x.dtype()) ? imag(x) : zeros_like(x); }
Value squared_magnitude(Value x) {
  if (!is_complex(x.dtype())) return x * x;
  Value re = real(x), im = imag(x);
  return re * re + im * im;
}
Value identity_like(Value x) { return eye(x.graph(), {x.dtype(), {x.dim(-1), x.dim(-1)}}); }
Value first_columns(Value x, const Dim& count) { return count == x.dim(-1) ? x : slice_axis(x, -1, 0, count); }
Value first_rows(Value x, const Dim& count) { return count == x.dim(-2) ? x : slice_axis(x, -2, 0, count); }
Value zero_padded(Value x, const Dim& m, const Dim& n) {
  if (x.dim(-2) == m && x.dim(-1) == n) return x;
  Dims low(x.dims().size(), Dim(0)), high = low;
  high[high.size() - 2] = m - x.dim(-2), high.back() = n - x.dim(-1);
  return pad(x, scalar(x.graph(), 0, x.dtype()), {low, high, {}});
}
Value permuted_rows(Value x, Value perm) {
  return take_along_axis(x, broadcast_to(as_column(perm), x.dims()), x.rank() - 2);
}
Value permuted_columns(Value x, Value perm) {
  Dims dims = x.dims();
  dims.back() = perm.dim(-1);
  return take_along_axis(x, broadcast_to(as_row(perm), dims), x.rank() - 1);
}
Value one_stack(Value x, int64_t matrix_rank) {
  Dims batch(x.dims().begin(), x.dims().end() - matrix_rank), dims(x.dims().end() - matrix_rank, x.dims().end());
  return reshape(x, prepend(element_count(batch), dims));
}
Value unstacked(Value x, const Type& like, int64_t matrix_rank) {
  Dims dims = batch_of(like.dims);
  dims.insert(dims.end(), x.dims().end() - matrix_rank, x.dims().end());
  return reshape(x, std::move(dims));
}
Value nan_where(Value bad, Value x, int64_t rank) {
  Value mask = broadcast_in_dim(bad, x.dims(), axes_from(0, x.dims().size() - size_t(rank)));
  return select(mask, full_like(x, std::numeric_limits<double>::quiet_NaN()), x);
}
Value all_finite(Value x) {
  Value ok = is_finite(real_of(x));
  if (is_complex(x.dtype())) ok = bitwise_and(ok, is_finite(imag(x)));
  return reduce_all(ok, {x.rank() - 2, x.rank() - 1});
}
Value scale_of(Value x) {
  Value largest = reduce_max(abs(x), {1, 2});
  return stop_gradient(select(compare(largest, zeros_like(largest), Comparison::eq), full_like(largest, 1), largest));
}
Value divided_by(Value x, Value scale) { return x / convert(as_column(as_column(scale)), x.dtype()); }
Value diagonal_mask(Graph& g, const Dim& n) { return eye(g, {boolean, {n, n}}); }

Value hermitian(Value x, Triangle reads) {
  if (reads == Triangle::both) return (x + adjoint(x)) * 0.5;
  Value part = trilu(x, reads == Triangle::upper, reads == Triangle::upper ? 1 : -1);
  Value on = diagonal_mask(x.graph(), x.dim(-1));
  return select(on, convert(real_of(x), x.dtype()), part + adjoint(part));
}
Value hermitian_bar(Value bar, Triangle reads) {
  if (reads == Triangle::both) return (bar + adjoint(bar)) * 0.5;
  Value part = trilu(bar + adjoint(bar), reads == Triangle::upper, reads == Triangle::upper ? 1 : -1);
  return select(diagonal_mask(bar.graph(), bar.dim(-1)), convert(real_of(bar), bar.dtype()), part);
}

double epsilon_of(DType t) {
  return real_part(t) == f32 ? double(std::numeric_limits<float>::epsilon()) : std::numeric_limits<double>::epsilon();
}
Value leading_place(Value v) {
  if (v.dim(-2) == Dim(0)) {
    Dims dims = v.dims();
    dims[dims.size() - 2] = 1;
    return full(v.graph(), 0, {i32, dims});
  }
  Value magnitude = abs(v);
  Value enough = compare(magnitude, reduce_max(magnitude, {-2}, true) * kLeadingShare, Comparison::ge);
  return argmax(convert(enough, i32), -2, true);
}
Value at_place(Value v, Value place) { return take_along_axis(v, place, v.rank() - 2); }
Value phase_of(Value x) {
  Value none = compare(x, zeros_like(x), Comparison::eq), one = full_like(x, 1);
  return select(none, one, sign(select(none, one, x)));
}
Value phase_bar(Value v, Value turning) {
  if (!is_complex(v.dtype())) return {};
  Value place = leading_place(v), rows = iota(v.graph(), {i32, {v.dim(-2), 1}}, 0);
  Value at = compare(rows, place, Comparison::eq);
  Value share = turning / real(at_place(v, place));
  return select(at, complex(zeros_like(share), share), zeros_like(v));
}
Value turning_of(Value bar, Value v) { return imag_of(reduce_sum(conjugate(bar) * v, {v.rank() - 2}, true)); }

}  // namespace rlx
