// See the header. The pattern is read backwards from the second product, on the old graph; what it finds at its ends is
// brought into [B, H, rows, inner], and from there into the layout that it came from.
#include "passes/fuse_attention.h"

#include <cmath>
#include <limits>

#include "ir/rewrite.h"
#include "passes/constants.h"
#include "passes/value_nodes.h"

namespace rlx {
namespace {

const Axes kSwapHeads = {0, 2, 1, 3};  // [B, S, H, D] as [B, H, S, D], and back

/// x transposed; a transpose that x is already is joined in.
Value transposed(Value x, Axes permutation) {
  if (node_of(x).op == &op::transpose) {
    permutation = pick(valid_axes(node_of(x).attrs.as<TransposeAttrs>().permutation, permutation.size()), permutation);
    x = operand(x);
  }
  return permutation == axes_from(0, permutation.size()) ? x : transpose(x, permutation);
}

/// [B, H, M, N] reshaped to [B H, M, N]?
bool joins_heads(const Dims& split, const Dims& joined) {
  return split.size() == 4 && joined.size() == 3 && split[2] == joined[1] && split[3] == joined[2];
}

/// A product of two stacks of matrices with dims [B, H]; how to transpose its operands to [B, H, free, inner].
struct Stacked {
  Ref lhs, rhs;
  Axes lhs_order, rhs_order;
};
/// The same of matrices that stand in one stack for the product: what formats with fewer batch dims do.
std::optional<Stacked> joined_product(const Graph& g, Ref r, Rounding rounding) {
  const Node& split = g.node(r);
  if (split.op != &op::reshape) return {};
  const Node& node = g.node(split.operands[0]);
  if (node.op != &op::matmul || !joins_heads(split.types[0].dims, node.types[0].dims)) return {};
  for (Ref operand : node.operands) {
    const Node& join = g.node(operand);
    if (join.op != &op::reshape || !joins_heads(g.type(join.operands[0]).dims, join.types[0].dims)) return {};
    const Dims& dims = g.type(join.operands[0]).dims;
    if (dims[0] != split.types[0].dims[0] || dims[1] != split.types[0].dims[1]) return {};
    if (!may_round_once(g.type(operand).dtype, rounding)) return {};
  }
  return Stacked{
      g.node(node.operands[0]).operands[0], g.node(node.operands[1]).operands[0], {0, 1, 2, 3}, {0, 1, 3, 2}};
}
std::optional<Stacked> stacked_product(const Graph& g, Ref r, Rounding rounding) {
  if (auto s = joined_product(g, r, rounding)) return s;
  const Node& node = g.node(r);
  if (node.op != &op::matmul && node.op != &op::dot_general) return {};
  Stacked s{node.operands[0], node.operands[1], {0, 1, 2, 3}, {0, 1, 3, 2}};
  const Type &lhs = g.type(s.lhs), &rhs = g.type(s.rhs);
  if (lhs.rank() != 4 || rhs.rank() != 4 || !may_round_once(lhs.dtype, rounding)) return {};
  if (node.op == &op::matmul) {
    if (lhs.dims[0] != rhs.dims[0] || lhs.dims[1] != rhs.dims[1]) return {};
    return s;
  }
  const auto& a = node.attrs.as<DotAttrs>();
  if (a.lhs_batch.size() != 2 || a.lhs_contract.size() != 1 || a.accumulate.value_or(lhs.dtype) != lhs.dtype) return {};
  DotAxes axes(a, 4, 4);
  s.lhs_order = {axes.lhs_batch[0], axes.lhs_batch[1], axes.lhs_free[0], axes.lhs_contract[0]};
  s.rhs_order = {axes.rhs_batch[0], axes.rhs_batch[1], axes.rhs_free[0], axes.rhs_contract[0]};
  return s;
}

struct Pattern {
  Ref q, k, v;
  Axes q_order, k_order, v_order;
  std::optional<Ref> mask;
  std::optional<Ref> used_twice;  // the scores under a softmax that is written out: by the row's max, and less it
  AttentionAttrs attrs;
};

class Matcher {
 public:
  Matcher(const Graph& g, Rounding rounding) : g_(g), rounding_(rounding), uses_(g) {}

