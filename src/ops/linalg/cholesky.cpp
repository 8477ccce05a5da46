// Cholesky's factor of a positive definite matrix.
#include "ops/linalg/unblocked.h"
#include "rlx/ops/control.h"
#include "rlx/ops/index.h"

namespace rlx {

Value cholesky(Value x, bool lower, Triangle reads) { return emit(op::cholesky, {x}, CholeskyAttrs{lower, reads}); }

namespace {

template <class T>
plain::Matrix<T> cholesky_of(const plain::Matrix<T>& x, const CholeskyAttrs& a) {
  auto h = plain::hermitian(x, a.reads);
  plain::Matrix<T> l(x.rows, x.cols);
  bool definite = true;
  for (int64_t j = 0; j < x.rows; ++j)
    for (int64_t i = j; i < x.rows; ++i) {
      T sum = h(i, j);
      for (int64_t k = 0; k < j; ++k) sum -= l(i, k) * plain::conjugated(l(j, k));
      if (i == j) definite = definite && plain::real_of(sum) > 0;
      l(i, j) = i == j ? T(std::sqrt(plain::real_of(sum))) : sum / l(j, j);
    }
  for (int64_t i = 0; i < x.rows && !definite; ++i)
    for (int64_t j = 0; j <= i; ++j) l(i, j) = NAN;
  return a.lower ? l : l.adjoint();
}

/// Column after column, each from those before it.
Value cholesky_parts(Graph& g, Value x, const CholeskyAttrs& a) {
  Type type = x.type();
  if (x.dim(-1) == Dim(0)) return x;
  x = one_stack(hermitian(x, a.reads));
  Dim batch = x.dim(0), n = x.dim(2);
  std::vector<Type> types = {x.type(), {i32, {}}, x.type()};
  Graph step = trace(types, [&](Graph& b, Values v) {
    Value l = v[0], j = v[1], h = v[2];
    Value row = iota(b, {i32, {n, 1}}, 0), column = iota(b, {i32, {n}}, 0);
    Value at = dynamic_slice_axis(h, 2, j, 1) - matmul(l, adjoint(dynamic_slice_axis(l, 1, j, 1)));  // [batch, n, 1]
    Value root = sqrt(real_of(dynamic_slice_axis(at, 1, j, 1)));
    Value below = at / convert(root, at.dtype());
    Value made = select(compare(row, j, Comparison::eq), convert(root, at.dtype()),
                        select(compare(row, j, Comparison::gt), below, zeros_like(below)));
    return select(compare(column, j, Comparison::eq), made, l);
  });
  Value l = scan(g, {zeros_like(x), iota(g, {i32, {n}}, 0), x}, {.carries = 1, .xs = 1, .length = n, .body = step})[0];
  Value on = real_of(diagonal(l));
  Value indefinite = bitwise_not(reduce_all(compare(on, zeros_like(on), Comparison::gt), {1}));
  l = tril(nan_where(indefinite, l, 2));
  return unstacked(a.lower ? l : adjoint(l), type);
}

}  // namespace

OpDef define_cholesky() {
  return define<CholeskyAttrs>({
      .name = "cholesky",
      .doc =
          "L with x = L Lᴴ (not `lower`: its adjoint) of Hermitian x, of which `reads` is read; the other triangle of "
          "the result is 0. All NaN in the triangle if x is not positive definite",
      .source = "Golub, Van Loan, Matrix Computations, 4.2; derivative: Murray, arXiv 1602.07527",
      .operands = {"x"},
      .covers = {"Cholesky"},
      .infer = [](Types in, const CholeskyAttrs&) { return require_square(in[0]), in[0]; },
      .reference =
          [](Tensors in, const CholeskyAttrs& a) {
            return plain::map_matrices(in[0], [&](const auto& x) { return cholesky_of(x, a); });
          },
      .decompose = [](Graph& g, Values in, const CholeskyAttrs& a) { return cholesky_parts(g, in[0], a); },
      .vjp =
          [](Values, Value y, Value ct, const CholeskyAttrs& a) {
            Value l = a.lower ? y : adjoint(y), bar = bar_of(ct);
            if (!a.lower) bar = adjoint(bar);
            // The lower triangle, half of the diagonal.
            Value half = select(diagonal_mask(l.graph(), l.dim(-1)), full_like(l, 0.5), full_like(l, 1));
            Value s = tril(matmul(adjoint(l), tril(bar))) * half;
            s = triangular_solve(l, s, {.transposition = Transposition::adjoint});
            s = triangular_solve(l, s, {.left_side = false});
            return ct_of(hermitian_bar((s + adjoint(s)) * 0.5, a.reads));
          },
      .batch = batch_as_stack<CholeskyAttrs>(op::cholesky),
      // Ranges in which the laws' random matrices are positive definite: the third for complex numbers, the others for
      // real ones. The last is not.
      .samples = {{.dims = {{2, 2}}, .attrs = CholeskyAttrs{true, Triangle::lower}, .lo = 0, .hi = 4},
                  {.dims = {{2, 2}}, .lo = 4, .hi = 0},
                  {.dims = {{2, 2}}, .attrs = CholeskyAttrs{true, Triangle::upper}, .lo = 0, .hi = 4},
                  {.dims = {{3, 2, 2}}, .attrs = CholeskyAttrs{false, Triangle::lower}, .lo = 0, .hi = 4},
                  {.dims = {{1, 1}}, .lo = 1, .hi = 4},
                  {.dims = {{2, 0, 0}}},
                  {.dims = {{3, 3}}}},
  });
}

}  // namespace rlx
