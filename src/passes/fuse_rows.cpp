// See the header. A rule looks back from the quotient that ends a pattern; gamma and beta are taken in by the products
// and sums that follow, of what has been emitted for it.
#include "passes/fuse_rows.h"

#include "ir/leaves.h"
#include "ir/rewrite.h"
#include "passes/constants.h"
#include "rlx/ops.h"

namespace rlx {
namespace {

class Rows {
 public:
  Rows(const Graph& g, Rounding rounding) : g_(g), uses_(g), rounding_(rounding) {}

  std::optional<std::vector<Value>> fused(const Site& site) const {
    const Type& t = site.node.types[0];
    if (t.dims.empty() || !may_round_once(t.dtype, rounding_)) return {};
    Value v;
    if (site.node.op == &op::div) v = quotient(site);
    else if (site.node.op == &op::mul) v = product(site);
    else if (site.node.op == &op::add) v = sum(site);
    return v ? std::optional(std::vector{v}) : std::nullopt;
  }

 private:
  const Node* is(Ref r, const OpDef& op) const {
    const Node& node = g_.node(r);
    return node.op == &op ? &node : nullptr;
  }
  /// What is repeated along the last dim to make `r`, a number a row.
  std::optional<Ref> row_of(Ref r) const {
    const Node* node = is(r, op::broadcast_in_dim);
    if (!node) return {};
    const Dims &to = node->types[0].dims, &from = g_.type(node->operands[0]).dims;
    Axes axes = valid_axes(node->attrs.as<BroadcastAttrs>().axes, to.size());
    for (size_t i = 0; i < axes.size(); ++i)
      if (axes[i] != int64_t(i)) return {};
    if (from.size() + 1 != to.size() && (from.size() != to.size() || from.back() != Dim(1))) return {};
    if (!std::equal(to.begin(), to.end() - 1, from.begin())) return {};
    return node->operands[0];
  }
  /// Behind reshapes that add or drop a last dim of 1.
  Ref stripped(Ref r) const {
    while (const Node* node = is(r, op::reshape)) {
      Dims from = g_.type(node->operands[0]).dims, to = node->types[0].dims;
      if (!from.empty() && from.back() == Dim(1)) from.pop_back();
      if (!to.empty() && to.back() == Dim(1)) to.pop_back();
      if (from != to) break;
      r = node->operands[0];
    }
    return r;
  }
  /// The operand of a reduction of this kind over its last dim alone.
  std::optional<Ref> reduced(Ref r, Reduction kind) const {
    const Node* node = is(stripped(r), op::reduce);
    if (!node) return {};
    const auto& a = node->attrs.as<ReduceAttrs>();
    auto rank = static_cast<int64_t>(g_.type(node->operands[0]).rank());
    if (a.kind != kind || valid_axes(a.axes, size_t(rank)) != Axes{rank - 1}) return {};
    return node->operands[0];
  }
  /// The operand of a mean over the last dim.
  std::optional<Ref> averaged(Ref r) const {
    r = stripped(r);
    const Node& node = g_.node(r);
    if (node.op != &op::div && node.op != &op::mul) return {};
    auto x = reduced(node.operands[0], Reduction::sum);
    auto by = splat(g_, node.operands[1]);
    if (!x || !by || !g_.type(*x).dims.back().is_static()) return {};
    auto n = static_cast<double>(g_.type(*x).dims.back().value());
    bool is_mean = node.op == &op::div       ? *by == n
                   : g_.type(r).dtype == f64 ? *by == 1 / n
                                             : static_cast<float>(*by) == static_cast<float>(1 / n);
    return is_mean ? x : std::nullopt;
  }
  std::optional<Ref> squared(Ref r) const {
    if (const Node* node = is(r, op::square)) return node->operands[0];
    const Node* node = is(r, op::mul);
    return node && node->operands[0] == node->operands[1] ? std::optional(node->operands[0]) : std::nullopt;
  }
  struct MeanSquare {
    Ref x;
    double epsilon;
  };
  /// x and epsilon of mean(x^2) + epsilon, a number a row.
  std::optional<MeanSquare> mean_square(Ref r) const {
    const Node* node = is(stripped(r), op::add);
    if (!node) return {};
    for (size_t i : {0, 1}) {
      auto epsilon = splat(g_, node->operands[i]);
      auto mean = averaged(node->operands[1 - i]);
      auto x = mean ? squared(*mean) : std::nullopt;
      if (epsilon && x && *epsilon > 0) return MeanSquare{*x, *epsilon};
    }
    return {};
  }
  /// v where r is 1 / sqrt(v).
  std::optional<Ref> inverse_root(Ref r) const {
    r = stripped(r);
    if (const Node* node = is(r, op::rsqrt)) return node->operands[0];
    const Node* node = is(r, op::reciprocal);
    std::optional<Ref> root;
    if (node) root = node->operands[0];
    else if ((node = is(r, op::div)) && splat(g_, node->operands[0]) == 1.0) root = node->operands[1];
    const Node* inner = root ? is(stripped(*root), op::sqrt) : nullptr;
    return inner ? std::optional(inner->operands[0]) : std::nullopt;
  }

