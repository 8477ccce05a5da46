// See the header.
#include "compile/with_values.h"

#include "ir/leaves.h"
#include "ir/rewrite.h"

namespace rlx {

const Tensor& value_of(const NamedTensors& params, const Node& param) {
  auto found = params.find(param.name);
  if (found == params.end())
    fail(ErrorCode::not_found, "there is no value for the param '", param.name, "' (", param.types[0], ") among the ",
         params.size(), " given");
  if (found->second.type() != param.types[0])
    fail(ErrorCode::shape_mismatch, "the param '", param.name, "' is ", param.types[0], ", and its value ",
         found->second.type());
  return found->second;
}

Graph with_values(const Graph& g, const NamedTensors& params) {
  return with_leaves(g, [&](Graph& to, const Node& leaf) {
    if (leaf.op == &op::input) return to.input(leaf.name, leaf.types[0]);
    return to.constant(value_of(params, leaf));
  });
}

}  // namespace rlx
