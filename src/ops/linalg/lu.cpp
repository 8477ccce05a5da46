// LU with partial pivoting.
#include "ops/control/subgraph_rules.h"
#include "ops/linalg/unblocked.h"
#include "rlx/ops/control.h"
#include "rlx/ops/index.h"
#include "rlx/ops/sort.h"
#include "rlx/ops/take.h"

namespace rlx {

Lu lu(Value x) {
  auto all = x.graph().emit(op::lu, {x});
  return {all[0], all[1], all[2]};
}

namespace plain {

template <class T>
void factorize_lu(Matrix<T>& x, std::vector<int64_t>& pivots, std::vector<int64_t>& permutation) {
  permutation.resize(static_cast<size_t>(x.rows));
  for (int64_t i = 0; i < x.rows; ++i) permutation[static_cast<size_t>(i)] = i;
  for (int64_t j = 0; j < std::min(x.rows, x.cols); ++j) {
    int64_t p = j;
    for (int64_t i = j + 1; i < x.rows; ++i)
      if (pivot_size(x(i, j)) > pivot_size(x(p, j))) p = i;
    pivots.push_back(p);
    std::swap(permutation[static_cast<size_t>(j)], permutation[static_cast<size_t>(p)]);
    for (int64_t k = 0; k < x.cols; ++k) std::swap(x(j, k), x(p, k));
    if (x(j, j) == T(0)) continue;
    for (int64_t i = j + 1; i < x.rows; ++i) {
      x(i, j) /= x(j, j);
      for (int64_t k = j + 1; k < x.cols; ++k) x(i, k) -= x(i, j) * x(j, k);
    }
  }
}
template void factorize_lu(Matrix<double>&, std::vector<int64_t>&, std::vector<int64_t>&);
template void factorize_lu(Matrix<Complex>&, std::vector<int64_t>&, std::vector<int64_t>&);

}  // namespace plain

namespace {

/// One column after the other, all matrices of the stack at once: the right-looking algorithm, with masks for what is
/// done and for what is still to do.
Many<Value> lu_parts(Graph& g, Value x) {
  Dim m = x.dim(-2), n = x.dim(-1), k = least_extent(x.type());
  Type type = x.type();
  if (k == Dim(0))
    return {x, full(g, 0, {i32, with_batch(type, {0})}),
            iota(g, {i32, with_batch(type, {m})}, int64_t(type.rank()) - 2)};
  x = one_stack(x);
  Dim batch = x.dim(0);
  Value permutation = broadcast_to(iota(g, {i32, {m}}, 0), {batch, m});
  std::vector<Type> types = {x.type(), permutation.type(), {i32, {}}};
  Graph step = trace(types, [&](Graph& b, Values v) {
    Value a = v[0], perm = v[1], j = v[2];
    Value row = iota(b, {i32, {m}}, 0), column = iota(b, {i32, {n}}, 0);
    Value at = reshape(dynamic_slice_axis(a, 2, j, 1), {batch, m});
    Value size = abs(real_of(at));
    if (is_complex(at.dtype())) size = size + abs(imag(at));
    size = select(compare(row, j, Comparison::ge), size, full_like(size, -1));
    Value pivot = as_column(argmax(size, 1));  // [batch, 1]
    Value from = select(compare(row, j, Comparison::eq), pivot,
                        select(compare(row, pivot, Comparison::eq), broadcast_to(j, {batch, m}), row));
    a = permuted_rows(a, from), perm = take_along_axis(perm, from, 1);
    at = dynamic_slice_axis(a, 2, j, 1);            // [batch, m, 1]
    Value across = dynamic_slice_axis(a, 1, j, 1);  // [batch, 1, n]
    Value top = dynamic_slice_axis(at, 1, j, 1);    // [batch, 1, 1]
    Value none = compare(top, zeros_like(top), Comparison::eq);
    Value factors = select(none, at, at / select(none, full_like(top, 1), top));
    Value below = as_column(compare(row, j, Comparison::gt)), right = compare(column, j, Comparison::gt);
    factors = select(below, factors, zeros_like(factors));
    Value rest = a - factors * select(right, across, zeros_like(across));
    a = select(bitwise_and(broadcast_to(below, a.dims()), broadcast_to(compare(column, j, Comparison::eq), a.dims())),
               factors, rest);
    return std::vector{a, perm, reshape(pivot, {batch})};
  });
  auto out = scan(g, {x, permutation, iota(g, {i32, {k}}, 0)}, {.carries = 2, .xs = 1, .length = k, .body = step});
  return {unstacked(out[0], type), unstacked(transpose(out[2], {1, 0}), type, 1), unstacked(out[1], type, 1)};
}

}  // namespace

OpDef define_lu() {
  return define<>({
      .name = "lu",
      .doc = "x[permutation] = L U: U with, below it, L without its diagonal of ones; then the pivots and the "
             "permutation that they make (i32). The pivot is the first of the largest |Re x| + |Im x|",
      .source = "Golub, Van Loan, Matrix Computations, 3.4; derivative: de Hoog, Anderssen, Lukas (2011)",
      .operands = {"x"},
      .infer = [](Types in) -> Many<Type> {
        require_matrices(in[0]);
        return {in[0], Type{i32, with_batch(in[0], {least_extent(in[0])})},
                Type{i32, with_batch(in[0], {rows_of(in[0])})}};
      },
      .reference = [](Tensors in) -> Many<Tensor> {
        return plain::with_field(in[0].dtype(), [&]<class T>() -> Many<Tensor> {
          Array<T> x(in[0]);
          int64_t m = x.shape[x.shape.size() - 2], n = x.shape.back();
          Array<int64_t> pivots(plain::with_batch(x.shape, {std::min(m, n)})),
              permutation(plain::with_batch(x.shape, {m}));
          for (int64_t b = 0; b < plain::stack_size(x.shape); ++b) {
            std::vector<int64_t> swaps, places;
            auto matrix = plain::matrix_at(x, b);
            plain::factorize_lu(matrix, swaps, places);
            plain::put(x, b, matrix), plain::put(pivots, b, swaps), plain::put(permutation, b, places);
          }
          return {x.rounded_to(in[0].dtype()), pivots.rounded_to(i32), permutation.rounded_to(i32)};
        });
      },
      .decompose = [](Graph& g, Values in, const NoAttrs&) { return lu_parts(g, in[0]); },
      .vjp = [](Values, Values out, Values cts) -> Many<Value> {
        Value packed = out[0], bar = bar_of(cts[0]);
        Dim m = packed.dim(-2), n = packed.dim(-1), k = least_extent(packed.type());
        Graph& g = packed.graph();
        // L square, U square: with ones on the diagonal where the factors end.
        Value lower = zero_padded(first_columns(packed, k), m, m), upper = first_rows(packed, k);
        if (k != n) {
          Value rest = convert(
              bitwise_and(diagonal_mask(g, n), compare(iota(g, {i32, {n, n}}, 0), extent(g, k, i32), Comparison::ge)),
              packed.dtype());
          upper = triu(zero_padded(upper, n, n)) + rest;
        }
        Value unit = tril(lower, -1) + eye(g, {packed.dtype(), {m, m}});
        Value of_l = tril(matmul(adjoint(unit), bar), -1), of_u = triu(matmul(bar, adjoint(triu(upper))));
        Value y = triangular_solve(upper, of_l + of_u,
                                   {.left_side = false, .lower = false, .transposition = Transposition::adjoint});
        y = triangular_solve(lower, y, {.lower = true, .transposition = Transposition::adjoint, .unit_diagonal = true});
        return ct_of(permuted_rows(y, argsort(out[2])));
      },
      .batch = [](Values in) { return Many<Value>(in[0].graph().emit(op::lu, {in[0]})); },
      .samples = {{.dims = {{3, 3}}},
                  {.dims = {{4, 2}}},
                  {.dims = {{2, 4}}},
                  {.dims = {{2, 1, 3, 3}}},
                  {.dims = {{1, 1}}},
                  {.dims = {{0, 0}}},
                  {.dims = {{3, 0}}},
                  {.dims = {{2, 0, 3}}}},
  });
}

}  // namespace rlx
