// See the header.
#include "compile/with_values.h"

#include "ir/leaves.h"
#include "ir/rewrite.h"

namespace rlx {

Graph with_values(const Graph& g, const NamedTensors& params) {
  return with_leaves(g, [&](Graph& to, const Node& leaf) {
    if (leaf.op == &op::input) return to.input(leaf.name, leaf.types[0]);
    auto found = params.find(leaf.name);
    if (found == params.end())
      fail(ErrorCode::not_found, "the param '", leaf.name, "', ", leaf.types[0], ", has no value among the ",
           params.size(), " given");
    if (found->second.type() != leaf.types[0])
      fail(ErrorCode::shape_mismatch, "the param '", leaf.name, "' is ", leaf.types[0], ", and its value ",
           found->second.type());
    return to.constant(found->second);
  });
}

}  // namespace rlx
