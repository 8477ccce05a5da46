// Linear algebra on stacks of matrices: factorizations, solving, and functions of matrices. The last two dims of an
// operand are a matrix, what stands in front of them are batch dims; f32, f64, c64, c128. Each op has a decomposition
// into loops of products, so that no backend must write a factorization; the CPU has LAPACK's. How results that are
// unique only up to a sign, a phase or an order are made unique: docs/ir.md, "Linear algebra".
#pragma once

#include "rlx/ops/op.h"

namespace rlx {

namespace op {
extern const OpDef lu, cholesky, geqrf, householder_product, qr, triangular_solve, solve, inverse, det, slogdet, eigh,
    eigh_backward, svd, eig, pinv, lstsq, expm;
}  // namespace op

// ---- factorizations ----
struct Lu {
  Value lu, pivots, permutation;
};
/// x[permutation] = L U with partial pivoting: `lu` holds U and, below it, L without its diagonal of ones. pivots (i32
/// [..., min(m, n)]): in step i row i was swapped with row pivots[i]; permutation (i32 [..., m]) is all of them.
Lu lu(Value x);

/// Which part of a Hermitian matrix is read; the other is taken to mirror it. `both`: the mean of x and its adjoint.
enum class Triangle { both, lower, upper };
constexpr std::array<std::string_view, 3> names_of(Triangle) { return {"both", "lower", "upper"}; }

struct CholeskyAttrs {
  bool lower = true;  ///< L with x = L Lᴴ, else U with x = Uᴴ U
  Triangle reads = Triangle::both;
  RLX_FIELDS(CholeskyAttrs, field("lower", &CholeskyAttrs::lower), field("reads", &CholeskyAttrs::reads));
};
/// The triangle is all NaN where x is not positive definite.
Value cholesky(Value x, bool lower = true, Triangle reads = Triangle::both);

struct Geqrf {
  Value packed, taus;
};
/// Householder's QR as LAPACK packs it: R, below it the vectors v of the reflections H_i = I - tau_i v_i v_iᴴ.
Geqrf geqrf(Value x);
/// The first n columns of H_0 H_1 ... for packed vectors x[..., m, n] and taus[..., k].
Value householder_product(Value x, Value taus);

struct FullAttrs {
  bool full = false;  ///< square orthogonal factors, instead of min(m, n) columns
  RLX_FIELDS(FullAttrs, field("full", &FullAttrs::full));
};
struct Qr {
  Value q, r;
};
/// x = q r, with orthonormal columns and an upper triangle. R's diagonal has LAPACK's signs, and is real.
Qr qr(Value x, bool full = false);

struct Svd {
  Value u, s, vt;
};
/// x = u diag(s) vt; s is real and descending, vt the adjoint of the matrix of right singular vectors.
Svd svd(Value x, bool full = false);

struct TriangleAttrs {
  Triangle reads = Triangle::both;
  RLX_FIELDS(TriangleAttrs, field("reads", &TriangleAttrs::reads));
};
struct Eigenpairs {
  Value values, vectors;
};
/// Of a Hermitian matrix: real values, ascending, and orthonormal columns.
Eigenpairs eigh(Value x, Triangle reads = Triangle::both);
/// The cotangent of x that `eigh`'s results have with these cotangents: for real numbers the symmetric part of
/// V (diag(ct_values) + F∘(Vᵀ ct_vectors)) Vᵀ, F_ij = 1 / (values_j - values_i), and 0 where that gap is lost in
/// rounding.
Value eigh_backward(Value values, Value vectors, Value ct_values, Value ct_vectors);
/// Of any square matrix: complex values and columns, x v = v diag(values).
Eigenpairs eig(Value x);

// ---- solving ----
/// op(a): a itself, its transpose, its conjugate transpose.
enum class Transposition { none, transpose, adjoint };
constexpr std::array<std::string_view, 3> names_of(Transposition) { return {"none", "transpose", "adjoint"}; }

struct TriangularSolveAttrs {
  bool left_side = true;  ///< op(a) x = b, else x op(a) = b
  bool lower = true;      ///< which triangle of a is read; the other may hold anything
  Transposition transposition = Transposition::none;
  bool unit_diagonal = false;  ///< a's diagonal is taken to be 1
  RLX_FIELDS(TriangularSolveAttrs, field("left_side", &TriangularSolveAttrs::left_side),
             field("lower", &TriangularSolveAttrs::lower), field("transposition", &TriangularSolveAttrs::transposition),
             field("unit_diagonal", &TriangularSolveAttrs::unit_diagonal));
};
Value triangular_solve(Value a, Value b, TriangularSolveAttrs attrs = {});

struct SolveAttrs {
  Transposition transposition = Transposition::none;
  RLX_FIELDS(SolveAttrs, field("transposition", &SolveAttrs::transposition));
};
/// op(a) x = b: a[..., n, n] with b[..., n, k], or b[..., n] of one rank less. Infinities or NaN if a is singular.
Value solve(Value a, Value b, Transposition transposition = Transposition::none);
Value inverse(Value x);
/// The least-squares solution of least norm of a x = b, by `pinv`.
struct CutoffAttrs {
  double cutoff = -1;  ///< of singular values, relative to the largest: less counts as 0; negative: eps max(m, n)
  RLX_FIELDS(CutoffAttrs, field("cutoff", &CutoffAttrs::cutoff));
};
Value lstsq(Value a, Value b, double cutoff = -1);
/// The Moore-Penrose inverse.
Value pinv(Value x, double cutoff = -1);

// ---- functions of matrices ----
Value det(Value x);
struct SignedLog {
  Value sign, log;
};
/// det = sign * e^log; `log` is real, the sign of a singular matrix is 0 and its log -inf.
SignedLog slogdet(Value x);
/// ln |det x|.
inline Value logdet(Value x) { return slogdet(x).log; }
/// e^x, the sum of x^k / k!.
Value expm(Value x);
/// x multiplied by itself, n - 1 times; the identity for n = 0, powers of the inverse for n < 0.
Value matrix_power(Value x, int64_t n);

}  // namespace rlx