  std::optional<Pattern> match(Ref root) const {
    auto weighted = stacked_product(g_, root, rounding_);
    if (!weighted || weighted->lhs_order != Axes{0, 1, 2, 3}) return {};
    Pattern p;
    auto scores = softmaxed(weighted->lhs, p);
    if (!scores) return {};
    p.v = weighted->rhs, p.v_order = weighted->rhs_order;
    std::swap(p.v_order[2], p.v_order[3]);  // what is contracted are the rows of v
    if (!read_scores(*scores, p) && !read_biased(*scores, p) && !read_chosen(*scores, p)) return {};
    const Dim& heads = g_.type(*scores).dims[1];
    if (!heads.is_static()) return {};
    p.attrs.heads = heads.value();
    return p;
  }

 private:
  /// The node of `r`, if it is this op and used here alone.
  const Node* inner(Ref r, const OpDef& op, const Pattern& p) const {
    const Node& node = g_.node(r);
    return node.op == &op && alone(r, p) ? &node : nullptr;
  }
  bool alone(Ref r, const Pattern& p) const {
    return uses_.outputs(r) == 0 && uses_.of(r).size() == (p.used_twice == r ? 2 : 1);
  }

  /// The operand of a softmax along the last of four dims: of the op, or written out as attention's decomposition has
  /// it, e = exp(x - m), e / s. There m is the row's max, or 0 where that is infinite, and s the row's sum, or 1 where
  /// that is 0: rows without a key give 0, as they do in attention.
  std::optional<Ref> softmaxed(Ref r, Pattern& p) const {
    if (const Node* softmax = inner(r, op::softmax, p)) {
      if (valid_axis(softmax->attrs.as<AxisAttrs>().axis, 4) != 3) return {};
      return softmax->operands[0];
    }
    const Node* ratio = inner(r, op::div, p);
    if (!ratio || ratio->types[0].dims.size() != 4) return {};
    Ref e = ratio->operands[0];
    auto s = of_rows(ratio->operands[1]);
    if (!s || g_.node(e).op != &op::exp || uses_.outputs(e) || uses_.of(e).size() != 2) return {};
    auto sum = guarded_sum(*s);
    if (!sum || !reduces_rows(*sum, e, Reduction::sum)) return {};
    const Node* difference = inner(g_.node(e).operands[0], op::sub, p);
    if (!difference) return {};
    auto m = of_rows(difference->operands[1]);
    auto max = m ? guarded_max(*m) : std::nullopt;
    if (!max || !reduces_rows(*max, difference->operands[0], Reduction::max)) return {};
    p.used_twice = difference->operands[0];
    return p.used_twice;
  }
  /// What is repeated along the last of four dims.
  std::optional<Ref> of_rows(Ref r) const {
    const Node& node = g_.node(r);
    if (node.op != &op::broadcast_in_dim || valid_axes(node.attrs.as<BroadcastAttrs>().axes, 4) != Axes{0, 1, 2})
      return {};
    return node.operands[0];
  }
  bool reduces_rows(Ref r, Ref x, Reduction kind) const {
    const Node& node = g_.node(r);
    if (node.op != &op::reduce || node.operands[0] != x) return false;
    const auto& a = node.attrs.as<ReduceAttrs>();
    return a.kind == kind && valid_axes(a.axes, 4) == Axes{3};
  }
  /// s of select(s == 0, 1, s).
  std::optional<Ref> guarded_sum(Ref r) const {
    const Node& node = g_.node(r);
    if (node.op != &op::select || splat(g_, node.operands[1]) != 1.0) return {};
    const Node& test = g_.node(node.operands[0]);
    bool zero = test.op == &op::compare && test.attrs.as<CompareAttrs>().direction == Comparison::eq &&
                test.operands[0] == node.operands[2] && splat(g_, test.operands[1]) == 0.0;
    return zero ? std::optional(node.operands[2]) : std::nullopt;
  }
  /// m of select(|m| <= the largest number, m, 0).
  std::optional<Ref> guarded_max(Ref r) const {
    const Node& node = g_.node(r);
    if (node.op != &op::select || splat(g_, node.operands[2]) != 0.0) return {};
    const Node& test = g_.node(node.operands[0]);
    if (test.op != &op::compare || test.attrs.as<CompareAttrs>().direction != Comparison::le) return {};
    const Node& magnitude = g_.node(test.operands[0]);
    DType dtype = g_.type(r).dtype;
    double largest = dtype == f16 ? 65504 : std::numeric_limits<float>::max();
    bool finite = (dtype == f32 || dtype == f16) && magnitude.op == &op::abs &&
                  magnitude.operands[0] == node.operands[1] && splat(g_, test.operands[1]) == largest;
    return finite ? std::optional(node.operands[1]) : std::nullopt;
  }

