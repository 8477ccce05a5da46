// Windows: reduce_window, select_and_scatter and convolution.
#include "backends/cpu/lowerings.h"
#include "kernels/convolution.h"
#include "kernels/window.h"
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
  return make_step("reduce_window", 0, [=](const StepArgs& step) {
    kernels::ReduceWindowArgs call = args;
    call.x = step.in(0);
    call.y = step.out();
    for_ranges(step, count, 16, static_cast<double>(count * area),
               [&](int64_t begin, int64_t end, int64_t) { kernels::reduce_window(call, begin, end); });
  });
}

std::string when_convolution(const Question& q) {
  const auto& a = q.node.attrs.as<ConvAttrs>();
  if (a.batch_group_count != 1) return "convolutions with batch groups have no kernel";
  if (q.operands[0].rank() < 3 || q.operands[0].rank() > 2 + size_t(kernels::kMaxSpatial))
    return text_of("the CPU convolves 1 to ", kernels::kMaxSpatial, " spatial dims");
  if (is_complex(q.operands[0].dtype) || q.operands[0].dtype == boolean)
    return text_of("no kernel convolves ", q.operands[0].dtype);
  DType t = q.operands[0].dtype, out = q.node.types[0].dtype;
  bool wider = out == f32 ? t == f16 || t == bf16 : (out == i32 || out == i64) && is_integer(t);
  if (out != t && !wider) return text_of("no kernel convolves ", t, " into ", out);
  return when::is_byte_sized(q);
}

Prepared lower_convolution(const LoweringContext& c) {
  const auto& a = c.attrs<ConvAttrs>();
  const View &x = c.operands[0], &w = c.operands[1], &y = c.results[0];
  size_t rank = x.shape.size(), spatial = rank - 2;
  auto layout = [&](const Axes& given) { return given.empty() ? axes_from(0, rank) : given; };
  Axes in = layout(a.lhs_layout), kernel = layout(a.rhs_layout), out = layout(a.out_layout);
  auto dim = [](const View& v, const Axes& l, size_t i) { return v.shape[size_t(l[i])]; };
  auto stride = [](const View& v, const Axes& l, size_t i) { return v.strides[size_t(l[i])]; };
  kernels::ConvolutionArgs args;
  args.dtype = x.dtype, args.out_dtype = y.dtype;
  args.spatial = static_cast<int>(spatial);
  args.batch = dim(x, in, 0), args.in_channels = dim(x, in, 1), args.out_channels = dim(y, out, 1);
  args.groups = a.feature_group_count;
  Axes low = numbers(a.padding_low);
  for (size_t s = 0; s < spatial; ++s) {
    args.in_dims[s] = dim(x, in, s + 2), args.kernel[s] = dim(w, kernel, s + 2), args.out_dims[s] = dim(y, out, s + 2);
    args.stride[s] = a.strides.empty() ? 1 : a.strides[s];
    args.low[s] = low.empty() ? 0 : low[s];
    args.lhs_dilation[s] = a.lhs_dilation.empty() ? 1 : a.lhs_dilation[s];
    args.rhs_dilation[s] = a.rhs_dilation.empty() ? 1 : a.rhs_dilation[s];
    args.x_strides[s] = stride(x, in, s + 2), args.w_strides[s] = stride(w, kernel, s + 2),
    args.y_strides[s] = stride(y, out, s + 2);
  }
  args.x_batch_stride = stride(x, in, 0), args.x_channel_stride = stride(x, in, 1);
  args.w_out_stride = stride(w, kernel, 0), args.w_in_stride = stride(w, kernel, 1);
  args.y_batch_stride = stride(y, out, 0), args.y_channel_stride = stride(y, out, 1);
  size_t per_thread = (kernels::convolution_scratch_bytes(args) + 63) / 64 * 64;
  int64_t units = args.batch * args.out_channels * args.out_dims[0];
  double work = static_cast<double>(y.count()) * static_cast<double>(w.count()) /
                static_cast<double>(std::max<int64_t>(args.out_channels, 1)) * 0.05;
  return make_step("convolution", per_thread * static_cast<size_t>(c.threads), [=](const StepArgs& step) {
    kernels::ConvolutionArgs call = args;
    call.x = step.in(0), call.w = step.in(1), call.y = step.out();
    for_ranges(step, units, 1, work, [&](int64_t begin, int64_t end, int64_t part) {
      kernels::convolution(call, begin, end, step.scratch + per_thread * static_cast<size_t>(part));
    });
  });
}

}  // namespace rlx::cpu
