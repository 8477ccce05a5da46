// See the header. All forms accumulate in f32 or wider and round f16 and bf16 once, so the same bits come out.
#include "passes/simplify_products.h"

#include "ir/rewrite.h"
#include "rlx/ops.h"

namespace rlx {
namespace {

/// x, if v is x transposed; `permutation` becomes that of the transpose.
Value untransposed(Value v, Axes& permutation) {
  const Node& node = v.graph().node(v.ref());
  if (node.op != &op::transpose) return {};
  permutation = valid_axes(node.attrs.as<TransposeAttrs>().permutation, v.dims().size());
  return v.graph().value(node.operands[0]);
}
/// The same for a matrix.
Value untransposed_matrix(Value v) {
  Axes permutation;
  Value x = v.rank() == 2 ? untransposed(v, permutation) : Value();
  return x && permutation == Axes{1, 0} ? x : Value();
}

/// A dot_general as weights see it; absent if it is none.
Value product_with_weights(Value x, Value w, const DotAttrs& a) {
  if (w.rank() != 2 || x.rank() < 1 || !is_float(x.dtype()) || !a.lhs_batch.empty() || a.lhs_contract.size() != 1)
    return {};
  if (a.accumulate.value_or(x.dtype()) != x.dtype()) return {};
  DotAxes axes(a, x.dims().size(), 2);
  if (axes.lhs_contract[0] != x.rank() - 1) return {};
  return axes.rhs_contract[0] == 0 ? matmul(x, w) : linear(x, w);
}

Value dot_rule(Value lhs, Value rhs, const DotAttrs& a) {
  DotAxes axes(a, lhs.dims().size(), rhs.dims().size());
  bool changed = false;
  auto fold = [&](Value& v, Axes& batch, Axes& contract, const Axes& free) {
    Axes permutation;
    Value x = untransposed(v, permutation);
    if (!x) return;
    Axes moved = pick(permutation, free);
    if (!std::is_sorted(moved.begin(), moved.end())) return;  // the result's dims would change places
    batch = pick(permutation, batch), contract = pick(permutation, contract);
    v = x, changed = true;
  };
  fold(lhs, axes.lhs_batch, axes.lhs_contract, axes.lhs_free);
  fold(rhs, axes.rhs_batch, axes.rhs_contract, axes.rhs_free);
  DotAttrs folded{axes.lhs_batch, axes.rhs_batch, axes.lhs_contract, axes.rhs_contract, a.accumulate};
  if (Value v = product_with_weights(lhs, rhs, folded)) return v;
  return changed ? dot_general(lhs, rhs, folded) : Value();
}

Value rule(const Site& site) {
  const OpDef* op = site.node.op;
  if (op == &op::dot_general) return dot_rule(site.operands[0], site.operands[1], site.node.attrs.as<DotAttrs>());
  if (op != &op::matmul && op != &op::linear && op != &op::fused_matmul) return {};
  Value x = site.operands[0], w = untransposed_matrix(site.operands[1]);
  if (!w || !is_float(x.dtype())) return {};
  if (op == &op::matmul) return linear(x, w);
  if (op == &op::linear) return site.operands.size() == 2 ? matmul(x, w) : fused_matmul(x, w, site.operands[2]);
  FusedMatmulAttrs attrs = site.node.attrs.as<FusedMatmulAttrs>();
  attrs.transpose_rhs = !attrs.transpose_rhs;
  std::vector<Value> in(site.operands.begin(), site.operands.end());
  in[1] = w;
  return emit(op::fused_matmul, std::move(in), attrs);
}

}  // namespace

Graph simplify_products(const Graph& g) {
  bool any = std::any_of(g.nodes().begin(), g.nodes().end(),
                         [](const Node& node) { return node.op == &op::dot_general || node.op == &op::transpose; });
  if (!any) return g;
  return rewritten(g, [](const Site& site) -> std::optional<std::vector<Value>> {
    if (Value v = rule(site)) return std::vector{v};
    return std::nullopt;
  });
}

}  // namespace rlx
