// What the sequence models share: time and batch change places around a scan, and a batch of vmap joins the batch that
// is there.
#pragma once

#include "ops/control/subgraph_rules.h"
#include "rlx/ops/control.h"
#include "rlx/ops/recurrent.h"

namespace rlx {

/// [B, S, ...] as [S, B, ...], which a scan takes apart, and back.
inline Value time_first(Value x) { return move_axis(x, 1, 0); }

/// scan, of a body that is a function of Values: carries, slices of the xs, captured -> carries, slices of the ys.
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

/// [N, B, ...] as [N B, ...].
Value merge_front(Value x);
/// [N B, ...] as [N, B, ...].
Value split_front(Value x, const Dim& size);
/// A batch rule: the operands, whose dim 0 is a batch already, with the new one joined to it, the op on those, and its
/// results taken apart again. The operand `shared` has no batch; if it got one, the rule declines.
Many<Value> join_batches(const OpDef& op, Values in, const Mask& batched, const Attrs& attrs,
                         std::optional<size_t> shared = {});

}  // namespace rlx
