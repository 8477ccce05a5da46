// Composites that ML Programs have as one operation each, taken whole; neighbour: lower_recurrent.cpp. Random numbers
// are Core ML's own: another stream than that of the key, and so only for who accepts one.
#include "backends/coreml/lowerings.h"
#include "rlx/ops.h"

namespace rlx::coreml {

namespace when {
std::optional<std::string> can_pick(const Question& q) {
  const Type& x = q.operands[0];
  if (x.dtype == boolean || is_wide_unsigned(x.dtype)) return text_of("of numbers with a sign, and not of ", x.dtype);
  if (x.rank() == 0) return "of a scalar there is nothing to pick";
  return std::nullopt;
}
std::optional<std::string> can_double(const Question& q) {
  if (q.operands[0].rank() < 3) return "the operation takes channels, height and width";
  return is_float(q);
}
std::optional<std::string> can_draw(const Question& q) {
  DType t = q.node.types[0].dtype;
  if (t != f32 && t != f16) return text_of("Core ML draws f32 and f16, and not ", t);
  return std::nullopt;
}
std::optional<std::string> has_channels_second(const Question& q) {
  size_t rank = q.operands[0].rank();
  if (rank < 3 || rank > 5 || valid_axis(q.node.attrs.as<BatchNormAttrs>().feature_axis, rank) != 1)
    return text_of("the operation takes 3 to 5 dims, the second of them the features, and not ", q.operands[0]);
  return is_float(q);
}
std::optional<std::string> has_space(const Question& q) {
  size_t rank = q.operands[0].rank();
  if (rank < 3 || rank > 4) return text_of("the operation takes 3 or 4 dims, and not ", q.operands[0]);
  return is_float(q);
}
std::optional<std::string> can_convolve_back(const Question& q) {
  const auto& a = q.node.attrs.as<ConvTransposeAttrs>();
  const Type &x = q.operands[0], &w = q.operands[1];
  if (x.rank() > 5) return "the operation has at most 3 dims of space";
  for (size_t d = 0; d + 2 < x.rank(); ++d) {
    int64_t cut = a.padding.empty() ? 0 : a.padding[d], more = a.output_padding.empty() ? 0 : a.output_padding[d];
    int64_t step = a.stride.empty() ? 1 : a.stride[d], spread = a.dilation.empty() ? 1 : a.dilation[d];
    if (cut < 0) return text_of("the operation cuts off what padding counts, and cannot cut off ", cut);
    // Before places are added at the end, one must be left.
    if (!w.dims[d + 2].is_static()) return "the kernel's extents are no numbers";
    int64_t least = x.dims[d + 2].is_static() ? x.dims[d + 2].value() : 1;
    int64_t whole = (least - 1) * step + spread * (w.dims[d + 2].value() - 1) + 1;
    if (whole - cut - std::max<int64_t>(cut - more, 0) < 1)
      return "padding leaves nothing but what is added at the end";
  }
  return is_float(q);
}
}  // namespace when

Lowered lower_top_k(Lowering& l) {
  const auto& a = l.attrs<TopKAttrs>();
  Emitter& e = l.e;
  Var x = l.operand(0);
  Arguments arguments{{"x", x},
                      {"k", e.integer(a.k)},
                      {"axis", e.integer(valid_axis(a.axis, l.types[0].rank()))},
                      {"ascending", e.flag(false)}};
  return e.emit_many("topk", arguments, {{"", x.dtype, l.shape(0)}, {"", i32, l.shape(1)}});
}

Lowered lower_doubled(Lowering& l) {
  Emitter& e = l.e;
  Var x = l.operand(0), two = e.integer(2);
  return {e.emit("upsample_nearest_neighbor", {{"x", x}, {"scale_factor_height", two}, {"scale_factor_width", two}},
                 x.dtype, l.shape())};
}

Lowered lower_batch_norm(Lowering& l) {
  Emitter& e = l.e;
  Var x = l.operand(0);
  return {e.emit("batch_norm",
                 {{"x", x},
                  {"gamma", l.operand(1)},
                  {"beta", l.operand(2)},
                  {"mean", l.operand(3)},
                  {"variance", l.operand(4)},
                  {"epsilon", e.epsilon(x.dtype, l.attrs<BatchNormAttrs>().epsilon)}},
                 x.dtype, x.shape)};
}

Lowered lower_instance_norm(Lowering& l) {
  Emitter& e = l.e;
  const auto& a = l.attrs<ChannelNormAttrs>();
  Var x = l.operand(0);
  Arguments arguments{{"x", x}, {"epsilon", e.epsilon(x.dtype, a.epsilon)}};
  if (a.has_gamma) arguments.emplace_back("gamma", l.operand(1));
  else if (a.has_beta) arguments.emplace_back("gamma", e.constant(full(x.dtype, {x.shape[1]}, 1)));
  if (a.has_beta) arguments.emplace_back("beta", l.operand(a.has_gamma ? 2 : 1));
  return {e.emit("instance_norm", arguments, x.dtype, x.shape)};
}

Lowered lower_conv_transpose(Lowering& l) {
  Emitter& e = l.e;
  const auto& a = l.attrs<ConvTransposeAttrs>();
  Var x = l.operand(0);
  size_t space = x.shape.size() - 2;
  auto each = [&](const Axes& given, int64_t otherwise) { return given.empty() ? Axes(space, otherwise) : given; };
  Axes padding = each(a.padding, 0), more = each(a.output_padding, 0), cut;
  Shape shape = l.shape(), added(x.shape.size(), 0);
  for (size_t d = 0; d < space; ++d) {
    cut.push_back(padding[d]);
    cut.push_back(std::max<int64_t>(padding[d] - more[d], 0));
    // What output_padding adds beyond what was cut: nothing adds to it.
    added[d + 2] = std::max<int64_t>(more[d] - padding[d], 0);
    shape[d + 2] = e.difference(shape[d + 2], added[d + 2]);
  }
  Var y = e.emit("conv_transpose",
                 {{"x", x},
                  {"weight", l.operand(1)},
                  {"strides", e.integers(each(a.stride, 1))},
                  {"pad_type", e.text("custom")},
                  {"pad", e.integers(cut)},
                  {"dilations", e.integers(each(a.dilation, 1))},
                  {"groups", e.integer(a.groups)}},
                 x.dtype, shape);
  return {e.pad(y, Shape(added.size(), 0), added, e.number(x.dtype, 0))};
}

namespace {
/// The key is left unread, and every prediction draws anew.
Lowered drawn(Lowering& l, std::string_view op, std::string_view first, double a, std::string_view second, double b) {
  Emitter& e = l.e;
  l.note("random numbers are Core ML's own, drawn anew in each prediction whatever the key");
  DType dtype = l.dtype();
  return {e.emit(op, {{"shape", e.sizes(l.shape())}, {first, e.number(dtype, a)}, {second, e.number(dtype, b)}}, dtype,
                 l.shape())};
}
}  // namespace

Lowered lower_uniform(Lowering& l) {
  const auto& a = l.attrs<RngUniformAttrs>();
  return drawn(l, "random_uniform", "low", a.low, "high", a.high);
}

Lowered lower_normal(Lowering& l) {
  const auto& a = l.attrs<RngNormalAttrs>();
  return drawn(l, "random_normal", "mean", a.mean, "stddev", a.scale);
}

}  // namespace rlx::coreml
