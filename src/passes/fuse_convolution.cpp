// See the header. The convolution grows by one operand at a time: each step finds in the new graph what the last one
// made.
#include "passes/fuse_convolution.h"

#include <algorithm>

#include "ir/rewrite.h"
#include "passes/activations.h"
#include "passes/bound_values.h"
#include "passes/plain_convolution.h"
#include "passes/value_nodes.h"
#include "rlx/ops/norm.h"

namespace rlx {
namespace {

/// The vector, if v is one repeated over all dims but dim 1.
Value vector_over_channels(Value v) {
  if (!is_broadcast(v)) return {};
  const Value x = operand(v);
  const Axes axes = valid_axes(node_of(v).attrs.as<BroadcastAttrs>().axes, v.dims().size());
  bool has_channels = false;
  for (size_t d = 0; d < axes.size(); ++d) {
    if (axes[d] == 1 && x.dims()[d] == v.dims()[1]) has_channels = true;
    else if (x.dims()[d] != Dim(1)) return {};
  }
  return has_channels ? reshape(x, {v.dims()[1]}) : Value();
}

class ConvolutionFuser {
 public:
  explicit ConvolutionFuser(const Graph& g) : uses_(g) {}

  Value fused(const Site& site) {
    const Node& node = site.node;
    if (node.types.size() != 1 || node.types[0].dtype != f32 || node.types[0].rank() < 3) return {};
    if (node.op == &op::batch_norm_inference) return normalized(site);
    if (node.op == &op::mul) return scaled(site);
    if (node.op == &op::add) return added(site);
    const auto activation = activation_of(node);
    if (!activation) return {};
    auto c = convolution_at(site, 0);
    if (!c) return {};
    c->attrs.activation = *activation;
    return c->emit();
  }

 private:
  /// The convolution at an operand, if it can take in more.
  std::optional<DirectConvolution> convolution_at(const Site& site, size_t i) const {
    if (!uses_.only_one(site.node.operands[i])) return {};
    auto c = plain_convolution(node_of(site.operands[i]), operands_of(site.operands[i]));
    if (!c || c->attrs.activation != Activation::none) return {};
    c->x.graph().set_scope(node_of(site.operands[i]).name);  // the convolution's, not that of what joins it
    return c;
  }
  static std::vector<Value> operands_of(Value v) {
    std::vector<Value> all;
    for (Ref r : node_of(v).operands) all.push_back(v.graph().value(r));
    return all;
  }
  /// Is it known once params are bound? Asked of the new graph, which holds what the last step made; its nodes stand
  /// behind their operands.
  bool is_bound(Value v) {
    const Graph& g = v.graph();
    for (size_t at = is_bound_.size(); at < g.nodes().size(); ++at) {
      const Node& node = g.nodes()[at];
      bool yes = node.op == &op::param || node.op == &op::constant;
      if (!yes && !node.operands.empty() && node.op != &op::optimization_barrier && !has_symbols(node))
        yes = std::all_of(node.operands.begin(), node.operands.end(),
                          [&](Ref r) { return is_bound_[static_cast<size_t>(r.node)]; });
      is_bound_.push_back(yes);
    }
    return is_bound_[static_cast<size_t>(v.ref().node)];
  }
  /// Are they known without inputs? What they are repeated over may be a symbol.
  bool are_bound(std::initializer_list<Value> values) {
    bool all = true;
    for (Value v : values) all = all && (!v || is_bound(v));
    return all;
  }
  /// scale conv + shift, one number each a channel.
  static Value rescaled(DirectConvolution c, Value scale, Value shift) {
    Dims one(c.w.dims().size(), Dim(1));
    one[0] = c.w.dims()[0];
    c.w = c.w * broadcast_in_dim(scale, c.w.dims(), {0});
    if (c.bias) c.bias = c.bias * scale;
    if (shift) c.bias = c.bias ? c.bias + shift : shift;
    return c.emit();
  }
  Value normalized(const Site& site) {
    const auto& a = site.node.attrs.as<BatchNormAttrs>();
    const auto c = convolution_at(site, 0);
    if (!c || c->residual || valid_axis(a.feature_axis, site.node.types[0].rank()) != 1) return {};
    if (!are_bound({c->w, c->bias, site.operands[1], site.operands[2], site.operands[3], site.operands[4]})) return {};
    const Value scale = site.operands[1] * rsqrt(site.operands[4] + a.epsilon);
    return rescaled(*c, scale, site.operands[2] - site.operands[3] * scale);
  }
  Value scaled(const Site& site) {
    for (size_t i : {size_t{0}, size_t{1}}) {
      const auto c = convolution_at(site, i);
      if (!c || c->residual) continue;
      const Value scale = vector_over_channels(site.operands[1 - i]);
      if (scale && are_bound({c->w, c->bias, scale})) return rescaled(*c, scale, {});
    }
    return {};
  }
  Value added(const Site& site) {
    for (size_t i : {size_t{0}, size_t{1}}) {
      auto c = convolution_at(site, i);
      if (!c || c->residual) continue;
      const Value bias = vector_over_channels(site.operands[1 - i]);
      if (!bias || (c->bias && !are_bound({c->bias, bias}))) continue;
      c->bias = c->bias ? c->bias + bias : bias;
      return c->emit();
    }
    for (size_t i : {size_t{0}, size_t{1}}) {
      auto c = convolution_at(site, i);
      if (!c || c->residual || is_broadcast(site.operands[1 - i])) continue;
      c->residual = site.operands[1 - i];
      return c->emit();
    }
    return {};
  }

  Uses uses_;
  std::vector<bool> is_bound_;  ///< by node of the new graph
};

}  // namespace

Graph fuse_convolution(const Graph& g) {
  if (!has_convolutions(g)) return g;
  ConvolutionFuser fuser(g);
  return rewritten(g, [&](const Site& site) -> std::optional<std::vector<Value>> {
    if (Value v = fuser.fused(site)) return std::vector{v};
    return std::nullopt;
  });
}

}  // namespace rlx
