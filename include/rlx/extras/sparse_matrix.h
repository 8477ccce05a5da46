// Sparse matrices as data: containers whose indices are checked, conversions between csr, csc, coo and dense, and a
// direct solver in two parts, symbolic and numeric. In a graph, their parts are operands of the ops of sparse.h.
#pragma once

#include "rlx/extras/sparse.h"

namespace rlx {

/// A matrix of f32, f64, c64 or c128 with indices of i32 or i64, as sparse.h lays it out. Immutable; copies share
/// elements.
class SparseMatrix {
 public:
  /// Checks everything: fails on tensors of wrong dtypes or lengths, on pointers that do not ascend from 0 to the
  /// number of entries, on an index out of range, naming the first that is wrong and where it stands. Entries of one
  /// place are kept.
  SparseMatrix(SparseFormat format, int64_t rows, int64_t columns, Tensor first, Tensor second, Tensor values);
  /// What is not 0 in dense[rows, columns], line by line.
  static SparseMatrix from_dense(const Tensor& dense, SparseFormat format = SparseFormat::csr, DType index = i32);

  SparseFormat format() const { return format_; }
  int64_t rows() const { return rows_; }
  int64_t columns() const { return columns_; }
  int64_t entries() const { return static_cast<int64_t>(second_.element_count()); }
  const Tensor& first() const { return first_; }    ///< pointers, or rows of coo
  const Tensor& second() const { return second_; }  ///< columns; rows of csc
  const Tensor& values() const { return values_; }

  /// The same matrix in another format: entries in order of line and place, those of one place added up.
  SparseMatrix to(SparseFormat format) const;
  /// Indices of another dtype; fails if they do not fit.
  SparseMatrix with_indices(DType index) const;
  /// The transposed matrix; elements are shared.
  SparseMatrix transposed() const;
  Tensor to_dense() const;

  /// As constants of a graph; or with other values, which may be an input.
  SparseValue in(Graph& g) const;
  SparseValue in(Graph& g, Value values) const;

 private:
  SparseFormat format_;
  int64_t rows_, columns_;
  Tensor first_, second_, values_;
};

/// LU factorization of a square sparse matrix of any of its dtypes. Made from a pattern (ordering, symbolic analysis);
/// then factored for values as often as they change; then solved with. One thread at a time.
class SparseLu {
 public:
  /// Symbolic. Fails if the matrix is not square, or if this build is without Eigen (unsupported).
  explicit SparseLu(const SparseMatrix& pattern);
  ~SparseLu();
  SparseLu(SparseLu&&) noexcept;
  /// Numeric: `values` stand at the pattern's places. Fails (invalid_argument) if the matrix is singular.
  void factor(const Tensor& values, double shift = 0);
  /// x[n, k] or x[n] with a x = b, or aᵀ x = b. Fails before `factor`.
  Tensor solve(const Tensor& b, bool transposed = false) const;
  /// Entries of L and U together; 0 before `factor`.
  int64_t fill() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace rlx
