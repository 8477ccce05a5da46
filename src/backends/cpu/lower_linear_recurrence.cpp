// selective_scan, mamba2, gated_delta_net: each thread calls the kernel for a range of column blocks.
#include "backends/cpu/lowerings.h"
#include "base/rounded_up.h"
#include "kernels/recurrent/linear_recurrence.h"
#include "rlx/ops/recurrent.h"

namespace rlx::cpu {
namespace {

/// The step of a recurrence. `bind(args, step)` sets the pointers of a run; `kernel` runs a range of tasks.
template <class Args, class Bind, class Kernel>
Prepared recurrence_step(const LoweringContext& c, const char* name, const Args& args, int64_t rows, double work_ns,
                         Bind bind, Kernel kernel) {
  size_t per_thread = aligned(kernels::linear_recurrence_scratch_bytes(args.dtype, rows));
  return make_step(name, per_thread * static_cast<size_t>(c.threads), [=](const StepArgs& step) {
    Args call = args;
    bind(call, step);
    for_ranges(step, call.tasks(), 1, work_ns, [&](int64_t begin, int64_t end, int64_t task) {
      kernel(call, begin, end, step.scratch + per_thread * static_cast<size_t>(task));
    });
  });
}
double elements(const View& v) { return static_cast<double>(v.count()); }

}  // namespace

Prepared lower_selective_scan(const LoweringContext& c) {
  const Shape& x = c.operands[0].shape;
  kernels::SelectiveScanArgs args;
  args.dtype = c.operands[0].dtype;
  args.batch = x[0], args.steps = x[1], args.channels = x[2], args.n = c.operands[2].shape[1];
  bool stateful = c.operands.size() > 5;
  auto bind = [stateful](kernels::SelectiveScanArgs& call, const StepArgs& step) {
    call.x = step.in(0), call.delta = step.in(1), call.a = step.in(2), call.b = step.in(3), call.c = step.in(4);
    if (stateful) call.state = step.in(5);
    call.y = step.out(0), call.last_state = step.out(1);
  };
  double work = elements(c.operands[0]) * static_cast<double>(args.n);
  return recurrence_step(c, "selective_scan", args, args.n, work, bind, kernels::selective_scan);
}

Prepared lower_mamba2(const LoweringContext& c) {
  const Shape& x = c.operands[0].shape;
  kernels::Mamba2Args args;
  args.dtype = c.operands[0].dtype;
  args.batch = x[0], args.steps = x[1], args.heads = x[2], args.width = x[3], args.n = c.operands[3].shape[3];
  bool stateful = c.operands.size() > 5;
  auto bind = [stateful](kernels::Mamba2Args& call, const StepArgs& step) {
    call.x = step.in(0), call.dt = step.in(1), call.a = step.in(2), call.b = step.in(3), call.c = step.in(4);
    if (stateful) call.state = step.in(5);
    call.y = step.out(0), call.last_state = step.out(1);
  };
  double work = elements(c.operands[0]) * static_cast<double>(args.n) * 0.2;
  return recurrence_step(c, "mamba2", args, args.n, work, bind, kernels::mamba2);
}

Prepared lower_gated_delta_net(const LoweringContext& c) {
  const Shape &k = c.operands[1].shape, &v = c.operands[2].shape;
  kernels::GatedDeltaNetArgs args;
  args.dtype = c.operands[0].dtype;
  args.batch = k[0], args.steps = k[1], args.heads = k[2], args.n = k[3], args.m = v[3];
  args.gate_per_channel = c.operands[3].shape.size() == 4;
  bool stateful = c.operands.size() > 5;
  auto bind = [stateful](kernels::GatedDeltaNetArgs& call, const StepArgs& step) {
    call.q = step.in(0), call.k = step.in(1), call.v = step.in(2), call.g = step.in(3), call.beta = step.in(4);
    if (stateful) call.state = step.in(5);
    call.y = step.out(0), call.last_state = step.out(1);
  };
  double work = elements(c.operands[2]) * static_cast<double>(args.n) * 0.4;
  return recurrence_step(c, "gated_delta_net", args, args.n, work, bind, kernels::gated_delta_net);
}

}  // namespace rlx::cpu
