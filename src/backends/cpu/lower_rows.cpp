// Ops over the last axis: softmax, log_softmax, l2_normalize, logsumexp, layer and RMS norm (with residual and bias),
// and the norms' gradients.
#include "backends/cpu/lowerings.h"
#include "base/rounded_up.h"
#include "kernels/norm/norm_backward.h"
#include "kernels/norm/rows.h"
#include "rlx/ops/backward.h"
#include "rlx/ops/norm.h"
#include "rlx/ops/softmax.h"

namespace rlx::cpu {
namespace {

/// A tensor as a matrix of rows, and how its rows are split over threads.
struct Rows {
  int64_t rows = 1, cols = 1, grain = 1;
  size_t per_thread;
  double work_ns;

  /// The dims from `axis` on form a row.
  Rows(const View& x, int64_t axis) {
    auto first = size_t(valid_axis(axis, x.shape.size()));
    for (size_t d = 0; d < x.shape.size(); ++d) (d < first ? rows : cols) *= x.shape[d];
    per_thread = aligned(kernels::rows_scratch_bytes(x.dtype, cols));
    work_ns = static_cast<double>(rows * cols) * 0.25;
  }
  template <class F>
  void run(const StepArgs& args, F f) const {
    for_ranges(args, rows, grain, work_ns, [&](int64_t begin, int64_t end, int64_t task) {
      f(begin, end, args.scratch + per_thread * static_cast<size_t>(task));
    });
  }
  size_t scratch(int threads) const { return per_thread * static_cast<size_t>(threads); }
};

std::string last_axis_only(const Question& q, int64_t axis) {
  if (auto why = when::is_float(q); !why.empty()) return why;
  if (q.operands[0].rank() == 0) return "a scalar has no rows";
  int64_t at = valid_axis(axis, q.operands[0].rank()), rank = int64_t(q.operands[0].rank());
  return at + 1 == rank ? "" : text_of("axis ", at, " of rank ", rank, " is not the last");
}

}  // namespace

std::string when_softmax(const Question& q) { return last_axis_only(q, q.node.attrs.as<AxisAttrs>().axis); }

Prepared lower_softmax(const LoweringContext& c) {
  const View& x = c.operands[0];
  Rows rows(x, -1);
  kernels::SoftmaxArgs args;
  args.dtype = x.dtype;
  args.x_stride = args.y_stride = args.cols = rows.cols;
  args.log = c.node.op == &op::log_softmax;
  return make_step("softmax", rows.scratch(c.threads), [=](const StepArgs& step) {
    kernels::SoftmaxArgs call = args;
    call.x = step.in(0), call.y = step.out();
    rows.run(step,
             [&](int64_t begin, int64_t end, void* scratch) { kernels::softmax_rows(call, begin, end, scratch); });
  });
}

std::string when_l2_normalize(const Question& q) {
  if (q.operands[0].dtype != f32 && q.operands[0].dtype != f64) return text_of("no kernel normalizes ", q.operands[0]);
  return last_axis_only(q, q.node.attrs.as<L2NormalizeAttrs>().axis);
}

namespace {

/// y = x / max(|x|, epsilon) for each row; the sum of squares is in f64.
template <class T>
void l2_normalize_rows(const T* x, T* y, int64_t cols, double epsilon, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row) {
    const T* from = x + row * cols;
    double sum = 0;
    for (int64_t i = 0; i < cols; ++i) sum += static_cast<double>(from[i]) * static_cast<double>(from[i]);
    double scale = 1 / std::max(std::sqrt(sum), epsilon);
    if (std::isnan(sum)) scale = sum;
    for (int64_t i = 0; i < cols; ++i) y[row * cols + i] = static_cast<T>(static_cast<double>(from[i]) * scale);
  }
}

}  // namespace

Prepared lower_l2_normalize(const LoweringContext& c) {
  Rows rows(c.operands[0], -1);
  double epsilon = c.attrs<L2NormalizeAttrs>().epsilon;
  bool wide = c.operands[0].dtype == f64;
  return make_step("l2_normalize", 0, [=](const StepArgs& step) {
    rows.run(step, [&](int64_t begin, int64_t end, void*) {
      if (wide) l2_normalize_rows(step.in<double>(0), step.out<double>(), rows.cols, epsilon, begin, end);
      else l2_normalize_rows(step.in<float>(0), step.out<float>(), rows.cols, epsilon, begin, end);
    });
  });
}

std::string when_logsumexp(const Question& q) {
  const auto& axes = q.node.attrs.as<ReduceDimsAttrs>().axes;
  if (axes.size() != 1) return text_of(axes.size(), " axes at once");
  return last_axis_only(q, axes[0]);
}

