// Reductions. The axes are merged into one [outer, reduce, inner] view. If they are not adjacent, one group of adjacent
// axes is reduced after another. Only f16, bf16 and narrower floats, which may be rounded only once, are transposed
// instead.
#include "backends/cpu/lowerings.h"
#include "base/rounded_up.h"
#include "kernels/index/move.h"
#include "kernels/reduce/reduce.h"
#include "rlx/ops.h"

namespace rlx::cpu {
namespace {

kernels::ReduceOp kernel_op(Reduction kind) {
  switch (kind) {
    case Reduction::prod: return kernels::ReduceOp::prod;
    case Reduction::max: return kernels::ReduceOp::max;
    case Reduction::min: return kernels::ReduceOp::min;
    case Reduction::all: return kernels::ReduceOp::all;
    case Reduction::any: return kernels::ReduceOp::any;
    default: return kernels::ReduceOp::sum;
  }
}
int64_t product(const Shape& shape, const Axes& axes) {
  int64_t n = 1;
  for (int64_t axis : axes) n *= shape[size_t(axis)];
  return n;
}

/// One step of a staged reduction. The first stage reads x, every other stage reads the result of the one before it,
/// and the last one writes the result.
struct Stage {
  kernels::ReduceArgs args;
  size_t offset = 0;  // of the stage's result, in scratch
};

/// Reduces the last group of adjacent axes first; each later stage reads the smaller result of the stage before.
Prepared staged_reduce(const View& x, Axes axes, const kernels::ReduceArgs& like) {
  Shape shape = x.shape;
  std::vector<Stage> stages;
  size_t scratch = 0;
  while (!axes.empty()) {
    auto end = size_t(axes.back()) + 1, begin = end;
    while (!axes.empty() && size_t(axes.back()) + 1 == begin) --begin, axes.pop_back();
    Stage stage{like, scratch};
    stage.args.outer = stage.args.reduce = stage.args.inner = 1;
    for (size_t d = 0; d < shape.size(); ++d)
      (d < begin ? stage.args.outer : d < end ? stage.args.reduce : stage.args.inner) *= shape[d];
    stage.args.reduce_stride = stage.args.inner;
    stage.args.outer_stride = stage.args.reduce * stage.args.inner;
    shape.erase(shape.begin() + std::ptrdiff_t(begin), shape.begin() + std::ptrdiff_t(end));
    if (!axes.empty()) scratch += aligned(static_cast<size_t>(stage.args.outer * stage.args.inner) * x.element_bytes());
    stages.push_back(stage);
  }
  return make_step("reduce", scratch, [stages = std::move(stages)](const StepArgs& step) {
    const void* from = step.in(0);
    for (const Stage& stage : stages) {
      kernels::ReduceArgs call = stage.args;
      call.x = from;
      call.y = &stage == &stages.back() ? step.out() : step.scratch + stage.offset;
      for_ranges(step, call.outer * call.inner, call.inner > 1 ? 16 : 1,
                 static_cast<double>(call.outer * call.reduce * call.inner) * 0.1,
                 [&](int64_t begin, int64_t end, int64_t) { kernels::reduce(call, begin, end); });
      from = call.y;
    }
  });
}

}  // namespace

std::string when_reduce(const Question& q) {
  if (q.node.attrs.as<ReduceAttrs>().kind == Reduction::custom)
    return "the CPU reduces by name only; a combiner sub-graph has no kernel";
  return when::is_byte_sized(q);
}

Prepared lower_reduce(const LoweringContext& c) {
  const View& x = c.operands[0];
  const auto& a = c.attrs<ReduceAttrs>();
  Axes axes = valid_axes(a.axes, x.shape.size()), kept = other_axes(x.shape.size(), axes);
  std::sort(axes.begin(), axes.end());
  kernels::ReduceArgs args;
  args.op = kernel_op(a.kind);
  args.dtype = x.dtype;
  bool together = true;
  for (size_t i = 1; i < axes.size(); ++i) together &= axes[i] == axes[i - 1] + 1;
  if (!together && !is_low_precision(x.dtype)) return staged_reduce(x, axes, args);
  // Axes that are not adjacent are transposed to the end first.
  Axes order = kept;
  order.insert(order.end(), axes.begin(), axes.end());
  Shape moved_shape = pick(x.shape, order);
  kernels::CopyPlan copy{};
  size_t scratch = 0;
  args.reduce = product(x.shape, axes);
  if (together) {
    for (int64_t axis : kept) (axes.empty() || axis < axes[0] ? args.outer : args.inner) *= x.shape[size_t(axis)];
  } else {
    args.outer = product(x.shape, kept);
    auto bytes = static_cast<int64_t>(x.element_bytes());
    std::vector<int64_t> from = pick(x.strides, order), to = dense_strides(moved_shape);
    for (auto* list : {&from, &to})
      for (int64_t& stride : *list) stride *= bytes;
    if (order.size() > static_cast<size_t>(kernels::kMaxCopyRank))
      fail(ErrorCode::unsupported, "a reduction over scattered axes of rank ", order.size());
    copy = kernels::plan_copy(bytes, static_cast<int>(order.size()), moved_shape.data(), from.data(), to.data());
    scratch = static_cast<size_t>(x.count() * bytes);
  }
  args.reduce_stride = args.inner;
  args.outer_stride = args.reduce * args.inner;
  int64_t results = args.outer * args.inner, elements = x.count();
  return make_step("reduce", scratch, [=](const StepArgs& step) {
    kernels::ReduceArgs call = args;
    call.x = step.in(0);
    call.y = step.out();
    double work = static_cast<double>(elements) * 0.1;
    if (!together) {
      for_ranges(step, copy.chunks, 1, work * 4, [&](int64_t begin, int64_t end, int64_t) {
        kernels::copy_strided(copy, step.in(0), step.scratch, begin, end);
      });
      call.x = step.scratch;
    }
    for_ranges(step, results, call.inner > 1 ? 16 : 1, work,
               [&](int64_t begin, int64_t end, int64_t) { kernels::reduce(call, begin, end); });
  });
}

}  // namespace rlx::cpu
