// See the header.
#include "passes/bound_values.h"

#include <set>

#include "ir/leaves.h"
#include "rlx/ops/control.h"

namespace rlx {

void for_each_symbol(const std::vector<Type>& types, const SymbolVisitor& f) {
  for (const Type& type : types)
    for (const Dim& dim : type.dims) dim.for_each_symbol(f);
}
void for_each_symbol(const Attrs& attrs, const SymbolVisitor& f) {
  if (attrs.empty() || attrs.holds<ConstantAttrs>()) return;
  attrs.mapped({[&](const Dim& dim) {
                  dim.for_each_symbol(f);
                  return dim;
                },
                [&](const Subgraph& body) {
                  if (body)
                    for (const Node& node : body->nodes()) for_each_symbol(node, f);
                  return body;
                }});
}
void for_each_symbol(const Node& node, const SymbolVisitor& f) {
  for_each_symbol(node.types, f);
  for_each_symbol(node.attrs, f);
}

bool has_symbols(const Node& node) {
  bool found = false;
  for_each_symbol(node, [&](const std::string&) { found = true; });
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
