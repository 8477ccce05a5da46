// Triangular systems by substitution.
#include "ops/linalg/unblocked.h"
#include "rlx/ops/control.h"
#include "rlx/ops/index.h"

namespace rlx {

Value triangular_solve(Value a, Value b, TriangularSolveAttrs attrs) {
  return emit(op::triangular_solve, {a, b}, attrs);
}

namespace {

template <class T>
plain::Matrix<T> solved(plain::Matrix<T> a, plain::Matrix<T> b, TriangularSolveAttrs attrs) {
  if (attrs.transposition != Transposition::none) {
    a = attrs.transposition == Transposition::adjoint ? a.adjoint() : a.transposed();
    attrs.lower = !attrs.lower;
  }
  if (!attrs.left_side) {
    attrs.left_side = true, attrs.lower = !attrs.lower, attrs.transposition = Transposition::none;
    return solved(a.transposed(), b.transposed(), attrs).transposed();
  }
  int64_t n = a.rows;
  for (int64_t step = 0; step < n; ++step) {
    int64_t i = attrs.lower ? step : n - 1 - step;
    for (int64_t k = 0; k < b.cols; ++k) {
      T sum = b(i, k);
      for (int64_t j = attrs.lower ? 0 : i + 1; j < (attrs.lower ? i : n); ++j) sum -= a(i, j) * b(j, k);
      b(i, k) = attrs.unit_diagonal ? sum : sum / a(i, i);
    }
  }
  return b;
}

/// One row of x after the other, all matrices of the stack at once.
Value solve_parts(Graph& g, Value a, Value b, const TriangularSolveAttrs& attrs) {
  Type type = b.type();
  if (a.dim(-1) == Dim(0)) return b;
  bool lower = attrs.lower;
  if (attrs.transposition != Transposition::none) {
    a = attrs.transposition == Transposition::adjoint ? adjoint(a) : transposed(a);
    lower = !lower;
  }
  if (!attrs.left_side) a = transposed(a), b = transposed(b), lower = !lower;
  Type like = b.type();
  Value strict = one_stack(trilu(a, !lower, lower ? -1 : 1)), on = one_stack(diagonal(a), 1);
  b = one_stack(b);
  Dim batch = b.dim(0), n = b.dim(1), k = b.dim(2);
  std::vector<Type> types = {
      b.type(), {i32, {}}, {a.dtype(), {batch, n}}, {a.dtype(), {batch}}, {a.dtype(), {batch, k}}};
  Graph step = trace(types, [&](Values v) {
    Value known = matmul(reshape(v[2], {batch, 1, n}), v[0]);
    Value x = reshape(v[4], {batch, 1, k}) - known;
    if (!attrs.unit_diagonal) x = x / reshape(v[3], {batch, 1, 1});
    return dynamic_update_axis(v[0], x, 1, v[1]);
  });
  Value x =
      scan(g, {zeros_like(b), iota(g, {i32, {n}}, 0), move_axis(strict, 1, 0), move_axis(on, 1, 0), move_axis(b, 1, 0)},
           {.carries = 1, .xs = 4, .length = n, .reverse = !lower, .body = step})[0];
  x = reshape(x, like.dims);
  return attrs.left_side ? x : reshape(transposed(x), type.dims);
}

/// op(a)^-H, applied to the bar of x.
Value adjoint_solved(Value a, Value bar, TriangularSolveAttrs attrs) {
  switch (attrs.transposition) {
    case Transposition::none: attrs.transposition = Transposition::adjoint; break;
    case Transposition::adjoint: attrs.transposition = Transposition::none; break;
    case Transposition::transpose:
      return triangular_solve(conjugate(a), bar, [&] {
        attrs.transposition = Transposition::none;
        return attrs;
      }());
  }
  return triangular_solve(a, bar, attrs);
}

}  // namespace

OpDef define_triangular_solve() {
  return define<TriangularSolveAttrs>({
      .name = "triangular_solve",
      .doc =
          "x with op(a) x = b (not `left_side`: x op(a) = b), a[..., n, n] triangular; only that triangle is read, and "
          "its diagonal is 1 if `unit_diagonal`. A zero on the diagonal divides",
      .source = "StableHLO specification, triangular_solve; BLAS xTRSM",
      .operands = {"a", "b"},
      .covers = {"TriangularSolve"},
      .infer =
          [](Types in, const TriangularSolveAttrs& a) {
            const Dim& n = require_square(in[0], "a");
            require_matrices(in[1], "b");
            require_dtype(in, kReal | kComplex);
            const Dim& side = a.left_side ? rows_of(in[1]) : cols_of(in[1]);
            if (side != n || batch_of(in[0].dims) != batch_of(in[1].dims))
              fail(ErrorCode::shape_mismatch, "b must be a stack of matrices of ", n,
                   a.left_side ? " rows" : " columns", " for a ", in[0], " on the ", a.left_side ? "left" : "right",
                   ", one for each of its matrices; got ", in[1]);
            return in[1];
          },
      .reference =
          [](Tensors in, const TriangularSolveAttrs& attrs) {
            return plain::with_field(in[0].dtype(), [&]<class T>() {
              Array<T> a(in[0]), b(in[1]);
              for (int64_t i = 0; i < plain::stack_size(a.shape); ++i)
                plain::put(b, i, solved(plain::matrix_at(a, i), plain::matrix_at(b, i), attrs));
              return b.rounded_to(in[0].dtype());
            });
          },
      .decompose = [](Graph& g, Values in, const TriangularSolveAttrs& a) { return solve_parts(g, in[0], in[1], a); },
      .vjp = [](Values in, Value x, Value ct, const TriangularSolveAttrs& attrs) -> Many<Value> {
        Value bar = adjoint_solved(in[0], bar_of(ct), attrs);
        Value of_op = attrs.left_side ? matmul(bar, adjoint(x)) : matmul(adjoint(x), bar);
        if (attrs.transposition == Transposition::transpose) of_op = transposed(of_op);
        if (attrs.transposition == Transposition::adjoint) of_op = adjoint(of_op);
        Value of_a = -trilu(of_op, !attrs.lower, attrs.unit_diagonal ? (attrs.lower ? -1 : 1) : 0);
        return {ct_of(of_a), ct_of(bar)};
      },
      .batch = batch_as_stack<TriangularSolveAttrs>(op::triangular_solve),
      .samples = {{.dims = {{3, 3}, {3, 2}}, .lo = 1, .hi = 3},
                  {.dims = {{3, 3}, {2, 3}},
                   .attrs = TriangularSolveAttrs{false, false, Transposition::adjoint, false},
                   .lo = 1,
                   .hi = 3},
                  {.dims = {{2, 1, 3, 3}, {2, 1, 3, 1}},
                   .attrs = TriangularSolveAttrs{true, false, Transposition::transpose, true}},
                  {.dims = {{2, 2, 2}, {2, 1, 2}},
                   .attrs = TriangularSolveAttrs{false, true, Transposition::transpose, false},
                   .lo = 1,
                   .hi = 3},
                  {.dims = {{1, 1}, {1, 1}}, .lo = 1, .hi = 3},
                  {.dims = {{0, 0}, {0, 2}}},
                  {.dims = {{2, 2}, {2, 0}}, .attrs = TriangularSolveAttrs{true, true, Transposition::none, true}}},
  });
}

}  // namespace rlx
