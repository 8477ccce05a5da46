// See the header.
#include "passes/quantize_products.h"

#include <algorithm>

#include "ir/rewrite.h"
#include "passes/bound_values.h"
#include "passes/mixed_precision.h"
#include "passes/plain_convolution.h"
#include "rlx/ops/activation.h"
#include "rlx/ops/attention.h"
#include "rlx/ops/contract.h"
#include "rlx/ops/conv.h"
#include "rlx/ops/dynamic_quantize.h"
#include "rlx/ops/fused.h"
#include "rlx/ops/norm.h"
#include "rlx/ops/shape.h"

namespace rlx {
namespace {

// What is gained: an AVX2 multiply-add of 8 bits takes 0.55 of the time of one of f32, VNNI and tiles an eighth to a
// quarter. What is paid: each row is read, scaled and rounded before the product, some 0.3 ns an element.

/// Rows of fewer numbers, as the pixels of an image have them, are quantized for longer than they are multiplied; and
/// their sums are of so few terms that the roundings hardly cancel. So the first convolution of a network of images,
/// and what embeds coordinates, stays in f32 without being asked for by its place.
constexpr int64_t kFewTerms = 48;
/// Images of so few channels, and groups of them, have a kernel of their own in f32 (kernels/conv/few_channels.h),
/// which takes 0.84 of the time of int8 for ResNet's first convolution.
constexpr int64_t kFewChannels = 4;
/// Pointwise convolutions to fewer channels multiply each code so few times that quantizing takes what int8 saves (1.05
/// of the time of f32 with 56 channels, 0.92 with 64, 0.84 with 96). The last ones of MobileNet's pipelines with
/// depthwise convolutions (backends/cpu/convolution_pipeline.h) are among them.
constexpr int64_t kFewPointwiseOutputs = 64;
/// Other ones to fewer channels: 1.3 of the time of f32 with 24 channels, 0.73 with 32.
constexpr int64_t kFewConvolvedOutputs = 32;
/// Fewer outputs, as heads with a few classes have, leave most of a vector empty and each quantized row read once.
constexpr int64_t kFewOutputs = 16;
/// Sums of k products of codes, of which those of the weights are up to 127, fit 32 bits.
constexpr int64_t kSumsOfWeights = INT32_MAX / 127;
/// Where large numbers are rare, 8 bits would leave the other numbers few. So images, and rows of which nothing else is
/// known, get 11 bits, as far as sums
/// of k terms allow it. Multiply-adds of 16 bits take them at no cost; VNNI and tiles multiply twice.
constexpr int64_t kLargestCode = 1023;
/// In rows that norms, attention and activations leave, one or two numbers are often ten to twenty times the usual
/// ones. They get more bits; the others then fill the 8 bits of a single product. Other rows, as pools and recurrent
/// layers leave them, have few outliers and would lose digits: they keep 11 bits.
constexpr int64_t kRowOutliers = 3, kLargestOfRows = 127;
constexpr int64_t kMostTermsBesideOutliers = kSumsOfWeights / kLargestOfRows - kRowOutliers * kLargestOutlier / 127 - 1;
int64_t largest_code(int64_t k) { return std::min(kLargestCode, kSumsOfWeights / k); }
/// Images that are never negative, as activations leave them, have no outliers of the other sign and few of their own:
/// their codes are those of unsigned bytes, which tiles multiply once.
constexpr int64_t kLargestByte = 255;
constexpr int64_t kMostTerms = kSumsOfWeights / 127;

/// The right operand of a product with weights.
struct WeightProduct {
  bool transposed;  ///< the weights are [n, k]
  bool has_bias = false, has_residual = false;
  Activation activation = Activation::none;
};
std::optional<WeightProduct> weight_product(const Node& node) {
  if (precision_of(*node.op) != OpPrecision::low) return {};
  if (node.op == &op::matmul) return WeightProduct{false};
  if (node.op == &op::linear) return WeightProduct{true, node.operands.size() > 2};
  if (node.op != &op::fused_matmul) return {};
  const auto& a = node.attrs.as<FusedMatmulAttrs>();
  return WeightProduct{a.transpose_rhs, a.has_bias, a.has_residual, a.activation};
}

bool gains_from_int8(const Type& x, const Type& w, bool transposed) {
  if (x.dtype != f32 || w.dtype != f32 || x.rank() < 1 || w.rank() != 2 || !is_static(w.dims)) return false;
  const int64_t k = w.dims[transposed].value(), n = w.dims[!transposed].value();
  return k >= kFewTerms && k <= kMostTerms && n >= kFewOutputs;
}

/// The terms of each sum of a convolution with these weights; none if that is not known, or too little or too much.
std::optional<int64_t> convolved_terms(const DirectConvolution& c) {
  const Type &x = c.x.type(), &w = c.w.type();
  if (x.dtype != f32 || w.dtype != f32 || !is_static(w.dims)) return {};
  const int64_t channels = w.dims[1].value(), outputs = w.dims[0].value() / c.attrs.groups;
  int64_t taps = 1;
  for (size_t d = 2; d < w.dims.size(); ++d) {
    taps *= w.dims[d].value();
    if (taps > kMostTerms) return {};
  }
  if (channels <= kFewChannels || channels > kMostTerms) return {};
  if (outputs < (taps == 1 ? kFewPointwiseOutputs : kFewConvolvedOutputs)) return {};
  const int64_t k = channels * taps;
  if (k < kFewTerms || k > kMostTerms) return {};
  return k;
}

/// Of each node: its results are not below 0, whatever its inputs are.
std::vector<bool> never_negative(const Graph& g) {
  std::vector<bool> known;
  for (const Node& node : g.nodes()) {
    const auto is_by = [](Activation a) {
      return a == Activation::relu || a == Activation::relu6 || a == Activation::sigmoid;
    };
    const auto passes_on = [&] {
      return !node.operands.empty() && std::all_of(node.operands.begin(), node.operands.end(),
                                                   [&](Ref r) { return known[static_cast<size_t>(r.node)]; });
    };
    bool is_known = false;
    if (node.op == &op::relu || node.op == &op::relu6 || node.op == &op::logistic) is_known = true;
    else if (node.op == &op::fused_conv) is_known = is_by(node.attrs.as<FusedConvAttrs>().activation);
    else if (node.op == &op::pool) is_known = node.attrs.as<PoolAttrs>().kind == PoolKind::max && passes_on();
    else if (node.op == &op::concatenate || node.op == &op::reshape || node.op == &op::transpose)
      is_known = passes_on();
    known.push_back(is_known);
  }
  return known;
}

/// What left the rows that products read.
class Rows {
 public:
  explicit Rows(const Graph& g) {
    for (const Node& node : g.nodes()) {
      const auto is_any_activated = [&] {
        return std::any_of(node.operands.begin(), node.operands.end(), [&](Ref r) { return is_activated(r); });
      };
      bool activated = (is_move(node) && is_activated(node.operands[0])) || (node.op == &op::mul && is_any_activated());
      for (const OpDef* op : {&op::relu, &op::relu6, &op::gelu, &op::gelu_tanh, &op::silu, &op::glu, &op::fused_swiglu})
        activated = activated || node.op == op;
      if (node.op == &op::fused_matmul) activated = node.attrs.as<FusedMatmulAttrs>().activation != Activation::none;
      bool outliers = activated || (is_move(node) && may_have_outliers(node.operands[0]));
      for (const OpDef* op : {&op::layer_norm, &op::rms_norm, &op::attention, &op::fused_residual_layer_norm,
                              &op::fused_residual_rms_norm})
        outliers = outliers || node.op == op;
      activated_.push_back(activated), outliers_.push_back(outliers);
    }
  }
  /// Whether x is what an activation left, or such a number times another. Norms keep channels at like sizes; behind an
  /// activation some channels are much smaller than others, and training has given them larger weights.
  bool is_activated(Ref x) const { return activated_[static_cast<size_t>(x.node)]; }
  /// Whether x is what a norm (not its second result, a sum), attention or an activation left.
  bool may_have_outliers(Ref x) const { return x.result == 0 && outliers_[static_cast<size_t>(x.node)]; }

