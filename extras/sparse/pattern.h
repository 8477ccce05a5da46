// What the entries of this family share: checks of the pattern, the places of its entries as values of the graph, and
// batching.
#pragma once

#include "rlx/extras/sparse.h"
#include "rlx/ops.h"

namespace rlx::sparse {

/// The three attributes that every op of the family has.
template <class A>
SparseAttrs shape_of_matrix(const A& a) {
  return {a.format, a.rows, a.columns};
}

/// Checks the two index operands; returns how many entries there are.
Dim require_pattern(Types in, const SparseAttrs& a);
/// Floats or complex numbers throughout, from operand 2 on; returns their dtype.
DType require_numbers(Types in);
/// values[nnz], or [..., nnz] with the leading dims of `dense`, which has two dims behind them.
void require_values(const Type& values, const Dim& entries, const Type& dense, std::string_view dense_name);
/// dense[..., rows, k]; `name` and `why` go into the error.
void require_rows(const Type& dense, const Dim& rows, std::string_view name, std::string_view why);
void require_square(const SparseAttrs& a);

/// Of each entry, [nnz]: its row and column, and whether both are in range.
struct Places {
  Value rows, columns, valid;
};
Places places_of(Value first, Value second, const SparseAttrs& a);
/// x where the entries' mask [nnz] holds, else 0: x[..., nnz], or with `behind` more dims behind it.
Value masked(Value x, Value entries, int64_t behind = 0);

/// Leading dims of a dense operand, and the axes that they are.
Dims batch_dims(const Dims& dense);
Axes batch_axes(Value dense);
/// The cotangent of values that are shared by the batch is the sum over it.
Value of_values(Value ct, Value values);

/// Operands pattern, pattern, values, dense: the batch rule of all ops of that form. Empty if the pattern is batched.
std::vector<Value> batched_operands(Values in, const Mask& batched);

/// The matrix as an attribute struct and operands, with the other attributes in `a`.
template <class A>
A attrs_of(const SparseValue& m, A a = {}) {
  a.format = m.format, a.rows = m.rows, a.columns = m.columns;
  return a;
}
template <class A>
SparseValue value_of(Values in, const A& a, Value values = {}) {
  return {a.format, a.rows, a.columns, in[0], in[1], values};
}

}  // namespace rlx::sparse
