// See the header.
#include "compile/with_values.h"

#include "ir/leaves.h"

namespace rlx {

Graph with_values(const Graph& g, const NamedTensors& params) {
  Graph to(g.name());
  std::vector<std::vector<Value>> values(g.nodes().size());
  for (size_t n = 0; n < g.nodes().size(); ++n) {
    const Node& node = g.nodes()[n];
    if (node.op == &op::input) {
      values[n] = {to.input(node.name, node.types[0])};
      continue;
    }
    if (node.op == &op::param) {
      auto found = params.find(node.name);
      if (found == params.end())
        fail(ErrorCode::not_found, "the param '", node.name, "', ", node.types[0], ", has no value among the ",
             params.size(), " given");
      if (found->second.type() != node.types[0])
        fail(ErrorCode::shape_mismatch, "the param '", node.name, "' is ", node.types[0], ", and its value ",
             found->second.type());
      values[n] = {to.constant(found->second)};
      continue;
    }
    std::vector<Value> operands;
    for (Ref r : node.operands) operands.push_back(values[static_cast<size_t>(r.node)][static_cast<size_t>(r.result)]);
    to.set_scope(node.name);
    values[n] = to.emit(*node.op, std::move(operands), node.attrs);
  }
  to.set_scope("");
  for (const Output& o : g.outputs())
    to.output(values[static_cast<size_t>(o.ref.node)][static_cast<size_t>(o.ref.result)], o.name);
  return to;
}

}  // namespace rlx
