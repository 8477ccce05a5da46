// Eigenvalues and eigenvectors of any square matrix, by the shifted QR iteration to Schur's triangular form.
#include <numeric>

#include "ops/control/subgraph_rules.h"
#include "ops/linalg/unblocked.h"
#include "rlx/ops/control.h"
#include "rlx/ops/elementary.h"
#include "rlx/ops/index.h"
#include "rlx/ops/sort.h"
#include "rlx/ops/take.h"

namespace rlx {

Eigenpairs eig(Value x) {
  auto both = x.graph().emit(op::eig, {x});
  return {both[0], both[1]};
}

namespace {

// Eigenvalues have no order of their own. Theirs is along this direction of the plane: conjugate pairs, whose real
// parts differ by rounding only, are kept apart by their imaginary ones.
constexpr double kSlant = 0.3;
constexpr double kEps = std::numeric_limits<double>::epsilon();

using ComplexMatrix = plain::Matrix<Complex>;

/// x = q t qᴴ with t upper triangular; x becomes t. First to Hessenberg's form by reflections, then the QR iteration by
/// plane rotations with Wilkinson's shift.
ComplexMatrix schur(ComplexMatrix& x) {
  int64_t n = x.rows;
  auto q = ComplexMatrix::identity(n);
  for (int64_t j = 0; j + 2 < n; ++j)
    for (int64_t i = n - 1; i > j + 1; --i) {  // clears x(i, j) against x(j + 1, j)
      double size = std::hypot(std::abs(x(j + 1, j)), std::abs(x(i, j)));
      if (x(i, j) == 0.0 || size == 0) continue;
      Complex c = x(j + 1, j) / size, s = x(i, j) / size;
      for (int64_t k = 0; k < n; ++k) {
        Complex a = x(j + 1, k), b = x(i, k);
        x(j + 1, k) = std::conj(c) * a + std::conj(s) * b, x(i, k) = c * b - s * a;
      }
      for (int64_t k = 0; k < n; ++k) {
        Complex a = x(k, j + 1), b = x(k, i);
        x(k, j + 1) = a * c + b * s, x(k, i) = b * std::conj(c) - a * std::conj(s);
        a = q(k, j + 1), b = q(k, i);
        q(k, j + 1) = a * c + b * s, q(k, i) = b * std::conj(c) - a * std::conj(s);
      }
      x(i, j) = 0;
    }
  std::vector<Complex> c(size_t(n), 0.0), s(size_t(n), 0.0);
  int trips = 0;
  for (int64_t hi = n - 1; hi > 0;) {
    int64_t lo = hi;
    while (lo > 0 && std::abs(x(lo, lo - 1)) > kEps * (std::abs(x(lo, lo)) + std::abs(x(lo - 1, lo - 1)))) --lo;
    if (lo > 0) x(lo, lo - 1) = 0;
    if (lo == hi || ++trips > 200 * n) {
      --hi;
      continue;
    }
    Complex a = x(hi - 1, hi - 1), d = x(hi, hi), half = (a - d) * 0.5;
    Complex root = std::sqrt(half * half + x(hi - 1, hi) * x(hi, hi - 1));
    Complex shift = d + half + (std::abs(half + root) < std::abs(half - root) ? root : -root);
    if (trips % 11 == 10) shift = d + std::abs(x(hi, hi - 1));  // for matrices on which the iteration turns in circles
    for (int64_t i = lo; i <= hi; ++i) x(i, i) -= shift;
    for (int64_t i = lo; i < hi; ++i) {
      double size = std::hypot(std::abs(x(i, i)), std::abs(x(i + 1, i)));
      c[size_t(i)] = size == 0 ? 1.0 : x(i, i) / size, s[size_t(i)] = size == 0 ? 0.0 : x(i + 1, i) / size;
      for (int64_t k = i; k < n; ++k) {
        Complex u = x(i, k), v = x(i + 1, k);
        x(i, k) = std::conj(c[size_t(i)]) * u + std::conj(s[size_t(i)]) * v;
        x(i + 1, k) = c[size_t(i)] * v - s[size_t(i)] * u;
      }
    }
    for (int64_t i = lo; i < hi; ++i) {
      auto turn = [&](ComplexMatrix& m, int64_t rows) {
        for (int64_t k = 0; k < rows; ++k) {
          Complex u = m(k, i), v = m(k, i + 1);
          m(k, i) = u * c[size_t(i)] + v * s[size_t(i)];
          m(k, i + 1) = v * std::conj(c[size_t(i)]) - u * std::conj(s[size_t(i)]);
        }
      };
      turn(x, std::min(i + 2, hi + 1)), turn(q, n);
    }
    for (int64_t i = lo; i <= hi; ++i) x(i, i) += shift;
  }
  return q;
}

void eigenpairs(ComplexMatrix x, std::vector<Complex>& values, ComplexMatrix& vectors) {
  int64_t n = x.rows;
  values.assign(size_t(n), Complex(NAN, NAN)), vectors = ComplexMatrix(n, n, Complex(NAN, NAN));
  if (!x.is_finite()) return;
  double all = 0, scale = plain::scale_of(x);
  plain::divide(x, scale);
  for (Complex element : x.data) all = std::hypot(all, std::abs(element));
  ComplexMatrix q = schur(x), y(n, n);
  for (int64_t k = 0; k < n; ++k) {
    y(k, k) = 1;
    for (int64_t i = k; i-- > 0;) {
      Complex sum = 0, gap = x(k, k) - x(i, i);
      for (int64_t j = i + 1; j <= k; ++j) sum += x(i, j) * y(j, k);
      if (std::abs(gap) <= kEps * all) gap = all == 0 ? 1.0 : kEps * all;
      y(i, k) = sum / gap;
    }
  }
  ComplexMatrix v = q * y;
  std::vector<int64_t> order(size_t(n), 0);
  std::iota(order.begin(), order.end(), 0);
  auto key = [&](int64_t i) { return x(i, i).real() + kSlant * x(i, i).imag(); };
  std::stable_sort(order.begin(), order.end(), [&](int64_t i, int64_t j) { return key(i) < key(j); });
  vectors = plain::columns_at(v, order);
  auto divisors = plain::phases(vectors);
  for (int64_t j = 0; j < n; ++j) {
    double norm = 0;
    for (int64_t i = 0; i < n; ++i) norm = std::hypot(norm, std::abs(vectors(i, j)));
    for (int64_t i = 0; i < n; ++i) vectors(i, j) /= norm * divisors[size_t(j)];
    values[size_t(j)] = x(order[size_t(j)], order[size_t(j)]) * scale;
  }
}

/// The same on full matrices: QR of what is left, shifted, once a trip; a last row that has vanished leaves. Every
/// matrix of the stack is in a stage of its own: `last` is its last row that has not left.
Many<Value> eig_parts(Graph& g, Value x) {
  DType dtype = real_part(x.dtype()) == f32 ? c64 : c128;
  Type type{dtype, x.dims()};
  int64_t n = known_extent(x.dim(-1), "eig");
  if (n == 0) return {full(g, 0, {dtype, with_batch(type, {0})}), full(g, 0, type)};
  x = one_stack(convert(x, dtype));
  Dim batch = x.dim(0);
  Value bad = bitwise_not(all_finite(x));
  x = select(as_column(as_column(bad)), zeros_like(x), x);
  Value scale = scale_of(x);
  x = divided_by(x, scale);
  Value size = sqrt(reduce_sum(squared_magnitude(x), {1, 2}));
  double eps = epsilon_of(dtype);
  Value identity = broadcast_to(eye(g, {dtype, {n, n}}), x.dims());
  Value last = full(g, double(n - 1), {i32, {batch}}), waited = full(g, 0, {i32, {batch}});
  std::vector<Type> types = {x.type(), x.type(), last.type(), waited.type(), size.type()};
  Graph unfinished =
      trace(types, [&](Values v) { return reduce_any(compare(v[2], zeros_like(v[2]), Comparison::gt), {0}); });
  Graph trip = trace(types, [&](Graph& b, Values v) {
    Value t = v[0], end = v[2];
    Value place = iota(b, {i32, {batch, n}}, 1), is_end = compare(place, as_column(end), Comparison::eq);
    Value is_before = compare(place, as_column(end) - 1.0, Comparison::eq);
    auto element = [&](Value row, Value column) {
      Value mask = bitwise_and(broadcast_to(as_column(row), t.dims()), broadcast_to(as_row(column), t.dims()));
      return reduce_sum(select(mask, t, zeros_like(t)), {1, 2});
    };
    Value d = element(is_end, is_end), half = (element(is_before, is_before) - d) * 0.5;
    Value below = element(is_end, is_before), root = sqrt(half * half + element(is_before, is_end) * below);
    Value shift = d + half + select(compare(abs(half + root), abs(half - root), Comparison::lt), root, -root);
    Value circling = compare(rem(v[3], full_like(v[3], 11)), full_like(v[3], 10), Comparison::eq);
    shift = select(circling, d + convert(abs(below) + v[4] * 0.1, dtype), shift);
    Value kept = compare(place, as_column(end), Comparison::le);
    Value active = bitwise_and(broadcast_to(as_column(kept), t.dims()), broadcast_to(as_row(kept), t.dims()));
    Value unit = eye(b, {dtype, {n, n}});
    Value q = qr(select(active, t - as_column(as_column(shift)) * unit, unit)).q;
    t = matmul(matmul(adjoint(q), t), q);
    Value row = bitwise_and(broadcast_to(as_column(is_end), t.dims()),
                            broadcast_to(as_row(compare(place, as_column(end), Comparison::lt)), t.dims()));
    Value left = reduce_sum(select(row, abs(t), zeros_like(abs(t))), {1, 2});
    Value leaves =
        bitwise_and(compare(left, v[4] * eps, Comparison::le), compare(end, zeros_like(end), Comparison::gt));
    t = select(bitwise_and(row, broadcast_to(as_column(as_column(leaves)), t.dims())), zeros_like(t), t);
    return std::vector{t, matmul(v[1], q), end - convert(leaves, i32), select(leaves, zeros_like(v[3]), v[3] + 1.0)};
  });
  auto out = while_loop({x, identity, last, waited, size}, {4, unfinished, trip, 60 * n});
  Value t = triu(out[0]), w = diagonal(t);

  // Eigenvectors of t: column k from row k upwards, all columns at once.
  Value least = size * eps;
  least = select(compare(least, zeros_like(least), Comparison::eq), full_like(least, 1), least);
  std::vector<Type> back = {x.type(), {i32, {}}, {dtype, {batch, n}}, w.type(), least.type()};
  Graph row = trace(back, [&](Graph& b, Values v) {
    Value i = v[1], column = iota(b, {i32, {n}}, 0);
    Value own = dynamic_slice_axis(v[3], 1, i, 1), gap = v[3] - own,
          smallest = broadcast_to(as_column(v[4]), v[3].dims());
    gap = select(compare(abs(gap), smallest, Comparison::le), convert(smallest, dtype), gap);
    Value sum = reshape(matmul(as_row(v[2]), v[0]), {batch, n});
    Value y = select(compare(column, i, Comparison::gt), sum / gap, convert(compare(column, i, Comparison::eq), dtype));
    return dynamic_update_axis(v[0], as_row(y), 1, i);
  });
  Value y = scan(g, {zeros_like(x), iota(g, {i32, {n}}, 0), move_axis(t, 1, 0), w, least},
                 {.carries = 1, .xs = 2, .length = n, .reverse = true, .body = row})[0];
  Value vectors = matmul(out[1], y), order = argsort(real(w) + imag(w) * kSlant, 1);
  w = take_along_axis(w, order, 1) * convert(as_column(scale), dtype), vectors = permuted_columns(vectors, order);
  Value norm = sqrt(reduce_sum(squared_magnitude(vectors), {1}, true));
  vectors = vectors / convert(norm, dtype) * conjugate(phase_of(at_place(vectors, leading_place(vectors))));
  return {unstacked(nan_where(bad, w, 1), type, 1), unstacked(nan_where(bad, vectors, 2), type)};
}

}  // namespace

OpDef define_eig() {
  return define<>({
      .name = "eig",
      .doc =
          "of any square matrix: complex eigenvalues w, ascending in Re w + 0.3 Im w, and eigenvectors as columns of "
          "norm 1. In each the first component of at least 0.45 times the largest magnitude is real and positive. NaN "
          "if x is not finite",
      .source =
          "Golub, Van Loan, Matrix Computations, 7.5; LAPACK xGEEV. Derivative: Boeddeker et al., arXiv 1701.00392",
      .operands = {"x"},
      .infer = [](Types in) -> Many<Type> {
        const Dim& n = require_square(in[0]);
        DType t = real_part(in[0].dtype) == f32 ? c64 : c128;
        return {Type{t, with_batch(in[0], {n})}, Type{t, in[0].dims}};
      },
      .reference = [](Tensors in) -> Many<Tensor> {
        DType dtype = real_part(in[0].dtype()) == f32 ? c64 : c128;
        return plain::with_field(in[0].dtype(), [&]<class T>() -> Many<Tensor> {
          Array<T> x(in[0]);
          Array<Complex> w(plain::with_batch(x.shape, {x.shape.back()})), v(x.shape);
          for (int64_t b = 0; b < plain::stack_size(x.shape); ++b) {
            auto matrix = plain::matrix_at(x, b);
            ComplexMatrix vectors, m(matrix.rows, matrix.cols);
            std::copy(matrix.data.begin(), matrix.data.end(), m.data.begin());
            std::vector<Complex> values;
            eigenpairs(m, values, vectors);
            plain::put(w, b, values), plain::put(v, b, vectors);
          }
          return {w.rounded_to(dtype), v.rounded_to(dtype)};
        });
      },
      .decompose = [](Graph& g, Values in, const NoAttrs&) { return eig_parts(g, in[0]); },
      .vjp = [](Values in, Values out, Values cts) -> Many<Value> {
        Value w = out[0], v = out[1], inner;
        if (cts[1]) {
          // What of the bar does not change the columns' norms, and their phase, whose leading component is real.
          Value bar = bar_of(cts[1]);
          Value along = reduce_sum(conjugate(bar) * v, {v.rank() - 2}, true);
          bar = bar + phase_bar(v, imag(along)) - v * convert(real(along), v.dtype());
          Value gap = as_row(w) - as_column(w), least = reduce_max(abs(w), {-1}, true) * (4 * epsilon_of(w.dtype()));
          Value size = abs(gap), lost = compare(size, as_column(least), Comparison::le);
          Value f = select(lost, zeros_like(gap), full_like(gap, 1) / select(lost, full_like(gap, 1), gap));
          inner = conjugate(f) * matmul(adjoint(v), bar);
        }
        if (cts[0]) inner = inner ? inner + diag(bar_of(cts[0])) : diag(bar_of(cts[0]));
        Value x = solve(v, matmul(inner, adjoint(v)), Transposition::adjoint);
        return ct_of(is_complex(in[0].dtype()) ? x : real(x));
      },
      .batch = [](Values in) { return Many<Value>(in[0].graph().emit(op::eig, {in[0]})); },
      .samples =
          {{.dims = {{3, 3}}}, {.dims = {{2, 2}}}, {.dims = {{2, 1, 2, 2}}}, {.dims = {{1, 1}}}, {.dims = {{2, 0, 0}}}},
  });
}

}  // namespace rlx
