// Ops along one axis of a dense [outer, extent, inner] view: running results, positions of extremes.
#include "backends/cpu/lines.h"
#include "backends/cpu/lowerings.h"
#include "kernels/cumulate.h"
#include "kernels/extreme.h"
#include "rlx/ops.h"

namespace rlx::cpu {
namespace {

/// The kernels take what a C++ compiler has arithmetic for, f16 and bf16.
std::string has_arithmetic(const Question& q) {
  const Type& x = q.operands[0];
  return !is_byte_sized(x.dtype) || (is_low_precision(x.dtype) && x.dtype != f16 && x.dtype != bf16)
             ? text_of(x, " is a dtype of storage: no kernel computes with it")
             : "";
}

}  // namespace

std::string when_cumulate(const Question& q) { return has_arithmetic(q); }

Prepared lower_cumulate(const LoweringContext& c) {
  const auto& a = c.attrs<CumulateAttrs>();
  const OpDef* op = c.node.op;
  Lines lines(c.operands[0].shape, a.axis);
  kernels::CumulateArgs args;
  args.op = op == &op::cumsum    ? kernels::CumulateOp::sum
            : op == &op::cumprod ? kernels::CumulateOp::prod
                                 : kernels::CumulateOp::max;
  args.dtype = c.operands[0].dtype;
  args.extent = lines.extent, args.inner = lines.inner;
  args.exclusive = a.exclusive, args.reverse = a.reverse;
  return make_step("cumulate", 0, [=](const StepArgs& step) {
    kernels::CumulateArgs call = args;
    call.x = step.in(0), call.y = step.out();
    for_ranges(step, lines.count(), lines.grain(), static_cast<double>(lines.count() * lines.extent),
               [&](int64_t begin, int64_t end, int64_t) { kernels::cumulate(call, begin, end); });
  });
}

std::string when_extreme(const Question& q) {
  const Dim& extent =
      q.operands[0].dims[size_t(valid_axis(q.node.attrs.as<ArgReduceAttrs>().axis, q.operands[0].rank()))];
  if (extent.is_static() && extent.value() > INT32_MAX) return text_of("an axis of ", extent, " has places beyond i32");
  return has_arithmetic(q);
}

Prepared lower_extreme(const LoweringContext& c) {
  Lines lines(c.operands[0].shape, c.attrs<ArgReduceAttrs>().axis);
  kernels::ExtremeArgs args;
  args.dtype = c.operands[0].dtype;
  args.largest = c.node.op == &op::argmax;
  args.extent = lines.extent, args.inner = lines.inner;
  return make_step("extreme", 0, [=](const StepArgs& step) {
    kernels::ExtremeArgs call = args;
    call.x = step.in(0), call.places = step.out<int32_t>();
    for_ranges(step, lines.count(), lines.grain(), static_cast<double>(lines.count() * lines.extent) * 0.3,
               [&](int64_t begin, int64_t end, int64_t) { kernels::extreme_places(call, begin, end); });
  });
}

}  // namespace rlx::cpu
