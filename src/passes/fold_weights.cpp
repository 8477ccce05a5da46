// See the header.
#include "passes/fold_weights.h"

#include <map>

#include "ir/leaves.h"
#include "passes/bound_values.h"
#include "passes/constants.h"
#include "passes/simplify.h"
#include "passes/subgraphs.h"
#include "reference/interpreter.h"

namespace rlx {
namespace {

class Folder {
 public:
  explicit Folder(const std::function<bool(const Node&, size_t)>& wanted) : wanted_(wanted) {}

  std::optional<std::vector<Value>> fold(const Site& site) {
    std::vector<Value> operands(site.operands.begin(), site.operands.end());
    bool any = false;
    for (size_t i = 0; i < operands.size(); ++i) {
      Ref r = operands[i].ref();
      if (!wanted_(site.node, i) || literal(site.to, r) || !is_weight(site.to, r)) continue;
      const std::vector<Tensor>* all = values_of(site.to, r.node);
      if (!all) continue;
      operands[i] = site.to.constant(all->at(static_cast<size_t>(r.result)));
      any = true;
    }
    if (!any) return std::nullopt;
    return site.to.emit(*site.node.op, operands, site.node.attrs);
  }

 private:
  /// What a node made of constants gives; null where a param stands behind it. Chains may be long: no recursion.
  const std::vector<Tensor>* values_of(const Graph& g, int32_t wanted) {
    std::vector<int32_t> open{wanted};
    while (!open.empty()) {
      const int32_t n = open.back();
      const Node& node = g.node({n, 0});
      if (values_.contains(n)) {
        open.pop_back();
        continue;
      }
      if (node.op == &op::param) return nullptr;
      const size_t before = open.size();
      for (Ref r : node.operands)
        if (!values_.contains(r.node)) open.push_back(r.node);
      if (open.size() > before) continue;
      std::vector<Tensor> in;
      for (Ref r : node.operands) in.push_back(values_.at(r.node).at(static_cast<size_t>(r.result)));
      values_.emplace(n, node.op == &op::constant ? std::vector{node.attrs.as<ConstantAttrs>().value}
                                                  : run_op(*node.op, node.attrs, in));
    }
    return &values_.at(wanted);
  }

  const std::function<bool(const Node&, size_t)>& wanted_;
  std::map<int32_t, std::vector<Tensor>> values_;  // of the nodes of the graph that is made
};

}  // namespace

Graph fold_weights(const Graph& g, const std::function<bool(const Node&, size_t)>& wanted) {
  return with_bodies(g, [&](const Graph& body) {
    bool any = std::any_of(body.nodes().begin(), body.nodes().end(), [&](const Node& node) {
      for (size_t i = 0; i < node.operands.size(); ++i)
        if (wanted(node, i) && !literal(body, node.operands[i])) return true;
      return false;
    });
    if (!any) return body;
    Folder folder(wanted);
    return prune(rewritten(body, [&](const Site& site) { return folder.fold(site); }));
  });
}

}  // namespace rlx
