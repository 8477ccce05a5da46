// See the header. All forms accumulate in f32 or wider and round f16 and bf16 once, so the same bits come out.
#include "passes/simplify_products.h"

#include <algorithm>

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

/// A transpose that changes the places of the operands' free dims, of a product that nothing else uses: gradients of
/// right operands are written so.
Value transpose_rule(const Site& site, const Uses& uses) {
  const Value product = site.operands[0];
  const Node& node = product.graph().node(product.ref());
  if (node.op != &op::dot_general || !uses.only_one(site.node.operands[0])) return {};
  const auto& a = node.attrs.as<DotAttrs>();
  const Value lhs = product.graph().value(node.operands[0]), rhs = product.graph().value(node.operands[1]);
  const DotAxes axes(a, lhs.dims().size(), rhs.dims().size());
  const size_t batch = axes.lhs_batch.size(), left = axes.lhs_free.size(), right = axes.rhs_free.size();
  Axes swapped = axes_from(0, batch + left + right);
  std::rotate(swapped.begin() + std::ptrdiff_t(batch), swapped.begin() + std::ptrdiff_t(batch + left), swapped.end());
  if (valid_axes(site.node.attrs.as<TransposeAttrs>().permutation, swapped.size()) != swapped) return {};
  return dot_general(rhs, lhs, {axes.rhs_batch, axes.lhs_batch, axes.rhs_contract, axes.lhs_contract, a.accumulate});
}

Value rule(const Site& site, const Uses& uses) {
  const OpDef* op = site.node.op;
  if (op == &op::transpose) return transpose_rule(site, uses);
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
  const Uses uses(g);
  return rewritten(g, [&](const Site& site) -> std::optional<std::vector<Value>> {
    if (Value v = rule(site, uses)) return std::vector{v};
    return std::nullopt;
  });
}

}  // namespace rlx
