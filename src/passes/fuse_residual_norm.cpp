// See the header. The fused op is emitted where the sum stands, not where the norm does: other users of the sum may
// come before the norm.
#include "passes/fuse_residual_norm.h"

#include "ir/leaves.h"
#include "ir/rewrite.h"
#include "passes/value_nodes.h"

namespace rlx {
namespace {

struct NormFuser {
  Uses uses;
  Rounding rounding;
  std::map<size_t, Value> norms = {};  // by node: what was emitted at the sum

  /// Gamma or beta, if it can be read at node `at`.
  static bool stands_before(const Graph& g, Ref r, size_t at) {
    return g.node(r).op == &op::param || size_t(r.node) < at;
  }

  /// The norm that takes result 0 of node `sum` in.
  std::optional<size_t> norm_of(const Graph& g, size_t sum) const {
    Ref r{int32_t(sum), 0};
    for (int32_t user : uses.of(r)) {
      const Node& node = g.nodes()[size_t(user)];
      if ((node.op != &op::layer_norm && node.op != &op::rms_norm) || node.operands[0] != r) continue;
      const auto& a = node.attrs.as<LayerNormAttrs>();
      size_t rank = g.type(r).rank();
      if (!a.has_gamma || valid_axis(a.axis, rank) != int64_t(rank) - 1) continue;
      if (std::all_of(node.operands.begin() + 1, node.operands.end(), [&](Ref o) { return stands_before(g, o, sum); }))
        return size_t(user);
    }
    return {};
  }

  /// (x + bias) for v: x, and the bias as a vector.
  std::pair<Value, Value> without_bias(const Site& site, size_t operand) const {
    Value v = site.operands[operand];
    const Node& node = site.to.node(v.ref());
    if (node.op != &op::add || !uses.only_one(site.node.operands[operand])) return {v, {}};
    for (size_t i : {0, 1}) {
      Value other = site.to.value(node.operands[i]), x = site.to.value(node.operands[1 - i]);
      if (!is_broadcast(other)) continue;
      Value vector = site.to.value(site.to.node(other.ref()).operands[0]);
      const auto& a = site.to.node(other.ref()).attrs.as<BroadcastAttrs>();
      if (vector.rank() == 1 && vector.dims()[0] == v.dims().back() &&
          valid_axis(a.axes[0], v.dims().size()) == v.rank() - 1)
        return {x, vector};
    }
    return {v, {}};
  }

  std::optional<std::vector<Value>> fused(const Site& site) {
    const Node& node = site.node;
    if (auto found = norms.find(site.index); found != norms.end()) return std::vector{found->second};
    if (node.op != &op::add || !may_round_once(node.types[0].dtype, rounding)) return std::nullopt;
    auto at = norm_of(site.from, site.index);
    if (!at) return std::nullopt;
    const Node& norm = site.from.nodes()[*at];
    const auto& a = norm.attrs.as<LayerNormAttrs>();
    auto [x, bias] = without_bias(site, 0);
    Value residual = site.operands[1];
    if (!bias) {
      std::tie(residual, bias) = without_bias(site, 1);
      if (bias) x = std::exchange(residual, x);
    }
    if (is_broadcast(x) || is_broadcast(residual)) return std::nullopt;  // an element-wise op reads it without a copy
    Value gamma = site.value_of(norm.operands[1]), beta = a.has_beta ? site.value_of(norm.operands[2]) : Value();
    site.to.set_scope(norm.name);
    auto [y, sum] = norm.op == &op::layer_norm ? fused_residual_layer_norm(x, residual, bias, gamma, beta, a.epsilon)
                                               : fused_residual_rms_norm(x, residual, bias, gamma, beta, a.epsilon);
    norms[*at] = y;
    return std::vector{sum};
  }
};

}  // namespace

Graph fuse_residual_norm(const Graph& g, Rounding rounding) {
  bool any = std::any_of(g.nodes().begin(), g.nodes().end(), [&](const Node& node) {
    return (node.op == &op::layer_norm || node.op == &op::rms_norm) && g.node(node.operands[0]).op == &op::add;
  });
  if (!any) return g;
  NormFuser fuser{Uses(g), rounding};
  return rewritten(g, [&](const Site& site) { return fuser.fused(site); });
}

}  // namespace rlx