  bool read_scores(Ref r, Pattern& p) const {
    double scale = 1;
    for (;;) {
      if (!alone(r, p)) return false;
      const Node& node = g_.node(r);
      if (node.op == &op::mul) {
        auto c = splat(g_, node.operands[1]);
        size_t scores = c ? 0 : 1;
        if (!c) c = splat(g_, node.operands[0]);
        if (!c) return false;
        scale *= *c, r = node.operands[scores];
      } else if (node.op == &op::div) {
        auto c = splat(g_, node.operands[1]);
        if (!c) return false;
        scale /= *c, r = node.operands[0];
      } else {
        break;
      }
    }
    auto product = stacked_product(g_, r, rounding_);
    if (!product || !std::isfinite(scale)) return false;
    p.q = product->lhs, p.q_order = product->lhs_order;
    p.k = product->rhs, p.k_order = product->rhs_order;
    p.attrs.scale = scale;
    return true;
  }
  bool read_biased(Ref r, Pattern& p) const {
    const Node* sum = inner(r, op::add, p);
    if (!sum) return false;
    for (size_t i : {0, 1})
      if (can_align(sum->operands[1 - i]) && read_scores(sum->operands[i], p)) {
        p.mask = sum->operands[1 - i], p.attrs.mask = AttentionMask::bias;
        return true;
      }
    return false;
  }
  bool read_chosen(Ref r, Pattern& p) const {
    const Node* choice = inner(r, op::select, p);
    if (!choice || splat(g_, choice->operands[2]) != -INFINITY) return false;
    Ref condition = choice->operands[0];
    const Node& stretch = g_.node(condition);
    if (stretch.op != &op::broadcast_in_dim) return false;
    Axes axes = valid_axes(stretch.attrs.as<BroadcastAttrs>().axes, 4);
    const Dims& dims = g_.type(stretch.operands[0]).dims;
    if (axes == Axes{2, 3} && is_causal(stretch.operands[0])) {
      p.attrs.causal = true;
    } else {
      for (size_t d = 0; d < axes.size(); ++d)
        if (axes[d] != 0 && axes[d] != 3 && dims[d] != Dim(1)) return false;
      if (axes.empty() || axes.back() != 3 || dims.back() != g_.type(condition).dims[3] || !can_align(condition))
        return false;
      p.mask = condition, p.attrs.mask = AttentionMask::key_padding;
    }
    return read_scores(choice->operands[1], p);
  }
  /// key <= query, of as many keys as queries.
  bool is_causal(Ref r) const {
    const Node& node = g_.node(r);
    if (node.op != &op::compare || g_.type(r).dims[0] != g_.type(r).dims[1]) return false;
    auto axis_of = [&](Ref i) {
      const Node& counts = g_.node(i);
      return counts.op == &op::iota ? valid_axis(counts.attrs.as<IotaAttrs>().axis, 2) : -1;
    };
    auto direction = node.attrs.as<CompareAttrs>().direction;
    int64_t lhs = axis_of(node.operands[0]), rhs = axis_of(node.operands[1]);
    return (lhs == 1 && rhs == 0 && direction == Comparison::le) ||
           (lhs == 0 && rhs == 1 && direction == Comparison::ge);
  }
  /// Do the dims of what is broadcast keep their order?
  bool can_align(Ref r) const {
    const Node& node = g_.node(r);
    if (node.op != &op::broadcast_in_dim) return true;
    Axes axes = valid_axes(node.attrs.as<BroadcastAttrs>().axes, 4);
    return std::is_sorted(axes.begin(), axes.end());
  }

