// Group norm, instance norm and layer norm over the channels of x[n, channels, space...], with gamma and beta per
// channel, and the gradient of group norm.
#include "backends/cpu/lowerings.h"
#include "kernels/norm/group_norm.h"
#include "rlx/ops.h"

namespace rlx::cpu {
namespace {

/// The arguments with extents and epsilon; the caller sets `groups`.
kernels::GroupNormArgs args_of(const View& x, double epsilon) {
  kernels::GroupNormArgs args;
  args.dtype = x.dtype, args.eps = epsilon;
  args.channels = x.shape[1];
  for (size_t d = 2; d < x.shape.size(); ++d) args.space *= x.shape[d];
  return args;
}

/// Sets gamma and beta, which are the operands behind x.
void set_affine(kernels::GroupNormArgs& args, const StepArgs& step, bool gamma, bool beta) {
  if (gamma) args.gamma = step.in(1);
  if (beta) args.beta = step.in(1 + gamma);
}

std::string has_space(const Question& q) {
  for (const Type& t : q.operands)
    if (t.dtype != q.operands[0].dtype) return text_of("operands of ", q.operands[0].dtype, " and ", t.dtype);
  return q.operands[0].rank() < 3 ? text_of(q.operands[0], " has no dims of space: its groups are too short to be rows")
                                  : "";
}

}  // namespace

std::string when_group_norm(const Question& q) {
  if (auto why = when::is_float(q); !why.empty()) return why;
  return has_space(q);
}

Prepared lower_group_norm(const LoweringContext& c) {
  const View& x = c.operands[0];
  const bool is_group_norm = c.node.op == &op::group_norm;
  kernels::GroupNormArgs args;
  bool gamma = false, beta = false;
  if (is_group_norm) {
    const auto& a = c.attrs<GroupNormAttrs>();
    args = args_of(x, a.epsilon);
    args.groups = a.num_groups, gamma = a.has_gamma, beta = a.has_beta;
  } else {
    const auto& a = c.attrs<ChannelNormAttrs>();
    args = args_of(x, a.epsilon);
    args.groups = args.channels, gamma = a.has_gamma, beta = a.has_beta;
  }
  int64_t count = x.shape[0] * args.groups;
  double work = static_cast<double>(x.count()) * 0.4;
  return make_step("group_norm", 0, [=](const StepArgs& step) {
    kernels::GroupNormArgs call = args;
    call.x = step.in(0), call.y = step.out();
    set_affine(call, step, gamma, beta);
    for_ranges(step, count, 1, work,
               [&](int64_t begin, int64_t end, int64_t) { kernels::group_norm(call, begin, end); });
  });
}

Prepared lower_layer_norm_2d(const LoweringContext& c) {
  const View& x = c.operands[0];
  const auto& a = c.attrs<ChannelNormAttrs>();
  kernels::GroupNormArgs args = args_of(x, a.epsilon);
  int64_t count = x.shape[0] * args.space;
  double work = static_cast<double>(x.count()) * 0.6;
  bool gamma = a.has_gamma, beta = a.has_beta;
  return make_step("layer_norm_2d", 0, [=](const StepArgs& step) {
    kernels::GroupNormArgs call = args;
    call.x = step.in(0), call.y = step.out();
    set_affine(call, step, gamma, beta);
    for_ranges(step, count, 64, work,
               [&](int64_t begin, int64_t end, int64_t) { kernels::channel_norm(call, begin, end); });
  });
}

std::string when_group_norm_backward(const Question& q) {
  if (q.operands[0].dtype != f32 && q.operands[0].dtype != f64)
    return text_of("the kernel takes f32 and f64, not ", q.operands[0].dtype);
  return has_space(q);
}

Prepared lower_group_norm_backward(const LoweringContext& c) {
  const View& x = c.operands[0];
  const auto& a = c.attrs<GroupNormAttrs>();
  kernels::GroupNormArgs args = args_of(x, a.epsilon);
  args.groups = a.num_groups;
  const int64_t n = x.shape[0];
  const bool gamma = a.has_gamma, beta = a.has_beta;
  const auto sums = static_cast<size_t>(n * args.channels);
  double work = static_cast<double>(x.count()) * 0.8;
  return make_step("group_norm_backward", 2 * sums * sizeof(double), [=](const StepArgs& step) {
    kernels::GroupNormArgs call = args;
    call.x = step.in(0), call.ct = step.in(1 + gamma), call.y = step.out();
    if (gamma) call.gamma = step.in(1);
    auto* first = reinterpret_cast<double*>(step.scratch);
    double* const d_sums[2] = {first, first + sums};
    for_ranges(step, n * call.groups, 1, work,
               [&](int64_t begin, int64_t end, int64_t) { kernels::group_norm_backward(call, begin, end, d_sums); });
    if (gamma) kernels::add_group_sums(call.dtype, d_sums[0], n, call.channels, step.out(1));
    if (beta) kernels::add_group_sums(call.dtype, d_sums[1], n, call.channels, step.out(1 + gamma));
  });
}

}  // namespace rlx::cpu
