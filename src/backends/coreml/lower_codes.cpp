// Codes of 8 bits that are computed, from iOS 17 on: quantize and dequantize. Programs carry them as i32 between other
// operations, so a code that is dequantized where it was made is never widened. Neighbour: lower_blocks.cpp, for codes
// that are constants.
#include "backends/coreml/lowerings.h"
#include "rlx/ops.h"

namespace rlx::coreml {
namespace {

/// Why the pair of operations does not read or write such codes; nothing if it does.
std::optional<std::string> cannot_scale(DType real, DType code, Types operands) {
  if (code != i8 && code != u8) return text_of("the operation has codes of i8 and u8, and not of ", code);
  for (DType t : {real, operands[1].dtype})
    if (t != f32 && t != f16) return text_of("the operation scales f32 and f16, and not ", t);
  if (real != operands[1].dtype) return "the scale is of another dtype than the numbers";
  if (operands.size() > 2 && operands[2].dtype != code) return "the zero point is of another dtype than the codes";
  return std::nullopt;
}

/// What stands beside the codes: one number, without dims, or one for each place of an axis.
Arguments beside(Lowering& l, std::optional<int64_t> axis) {
  Emitter& e = l.e;
  Arguments arguments;
  auto put = [&](std::string_view name, size_t i) {
    const Tensor& t = *l.tensor(i);
    arguments.emplace_back(name, e.constant(axis ? t : t.reshaped({})));
  };
  put("scale", 1);
  if (l.types.size() > 2) put("zero_point", 2);
  if (axis) arguments.emplace_back("axis", e.integer(valid_axis(*axis, l.types[0].rank())));
  return arguments;
}

}  // namespace

namespace when {
std::optional<std::string> can_quantize(const Question& q) {
  return cannot_scale(q.operands[0].dtype, q.node.attrs.as<QuantizeAttrs>().dtype, q.operands);
}
std::optional<std::string> can_dequantize(const Question& q) {
  if (q.is_weight && q.is_weight(0)) return "codes that are constants are packed weights";
  return cannot_scale(q.operands[1].dtype, q.operands[0].dtype, q.operands);
}
}  // namespace when

Lowered lower_quantize(Lowering& l) {
  const auto& a = l.attrs<QuantizeAttrs>();
  Arguments arguments = beside(l, a.axis);
  Var x = l.operand(0);
  arguments.emplace_back("input", x);
  arguments.emplace_back("output_dtype", l.e.text(a.dtype == i8 ? "int8" : "uint8"));
  return {l.e.cast(l.e.emit("quantize", arguments, a.dtype, x.shape), i32)};
}

Lowered lower_dequantize_codes(Lowering& l) {
  Arguments arguments = beside(l, l.attrs<DequantizeAttrs>().axis);
  Var codes = l.e.cast(l.operand(0), l.types[0].dtype);
  arguments.emplace_back("input", codes);
  return {l.e.emit("dequantize", arguments, l.dtype(), codes.shape)};
}

}  // namespace rlx::coreml
