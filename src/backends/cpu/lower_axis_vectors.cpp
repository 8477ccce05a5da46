// cumsum, cumprod, cummax, argmax and argmin: ops along one axis of a dense [outer, extent, inner] view.
#include "backends/cpu/axis_vectors.h"
#include "backends/cpu/lowerings.h"
#include "kernels/reduce/argmax.h"
#include "kernels/reduce/cumulate.h"
#include "rlx/ops.h"

namespace rlx::cpu {
namespace {

/// Refuses dtypes without arithmetic: the kernels compute with f16, bf16 and all dtypes for which C++ has arithmetic.
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
  AxisVectors vectors(c.operands[0].shape, a.axis);
  kernels::CumulateArgs args;
  args.op = op == &op::cumsum    ? kernels::CumulateOp::sum
            : op == &op::cumprod ? kernels::CumulateOp::prod
                                 : kernels::CumulateOp::max;
  args.dtype = c.operands[0].dtype;
  args.extent = vectors.extent, args.inner = vectors.inner;
  args.exclusive = a.exclusive, args.reverse = a.reverse;
  return make_step("cumulate", 0, [=](const StepArgs& step) {
    kernels::CumulateArgs call = args;
    call.x = step.in(0), call.y = step.out();
    for_ranges(step, vectors.count(), vectors.grain(), static_cast<double>(vectors.count() * vectors.extent),
               [&](int64_t begin, int64_t end, int64_t) { kernels::cumulate(call, begin, end); });
  });
}

std::string when_argmax(const Question& q) {
  const Dim& extent =
      q.operands[0].dims[size_t(valid_axis(q.node.attrs.as<ArgReduceAttrs>().axis, q.operands[0].rank()))];
  if (extent.is_static() && extent.value() > INT32_MAX)
    return text_of("an axis of ", extent, " has indices beyond i32");
  return has_arithmetic(q);
}

Prepared lower_argmax(const LoweringContext& c) {
  AxisVectors vectors(c.operands[0].shape, c.attrs<ArgReduceAttrs>().axis);
  kernels::ArgmaxArgs args;
  args.dtype = c.operands[0].dtype;
  args.largest = c.node.op == &op::argmax;
  args.extent = vectors.extent, args.inner = vectors.inner;
  return make_step("argmax", 0, [=](const StepArgs& step) {
    kernels::ArgmaxArgs call = args;
    call.x = step.in(0), call.indices = step.out<int32_t>();
    for_ranges(step, vectors.count(), vectors.grain(), static_cast<double>(vectors.count() * vectors.extent) * 0.3,
               [&](int64_t begin, int64_t end, int64_t) { kernels::argmax_indices(call, begin, end); });
  });
}

}  // namespace rlx::cpu
