// Eigenvalues and eigenvectors of Hermitian matrices, by Jacobi's rotations, and what their cotangents make of x.
#include <limits>
#include <numeric>

#include "ops/control/subgraph_rules.h"
#include "ops/linalg/jacobi.h"
#include "ops/linalg/unblocked.h"
#include "rlx/ops/control.h"
#include "rlx/ops/sort.h"
#include "rlx/ops/take.h"

namespace rlx {

Eigenpairs eigh(Value x, Triangle reads) {
  auto both = x.graph().emit(op::eigh, {x}, TriangleAttrs{reads});
  return {both[0], both[1]};
}
Value eigh_backward(Value values, Value vectors, Value ct_values, Value ct_vectors) {
  return emit(op::eigh_backward, {values, vectors, ct_values, ct_vectors});
}

namespace {

/// Sweeps over all pairs until what is left beside the diagonal is lost in rounding. x becomes diagonal; returns the
/// eigenvectors. In the order that the sweeps leave. x is scaled (plain::scale_of).
template <class T>
plain::Matrix<T> diagonalize(plain::Matrix<T>& x) {
  auto v = plain::Matrix<T>::identity(x.rows);
  double all = 0;
  for (T element : x.data) all += plain::squared(element);
  constexpr double eps = std::numeric_limits<double>::epsilon();
  for (int sweep = 0; sweep < 60; ++sweep) {
    double off = 0;
    for (int64_t i = 0; i < x.rows; ++i)
      for (int64_t j = 0; j < x.rows; ++j) off += i == j ? 0 : plain::squared(x(i, j));
    if (!(off > eps * eps * eps * all)) break;
    for (int64_t p = 0; p < x.rows; ++p)
      for (int64_t q = p + 1; q < x.rows; ++q) {
        double alpha = plain::real_of(x(p, p)), beta = plain::real_of(x(q, q)), size = std::abs(x(p, q));
        plain::Rotation<T> rotation(alpha, beta, x(p, q));
        rotation.columns(x, p, q), rotation.rows(x, p, q), rotation.columns(v, p, q);
        x(p, q) = x(q, p) = 0, x(p, p) = alpha - rotation.t * size, x(q, q) = beta + rotation.t * size;
      }
  }
  return v;
}

Many<Value> eigh_parts(Graph& g, Value x, Triangle reads) {
  Type type = x.type();
  int64_t n = known_extent(x.dim(-1), "eigh"), even = jacobi::even(n), half = even / 2;
  Value h = one_stack(hermitian(x, reads)), bad = bitwise_not(all_finite(h));
  Dim batch = h.dim(0);
  auto results = [&](Value values, Value vectors) {
    return Many<Value>({unstacked(nan_where(bad, values, 1), type, 1), unstacked(nan_where(bad, vectors, 2), type)});
  };
  if (n < 2) return results(real_of(reshape(h, {batch, n})), full_like(h, 1));

  Value scale = scale_of(h);
  h = zero_padded(divided_by(h, scale), even, even);
  Value identity = broadcast_to(eye(g, {h.dtype(), {even, even}}), h.dims());
  double eps = epsilon_of(h.dtype());
  Value enough = reduce_sum(squared_magnitude(h), {1, 2}) * (eps * eps);

  std::vector<Type> round_types = {h.type(), h.type()}, types = {h.type(), h.type(), enough.type()};
  Graph round = trace(round_types, [&](Graph& b, Values v) {
    Value a = v[0], on = real_of(diagonal(a)), corner = slice(a, {0, 0, half}, {batch, half, even});
    Value alpha = slice_axis(on, 1, 0, half), beta = slice_axis(on, 1, half, even);
    jacobi::Rotations rotations(alpha, beta, diagonal(corner));
    a = rotations.rows(rotations.columns(a));
    // What the rotations are made for, exactly: rounding would leave something that never vanishes.
    Value row = iota(b, {i32, {even, even}}, 0), column = iota(b, {i32, {even, even}}, 1);
    Value partner = bitwise_or(compare(row + double(half), column, Comparison::eq),
                               compare(column + double(half), row, Comparison::eq));
    on = diag(concatenate({alpha - rotations.shift, beta + rotations.shift}, 1));
    a = select(partner, zeros_like(a), select(compare(row, column, Comparison::eq), convert(on, a.dtype()), a));
    Value vectors = rotations.columns(v[1]);
    return std::vector{jacobi::next_round(jacobi::next_round(a, 1), 2), jacobi::next_round(vectors, 2)};
  });
  Graph unfinished = trace(types, [&](Graph& b, Values v) {
    Value off = select(diagonal_mask(b, even), zeros_like(v[0]), v[0]);
    return reduce_any(compare(reduce_sum(squared_magnitude(off), {1, 2}), v[2], Comparison::gt), {0});
  });
  Graph sweep = trace(types, [&](Graph& b, Values v) {
    return scan(b, {v[0], v[1]}, {.carries = 2, .length = even - 1, .body = round});
  });
  auto out = while_loop({h, identity, enough}, {2, unfinished, sweep, jacobi::kMostSweeps});
  Value values = slice_axis(real_of(diagonal(out[0])), 1, 0, n) * as_column(scale);
  Value vectors = slice(out[1], {0, 0, 0}, {batch, n, n});
  Value order = argsort(values, 1);
  values = take_along_axis(values, order, 1), vectors = permuted_columns(vectors, order);
  vectors = vectors * conjugate(phase_of(at_place(vectors, leading_place(vectors))));
  return results(values, vectors);
}

}  // namespace

OpDef define_eigh() {
  return define<TriangleAttrs>({
      .name = "eigh",
      .doc =
          "of a Hermitian matrix, of which `reads` is read: the eigenvalues, ascending, and eigenvectors as columns. "
          "In "
          "each column the first component of at least 0.45 times the largest magnitude is real and positive. NaN if x "
          "is not finite",
      .source = "Golub, Van Loan, Matrix Computations, 8.5: Jacobi's method; LAPACK xSYEVD",
      .operands = {"x"},
      .covers = {"Eigh", "EighBatch"},
      .infer = [](Types in, const TriangleAttrs&) -> Many<Type> {
        const Dim& n = require_square(in[0]);
        return {Type{real_part(in[0].dtype), with_batch(in[0], {n})}, in[0]};
      },
      .reference = [](Tensors in, const TriangleAttrs& a) -> Many<Tensor> {
        return plain::with_field(in[0].dtype(), [&]<class T>() -> Many<Tensor> {
          Array<T> x(in[0]);
          int64_t n = x.shape.back();
          Array<double> values(plain::with_batch(x.shape, {n}));
          for (int64_t b = 0; b < plain::stack_size(x.shape); ++b) {
            auto h = plain::hermitian(plain::matrix_at(x, b), a.reads);
            std::vector<double> w(size_t(n), NAN);
            plain::Matrix<T> v(n, n, T(NAN));
            if (h.is_finite()) {
              double scale = plain::scale_of(h);
              plain::divide(h, scale);
              v = diagonalize(h);
              std::vector<int64_t> order(size_t(n), 0);
              std::iota(order.begin(), order.end(), 0);
              std::stable_sort(order.begin(), order.end(),
                               [&](int64_t i, int64_t j) { return plain::real_of(h(i, i)) < plain::real_of(h(j, j)); });
              v = plain::columns_at(v, order);
              plain::turn_columns(v, plain::phases(v));
              for (int64_t i = 0; i < n; ++i)
                w[size_t(i)] = plain::real_of(h(order[size_t(i)], order[size_t(i)])) * scale;
            }
            plain::put(values, b, w), plain::put(x, b, v);
          }
          return {values.rounded_to(real_part(in[0].dtype())), x.rounded_to(in[0].dtype())};
        });
      },
      .decompose = [](Graph& g, Values in, const TriangleAttrs& a) { return eigh_parts(g, in[0], a.reads); },
      .vjp =
          [](Values, Values out, Values cts, const TriangleAttrs& a) {
            Value ct = eigh_backward(out[0], out[1], or_zero(cts[0], out[0]), or_zero(cts[1], out[1]));
            return ct_of(hermitian_bar(bar_of(ct), a.reads));
          },
      .batch = batch_as_stack<TriangleAttrs>(op::eigh),
      .samples = {{.dims = {{3, 3}}},
                  {.dims = {{2, 2}}, .attrs = TriangleAttrs{Triangle::lower}},
                  {.dims = {{2, 1, 2, 2}}, .attrs = TriangleAttrs{Triangle::upper}},
                  {.dims = {{1, 1}}},
                  {.dims = {{2, 0, 0}}}},
  });
}

OpDef define_eigh_backward() {
  return define<>({
      .name = "eigh_backward",
      .doc = "the cotangent of Hermitian x that cotangents of eigh's results make: V (diag(l) + F∘(Vᵀ ct)) Vᵀ made "
             "symmetric, F_ij = 1 / (w_j - w_i), 0 where the gap is at most 4 eps times the largest |w|",
      .source = "Giles, An extended collection of matrix derivative results (2008), 3.1",
      .operands = {"values", "vectors", "ct_values", "ct_vectors"},
      .covers = {"EighBackward", "EighBatchBackward"},
      .infer =
          [](Types in) {
            const Dim& n = require_square(in[1], "vectors");
            Type values{real_part(in[1].dtype), with_batch(in[1], {n})};
            for (size_t i : {size_t{0}, size_t{2}})
              if (in[i] != values)
                fail(ErrorCode::shape_mismatch, i == 0 ? "values" : "ct_values", " must be ", values, " for vectors ",
                     in[1], ", got ", in[i]);
            if (in[3] != in[1])
              fail(ErrorCode::shape_mismatch, "ct_vectors must be ", in[1], " as the vectors are, got ", in[3]);
            return in[1];
          },
      .decompose =
          [](Values in) {
            Value w = in[0], v = in[1], bar = bar_of(in[3]);
            if (Value turn = phase_bar(v, turning_of(bar, v))) bar = bar + turn;
            Value gap = as_row(w) - as_column(w);
            Value least = as_column(reduce_max(abs(w), {-1}, true)) * (4 * epsilon_of(w.dtype()));
            Value lost = compare(abs(gap), least, Comparison::le);
            Value f = select(lost, zeros_like(gap), 1.0 / select(lost, full_like(gap, 1), gap));
            Value inner = convert(f, v.dtype()) * matmul(adjoint(v), bar) + diag(convert(in[2], v.dtype()));
            Value x = matmul(matmul(v, inner), adjoint(v));
            return ct_of((x + adjoint(x)) * 0.5);
          },
      .batch =
          [](Values in) {
            return Many<Value>(in[0].graph().emit(op::eigh_backward, {in.begin(), in.end()}));
          },
      .samples = {{.dims = {{3}, {3, 3}, {3}, {3, 3}}},
                  {.dims = {{2, 2}, {2, 2, 2}, {2, 2}, {2, 2, 2}}},
                  {.dims = {{1}, {1, 1}, {1}, {1, 1}}},
                  {.dims = {{2, 0}, {2, 0, 0}, {2, 0}, {2, 0, 0}}}},
  });
}

}  // namespace rlx
