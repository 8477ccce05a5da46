// What the rules of ops with sub-graphs share: lists of values and masks over them.
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
/// Which of them have derivatives.
Mask floats(Values all);
Mask floats(const std::vector<Type>& all);
std::vector<Value> where(Values all, const Mask& mask);
/// `some`, from `first` on, put back where `mask` holds; empty elsewhere.
Many<Value> spread(Values some, const Mask& mask, size_t first = 0);
inline Value or_zero(Value v, Value like) { return v ? v : zeros_like(like); }
/// `lanes` is bool[size]; the others have that dim in front.
Value lanes_where(Value lanes, Value on_true, Value on_false);
/// The batch's extent: that of the first batched operand.
Dim batch_size(Values in, const Mask& batched);
/// Every operand with the batch in front.
std::vector<Value> all_batched(Values in, const Mask& batched);

/// Fails, naming the first that differs: "body's input 2 should be f32[3], but is f32[4]".
void require_types(std::string_view what, Types wanted, Types got);
/// Fails, naming the sub-graph, if it is absent.
const Graph& required(const Subgraph& g, std::string_view what);
/// Emits the nodes of g, which is closed.
std::vector<Value> inlined(Graph& to, const Graph& g, Values inputs);

}  // namespace rlx
