// What the linear algebra entries share: checks of stacks of matrices, and the graph's side of the arithmetic
// (adjoints, triangles, phases). Neighbour: linalg_plain.h, the same for the references.
//
// Cotangents here are *bars*: the conjugates of cotangents as docs/ir.md has them, so that the textbook's formulas hold
// as they stand: a bar pairs with a change as Re tr(barᴴ change). `bar_of` and `ct_of` convert; for real numbers they
// are the identity.
#pragma once

#include "ops/core/composite_rules.h"
#include "rlx/ops/arrange.h"
#include "rlx/ops/linalg.h"
#include "rlx/ops/linear.h"
#include "rlx/ops/reduction.h"

namespace rlx {

// ---- types ----
/// `x`, called `name`, is a stack of matrices of f32, f64, c64 or c128.
void require_matrices(const Type& x, std::string_view name = "x");
/// And they are square; returns their extent.
const Dim& require_square(const Type& x, std::string_view name = "x");
Dims batch_of(const Dims& dims);
inline const Dim& rows_of(const Type& x) { return x.dims[x.rank() - 2]; }
inline const Dim& cols_of(const Type& x) { return x.dims[x.rank() - 1]; }
/// The smaller extent of x's matrices; fails if that depends on a symbol.
Dim least_extent(const Type& x);
/// batch dims of x, then these.
Dims with_batch(const Type& x, Dims dims);
/// A matrix extent that a decomposition must know as a number; `unsupported` for a symbol.
int64_t known_extent(const Dim& d, std::string_view op);
/// b goes with a[..., n, n]: matrices [..., n, k], or vectors [..., n]. True for vectors.
bool is_vectors(const Type& a, const Type& b);

/// A batched operand of an op on stacks is a stack: the op itself, for all operands.
template <class A>
auto batch_as_stack(const OpDef& op) {
  return [&op](Values in, const A& a) {
    return Many<Value>(in[0].graph().emit(op, std::vector<Value>(in.begin(), in.end()), a));
  };
}

// ---- arithmetic on stacks ----
Value transposed(Value x);
Value adjoint(Value x);
inline Value bar_of(Value ct) { return ct ? conjugate(ct) : ct; }
inline Value ct_of(Value bar) { return bar ? conjugate(bar) : bar; }
/// The real part, of x's own dtype if that is real.
Value real_of(Value x);
Value imag_of(Value x);
/// |x|^2, real.
Value squared_magnitude(Value x);
inline Value as_column(Value v) { return expand_dims(v, -1); }
inline Value as_row(Value v) { return expand_dims(v, -2); }
Value identity_like(Value x);  ///< a matrix of x's dtype and number of columns; no batch dims
Value first_columns(Value x, const Dim& count);
Value first_rows(Value x, const Dim& count);
/// x with zeros behind, as m by n matrices.
Value zero_padded(Value x, const Dim& m, const Dim& n);
/// The places of `perm` [..., m] in the rows of x[..., m, n].
Value permuted_rows(Value x, Value perm);
Value permuted_columns(Value x, Value perm);
/// One batch dim: [B, m, n] of [..., m, n]; and back to the batch dims of `like`.
Value one_stack(Value x, int64_t matrix_rank = 2);
Value unstacked(Value x, const Type& like, int64_t matrix_rank = 2);
/// `bad`, a bool for each matrix [...], turns `x` (with `rank` dims behind the batch) into NaN.
Value nan_where(Value bad, Value x, int64_t rank);
Value all_finite(Value x);  ///< bool[...]: of each matrix
/// The largest magnitude in each matrix of x[batch, m, n], real [batch]; 1 for zeros. What is computed from x divided
/// by it has no squares that overflow, and none that vanish but those that do not matter; what does not depend on it in
/// the end has no derivative by it.
Value scale_of(Value x);
/// x[batch, m, n] divided by a real number for each matrix.
Value divided_by(Value x, Value scale);
/// x + 1 in its diagonal's place etc. is written with this mask of a square matrix.
Value diagonal_mask(Graph& g, const Dim& n);

/// What `reads` makes of x, and the bar of x for a bar of that.
Value hermitian(Value x, Triangle reads);
Value hermitian_bar(Value bar, Triangle reads);

/// eps of the real part of a dtype.
double epsilon_of(DType);
/// The first component of a column whose magnitude is at least this share of the largest is real and positive. Not 1:
/// of two that are equal but for rounding the first must win; and no share that structured matrices have.
constexpr double kLeadingShare = 0.45;
/// For each column of v[..., n, k] where that component stands: i32 [..., 1, k].
Value leading_place(Value v);
Value at_place(Value v, Value place);
/// x / |x|, and 1 for 0: what the columns are divided by.
Value phase_of(Value x);
/// Which parts of two columns with the bars `bar` change with their common phase, which the leading component of v
/// fixes: i e_k Im(barᴴ v) / v_k, to be added to v's bar. `turning` is Im(barᴴ v) of all columns that turn with it.
Value phase_bar(Value v, Value turning);
/// Im of the columns' products barᴴ v: [..., 1, k].
Value turning_of(Value bar, Value v);

}  // namespace rlx