 private:
  static bool is_move(const Node& node) {
    return node.op == &op::reshape || node.op == &op::transpose || node.op == &op::slice;
  }
  std::vector<bool> activated_, outliers_;
};

/// x and w of a product, channel by channel of k times and over the same numbers, which lie between 2^-6 and 1: the
/// fourth root of the channel's largest weight over the largest of all. A few large weights would else make the steps
/// of all others coarse. The numbers are such as bf16 holds, as x may be bf16; without finite weights they are 1.
struct Balanced {
  Value x, w;
};
Balanced balanced(Value x, Value w, bool transposed) {
  const int64_t k_axis = transposed ? 1 : 0;
  const Value largest = reduce_max(abs(w), Axes{1 - k_axis});
  const Value most = reduce_max(largest, Axes{0});  // not finite where any weight is not
  const auto number = [&](double v) { return scalar(w.graph(), v, f32); };
  const Value share = largest / broadcast_to(maximum(most, number(0x1p-126)), largest.dims());
  const Value root = sqrt(sqrt(maximum(share, broadcast_to(number(0x1p-24), share.dims()))));
  const Value times = select(broadcast_to(is_finite(most), root.dims()), root, full_like(root, 1));
  const Value factor = convert(convert(times, bf16), f32);
  return {x * broadcast_to(factor, x.dims()), w / broadcast_in_dim(factor, w.dims(), {k_axis})};
}

/// Whether kernels may read the image where it lies: one group of channels, and 1 or 2 spatial dims.
bool is_readable_in_place(const DirectConvolution& c) {
  const size_t spatial = c.w.type().dims.size() - 2;
  return c.attrs.groups == 1 && (spatial == 1 || spatial == 2);
}

using Takes = std::function<bool(const Question&)>;

std::vector<Value> convolved(Values in, const DirectConvolution& like, int64_t largest) {
  const DynamicQuantized weights = dynamic_quantize(in[1], axes_from(1, in[1].dims().size() - 1));
  const FusedConvAttrs& a = like.attrs;
  return {dynamic_quantize_conv(in[0], weights.codes, weights.scale,
                                {like.bias ? in[2] : Value(), like.residual ? in.back() : Value(), a.activation},
                                as_dynamic_quantize_conv(a, largest))};
}
/// Asks of the node that would be made, in a graph of its own.
bool is_taken(const Takes& takes, Values in, const DirectConvolution& like, int64_t largest) {
  std::vector<Type> types;
  for (const Value& v : in) types.push_back(v.type());
  const Graph trial = trace(types, [&](Graph&, Values v) { return Many<Value>(convolved(v, like, largest)); });
  const Node& node = trial.node(trial.outputs()[0].ref);
  types.clear();
  for (Ref r : node.operands) types.push_back(trial.type(r));
  return takes({node, types});
}

}  // namespace

bool takes_images_of(DType narrow, const Takes& takes) {
  const std::vector<Type> types = {{narrow, {1, 4, 4, 64}}, {i8, {64, 64, 1, 1}}, {f32, {64}}};
  const Graph trial = trace(types, [](Graph&, Values v) {
    DynamicQuantizeConvAttrs attrs;
    attrs.channels_last = true, attrs.x_largest = kLargestByte;
    return Many<Value>{dynamic_quantize_conv(v[0], v[1], v[2], {}, attrs)};
  });
  return takes({trial.node(trial.outputs()[0].ref), types});
}

Graph quantize_products(const Graph& g) {
  return quantize_products(g, [](const Question&) { return true; });
}

/// The vector that a value is along its last dim, if it is one.
std::optional<Ref> by_last_dim(const Graph& g, Ref r) {
  const Node& node = g.node(r);
  if (node.op != &op::broadcast_in_dim || g.type(node.operands[0]).rank() != 1) return {};
  const Axes& dims = node.attrs.as<BroadcastAttrs>().axes;
  return dims == Axes{static_cast<int64_t>(g.type(r).rank()) - 1} ? std::optional(node.operands[0]) : std::nullopt;
}
/// Takes the multiplications behind products that only they read, as balanced() makes them, into these.
Graph with_factors(const Graph& g) {
  const Uses uses(g);
  return rewritten(g, [&](const Site& site) -> std::optional<std::vector<Value>> {
    if (site.node.op != &op::mul) return {};
    const Ref x = site.node.operands[0];
    const auto factor = by_last_dim(g, site.node.operands[1]);
    const Node& product = g.node(x);
    if (!factor || product.op != &op::dynamic_quantize_matmul || !uses.only_one(x)) return {};
    auto a = product.attrs.as<DynamicQuantizeMatmulAttrs>();
    if (a.has_factor || a.has_residual || g.type(*factor).dtype != g.type(product.operands[2]).dtype) return {};
    std::vector<Value> in;
    for (Ref r : product.operands) in.push_back(site.value_of(r));
    in.push_back(site.value_of(*factor));
    a.has_factor = true;
    site.to.set_scope(product.name);
    return site.to.emit(op::dynamic_quantize_matmul, in, a);
  });
}

/// Products that an attention reads, those of its queries, keys and values that read the same rows, as one product: the
/// rows are quantized once, and the attention reads slices of the result where they lie.
class JoinedProjections {
 public:
  explicit JoinedProjections(const Graph& g) : g_(g), uses_(g), bound_(bound_nodes(g)) {}

