// Value numbering; see the header. The old graph is numbered as a whole, then emitted without the copies.
#include "passes/merge_equal_nodes.h"

#include <unordered_map>

#include "ir/leaves.h"
#include "ir/rewrite.h"
#include "rlx/ops/control.h"

namespace rlx {
namespace {

constexpr size_t kMostCompared = 4096;  // bytes of a literal

struct Numbering {
  const Graph& g;
  std::vector<int32_t> first;  // for each node, the first that equals it: itself, mostly

  explicit Numbering(const Graph& graph) : g(graph) {
    std::unordered_multimap<size_t, int32_t> seen;
    for (int32_t n = 0; n < int32_t(g.nodes().size()); ++n) {
      first.push_back(n);
      const Node& node = g.nodes()[size_t(n)];
      if (node.op == &op::input || node.op == &op::param || node.op == &op::optimization_barrier) continue;
      size_t key = key_of(node);
      auto [at, end] = seen.equal_range(key);
      while (at != end && !are_equal(g.nodes()[size_t(at->second)], node)) ++at;
      if (at != end) first.back() = at->second;
      else seen.emplace(key, n);
    }
  }

  bool finds_any() const {
    for (size_t n = 0; n < first.size(); ++n)
      if (first[n] != int32_t(n)) return true;
    return false;
  }

 private:
  Ref representative(Ref r) const { return {first[size_t(r.node)], r.result}; }

  static const Tensor* large_literal(const Node& node) {
    if (node.op != &op::constant) return nullptr;
    const Tensor& t = node.attrs.as<ConstantAttrs>().value;
    return t.byte_count() > kMostCompared ? &t : nullptr;
  }
  size_t key_of(const Node& node) const {
    size_t h = std::hash<const OpDef*>{}(node.op);
    if (const Tensor* t = large_literal(node)) h = mix(h, std::hash<const void*>{}(t->data()));
    else h = mix(h, hash_of(node.attrs));
    for (Ref r : node.operands) h = mix(h, mix(size_t(representative(r).node), size_t(r.result)));
    return h;
  }
  bool are_equal(const Node& a, const Node& b) const {
    if (a.op != b.op || a.operands.size() != b.operands.size() || a.types != b.types) return false;
    for (size_t i = 0; i < a.operands.size(); ++i)
      if (representative(a.operands[i]) != representative(b.operands[i])) return false;
    const Tensor *x = large_literal(a), *y = large_literal(b);
    return x || y ? x && y && x->data() == y->data() : a.attrs == b.attrs;
  }
};

}  // namespace

Graph merge_equal_nodes(const Graph& g) {
  Numbering numbering(g);
  if (!numbering.finds_any()) return g;
  return rewritten(g, [&](const Site& site) -> std::optional<std::vector<Value>> {
    int32_t first = numbering.first[site.index];
    if (first == int32_t(site.index)) return std::nullopt;
    std::vector<Value> results;
    for (size_t r = 0; r < site.node.types.size(); ++r) results.push_back(site.value_of({first, int32_t(r)}));
    return results;
  });
}

}  // namespace rlx
