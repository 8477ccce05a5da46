// Value numbering over nodes in order; see the header.
#include "passes/merge_equal_nodes.h"

#include <unordered_map>

#include "ir/leaves.h"
#include "ir/rewrite.h"
#include "rlx/ops/control.h"

namespace rlx {
namespace {

constexpr size_t kMostCompared = 4096;  // bytes of a literal

const Tensor* large_literal(const Node& node) {
  if (node.op != &op::constant) return nullptr;
  const Tensor& t = node.attrs.as<ConstantAttrs>().value;
  return t.byte_count() > kMostCompared ? &t : nullptr;
}

size_t key_of(const Node& node, Values operands) {
  size_t h = std::hash<const OpDef*>{}(node.op);
  if (const Tensor* t = large_literal(node)) h = mix(h, std::hash<const void*>{}(t->data()));
  else h = mix(h, hash_of(node.attrs));
  for (const Value& v : operands) h = mix(h, mix(size_t(v.ref().node), size_t(v.ref().result)));
  return h;
}

/// `made` stands in the new graph, `node` in the old one with these operands.
bool are_equal(const Node& made, const Node& node, Values operands) {
  if (made.op != node.op || made.operands.size() != operands.size() || made.types != node.types) return false;
  for (size_t i = 0; i < operands.size(); ++i)
    if (made.operands[i] != operands[i].ref()) return false;
  const Tensor *a = large_literal(made), *b = large_literal(node);
  if (a || b) return a && b && a->data() == b->data();
  return made.attrs == node.attrs;
}

}  // namespace

Graph merge_equal_nodes(const Graph& g) {
  std::unordered_multimap<size_t, int32_t> seen;  // key -> node of the new graph
  return rewritten(g, [&](const Site& site) -> std::optional<std::vector<Value>> {
    if (site.node.op == &op::optimization_barrier) return std::nullopt;
    size_t key = key_of(site.node, site.operands);
    for (auto [at, end] = seen.equal_range(key); at != end; ++at)
      if (Ref first{at->second, 0}; are_equal(site.to.node(first), site.node, site.operands)) {
        std::vector<Value> results;
        for (size_t r = 0; r < site.node.types.size(); ++r) results.push_back(site.to.value({first.node, int32_t(r)}));
        return results;
      }
    seen.emplace(key, int32_t(site.to.nodes().size()));
    return std::nullopt;
  });
}

}  // namespace rlx
