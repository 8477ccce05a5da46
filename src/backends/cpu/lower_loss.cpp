// Cross-entropy of a softmax along the last axis and its gradient; nll along any axis.
#include "backends/cpu/lowerings.h"
#include "base/rounded_up.h"
#include "kernels/index/index.h"
#include "kernels/norm/cross_entropy.h"
#include "rlx/ops.h"

namespace rlx::cpu {
namespace {

/// Refuses an op whose axis is not the last one of x, because the classes of a row must be contiguous. Such ops are
/// decomposed.
std::string is_last_axis(const Question& q) {
  auto rank = int64_t(q.operands[0].rank());
  int64_t axis = valid_axis(q.node.attrs.as<AxisAttrs>().axis, size_t(rank));
  return axis + 1 == rank ? "" : text_of("axis ", axis, " of rank ", rank, " is not the last");
}

}  // namespace

std::string when_label_loss(const Question& q) {
  if (auto why = when::is_float({q.node, q.operands.first(1)}); !why.empty()) return why;
  if (auto why = when::is_byte_sized(q); !why.empty()) return why;
  return is_last_axis(q);
}
std::string when_target_loss(const Question& q) {
  if (auto why = when::is_float(q); !why.empty()) return why;
  return is_last_axis(q);
}

Prepared lower_cross_entropy(const LoweringContext& c) {
  const View& x = c.operands[0];
  const bool backward = c.node.op == &op::softmax_cross_entropy_backward;
  const bool with_targets = c.node.op == &op::softmax_cross_entropy;
  kernels::CrossEntropyArgs args;
  args.dtype = x.dtype, args.cols = x.shape.back();
  args.label_dtype = c.operands[1].dtype;
  int64_t rows = 1;
  for (size_t d = 0; d + 1 < x.shape.size(); ++d) rows *= x.shape[d];
  auto run_rows = backward       ? kernels::label_cross_entropy_backward_rows
                  : with_targets ? kernels::target_cross_entropy_rows
                                 : kernels::label_cross_entropy_rows;
  size_t per_thread = aligned(kernels::cross_entropy_scratch_bytes(x.dtype, args.cols));
  return make_step("cross_entropy", per_thread * static_cast<size_t>(c.threads), [=](const StepArgs& step) {
    kernels::CrossEntropyArgs call = args;
    call.logits = step.in(0), call.y = step.out();
    (with_targets ? call.targets : call.labels) = step.in(1);
    if (backward) call.ct = step.in(2);
    for_ranges(step, rows, 1, static_cast<double>(rows * call.cols) * 0.3,
               [&](int64_t begin, int64_t end, int64_t task) {
                 run_rows(call, begin, end, step.scratch + per_thread * static_cast<size_t>(task));
               });
  });
}

std::string when_nll(const Question& q) {
  if (q.operands[0].dtype != f32 && q.operands[0].dtype != f64)
    return text_of("no kernel negates single elements of ", q.operands[0]);
  return when::is_byte_sized(q);
}

namespace {

template <class T>
void nll_results(const StepArgs& step, DType label_dtype, int64_t extent, int64_t inner, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) {
    int64_t label = kernels::read_index(step.in(1), label_dtype, i);
    step.out<T>()[i] = label < 0 || label >= extent ? std::numeric_limits<T>::quiet_NaN()
                                                    : -step.in<T>(0)[(i / inner * extent + label) * inner + i % inner];
  }
}

}  // namespace

Prepared lower_nll(const LoweringContext& c) {
  const View &x = c.operands[0], &y = c.results[0];
  auto axis = size_t(valid_axis(c.attrs<AxisAttrs>().axis, x.shape.size()));
  int64_t extent = x.shape[axis], inner = 1, count = y.count();
  for (size_t d = axis + 1; d < x.shape.size(); ++d) inner *= x.shape[d];
  auto results_of = x.dtype == f64 ? nll_results<double> : nll_results<float>;
  DType labels = c.operands[1].dtype;
  return make_step("nll", 0, [=](const StepArgs& step) {
    for_ranges(step, count, 16, static_cast<double>(count) * 2,
               [&](int64_t begin, int64_t end, int64_t) { results_of(step, labels, extent, inner, begin, end); });
  });
}

}  // namespace rlx::cpu
