// What the sequence models share: moving time in front for a scan and back, and a batch rule that merges a batch of
// vmap with the batch that operands have anyway.
#pragma once

#include "ops/control/subgraph_rules.h"
#include "rlx/ops/control.h"
#include "rlx/ops/recurrent.h"

namespace rlx {

/// x[B, S, ...] as [S, B, ...], which a scan divides into steps; and the same back.
inline Value time_first(Value x) { return move_axis(x, 1, 0); }

/// A scan whose body is given as a function of Values: (carries, slices of the xs, captured values) -> (carries, slices
/// of the ys).
template <class Body>
std::vector<Value> scan_of(Graph& g, const std::vector<Value>& carries, const std::vector<Value>& xs,
                           const std::vector<Value>& captured, const Dim& length, bool reverse, Body body) {
  std::vector<Type> types = types_of_values(carries);
  for (const Value& x : xs) types.push_back({x.dtype(), {x.dims().begin() + 1, x.dims().end()}});
  for (const Value& v : captured) types.push_back(v.type());
  ScanAttrs attrs{static_cast<int64_t>(carries.size()), static_cast<int64_t>(xs.size()), length, reverse,
                  trace(types, body)};
  return scan(g, joined(carries, xs, captured), attrs);
}

/// x[N, B, ...] as [N B, ...].
Value merge_front(Value x);
/// x[N B, ...] as [N, B, ...].
Value split_front(Value x, const Dim& size);
/// A batch rule for ops whose operands have a batch as dim 0: merges the new batch with it, applies the op, and divides
/// its results again. The operand `shared` has no batch; if it is batched, the rule declines.
Many<Value> join_batches(const OpDef& op, Values in, const Mask& batched, const Attrs& attrs,
                         std::optional<size_t> shared = {});

}  // namespace rlx
