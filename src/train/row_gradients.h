// Gradients of tables of which a batch reads some rows (embeddings): as those rows, where the rule of the optimizer
// leaves a row without a gradient as it is. A step then touches what the batch has read, not the table.
#pragma once

#include "rlx/ops/optimizer.h"

namespace rlx::train {

/// The gradient of a table: `rows` [n, ...] belong to `places` [n], i64, each named once; what is left over of the n
/// has the number of rows of the table as its place and zeros as its row.
struct RowGradient {
  Value rows, places;
  explicit operator bool() const { return bool(rows); }
};

/// `gradient`, if it is nothing but rows added to zeros, and of these at most a quarter as many as the table has (below
/// that, sorting them pays). Rows that meet are added in their order: of one look-up the sums are those of `gradient`
/// to the bit; of several, whose gradients it would sum first, to a rounding.
RowGradient as_rows(Value gradient);

/// Whether a row whose gradient is zero stays as it is, and its states too: plain gradient descent and Adagrad without
/// weight decay. All other rules move what they remember (momentum, moments that fade), or shrink the params.
bool leaves_rows_alone(const OptimizerRule& rule);

/// The rows of a table at these places, and the table with others there.
Value rows_at(Value table, Value places);
Value with_rows(Value table, Value places, Value rows);

}  // namespace rlx::train