  /// x times the inverse root of its mean square is a norm; of x less its mean, layer_norm.
  Value norm(const Site& site, Ref scaled, std::optional<MeanSquare> from) const {
    if (!from || from->x != scaled) return {};
    if (const Node* centered = is(scaled, op::sub)) {
      auto mean = row_of(centered->operands[1]);
      auto of = mean ? averaged(*mean) : std::nullopt;
      if (of && *of == centered->operands[0]) return layer_norm(site.value_of(*of), {}, {}, from->epsilon);
    }
    return rms_norm(site.value_of(scaled), {}, {}, from->epsilon);
  }
  Value quotient(const Site& site) const {
    Ref above = site.node.operands[0];
    auto row = row_of(site.node.operands[1]);
    if (!row) return {};
    if (const Node* root = is(stripped(*row), op::sqrt)) {
      if (Value v = norm(site, above, mean_square(root->operands[0]))) return v;
      auto squares = reduced(root->operands[0], Reduction::sum);
      auto x = squares ? squared(*squares) : std::nullopt;
      return x && *x == above ? l2_normalize(site.value_of(*x), -1, 0) : Value();
    }
    if (reduced(*row, Reduction::sum) != above) return {};
    const Node* e = is(above, op::exp);
    const Node* difference = e ? is(e->operands[0], op::sub) : nullptr;
    auto most = difference ? row_of(difference->operands[1]) : std::nullopt;
    if (!most || reduced(*most, Reduction::max) != difference->operands[0]) return {};
    return softmax(site.value_of(difference->operands[0]));
  }
  Value product(const Site& site) const {
    for (size_t i : {0, 1}) {
      Ref x = site.node.operands[i], other = site.node.operands[1 - i];
      if (auto row = row_of(other))
        if (auto v = inverse_root(*row))
          if (Value y = norm(site, x, mean_square(*v))) return y;
      if (Value y = with_vector(site, i, true)) return y;
    }
    return {};
  }
  Value sum(const Site& site) const {
    for (size_t i : {0, 1})
      if (Value y = with_vector(site, i, false)) return y;
    return {};
  }
  /// Operand i is a norm, emitted just now or given, that has no gamma (beta) yet, and the other one a vector for it.
  Value with_vector(const Site& site, size_t i, bool is_gamma) const {
    if (!uses_.only_one(site.node.operands[i])) return {};
    const Node& norm = site.to.node(site.operands[i].ref());
    if (norm.op != &op::layer_norm && (norm.op != &op::rms_norm || !is_gamma)) return {};
    const auto& a = norm.attrs.as<LayerNormAttrs>();
    auto rank = site.operands[i].rank();
    if (a.has_beta || a.has_gamma == is_gamma || valid_axis(a.axis, size_t(rank)) != rank - 1) return {};
    const Node* spread = is(site.node.operands[1 - i], op::broadcast_in_dim);
    if (!spread) return {};
    const Type& vector = g_.type(spread->operands[0]);
    if (vector.dims != Dims{site.node.types[0].dims.back()} ||
        valid_axis(spread->attrs.as<BroadcastAttrs>().axes[0], size_t(rank)) != rank - 1)
      return {};
    Value x = site.to.value(norm.operands[0]), given = site.value_of(spread->operands[0]);
    if (norm.op == &op::rms_norm) return rms_norm(x, given, {}, a.epsilon);
    if (is_gamma) return layer_norm(x, given, {}, a.epsilon);
    return layer_norm(x, site.to.value(norm.operands[1]), given, a.epsilon);
  }

  const Graph& g_;
  Uses uses_;
  Rounding rounding_;
};

}  // namespace

Graph fuse_rows(const Graph& g, Rounding rounding) {
  // Every pattern has a reduction; of norms that are ops already, gammas are not looked for.
  bool any = std::any_of(g.nodes().begin(), g.nodes().end(), [](const Node& node) { return node.op == &op::reduce; });
  if (!any) return g;
  Rows rows(g, rounding);
  return rewritten(g, [&](const Site& site) { return rows.fused(site); });
}

}  // namespace rlx