  Graph graph() const {
    return rewritten(g_, [&](const Site& site) -> std::optional<std::vector<Value>> {
      if (site.node.op != &op::attention) return {};
      const std::vector<size_t> members = members_of(site.node);
      if (members.size() < 2) return {};
      std::vector<Value> in(site.operands.begin(), site.operands.end());
      join(site, members, in);
      site.to.set_scope(site.node.name);
      return site.to.emit(op::attention, in, site.node.attrs);
    });
  }

 private:
  const Node& product(const Node& attention, size_t operand) const { return g_.node(attention.operands[operand]); }
  /// Whether it is a product with weights that nothing else reads, of which only its columns are its own.
  bool may_join(Ref r) const {
    const Node& node = g_.node(r);
    if (node.op != &op::dynamic_quantize_matmul || !uses_.only_one(r)) return false;
    const auto& a = node.attrs.as<DynamicQuantizeMatmulAttrs>();
    return !a.has_residual && !a.has_factor && std::all_of(node.operands.begin() + 1, node.operands.end(), [&](Ref w) {
      return bool(bound_[static_cast<size_t>(w.node)]);
    });
  }
  /// Which of queries, keys and values: those that are like the keys.
  std::vector<size_t> members_of(const Node& attention) const {
    std::vector<size_t> members;
    const Node& keys = product(attention, 1);
    for (size_t i = 0; i < 3; ++i) {
      if (!may_join(attention.operands[i]) || !may_join(attention.operands[1])) continue;
      const Node& node = product(attention, i);
      if (node.operands[0] == keys.operands[0] && node.attrs == keys.attrs) members.push_back(i);
    }
    return members;
  }
  void join(const Site& site, const std::vector<size_t>& members, std::vector<Value>& in) const {
    const Node& first = product(site.node, members[0]);
    const auto& a = first.attrs.as<DynamicQuantizeMatmulAttrs>();
    site.to.set_scope(first.name);
    std::vector<Value> operands = {site.value_of(first.operands[0])};
    for (size_t o = 1; o < first.operands.size(); ++o) {
      std::vector<Value> parts;
      for (size_t i : members) parts.push_back(site.value_of(product(site.node, i).operands[o]));
      operands.push_back(concatenate(parts, o == 1 && !a.transpose_rhs ? 1 : 0));
    }
    const Value all = site.to.emit(op::dynamic_quantize_matmul, operands, first.attrs)[0];
    int64_t begin = 0;
    for (size_t i : members) {
      site.to.set_scope(product(site.node, i).name);
      const int64_t end = begin + in[i].dims().back().value();
      in[i] = slice_axis(all, -1, begin, end);
      begin = end;
    }
  }

