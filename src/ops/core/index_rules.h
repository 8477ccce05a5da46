// Derivatives and batch rules of the indexing primitives. Their inference and references are in index.cpp.
#pragma once

#include <algorithm>

#include "rlx/op_def.h"
#include "rlx/ops/index.h"

namespace rlx {

inline bool contains(const Axes& axes, int64_t axis) { return std::find(axes.begin(), axes.end(), axis) != axes.end(); }

/// What gather and scatter share: how an index into the indices and an index into a slice together become an index into
/// x. `outside` is the result of gather, or the updates of scatter.
struct Places {
  Axes window;                      // dims of `outside` that are those of a slice
  Axes collapsed;                   // dims of x without a dim of `outside`
  Axes x_batching, index_batching;  // pairs of dims that have a common index
  Axes map;                         // dims of x that the entries of an index vector stand for
  int64_t vector_dim;               // of the indices; their rank if each index is a vector of one entry

  explicit Places(const GatherAttrs&);
  explicit Places(const ScatterAttrs&);
  GatherAttrs gather(Dims sizes, OutOfRange out_of_range) const;
  ScatterAttrs scatter(ScatterKind kind, Subgraph body = {}) const;
  /// The same with a new batch dim in front of `outside`, and of x, of the indices or of both.
  Places batched(bool x, bool indices) const;

  Axes index_dims(size_t index_rank) const { return other_axes(index_rank, {vector_dim}); }
  /// The dims of `outside` that are those of the indices, in the order of index_dims.
  Axes outer(size_t outside_rank) const { return other_axes(outside_rank, window); }
  /// The dims of x that are those of a slice, in the order of `window`.
  Axes inner(size_t x_rank) const;
};

Many<Value> gather_vjp(Values in, Value out, Value ct, const GatherAttrs&);
Value gather_batch(Values in, const Mask& batched, const GatherAttrs&);
Many<Value> scatter_vjp(Values in, Values out, Values cts, const ScatterAttrs&, const Transforms&);
Many<Value> scatter_batch(Values in, const Mask& batched, const ScatterAttrs&);

Many<Value> dynamic_slice_vjp(Values in, Value out, Value ct);
Value dynamic_slice_batch(Values in, const Mask& batched, const DynamicSliceAttrs&);
Many<Value> dynamic_update_slice_vjp(Values in, Value out, Value ct);
Many<Value> dynamic_update_slice_batch(Values in, const Mask& batched);

}  // namespace rlx
