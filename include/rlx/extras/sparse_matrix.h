// Sparse matrices as data: containers whose indices are checked, conversions between csr, csc, coo and dense, and a
// direct solver with a symbolic and a numeric phase. In a graph, the arrays of a matrix are operands of the ops of
// sparse.h.
#pragma once

#include "rlx/extras/sparse.h"

namespace rlx {

/// A matrix of f32, f64, c64 or c128 with indices of i32 or i64, in a layout of sparse.h. It is immutable; copies share
/// elements.
class SparseMatrix {
 public:
  /// Checks everything. Fails if tensors have wrong dtypes or lengths, if pointers do not ascend from 0 to the number
  /// of entries, or if an index is out of range; the message names the first that is wrong and its position. Several
  /// entries at one position are kept.
  SparseMatrix(SparseFormat format, int64_t rows, int64_t columns, Tensor first, Tensor second, Tensor values);
  /// The elements of dense[rows, columns] that are not 0, row by row (csc: column by column).
  static SparseMatrix from_dense(const Tensor& dense, SparseFormat format = SparseFormat::csr, DType index = i32);

  SparseFormat format() const { return format_; }
  int64_t rows() const { return rows_; }
  int64_t columns() const { return columns_; }
  int64_t entries() const { return static_cast<int64_t>(second_.element_count()); }
  const Tensor& first() const { return first_; }    ///< pointers, or rows of coo
  const Tensor& second() const { return second_; }  ///< columns; rows of csc
  const Tensor& values() const { return values_; }

  /// The same matrix in another format. Entries are sorted, and those at the same position are added up.
  SparseMatrix to(SparseFormat format) const;
  /// The same matrix with indices of another dtype. Fails if they do not fit.
  SparseMatrix with_indices(DType index) const;
  /// The transposed matrix, which shares the elements.
  SparseMatrix transposed() const;
  Tensor to_dense() const;

  /// The matrix as constants of a graph; or its pattern with other values, which may be an input.
  SparseValue in(Graph& g) const;
  SparseValue in(Graph& g, Value values) const;

 private:
  SparseFormat format_;
  int64_t rows_, columns_;
  Tensor first_, second_, values_;
};

/// LU factorization of a square sparse matrix of any of its dtypes. It is made from a pattern (ordering, symbolic
/// analysis), then factored for values, again whenever they change, and used to solve systems. Only one thread may use
/// it at a time.
class SparseLu {
 public:
  /// The symbolic phase. Fails if the matrix is not square, or if this build is without Eigen (unsupported).
  explicit SparseLu(const SparseMatrix& pattern);
  ~SparseLu();
  SparseLu(SparseLu&&) noexcept;
  /// The numeric phase. `values` are those of the pattern's entries, in their order. Fails (invalid_argument) if the
  /// matrix is singular.
  void factor(const Tensor& values, double shift = 0);
  /// Solves a x = b, or aᵀ x = b, for b and x of [n, k] or [n]. Fails before `factor` was called.
  Tensor solve(const Tensor& b, bool transposed = false) const;
  /// The number of entries of L and U together; 0 before `factor`.
  int64_t fill() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace rlx
