// Jacobi's rotations of many pairs of columns at once, for graphs: what the decompositions of eigh and svd share. The
// columns are paired as in a tournament: column i of the left half meets column i of the right half; after each round
// all but the first move on, and after n - 1 rounds every two have met once and stand where they stood.
#pragma once

#include "ops/linalg/linalg_rules.h"

namespace rlx::jacobi {

/// The rotations of n / 2 pairs, as [batch, n / 2] each: p' = c p - s e q, q' = s p + c e q, with c, s in the matrix's
/// dtype. They make Hermitian matrices [[alpha, w], [w*, beta]] diagonal: alpha - shift and beta + shift.
struct Rotations {
  Value c, s, e, shift;
  Rotations(Value alpha, Value beta, Value w);
  /// The columns of x[batch, m, n], the pairs side by side in its halves.
  Value columns(Value x) const;
  Value rows(Value x) const;
};

/// The columns (or rows: axis 1) for the next round.
Value next_round(Value x, int64_t axis);

/// x with a column (and row) of zeros if `n` is odd: every column has a partner then.
inline int64_t even(int64_t n) { return n + n % 2; }

/// More sweeps than any matrix needs; a handful is usual.
constexpr int64_t kMostSweeps = 48;

}  // namespace rlx::jacobi
