// See the header.
#include "autodiff/widened.h"

#include "rlx/ops/elementwise.h"

namespace rlx {

bool computes_widened(const OpDef& op, Values operands, const Attrs& attrs) {
  // The rules of ops that move elements add cotangents where one element became several, and floats of fewer than 16
  // bits have no addition.
  return !holds_subgraph(attrs) && std::any_of(operands.begin(), operands.end(), [&](Value v) {
    return is_low_precision(v.dtype()) && (!op.moves_data || info(v.dtype()).bits < 16);
  });
}
std::vector<Value> widened(Values values) {
  std::vector<Value> wide(values.begin(), values.end());
  for (Value& v : wide)
    if (v && is_low_precision(v.dtype())) v = convert(v, f32);
  return wide;
}
void narrow_to(std::vector<Value>& values, Values like) {
  for (size_t i = 0; i < values.size() && i < like.size(); ++i)
    if (values[i] && is_low_precision(like[i].dtype())) values[i] = convert(values[i], like[i].dtype());
}
std::vector<Type> types_of(Values values) {
  std::vector<Type> types;
  for (const Value& v : values) types.push_back(v.type());
  return types;
}

}  // namespace rlx