  const Graph& g_;
  Uses uses_;
  std::vector<bool> bound_;
};

Graph quantize_products(const Graph& g, const Takes& takes) {
  const std::vector<bool> bound = bound_nodes(g), positive = never_negative(g);
  const Rows rows(g);
  // Only kernels that read images where they lie are faster with one byte; the others keep the finer codes.
  const bool are_bytes_faster = takes_images_of(bf16, takes);
  const Graph quantized = with_factors(rewritten(g, [&](const Site& site) -> std::optional<std::vector<Value>> {
    if (const auto c = plain_convolution(site.node, site.operands)) {
      const Ref x = site.node.operands[0], w = site.node.operands[1];
      if (!bound[static_cast<size_t>(w.node)] || bound[static_cast<size_t>(x.node)]) return {};
      const auto k = convolved_terms(*c);
      if (!k) return {};
      const bool is_byte = are_bytes_faster && is_readable_in_place(*c) && positive[static_cast<size_t>(x.node)];
      const int64_t largest = std::min(is_byte ? kLargestByte : kLargestCode, largest_code(*k));
      if (!is_taken(takes, site.operands, *c, largest)) return {};
      return convolved(site.operands, *c, largest);
    }
    const auto product = weight_product(site.node);
    if (!product) return {};
    const Ref x = site.node.operands[0], w = site.node.operands[1];
    if (!bound[static_cast<size_t>(w.node)] || bound[static_cast<size_t>(x.node)]) return {};
    if (!gains_from_int8(g.type(x), g.type(w), product->transposed)) return {};
    const Values in = site.operands;
    Balanced operands{in[0], in[1]};
    if (rows.is_activated(x)) operands = balanced(in[0], in[1], product->transposed);
    const DynamicQuantized weights = dynamic_quantize(operands.w, {product->transposed ? 1 : 0});
    const DynamicEpilogue epilogue{product->has_bias ? in[2] : Value(), product->has_residual ? in.back() : Value(),
                                   product->activation};
    const int64_t k = g.type(w).dims[product->transposed].value();
    const bool has_outliers = k <= kMostTermsBesideOutliers && rows.may_have_outliers(x);
    return std::vector{dynamic_quantize_matmul(operands.x, weights.codes, weights.scale, epilogue, product->transposed,
                                               has_outliers ? kLargestOfRows : largest_code(k),
                                               has_outliers ? kRowOutliers : 0)};
  }));
  return JoinedProjections(quantized).graph();
}

}  // namespace rlx
