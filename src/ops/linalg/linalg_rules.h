// What the linear algebra entries share: checks of stacks of matrices, and the arithmetic in graphs (adjoints,
// triangles, phases). Neighbour: unblocked.h, the same for the references.
//
// Cotangents here are *bars*: the conjugates of the cotangents of docs/ir.md, so that textbook formulas can be used
// unchanged. A bar pairs with a change as Re tr(barᴴ change). `bar_of` and `ct_of` convert; for real numbers they are
// the identity.
#pragma once

#include "ops/core/composite_rules.h"
#include "rlx/ops/arrange.h"
#include "rlx/ops/linalg.h"
#include "rlx/ops/linear.h"
#include "rlx/ops/reduction.h"

namespace rlx {

// ---- types ----
/// Fails unless `x`, called `name`, is a stack of matrices of f32, f64, c64 or c128.
void require_matrices(const Type& x, std::string_view name = "x");
/// Fails unless the matrices are also square; returns their extent.
const Dim& require_square(const Type& x, std::string_view name = "x");
Dims batch_of(const Dims& dims);
inline const Dim& rows_of(const Type& x) { return x.dims[x.rank() - 2]; }
inline const Dim& cols_of(const Type& x) { return x.dims[x.rank() - 1]; }
/// The smaller extent of x's matrices; fails if that depends on a symbol.
Dim least_extent(const Type& x);
/// The batch dims of x, followed by `dims`.
Dims with_batch(const Type& x, Dims dims);
/// A matrix extent that a decomposition must know as a number. Fails (unsupported) for a symbol.
int64_t known_extent(const Dim& d, std::string_view op);
/// Whether b, which belongs to a[..., n, n], is a stack of vectors [..., n]; otherwise it is one of matrices [..., n,
/// k].
bool is_vectors(const Type& a, const Type& b);

/// The batch rule of an op on stacks. A batch of stacks is a stack, so the rule emits the op itself.
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
/// x as m by n matrices, with zeros appended.
Value zero_padded(Value x, const Dim& m, const Dim& n);
/// The rows of x[..., m, n] in the order of `perm` [..., m].
Value permuted_rows(Value x, Value perm);
Value permuted_columns(Value x, Value perm);
/// x[..., m, n] with its batch dims merged into one, [B, m, n]; unstacked() restores the batch dims of `like`.
Value one_stack(Value x, int64_t matrix_rank = 2);
Value unstacked(Value x, const Type& like, int64_t matrix_rank = 2);
/// x, with NaN for the matrices for which `bad`, a bool[...], is true. `rank` is the number of dims behind the batch.
Value nan_where(Value bad, Value x, int64_t rank);
Value all_finite(Value x);  ///< bool[...]: of each matrix
/// The largest magnitude in each matrix of x[batch, m, n], real [batch]; 1 for zeros. In what is computed from x
/// divided by it, no square overflows, and only those vanish that do not matter. If the final result does not depend on
/// this number, it needs no derivative by it.
Value scale_of(Value x);
/// x[batch, m, n] divided by a real number for each matrix.
Value divided_by(Value x, Value scale);
/// A mask that is true on the diagonal of a square matrix, to write x + 1 on the diagonal, for example.
Value diagonal_mask(Graph& g, const Dim& n);

/// The Hermitian matrix that the triangle `reads` of x defines, and the bar of x from the bar of that matrix.
Value hermitian(Value x, Triangle reads);
Value hermitian_bar(Value bar, Triangle reads);

/// eps of the real part of a dtype.
double epsilon_of(DType);
/// The first component of a column whose magnitude is at least this share of the largest is made real and positive. The
/// share is not 1, because of two components that are equal but for rounding the first must be chosen; and it is a
/// number that does not occur as such a ratio in structured matrices.
constexpr double kLeadingShare = 0.45;
/// The index of that component for each column of v[..., n, k]: i32 [..., 1, k].
Value leading_place(Value v);
Value at_place(Value v, Value place);
/// x / |x|, and 1 for 0: what the columns are divided by.
Value phase_of(Value x);
/// The bar of v that belongs to the phases of its columns, which their leading components determine: i e_k Im(barᴴ v) /
/// v_k, to be added to v's bar. `turning` is the sum of Im(barᴴ v) over all columns that share a phase.
Value phase_bar(Value v, Value turning);
/// Im of the columns' products barᴴ v: [..., 1, k].
Value turning_of(Value bar, Value v);

}  // namespace rlx
