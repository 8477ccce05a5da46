// Moving data by operations of more than one element's place: stacks, parts, repetition, resizing, mirrored edges.
// Neighbour: lower_shape.cpp, for the primitives.
#include "backends/coreml/lowerings.h"
#include "rlx/ops.h"

namespace rlx::coreml {

namespace when {
std::optional<std::string> can_resize(const Question& q) {
  const auto& a = q.node.attrs.as<InterpolateAttrs>();
  if (a.size.size() > 2) return "the operation resizes the last two dims";
  if (!is_static(a.size)) return "the operation resizes to numbers";
  size_t rank = q.operands[0].rank();
  if (a.size.size() == 1 && rank > 1 && !q.operands[0].dims[rank - 2].is_static())
    return "the operation resizes two dims, and one of them is no number";
  return is_float(q);
}
std::optional<std::string> is_image(const Question& q) {
  if (q.node.attrs.as<ResizeLinearAttrs>().size.size() > 2) return "the operation resizes the last two dims";
  return is_float(q);
}
std::optional<std::string> can_mirror(const Question& q) {
  const auto& a = q.node.attrs.as<PadModeAttrs>();
  const Type& x = q.operands[0];
  if (a.mode == PadMode::constant) return "made of padding with a number, which is an operation";
  if (a.mode == PadMode::circular) return "the operation mirrors or repeats the edge";
  for (size_t d = 0; d < x.rank(); ++d) {
    if (!x.dims[d].is_static() || !a.low[d].is_static() || !a.high[d].is_static())
      return "the extents of padding are no numbers";
    int64_t most = std::max(a.low[d].value(), a.high[d].value());
    if (std::min(a.low[d].value(), a.high[d].value()) < 0) return "the operation cuts nothing off";
    if (most > 0 && d + 2 < x.rank()) return "the operation mirrors the last two dims";
    if (most > x.dims[d].value() - (a.mode == PadMode::reflect ? 1 : 0))
      return text_of("the operation cannot pad ", most, " places of an extent of ", x.dims[d]);
  }
  return is_float(q);
}
std::optional<std::string> has_parts(const Question& q) {
  if (!is_static(q.node.attrs.as<SplitAttrs>().sizes)) return "the operation splits into numbers";
  return std::nullopt;
}
}  // namespace when

Lowered lower_stack(Lowering& l) {
  Emitter& e = l.e;
  int64_t axis = valid_axis(l.attrs<AxisAttrs>().axis, l.result().rank());
  std::vector<Var> parts;
  for (size_t i = 0; i < l.types.size(); ++i) parts.push_back(l.operand(i));
  if (parts.size() == 1) return {e.reshape(parts[0], l.shape())};
  if (l.types[0].rank() == 0) return {e.concat(parts, 0)};
  DType dtype = parts[0].dtype;
  return {e.emit("stack", {{"values", parts}, {"axis", e.integer(axis)}}, dtype, l.shape())};
}

Lowered lower_split(Lowering& l) {
  Emitter& e = l.e;
  const auto& a = l.attrs<SplitAttrs>();
  Var x = l.operand(0);
  if (a.sizes.size() == 1) return {x};
  std::vector<Var> parts;
  for (size_t i = 0; i < a.sizes.size(); ++i) parts.push_back({"", x.dtype, l.shape(i)});
  Arguments arguments{{"x", x},
                      {"split_sizes", e.integers(shape_of(a.sizes))},
                      {"axis", e.integer(valid_axis(a.axis, x.shape.size()))}};
  return e.emit_many("split", arguments, parts);
}

Lowered lower_tile(Lowering& l) {
  Var x = l.operand(0);
  if (l.types[0].rank() == 0) return {x};
  Var reps = l.e.sizes(l.e.extents(l.attrs<TileAttrs>().reps));
  return {l.e.emit("tile", {{"x", x}, {"reps", reps}}, x.dtype, l.shape())};
}

Lowered lower_interpolate(Lowering& l) {
  Emitter& e = l.e;
  const auto& a = l.attrs<InterpolateAttrs>();
  Var x = l.operand(0);
  Shape from = x.shape, to = l.shape();
  while (from.size() < 3) from.insert(from.begin(), 1), to.insert(to.begin(), 1);
  x = e.reshape(x, from);
  size_t rank = from.size();
  if (a.size.size() == 1) to[rank - 2] = from[rank - 2];
  // A whole factor needs no quotient, which a device may round down.
  bool whole = from[rank - 1] > 0 && from[rank - 2] > 0 && to[rank - 1] % from[rank - 1] == 0 &&
               to[rank - 2] % from[rank - 2] == 0;
  Var y = whole ? e.emit("upsample_nearest_neighbor",
                         {{"x", x},
                          {"scale_factor_height", e.integer(to[rank - 2] / from[rank - 2])},
                          {"scale_factor_width", e.integer(to[rank - 1] / from[rank - 1])}},
                         x.dtype, to)
                : e.emit("resize_nearest_neighbor",
                         {{"x", x},
                          {"target_size_height", e.integer(to[rank - 2])},
                          {"target_size_width", e.integer(to[rank - 1])}},
                         x.dtype, to);
  return {e.reshape(y, l.shape())};
}

Lowered lower_resize_linear(Lowering& l) {
  Emitter& e = l.e;
  const auto& a = l.attrs<ResizeLinearAttrs>();
  constexpr std::string_view kModes[] = {"UNALIGN_CORNERS", "DEFAULT", "STRICT_ALIGN_CORNERS", "ALIGN_CORNERS",
                                         "OFFSET_CORNERS"};
  Var x = l.operand(0);
  Shape from = x.shape, to = l.shape();
  // A line is an image of height 1, which every grid leaves as it is; what stands before it is joined.
  if (a.size.size() == 1) {
    int64_t before = e.count(Shape(from.begin(), from.end() - 1));
    from = {before, 1, from.back()}, to = {before, 1, to.back()};
  }
  while (from.size() < 3) from.insert(from.begin(), 1), to.insert(to.begin(), 1);
  Var y = e.emit("resize_bilinear",
                 {{"x", e.reshape(x, from)},
                  {"target_size_height", e.integer(to[to.size() - 2])},
                  {"target_size_width", e.integer(to.back())},
                  {"sampling_mode", e.text(kModes[static_cast<size_t>(a.grid)])}},
                 x.dtype, to);
  return {e.reshape(y, l.shape())};
}

Lowered lower_mirrored(Lowering& l) {
  Emitter& e = l.e;
  const auto& a = l.attrs<PadModeAttrs>();
  Var x = l.operand(0);
  Shape last;  // of the last two dims, which are all that change
  for (size_t d = x.shape.size() - std::min<size_t>(x.shape.size(), 2); d < x.shape.size() && l.types[0].rank(); ++d) {
    last.push_back(a.low[d].value());
    last.push_back(a.high[d].value());
  }
  if (last.empty()) return {x};
  std::string_view mode = a.mode == PadMode::reflect ? "reflect" : "replicate";
  return {e.emit("pad",
                 {{"x", x}, {"pad", e.integers(last)}, {"mode", e.text(mode)}, {"constant_val", e.number(x.dtype, 0)}},
                 x.dtype, l.shape())};
}

}  // namespace rlx::coreml