Prepared lower_logsumexp(const LoweringContext& c) {
  const View& x = c.operands[0];
  Rows rows(x, -1);
  kernels::LogSumExpArgs args;
  args.dtype = x.dtype;
  args.x_stride = args.cols = rows.cols;
  return make_step("logsumexp", rows.scratch(c.threads), [=](const StepArgs& step) {
    kernels::LogSumExpArgs call = args;
    call.x = step.in(0), call.y = step.out();
    rows.run(step,
             [&](int64_t begin, int64_t end, void* scratch) { kernels::logsumexp_rows(call, begin, end, scratch); });
  });
}

std::string when_norm(const Question& q) {
  if (auto why = when::is_float(q); !why.empty()) return why;
  for (const Type& t : q.operands)
    if (t.dtype != q.operands[0].dtype) return text_of("operands of ", q.operands[0].dtype, " and ", t.dtype);
  return q.operands[0].rank() == 0 ? "a scalar has no rows" : "";
}

Prepared lower_norm(const LoweringContext& c) {
  const View& x = c.operands[0];
  const auto& a = c.attrs<LayerNormAttrs>();
  Rows rows(x, a.axis);
  kernels::NormArgs args;
  args.dtype = x.dtype;
  args.x_stride = args.y_stride = args.cols = rows.cols;
  args.eps = a.epsilon;
  bool rms = c.node.op == &op::rms_norm, gamma = a.has_gamma, beta = a.has_beta;
  return make_step(rms ? "rms_norm" : "layer_norm", rows.scratch(c.threads), [=](const StepArgs& step) {
    kernels::NormArgs call = args;
    call.x = step.in(0), call.y = step.out();
    if (gamma) call.gamma = step.in(1);
    if (beta) call.beta = step.in(1 + gamma);
    rows.run(step, [&](int64_t begin, int64_t end, void* scratch) {
      (rms ? kernels::rms_norm_rows : kernels::layer_norm_rows)(call, begin, end, scratch);
    });
  });
}

Prepared lower_residual_norm(const LoweringContext& c) {
  const View& x = c.operands[0];
  const auto& a = c.attrs<ResidualNormAttrs>();
  Rows rows(x, -1);
  kernels::NormArgs args;
  args.dtype = x.dtype;
  args.x_stride = args.y_stride = args.residual_stride = args.sum_stride = args.cols = rows.cols;
  args.eps = a.epsilon;
  args.round_sum = false;  // the sum is part of one op, which rounds once
  bool rms = c.node.op == &op::fused_residual_rms_norm, bias = a.has_bias, beta = a.has_beta;
  return make_step(rms ? "residual_rms_norm" : "residual_layer_norm", rows.scratch(c.threads),
                   [=](const StepArgs& step) {
                     kernels::NormArgs call = args;
                     call.x = step.in(0), call.residual = step.in(1), call.y = step.out(0), call.sum = step.out(1);
                     if (bias) call.bias = step.in(2);
                     call.gamma = step.in(2 + bias);
                     if (beta) call.beta = step.in(3 + bias);
                     rows.run(step, [&](int64_t begin, int64_t end, void* scratch) {
                       (rms ? kernels::rms_norm_rows : kernels::layer_norm_rows)(call, begin, end, scratch);
                     });
                   });
}

std::string when_norm_backward(const Question& q) {
  for (const Type& t : q.operands)
    if ((t.dtype != f32 && t.dtype != f64) || t.dtype != q.operands[0].dtype)
      return text_of("operands of ", q.operands[0].dtype, " and ", t.dtype, "; they must be all f32 or all f64");
  return q.operands[0].rank() == 0 ? "a scalar has no rows" : "";
}

Prepared lower_norm_backward(const LoweringContext& c) {
  const View& x = c.operands[0];
  const auto& a = c.attrs<LayerNormAttrs>();
  Rows rows(x, a.axis);
  kernels::NormBackwardArgs args;
  args.dtype = x.dtype, args.cols = rows.cols, args.eps = a.epsilon;
  args.centred = c.node.op == &op::layer_norm_backward;
  rows.per_thread = aligned(kernels::norm_backward_scratch_bytes(args));
  rows.work_ns *= 2;
  const int threads = c.threads;
  const bool gamma = a.has_gamma, beta = a.has_beta;
  return make_step(
      args.centred ? "layer_norm_backward" : "rms_norm_backward", rows.scratch(threads), [=](const StepArgs& step) {
        kernels::NormBackwardArgs call = args;
        call.x = step.in(0), call.ct = step.in(1 + gamma), call.d_x = step.out();
        if (gamma) call.gamma = step.in(1);
        for (int t = 0; t < threads; ++t)
          kernels::clear_norm_backward_sums(call, step.scratch + rows.per_thread * static_cast<size_t>(t));
        rows.run(step, [&](int64_t begin, int64_t end, void* scratch) {
          kernels::norm_backward_rows(call, begin, end, scratch);
        });
        kernels::add_norm_backward_sums(call, step.scratch, rows.per_thread, threads, gamma ? step.out(1) : nullptr,
                                        beta ? step.out(1 + gamma) : nullptr);
      });
}

}  // namespace rlx::cpu