  const Graph& g_;
  Rounding rounding_;
  Uses uses_;
};

/// A mask as it broadcasts to the scores by itself, right-aligned.
Value aligned(Value v) {
  if (node_of(v).op != &op::broadcast_in_dim) return v;
  Value x = operand(v);
  Axes axes = valid_axes(node_of(v).attrs.as<BroadcastAttrs>().axes, 4);
  Dims dims(4, Dim(1));
  for (size_t d = 0; d < axes.size(); ++d) dims[size_t(axes[d])] = x.dims()[d];
  return reshape(x, dims);
}

bool are_swapped(std::span<const Value> values) {
  return std::all_of(values.begin(), values.end(), [](Value v) {
    return node_of(v).op == &op::transpose &&
           valid_axes(node_of(v).attrs.as<TransposeAttrs>().permutation, 4) == kSwapHeads;
  });
}
/// [B, S, H*D] split into [B, S, H, D]?
bool are_split(std::span<const Value> values) {
  return std::all_of(values.begin(), values.end(), [](Value v) {
    if (node_of(v).op != &op::reshape) return false;
    const Dims &from = operand(v).dims(), &to = v.dims();
    return from.size() == 3 && from[0] == to[0] && from[1] == to[1];
  });
}

/// attention(q, k, v, mask?) in the layout of `attrs`, read where its operands lie before they were split and swapped.
/// Absent if they were not.
Value in_own_layout(std::vector<Value> in, AttentionAttrs attrs) {
  bool swapped = attrs.layout == AttentionLayout::bhsd && are_swapped(std::span(in).first(3));
  if (swapped) {
    for (size_t i = 0; i < 3; ++i) in[i] = operand(in[i]);
    attrs.layout = AttentionLayout::bshd;
  }
  bool split = attrs.layout == AttentionLayout::bshd && are_split(std::span(in).first(3));
  if (!swapped && !split) return {};
  Dims dims = in[0].dims();  // of the result: [B, S, H, width of v]
  dims[3] = in[2].dims()[3];
  if (split) {
    for (size_t i = 0; i < 3; ++i) in[i] = operand(in[i]);
    attrs.layout = AttentionLayout::packed;
  }
  Value y = emit(op::attention, std::move(in), attrs);
  if (split) y = reshape(y, dims);
  return swapped ? transpose(y, kSwapHeads) : y;
}

Value fused(const Matcher& matcher, const Site& site) {
  if (site.node.op == &op::attention)
    return in_own_layout({site.operands.begin(), site.operands.end()}, site.node.attrs.as<AttentionAttrs>());
  auto p = matcher.match({int32_t(site.index), 0});
  if (!p) return {};
  std::vector<Value> in = {transposed(site.value_of(p->q), p->q_order), transposed(site.value_of(p->k), p->k_order),
                           transposed(site.value_of(p->v), p->v_order)};
  if (p->mask) in.push_back(aligned(site.value_of(*p->mask)));
  Value y = in_own_layout(in, p->attrs);
  return y ? y : emit(op::attention, std::move(in), p->attrs);
}

}  // namespace

Graph fuse_attention(const Graph& g, Rounding rounding) {
  bool any = std::any_of(g.nodes().begin(), g.nodes().end(), [&](const Node& node) {
    if (node.op == &op::softmax || node.op == &op::exp) return true;
    return node.op == &op::attention &&
           (g.node(node.operands[0]).op == &op::transpose || g.node(node.operands[0]).op == &op::reshape);
  });
  if (!any) return g;
  Matcher matcher(g, rounding);
  return rewritten(g, [&](const Site& site) -> std::optional<std::vector<Value>> {
    if (Value v = fused(matcher, site)) return std::vector{v};
    return std::nullopt;
  });
}

}  // namespace rlx
