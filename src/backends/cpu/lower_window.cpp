// reduce_window and select_and_scatter. Neighbour: lower_convolution.cpp.
#include "backends/cpu/lowerings.h"
#include "base/rounded_up.h"
#include "kernels/reduce/pool_2x2.h"
#include "kernels/reduce/window.h"
#include "rlx/ops/window.h"

namespace rlx::cpu {
namespace {

void fill_dims(int64_t* to, const Axes& given, size_t rank, int64_t otherwise) {
  for (size_t d = 0; d < rank; ++d) to[d] = given.empty() ? otherwise : given[d];
}
Axes numbers(const Dims& dims) { return shape_of(dims); }

std::string fits_rank(const Question& q) {
  if (q.operands[0].rank() > static_cast<size_t>(kernels::kMaxWindowRank))
    return text_of("rank ", q.operands[0].rank(), " is above ", kernels::kMaxWindowRank);
  return "";
}

}  // namespace

std::string when_reduce_window(const Question& q) {
  const auto& a = q.node.attrs.as<ReduceWindowAttrs>();
  if (a.kind == Reduction::custom) return "the CPU reduces by name only; a combiner sub-graph has no kernel";
  if (is_complex(q.operands[0].dtype)) return "complex windows have no kernel";
  if (auto why = when::is_byte_sized(q); !why.empty()) return why;
  return fits_rank(q);
}

Prepared lower_reduce_window(const LoweringContext& c) {
  const auto& a = c.attrs<ReduceWindowAttrs>();
  const View &x = c.operands[0], &y = c.results[0];
  size_t rank = x.shape.size();
  kernels::ReduceWindowArgs args;
  switch (a.kind) {
    case Reduction::prod: args.op = kernels::ReduceOp::prod; break;
    case Reduction::max: args.op = kernels::ReduceOp::max; break;
    case Reduction::min: args.op = kernels::ReduceOp::min; break;
    case Reduction::all: args.op = kernels::ReduceOp::all; break;
    case Reduction::any: args.op = kernels::ReduceOp::any; break;
    default: args.op = kernels::ReduceOp::sum; break;
  }
  args.dtype = x.dtype;
  args.rank = static_cast<int>(rank);
  fill_dims(args.x_dims, x.shape, rank, 1);
  fill_dims(args.x_strides, x.strides, rank, 1);
  fill_dims(args.out_dims, y.shape, rank, 1);
  fill_dims(args.window, numbers(a.window_dims), rank, 1);
  fill_dims(args.stride, a.strides, rank, 1);
  fill_dims(args.low, numbers(a.padding_low), rank, 0);
  fill_dims(args.base_dilation, a.base_dilation, rank, 1);
  fill_dims(args.window_dilation, a.window_dilation, rank, 1);
  int64_t count = y.count(), area = 1;
  for (size_t d = 0; d < rank; ++d) area *= args.window[d];
  const double work_ns = static_cast<double>(count) * (kernels::is_pool_2x2(args) ? 0.3 : static_cast<double>(area));
  return make_step("reduce_window", 0, [=](const StepArgs& step) {
    kernels::ReduceWindowArgs call = args;
    call.x = step.in(0);
    call.y = step.out();
    for_ranges(step, count, 16, work_ns,
               [&](int64_t begin, int64_t end, int64_t) { kernels::reduce_window(call, begin, end); });
  });
}

std::string when_select_windows(const Question& q) {
  const DType t = q.operands[0].dtype;
  if (!is_byte_sized(t) || (is_low_precision(t) && t != f16 && t != bf16)) return text_of("no kernel compares ", t);
  return fits_rank(q);
}

Prepared lower_select_windows(const LoweringContext& c) {
  const auto& a = c.attrs<SelectAndScatterAttrs>();
  const View &x = c.operands[0], &source = c.operands[1];
  const size_t rank = x.shape.size();
  auto entry = [&](const Axes& list, size_t d, int64_t otherwise) { return list.empty() ? otherwise : list[d]; };
  const Axes window = shape_of(a.window_dims), low = shape_of(a.padding_low);
  kernels::SelectAndScatterArgs args;
  args.dtype = x.dtype;
  args.kept = a.select == Comparison::ge   ? kernels::Kept::first_max
              : a.select == Comparison::gt ? kernels::Kept::last_max
              : a.select == Comparison::le ? kernels::Kept::first_min
                                           : kernels::Kept::last_min;
  // Leading dims along which no window slides are counted as separate images.
  size_t first = 0;
  while (first + 1 < rank && window[first] == 1 && entry(a.strides, first, 1) == 1 && entry(low, first, 0) == 0 &&
         x.shape[first] == source.shape[first])
    args.images *= x.shape[first++];
  args.rank = static_cast<int>(std::max<size_t>(rank - first, 1));
  args.x_dims[0] = args.out_dims[0] = args.window[0] = args.stride[0] = args.dilation[0] = 1;
  for (size_t d = first; d < rank; ++d) {
    const size_t at = d - first;
    args.x_dims[at] = x.shape[d], args.out_dims[at] = source.shape[d], args.window[at] = window[d];
    args.stride[at] = entry(a.strides, d, 1), args.dilation[at] = entry(a.window_dilation, d, 1);
    args.low[at] = entry(low, d, 0);
  }
  int64_t taps = 1;
  for (int64_t w : window) taps *= w;
  const double work = static_cast<double>(source.count()) * static_cast<double>(taps);
  const size_t per_thread = aligned(kernels::select_and_scatter_scratch_bytes(args));
  return make_step("select_and_scatter", per_thread * static_cast<size_t>(c.threads), [=](const StepArgs& step) {
    kernels::SelectAndScatterArgs call = args;
    call.x = step.in(0), call.source = step.in(1), call.y = step.out();
    for_ranges(step, args.images, 1, work, [&](int64_t begin, int64_t end, int64_t task) {
      kernels::select_and_scatter(call, begin, end, step.scratch + per_thread * static_cast<size_t>(task));
    });
  });
}

}  // namespace rlx::cpu
