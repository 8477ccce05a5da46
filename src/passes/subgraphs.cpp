// See the header.
#include "passes/subgraphs.h"

#include "ir/rewrite.h"
#include "rlx/ops/control.h"

namespace rlx {
namespace {

bool is_control_flow(const OpDef* op) { return op == &op::if_else || op == &op::while_loop || op == &op::scan; }

}  // namespace

Graph with_bodies(const Graph& g, const std::function<Graph(const Graph&)>& pass) {
  bool any = std::any_of(g.nodes().begin(), g.nodes().end(), [](const Node& node) { return is_control_flow(node.op); });
  if (!any) return pass(g);
  return pass(rewritten(g, [&](const Site& site) -> std::optional<std::vector<Value>> {
    if (!is_control_flow(site.node.op)) return std::nullopt;
    Attrs attrs = with_subgraphs(site.node.attrs, [&](const Graph& body) { return with_bodies(body, pass); });
    return site.to.emit(*site.node.op, {site.operands.begin(), site.operands.end()}, std::move(attrs));
  }));
}

}  // namespace rlx
