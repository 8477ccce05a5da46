// See the header.
#include "passes/bound_values.h"

#include <set>

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

bool is_weight(const Graph& g, Ref r) {
  std::set<int32_t> seen;
  std::vector<Ref> open{r};
  while (!open.empty()) {
    Ref next = open.back();
    open.pop_back();
    if (!seen.insert(next.node).second) continue;
    const Node& node = g.node(next);
    if (node.op == &op::constant || node.op == &op::param) continue;
    bool simple =
        (node.op->moves_data || node.op->elementwise) && !node.operands.empty() && node.op != &op::optimization_barrier;
    if (!simple || holds_subgraph(node.attrs) || has_symbols(node)) return false;
    open.insert(open.end(), node.operands.begin(), node.operands.end());
  }
  return true;
}

}  // namespace rlx
