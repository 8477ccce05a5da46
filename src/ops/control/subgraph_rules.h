// What the rules of ops with sub-graphs share: functions of lists of values and of masks over them.
#pragma once

#include "rlx/ops/elementwise.h"
#include "rlx/ops/shape.h"

namespace rlx {

template <class First, class... Rest>
auto joined(const First& first, const Rest&... rest) {
  std::vector<std::remove_cvref_t<decltype(*first.begin())>> all(first.begin(), first.end());
  (all.insert(all.end(), rest.begin(), rest.end()), ...);
  return all;
}
inline Mask joined(const Mask& first, const Mask& second) {
  Mask all = first;
  all.insert(all.end(), second.begin(), second.end());
  return all;
}
inline Mask joined(const Mask& first, const Mask& second, const Mask& third) {
  return joined(joined(first, second), third);
}

std::vector<Type> types_of_values(Values values);
std::vector<Value> present(Values all);
Mask mask_of(Values all);
/// Which of the values have derivatives: those of floats.
Mask floats(Values all);
Mask floats(const std::vector<Type>& all);
std::vector<Value> where(Values all, const Mask& mask);
/// The inverse of where(): the values of `some`, from `first` on, at the positions where `mask` is true; empty values
/// elsewhere.
Many<Value> spread(Values some, const Mask& mask, size_t first = 0);
inline Value or_zero(Value v, Value like) { return v ? v : zeros_like(like); }
/// Selects lane by lane. `lanes` is bool[size]; the other two have that dim in front.
Value lanes_where(Value lanes, Value on_true, Value on_false);
/// The extent of the batch, which is that of the first batched operand.
Dim batch_size(Values in, const Mask& batched);
/// The operands, all of which have the batch as dim 0: those that are not batched are broadcast.
std::vector<Value> all_batched(Values in, const Mask& batched);

/// Fails if types differ, and names the first: "body's input 2 should be f32[3], but is f32[4]".
void require_types(std::string_view what, Types wanted, Types got);
/// The graph of a sub-graph. Fails if it is absent, and names it.
const Graph& required(const Subgraph& g, std::string_view what);
/// Emits the nodes of g, which is closed, and returns its outputs.
std::vector<Value> inlined(Graph& to, const Graph& g, Values inputs);

}  // namespace rlx
