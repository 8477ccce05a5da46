// Sparse matrices in graphs: products, conversions, triangular and direct solves, conjugate gradients, with derivatives
// by the values and by the dense operands. Ops of extras/sparse; containers with checks stand in sparse_matrix.h.
//
// A matrix is three operands: a pattern of two integer vectors of one dtype, i32 or i64, and its values.
//
//   format   first                          second
//   csr      row pointers [rows + 1]        columns [nnz]     row r holds the entries first[r] ... first[r + 1] - 1
//   csc      column pointers [columns + 1]  rows [nnz]
//   coo      rows [nnz]                     columns [nnz]
//
// Entries of one place add up. An entry whose row or column is out of range is no entry: patterns may be padded with
// them, as JAX's BCOO is. Pointers that do not ascend stand for the sorted ones; entries before the first and behind
// the last pointer belong to no row. All matrices of a batch share the pattern: the values are [nnz], or [..., nnz]
// with the dense operand's leading dims.
#pragma once

#include "rlx/ops/op.h"

namespace rlx {

namespace op {
extern const OpDef sparse_matmul, sparse_sampled_matmul, sparse_to_dense, sparse_sample, sparse_triangular_solve,
    sparse_solve, sparse_cg;
}  // namespace op

enum class SparseFormat { csr, csc, coo };
constexpr std::array<std::string_view, 3> names_of(SparseFormat) { return {"csr", "csc", "coo"}; }

/// A sparse matrix in a graph. `values` may be left out where only the pattern counts.
struct SparseValue {
  SparseFormat format = SparseFormat::csr;
  Dim rows = 0, columns = 0;
  Value first, second, values = {};

  /// The same entries read as the transposed matrix: nothing is computed.
  SparseValue transposed() const;
  SparseValue with_values(Value v) const;
};

struct SparseAttrs {
  SparseFormat format = SparseFormat::csr;
  Dim rows = 0, columns = 0;
  RLX_FIELDS(SparseAttrs, field("format", &SparseAttrs::format), field("rows", &SparseAttrs::rows),
             field("columns", &SparseAttrs::columns));
};
struct SparseProductAttrs {
  SparseFormat format = SparseFormat::csr;
  Dim rows = 0, columns = 0;
  bool transposed = false;  ///< a's transpose is multiplied
  RLX_FIELDS(SparseProductAttrs, field("format", &SparseProductAttrs::format), field("rows", &SparseProductAttrs::rows),
             field("columns", &SparseProductAttrs::columns), field("transposed", &SparseProductAttrs::transposed));
};
/// a x of x[..., columns, n]: [..., rows, n]; with `transposed` aᵀ x of x[..., rows, n].
Value sparse_matmul(const SparseValue& a, Value x, bool transposed = false);
/// a x of one vector x[columns] (or a stack of them): [rows].
Value sparse_matvec(const SparseValue& a, Value x, bool transposed = false);
/// The values of u vᵀ at the pattern's places, u[..., rows, n] and v[..., columns, n]: [..., nnz].
Value sparse_sampled_matmul(const SparseValue& pattern, Value u, Value v);
/// [..., rows, columns].
Value sparse_to_dense(const SparseValue& a);
/// The values of dense[..., rows, columns] at the pattern's places: [..., nnz]; 0 at those out of range.
Value sparse_sample(const SparseValue& pattern, Value dense);

struct SparseTriangularAttrs {
  SparseFormat format = SparseFormat::csr;
  Dim rows = 0, columns = 0;
  bool transposed = false;     ///< aᵀ x = b is solved
  bool lower = true;           ///< the triangle of a that is read; other entries are ignored
  bool unit_diagonal = false;  ///< a's diagonal is taken to be 1
  RLX_FIELDS(SparseTriangularAttrs, field("format", &SparseTriangularAttrs::format),
             field("rows", &SparseTriangularAttrs::rows), field("columns", &SparseTriangularAttrs::columns),
             field("transposed", &SparseTriangularAttrs::transposed), field("lower", &SparseTriangularAttrs::lower),
             field("unit_diagonal", &SparseTriangularAttrs::unit_diagonal));
};
/// x with a x = b for the lower or upper triangle of a square a, b[..., n, k]. A zero on the diagonal divides.
Value sparse_triangular_solve(const SparseValue& a, Value b, bool lower = true, bool unit_diagonal = false,
                              bool transposed = false);

struct SparseSolveAttrs {
  SparseFormat format = SparseFormat::csr;
  Dim rows = 0, columns = 0;
  bool transposed = false;  ///< (a + shift)ᵀ x = b is solved
  double shift = 0;         ///< added to the diagonal
  RLX_FIELDS(SparseSolveAttrs, field("format", &SparseSolveAttrs::format), field("rows", &SparseSolveAttrs::rows),
             field("columns", &SparseSolveAttrs::columns), field("transposed", &SparseSolveAttrs::transposed),
             field("shift", &SparseSolveAttrs::shift));
};
/// x with (a + shift) x = b, a square, b[..., n, k], by a sparse LU factorization with partial pivoting. Infinities or
/// NaN if the matrix is singular.
Value sparse_solve(const SparseValue& a, Value b, bool transposed = false, double shift = 0);

/// What conjugate gradients divide the residual by: nothing, the diagonal, or the incomplete factors L D Lᵀ that have
/// no entry where the matrix has none (what ILU(0) is for a symmetric matrix).
enum class Preconditioner { none, jacobi, ilu0 };
constexpr std::array<std::string_view, 3> names_of(Preconditioner) { return {"none", "jacobi", "ilu0"}; }

struct SparseCgAttrs {
  SparseFormat format = SparseFormat::csr;
  Dim rows = 0, columns = 0;
  double tolerance = 1e-6;  ///< of the residual's norm, relative to b's; below 4 epsilon counts as that
  int64_t max_iterations = 1000;
  Preconditioner preconditioner = Preconditioner::none;
  double shift = 0;  ///< added to the diagonal
  RLX_FIELDS(SparseCgAttrs, field("format", &SparseCgAttrs::format), field("rows", &SparseCgAttrs::rows),
             field("columns", &SparseCgAttrs::columns), field("tolerance", &SparseCgAttrs::tolerance),
             field("max_iterations", &SparseCgAttrs::max_iterations),
             field("preconditioner", &SparseCgAttrs::preconditioner), field("shift", &SparseCgAttrs::shift));
};
struct CgOptions {
  double tolerance = 1e-6;
  int64_t max_iterations = 1000;
  Preconditioner preconditioner = Preconditioner::none;
  double shift = 0;
};
struct CgResult {
  Value x;           ///< [..., n, k]
  Value iterations;  ///< i32[..., k]; negative where the tolerance was not reached
};
/// x with (a + shift) x = b by (preconditioned) conjugate gradients from 0 on, each column of b[..., n, k] for itself.
/// a is symmetric and positive definite; its entries on and below the diagonal are read and stand for both triangles.
/// Differentiated as the solution of the system, by another run.
CgResult sparse_cg(const SparseValue& a, Value b, const CgOptions& options = {});

}  // namespace rlx
