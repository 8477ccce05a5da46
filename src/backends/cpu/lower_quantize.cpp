// Quantization of floats to integers with scales and zero points.
#include "backends/cpu/lowerings.h"
#include "kernels/quant/quantize.h"
#include "rlx/ops.h"

namespace rlx::cpu {

std::string when_quantize(const Question& q) {
  DType t = q.operands[0].dtype;
  if (t != f32 && t != f16 && t != bf16) return text_of("the kernel computes in f32, which ", t, " is not rounded to");
  if (q.operands[1].dtype != t) return text_of("operands of ", t, " and ", q.operands[1].dtype);
  const auto& axis = q.node.attrs.as<QuantizeAttrs>().axis;
  if (axis && size_t(valid_axis(*axis, q.operands[0].rank())) + 1 == q.operands[0].rank())
    return "each element of a row has a scale of its own";
  return when::is_byte_sized(q);
}

Prepared lower_quantize(const LoweringContext& c) {
  const View& x = c.operands[0];
  const auto& a = c.attrs<QuantizeAttrs>();
  kernels::QuantizeArgs args;
  args.dtype = x.dtype, args.quantized_dtype = a.dtype;
  const bool with_zero = c.operands.size() > 2;
  if (with_zero) args.zero_dtype = c.operands[2].dtype;
  int64_t count = x.count();
  args.inner = count;
  if (a.axis) {
    auto axis = size_t(valid_axis(*a.axis, x.shape.size()));
    args.features = x.shape[axis], args.inner = 1;
    for (size_t d = axis + 1; d < x.shape.size(); ++d) args.inner *= x.shape[d];
  }
  return make_step("quantize", 0, [=](const StepArgs& step) {
    kernels::QuantizeArgs call = args;
    call.x = step.in(0), call.scale = step.in(1), call.y = step.out();
    if (with_zero) call.zero_point = step.in(2);
    for_ranges(step, count, 64, static_cast<double>(count) * 0.3,
               [&](int64_t begin, int64_t end, int64_t) { kernels::quantize(call, begin, end); });
  });
}

}  // namespace rlx::cpu
