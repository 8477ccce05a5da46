// Quantized numbers beside their scales.
#include "frontends/mil/handlers.h"

namespace rlx::mlprogram {
namespace {
std::optional<int64_t> scale_axis(Call& op, Value scale) {
  if (scale.rank() == 0) {
    op.ignore("axis");
    return {};
  }
  return op.integer("axis");
}
}  // namespace

MIL_OP(quantize) {
  Value x = op("input"), scale = op("scale"), zero = op.maybe("zero_point");
  DType to = dtype_of_word(op.word("output_dtype"));
  if (to != i8 && to != u8) op.wrong("output_dtype is int8 or uint8, not ", to);
  auto axis = scale_axis(op, scale);
  return one(rlx::quantize(x, scale, zero, {axis, to}));
}

MIL_OP(dequantize) {
  Value q = op("input"), scale = op("scale"), zero = op.maybe("zero_point");
  auto axis = scale_axis(op, scale);
  return one(rlx::dequantize(q, scale, zero, axis));
}

}  // namespace rlx::mlprogram
