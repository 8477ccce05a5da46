// See the header.
#include "passes/bound_values.h"

#include "ir/leaves.h"
#include "rlx/ops/control.h"

namespace rlx {

bool has_symbols(const Node& node) {
  bool found = std::any_of(node.types.begin(), node.types.end(), [](const Type& t) { return !is_static(t.dims); });
  if (found || node.attrs.empty() || node.op == &op::constant) return found;
  node.attrs.mapped({[&](const Dim& d) {
                       found |= !d.is_static();
                       return d;
                     },
                     [&](const Subgraph& body) {
                       found |= std::any_of(body->nodes().begin(), body->nodes().end(), has_symbols);
                       return body;
                     }});
  return found;
}

std::vector<bool> bound_nodes(const Graph& g) {
  std::vector<bool> bound(g.nodes().size());
  for (size_t n = 0; n < bound.size(); ++n) {
    const Node& node = g.nodes()[n];
    bound[n] = node.op != &op::input && node.op != &op::optimization_barrier &&
               std::all_of(node.operands.begin(), node.operands.end(), [&](Ref r) { return bound[size_t(r.node)]; }) &&
               !has_symbols(node);
  }
  return bound;
}

}  // namespace rlx
