// See the header. The product grows by one operand at a time: each step finds in the new graph what the last one made.
#include "passes/fuse_matmul.h"

#include "ir/rewrite.h"
#include "passes/activations.h"
#include "passes/value_nodes.h"

namespace rlx {
namespace {

/// A product as fused_matmul has it, whichever op says it.
struct Product {
  Value x, w, bias, residual;
  Activation activation = Activation::none;
  bool transpose_rhs = false;
  std::string name;

  Value emit() const {
    Graph& g = x.graph();
    g.set_scope(name);  // the product's, not that of what joined it last
    return fused_matmul(x, w, bias, residual, activation, transpose_rhs);
  }
};

std::optional<Product> product_of(Value v) {
  const Node& node = v.graph().node(v.ref());
  auto operand = [&](size_t i) { return v.graph().value(node.operands[i]); };
  if (node.op == &op::matmul) {
    if (operand(1).rank() != 2) return {};
    return Product{operand(0), operand(1), {}, {}, Activation::none, false, node.name};
  }
  if (node.op == &op::linear) {
    Value bias = node.operands.size() > 2 ? operand(2) : Value();
    return Product{operand(0), operand(1), bias, {}, Activation::none, true, node.name};
  }
  if (node.op != &op::fused_matmul) return {};
  const auto& a = node.attrs.as<FusedMatmulAttrs>();
  return Product{operand(0),
                 operand(1),
                 a.has_bias ? operand(2) : Value(),
                 a.has_residual ? operand(2 + a.has_bias) : Value(),
                 a.activation,
                 a.transpose_rhs,
                 node.name};
}

/// The vector, if v is one repeated over all dims but the last.
Value vector_over_last_dim(Value v) {
  if (v.rank() == 1) return v;
  const Node& node = v.graph().node(v.ref());
  if (node.op != &op::broadcast_in_dim) return {};
  Value x = v.graph().value(node.operands[0]);
  Axes axes = valid_axes(node.attrs.as<BroadcastAttrs>().axes, v.dims().size());
  if (axes.empty() || axes.back() != v.rank() - 1 || x.dims().back() != v.dims().back()) return {};
  for (size_t d = 0; d + 1 < axes.size(); ++d)
    if (x.dims()[d] != Dim(1)) return {};
  return reshape(x, {x.dims().back()});
}

struct ProductFuser {
  Uses uses;
  Rounding rounding;

  std::optional<Product> product_at(const Site& site, size_t operand) const {
    return uses.only_one(site.node.operands[operand]) ? product_of(site.operands[operand]) : std::nullopt;
  }

  Value fused_add(const Site& site) const {
    for (size_t i : {0, 1}) {
      auto p = product_at(site, i);
      if (!p || p->residual) continue;
      Value other = site.operands[1 - i];
      if (!p->bias && p->activation == Activation::none && (p->bias = vector_over_last_dim(other))) return p->emit();
    }
    for (size_t i : {0, 1}) {
      auto p = product_at(site, i);
      if (!p || p->residual || is_broadcast(site.operands[1 - i])) continue;
      p->residual = site.operands[1 - i];
      return p->emit();
    }
    return {};
  }
  Value fused(const Site& site) const {
    const Node& node = site.node;
    if (node.types.size() != 1 || !may_round_once(node.types[0].dtype, rounding)) return {};
    if (node.op == &op::add) return fused_add(site);
    auto activation = activation_of(node);
    if (!activation) return {};
    auto p = product_at(site, 0);
    if (!p || p->residual || p->activation != Activation::none) return {};
    p->activation = *activation;
    return p->emit();
  }
};

}  // namespace

Graph fuse_matmul(const Graph& g, Rounding rounding) {
  ProductFuser fuser{Uses(g), rounding};
  return rewritten(g, [&](const Site& site) -> std::optional<std::vector<Value>> {
    if (Value v = fuser.fused(site)) return std::vector{v};
    return std::nullopt;
  });
}

}  // namespace rlx
