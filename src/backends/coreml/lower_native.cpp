// Composites that ML Programs have as one operation each, taken whole. Random numbers are Core ML's own: another stream
// than that of the key, and so only for who accepts one.
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
