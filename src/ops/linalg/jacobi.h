// Jacobi's rotations of many pairs of columns at once, in graphs: what the decompositions of eigh and svd share. The
// columns are paired as in a tournament: column i of the left half with column i of the right half. After each round
// all columns but the first move on; after n - 1 rounds every two have been paired once, and all are where they were.
#pragma once

#include "ops/linalg/linalg_rules.h"

namespace rlx::jacobi {

/// The rotations of n / 2 pairs, as [batch, n / 2] each: p' = c p - s e q, q' = s p + c e q, with c, s in the matrix's
/// dtype. They make Hermitian matrices [[alpha, w], [w*, beta]] diagonal: alpha - shift and beta + shift.
struct Rotations {
  Value c, s, e, shift;
  Rotations(Value alpha, Value beta, Value w);
  /// Rotates the columns of x[batch, m, n]. The columns of a pair have the same index in the left and in the right
  /// half.
  Value columns(Value x) const;
  Value rows(Value x) const;
};

/// Moves the columns (axis 1: the rows) to where they are in the next round.
Value next_round(Value x, int64_t axis);

/// n rounded up to an even number: with a column of zeros every column has a partner.
inline int64_t even(int64_t n) { return n + n % 2; }

/// More sweeps than any matrix needs. A handful is usual.
constexpr int64_t kMostSweeps = 48;

}  // namespace rlx::jacobi
