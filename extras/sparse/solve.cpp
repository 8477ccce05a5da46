// Systems with a sparse matrix: by substitution and by factorization. Their portable forms are dense; a kernel of the
// CPU stays sparse. Gradients go through the transposed system: with x = op(a)^-1 b and l = op(a)^-T ct, the cotangent
// of b is l and that of an entry (r, c) is -l_r x_c, or -x_r l_c of the transposed matrix.
#include "extras/sparse/pattern.h"

namespace rlx {

Value sparse_triangular_solve(const SparseValue& a, Value b, bool lower, bool unit_diagonal, bool transposed) {
  return emit(op::sparse_triangular_solve, {a.first, a.second, a.values, b},
              sparse::attrs_of<SparseTriangularAttrs>(
                  a, {.transposed = transposed, .lower = lower, .unit_diagonal = unit_diagonal}));
}
Value sparse_solve(const SparseValue& a, Value b, bool transposed, double shift) {
  return emit(op::sparse_solve, {a.first, a.second, a.values, b},
              sparse::attrs_of<SparseSolveAttrs>(a, {.transposed = transposed, .shift = shift}));
}

namespace {

using namespace sparse;

template <class A>
Type infer_solve(Types in, const A& a) {
  Dim entries = require_pattern(in, shape_of_matrix(a));
  require_square(shape_of_matrix(a));
  require_numbers(in);
  require_rows(in[3], a.rows, "b", "a row for each of the matrix's");
  require_values(in[2], entries, in[3], "b");
  return in[3];
}

/// One dense matrix for each of b's.
template <class A>
Value dense_of(Values in, const A& a) {
  Dims dims = batch_dims(in[3].dims());
  dims.push_back(a.rows), dims.push_back(a.columns);
  return broadcast_to(sparse_to_dense(value_of(in, a, in[2])), dims);
}

/// The cotangent of the values, with that of b.
template <class A>
Value values_bar(Values in, Value x, Value b_bar, const A& a) {
  SparseValue pattern = value_of(in, a);
  Value bar = a.transposed ? sparse_sampled_matmul(pattern, x, b_bar) : sparse_sampled_matmul(pattern, b_bar, x);
  return -bar;
}

/// Operands of a batch, which share the pattern; nothing where they do not.
template <class A>
auto batch_of_systems(const OpDef& op) {
  return [&op](Values in, const Mask& batched, const A& a, const Transforms&) -> Many<Value> {
    auto all = batched_operands(in, batched);
    if (all.empty()) return {};
    return emit(op, all, a);
  };
}

}  // namespace

OpDef define_sparse_triangular_solve() {
  using A = SparseTriangularAttrs;
  constexpr auto csr = SparseFormat::csr, csc = SparseFormat::csc, coo = SparseFormat::coo;
  return define<A>({
      .name = "sparse_triangular_solve",
      .doc = "x with a x = b (aᵀ x = b if `transposed`) for a triangle of a sparse matrix, b[..., n, k]; other entries "
             "are not "
             "read, and the diagonal is 1 if `unit_diagonal`. A zero on the diagonal divides",
      .source = "Davis, Direct Methods for Sparse Linear Systems (2006), 3.1",
      .operands = {"first", "second", "values", "b"},
      .infer = infer_solve<A>,
      .decompose =
          [](Values in, const A& a) {
            return triangular_solve(dense_of(in, a), in[3],
                                    {.lower = a.lower,
                                     .transposition = a.transposed ? Transposition::transpose : Transposition::none,
                                     .unit_diagonal = a.unit_diagonal});
          },
      .vjp = [](Values in, Value x, Value ct, const A& a) -> Many<Value> {
        Value b = sparse_triangular_solve(value_of(in, a, in[2]), ct, a.lower, a.unit_diagonal, !a.transposed);
        auto [rows, columns, valid] = places_of(in[0], in[1], shape_of_matrix(a));
        Comparison where = a.lower ? (a.unit_diagonal ? Comparison::gt : Comparison::ge)
                                   : (a.unit_diagonal ? Comparison::lt : Comparison::le);
        Value values = masked(values_bar(in, x, b, a), compare(rows, columns, where));
        return {Value{}, Value{}, of_values(values, in[2]), b};
      },
      .batch = batch_of_systems<A>(op::sparse_triangular_solve),
      .samples = {{.dims = {{6}, {6}, {6}, {3, 2}},
                   .dtypes = {i32, i32},
                   .attrs = A{coo, 3, 3, false, true, true},
                   .lo = 0,
                   .hi = 3},
                  {.dims = {{4}, {5}, {5}, {3, 1}},
                   .dtypes = {i64, i64},
                   .attrs = A{csr, 3, 3, true, false, true},
                   .lo = 0,
                   .hi = 5},
                  {.dims = {{4}, {6}, {2, 6}, {2, 3, 2}},
                   .dtypes = {i32, i32},
                   .attrs = A{csc, 3, 3, false, false, true},
                   .lo = 0,
                   .hi = 4},
                  {.dims = {{3}, {3}, {3}, {1, 2}}, .dtypes = {i32, i32}, .attrs = A{coo, 1, 1}, .lo = 0.5, .hi = 1},
                  {.dims = {{4}, {5}, {5}, {3, 1}},
                   .dtypes = {i32, i32, c128, c128},
                   .attrs = A{csr, 3, 3, true, true, true},
                   .lo = 0,
                   .hi = 4},
                  {.dims = {{1}, {0}, {0}, {0, 2}}, .dtypes = {i32, i32}, .attrs = A{csr, 0, 0}}},
  });
}

OpDef define_sparse_solve() {
  using A = SparseSolveAttrs;
  constexpr auto csr = SparseFormat::csr, csc = SparseFormat::csc, coo = SparseFormat::coo;
  return define<A>({
      .name = "sparse_solve",
      .doc = "x with (a + shift) x = b for a square sparse matrix, b[..., n, k]; with aᵀ if `transposed`. By LU with "
             "partial "
             "pivoting; infinities or NaN if the matrix is singular",
      .source = "Davis, Direct Methods for Sparse Linear Systems (2006), 6; the CPU's: Eigen 3, SparseLU",
      .operands = {"first", "second", "values", "b"},
      .infer = infer_solve<A>,
      .decompose =
          [](Values in, const A& a) {
            Value dense = dense_of(in, a);
            if (a.shift != 0) {
              Value unit = eye(dense.graph(), {dense.dtype(), {a.rows, a.columns}});
              dense = dense + broadcast_to(unit * a.shift, dense.dims());
            }
            return solve(dense, in[3], a.transposed ? Transposition::transpose : Transposition::none);
          },
      .vjp = [](Values in, Value x, Value ct, const A& a) -> Many<Value> {
        Value b = sparse_solve(value_of(in, a, in[2]), ct, !a.transposed, a.shift);
        return {Value{}, Value{}, of_values(values_bar(in, x, b, a), in[2]), b};
      },
      .batch = batch_of_systems<A>(op::sparse_solve),
      .samples =
          {{.dims = {{5}, {5}, {5}, {3, 2}}, .dtypes = {i32, i32}, .attrs = A{coo, 3, 3, false, 12}, .lo = 0, .hi = 3},
           {.dims = {{5}, {7}, {7}, {4, 1}}, .dtypes = {i64, i64}, .attrs = A{csr, 4, 4, true, 30}, .lo = 0, .hi = 6},
           {.dims = {{4}, {6}, {2, 6}, {2, 3, 2}},
            .dtypes = {i32, i32},
            .attrs = A{csc, 3, 3, false, -25},
            .lo = 0,
            .hi = 4},
           {.dims = {{3}, {3}, {3}, {1, 2}}, .dtypes = {i32, i32}, .attrs = A{coo, 1, 1}, .lo = 0.5, .hi = 1},
           {.dims = {{4}, {5}, {5}, {3, 2}},
            .dtypes = {i32, i32, c128, c128},
            .attrs = A{csr, 3, 3, true, 20},
            .lo = 0,
            .hi = 4},
           {.dims = {{1}, {0}, {0}, {0, 2}}, .dtypes = {i32, i32}, .attrs = A{csr, 0, 0}}},
  });
}

}  // namespace rlx
