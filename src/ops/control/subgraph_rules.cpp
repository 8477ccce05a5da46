// See the header.
#include "ops/control/subgraph_rules.h"

#include "ir/rewrite.h"

namespace rlx {

std::vector<Type> types_of_values(Values values) {
  std::vector<Type> types;
  for (const Value& v : values) types.push_back(v.type());
  return types;
}
std::vector<Value> present(Values all) {
  std::vector<Value> result;
  std::copy_if(all.begin(), all.end(), std::back_inserter(result), [](const Value& v) { return bool(v); });
  return result;
}
Mask mask_of(Values all) {
  Mask mask;
  for (const Value& v : all) mask.push_back(bool(v));
  return mask;
}
static bool is_differentiable(DType t) { return is_float(t) || is_complex(t); }
Mask floats(Values all) {
  Mask mask;
  for (const Value& v : all) mask.push_back(is_differentiable(v.dtype()));
  return mask;
}
Mask floats(const std::vector<Type>& all) {
  Mask mask;
  for (const Type& t : all) mask.push_back(is_differentiable(t.dtype));
  return mask;
}
std::vector<Value> where(Values all, const Mask& mask) {
  std::vector<Value> result;
  for (size_t i = 0; i < all.size(); ++i)
    if (mask[i]) result.push_back(all[i]);
  return result;
}
Many<Value> spread(Values some, const Mask& mask, size_t first) {
  Many<Value> all(mask.size());
  for (size_t i = 0; i < mask.size(); ++i)
    if (mask[i]) all[i] = some[first++];
  return all;
}
Value lanes_where(Value lanes, Value on_true, Value on_false) {
  return select(broadcast_in_dim(lanes, on_true.dims(), {0}), on_true, on_false);
}
Dim batch_size(Values in, const Mask& batched) {
  auto first = static_cast<size_t>(std::find(batched.begin(), batched.end(), true) - batched.begin());
  return in[first].dims()[0];
}
std::vector<Value> all_batched(Values in, const Mask& batched) {
  Dim size = batch_size(in, batched);
  std::vector<Value> lanes(in.begin(), in.end());
  for (size_t i = 0; i < lanes.size(); ++i)
    if (!batched[i]) lanes[i] = repeat_front(in[i], size);
  return lanes;
}
void require_types(std::string_view what, Types wanted, Types got) {
  if (wanted.size() != got.size()) {
    std::string list;
    for (const Type& t : wanted) list += text_of(list.empty() ? ": " : ", ", t);
    fail(ErrorCode::shape_mismatch, what, "s are ", got.size(), ", but ", wanted.size(), " are needed", list);
  }
  for (size_t i = 0; i < wanted.size(); ++i)
    if (wanted[i] != got[i])
      fail(ErrorCode::shape_mismatch, what, " ", i, " should be ", wanted[i], ", but is ", got[i]);
}
const Graph& required(const Subgraph& g, std::string_view what) {
  if (!g)
    fail(ErrorCode::invalid_argument, "the sub-graph '", what, "' is missing; give it as an attribute, ", what,
         " = graph @", what, " { ... }");
  return *g;
}
std::vector<Value> inlined(Graph& to, const Graph& g, Values inputs) { return splice(to, g, inputs); }

}  // namespace rlx
