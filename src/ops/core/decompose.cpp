// Decomposition, with the rule for low precision in one place: no entry adds converts.
#include "base/growth_limit.h"
#include "base/user_code.h"
#include "rlx/ops/elementwise.h"

namespace rlx {

bool holds_subgraph(const Attrs& attrs) {
  if (attrs.empty()) return false;
  bool found = false;
  attrs.mapped({[](const Dim& d) { return d; },
                [&](const Subgraph& body) {
                  found = true;
                  return body;
                }});
  return found;
}

std::vector<Value> decompose(Graph& to, const OpDef& op, Values operands, const Attrs& attrs) {
  if (!op.decompose) fail(ErrorCode::unsupported, "'", op.name, "' is a primitive: it has no decomposition");
  std::vector<Type> types;
  bool low = false;
  for (const Value& v : operands) {
    types.push_back(v.type());
    low |= is_low_precision(v.dtype());
  }
  auto wanted = infer_types(op, types, attrs);
  std::vector<Value> wide(operands.begin(), operands.end());
  low = low && !op.moves_data && !holds_subgraph(attrs);
  if (low)
    for (Value& v : wide)
      if (is_low_precision(v.dtype())) v = convert(v, f32);
  const GrowthLimit limit(Growth::of(1), [&] { return text_of("the decomposition of '", op.name, "'"); });
  std::vector<Value> results = user_code([&] { return text_of("the decomposition of '", op.name, "'"); },
                                         [&] { return op.decompose(to, wide, attrs); });
  if (results.size() != wanted.size())
    fail(ErrorCode::internal, "the decomposition of '", op.name, "' gives ", results.size(), " results instead of ",
         wanted.size());
  for (size_t r = 0; r < results.size(); ++r) {
    if (low && results[r].dtype() != wanted[r].dtype) results[r] = convert(results[r], wanted[r].dtype);
    if (results[r].type() != wanted[r])
      fail(ErrorCode::internal, "the decomposition of '", op.name, "' gives ", results[r].type(), " instead of ",
           wanted[r]);
  }
  return results;
}

}  // namespace rlx
