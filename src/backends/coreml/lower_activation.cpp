// Activations, limits and other ops with parameters that ML Programs have as one operation each. Up to iOS 16 a
// parameter has the operand's dtype, and a slope rounded to f16 would be another one.
#include "backends/coreml/lowerings.h"
#include "rlx/element.h"
#include "rlx/ops.h"

namespace rlx::coreml {

namespace when {
std::optional<std::string> can_clip(const Question& q) {
  if (auto why = is_float(q)) return why;
  const auto& a = q.node.attrs.as<ClampAttrs>();
  Tensor limits(*carried(q.operands[0].dtype), {2});
  store<double>(limits, 0, a.min), store<double>(limits, 1, a.max);
  // As they are written: limits of f32 may be one number of f16.
  if (!(load_number(limits, 0) < load_number(limits, 1)))
    return text_of("the operation wants limits that differ in ", limits.dtype(), ", and not ", a.min, " and ", a.max);
  return std::nullopt;
}
/// Diagonals that lie on the side that is kept: the operation counts those that stay on the other.
std::optional<std::string> has_band(const Question& q) {
  const auto& a = q.node.attrs.as<TriluAttrs>();
  if (a.upper ? a.diagonal > 0 : a.diagonal < 0) return "a band keeps the main diagonal";
  return std::nullopt;
}
}  // namespace when

namespace {
/// A parameter beside x, which may be f32 beside f16 from iOS 17 on.
Var parameter(Emitter& e, const Var& x, double value) { return e.number(e.opset() >= 7 ? f32 : x.dtype, value); }
}  // namespace

Lowered lower_leaky_relu(Lowering& l) {
  Var x = l.operand(0), alpha = parameter(l.e, x, l.attrs<LeakyReluAttrs>().slope);
  return {l.e.emit("leaky_relu", {{"x", x}, {"alpha", alpha}}, x.dtype, x.shape)};
}

Lowered lower_elu(Lowering& l) {
  Var x = l.operand(0), alpha = parameter(l.e, x, l.attrs<EluAttrs>().alpha);
  return {l.e.emit("elu", {{"x", x}, {"alpha", alpha}}, x.dtype, x.shape)};
}

Lowered lower_hard_sigmoid(Lowering& l) {
  const auto& a = l.attrs<HardSigmoidAttrs>();
  Var x = l.operand(0);
  return {l.e.emit("sigmoid_hard",
                   {{"x", x}, {"alpha", parameter(l.e, x, a.alpha)}, {"beta", parameter(l.e, x, a.beta)}}, x.dtype,
                   x.shape)};
}

Lowered lower_clip(Lowering& l) {
  const auto& a = l.attrs<ClampAttrs>();
  Var x = l.operand(0);
  // Rounding keeps order, so limits in the operand's dtype limit what is rounded to it.
  return {l.e.emit("clip", {{"x", x}, {"alpha", l.e.number(x.dtype, a.min)}, {"beta", l.e.number(x.dtype, a.max)}},
                   x.dtype, x.shape)};
}

Lowered lower_band(Lowering& l) {
  const auto& a = l.attrs<TriluAttrs>();
  Var x = l.operand(0), all = l.e.integer(-1), some = l.e.integer(std::abs(a.diagonal));
  return {l.e.emit("band_part", {{"x", x}, {"lower", a.upper ? some : all}, {"upper", a.upper ? all : some}}, x.dtype,
                   x.shape)};
}

}  // namespace rlx::coreml
