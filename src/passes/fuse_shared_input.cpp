// See the header. Products are grouped first, by what must agree; then each group is emitted where its first stands.
#include "passes/fuse_shared_input.h"

#include "ir/leaves.h"
#include "ir/rewrite.h"
#include "passes/bound_values.h"
#include "rlx/ops.h"

namespace rlx {
namespace {

struct Group {
  std::vector<size_t> members;  // nodes, in order
};

struct SharedInputs {
  const Graph& g;
  Uses uses{g};
  std::vector<bool> bound = bound_nodes(g);
  std::vector<Group> groups = {};

  /// Its weights, and its bias if it has one, can stand in front of node `first`.
  bool can_join(const Node& node, size_t first) const {
    if (node.op != &op::matmul && node.op != &op::linear && node.op != &op::fused_matmul) return false;
    if (node.op == &op::fused_matmul && node.attrs.as<FusedMatmulAttrs>().has_residual) return false;
    if (g.type(node.operands[1]).rank() != 2) return false;
    for (size_t i = 1; i < node.operands.size(); ++i) {
      Ref r = node.operands[i];
      bool is_leaf = g.node(r).op == &op::param;  // they stand in front of everything
      if (!bound[size_t(r.node)] || !uses.only_one(r) || (!is_leaf && size_t(r.node) > first)) return false;
    }
    return true;
  }
  bool agree(const Node& a, const Node& b) const {
    return a.op == b.op && a.attrs == b.attrs && a.operands[0] == b.operands[0] &&
           a.operands.size() == b.operands.size() && a.types[0].dtype == b.types[0].dtype;
  }

  void find() {
    for (size_t n = 0; n < g.nodes().size(); ++n) {
      const Node& node = g.nodes()[n];
      if (node.op != &op::matmul && node.op != &op::linear && node.op != &op::fused_matmul) continue;
      bool joined = false;
      for (Group& group : groups) {
        size_t first = group.members[0];
        if (agree(g.nodes()[first], node) && can_join(node, first)) {
          group.members.push_back(n), joined = true;
          break;
        }
      }
      if (!joined && can_join(node, n)) groups.push_back({{n}});
    }
    std::erase_if(groups, [](const Group& group) { return group.members.size() < 2; });
  }
};

/// One product, cut into what its members gave.
std::vector<Value> emit_joined(const Site& site, const Group& group) {
  const Graph& g = site.from;
  const Node& first = g.nodes()[group.members[0]];
  bool transposed =
      first.op == &op::linear || (first.op == &op::fused_matmul && first.attrs.as<FusedMatmulAttrs>().transpose_rhs);
  std::vector<Value> in = {site.operands[0]};
  for (size_t i = 1; i < first.operands.size(); ++i) {
    std::vector<Value> parts;
    for (size_t m : group.members) parts.push_back(site.value_of(g.nodes()[m].operands[i]));
    in.push_back(concatenate(std::move(parts), i == 1 && !transposed ? 1 : 0));
  }
  Value y = emit(*first.op, std::move(in), first.attrs);
  std::vector<Value> results;
  Dim start = 0;
  for (size_t m : group.members) {
    Dim end = start + g.nodes()[m].types[0].dims.back();
    site.to.set_scope(g.nodes()[m].name);
    results.push_back(slice_axis(y, -1, start, end));
    start = end;
  }
  return results;
}

}  // namespace

Graph fuse_shared_input(const Graph& g) {
  SharedInputs grouping{g};
  grouping.find();
  if (grouping.groups.empty()) return g;
  std::map<size_t, Value> made;  // by node
  return rewritten(g, [&](const Site& site) -> std::optional<std::vector<Value>> {
    for (const Group& group : grouping.groups)
      if (group.members[0] == site.index) {
        auto results = emit_joined(site, group);
        for (size_t i = 0; i < results.size(); ++i) made[group.members[i]] = results[i];
      }
    auto found = made.find(site.index);
    if (found == made.end()) return std::nullopt;
    return std::vector{found->second};
  });
}

}  // namespace rlx
