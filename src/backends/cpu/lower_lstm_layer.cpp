// lstm_layer and lstm_layer_backward: sequences are split over threads, which share w_hh, packed once in each run.
#include "backends/cpu/lowerings.h"
#include "kernels/recurrent/lstm_backward.h"
#include "kernels/recurrent/recurrent.h"
#include "rlx/ops/recurrent.h"

namespace rlx::cpu {
namespace {

/// Extents that both ops have: w_hh is [4 * hidden, hidden].
struct LayerExtents {
  DType dtype;
  int64_t batch, steps, hidden;
  LayerExtents(const LoweringContext& c, size_t w_hh)
      : dtype(c.operands[0].dtype), batch(c.operands[0].shape[0]), steps(c.operands[0].shape[1]),
        hidden(c.operands[w_hh].shape[1]) {}
  double work_ns() const {
    return static_cast<double>(batch * steps * 4 * hidden) * (static_cast<double>(hidden) * 0.03 + 1);
  }
  std::string name(std::string_view kernel) const {
    return text_of(kernel, " ", dtype, " ", batch, "x", steps, "x", hidden);
  }
};

}  // namespace

std::string when_lstm_layer_backward(const Question& q) {
  if (q.operands.size() > 7) return "no kernel for cotangents of gates and cells";
  return when_recurrent(q);
}

Prepared lower_lstm_layer(const LoweringContext& c) {
  const LayerExtents e(c, 1);
  kernels::RecurrentArgs a;
  a.dtype = e.dtype, a.hidden = e.hidden, a.steps = e.steps, a.reverse = c.attrs<LstmLayerAttrs>().reverse;
  a.y_step_stride = e.hidden, a.y_batch_stride = e.steps * e.hidden;
  const bool keeps = c.unread.size() < 5 || !c.unread[3] || !c.unread[4];
  const size_t weights = aligned(kernels::recurrent_weight_bytes(a.cell, e.dtype, e.hidden)),
               sequence = aligned(kernels::recurrent_scratch_bytes(a, 1));
  return make_step(e.name("lstm"), weights + sequence * static_cast<size_t>(e.batch), [=](const StepArgs& step) {
    kernels::RecurrentArgs call = a;
    kernels::pack_recurrent(a.cell, e.dtype, e.hidden, step.in(1), step.scratch);
    call.w_hh = step.scratch, call.products = step.in(0), call.h0 = step.in(2), call.c0 = step.in(3);
    call.y = step.out(0), call.h_n = step.out(1), call.c_n = step.out(2);
    if (keeps) call.gates = step.out(3), call.cells = step.out(4);
    for_ranges(step, e.batch, 1, e.work_ns(), [&](int64_t begin, int64_t end, int64_t) {
      kernels::recurrent(call, begin, end, step.scratch + weights + static_cast<size_t>(begin) * sequence);
    });
  });
}

Prepared lower_lstm_layer_backward(const LoweringContext& c) {
  const LayerExtents e(c, 2);
  kernels::LstmBackwardArgs a;
  a.dtype = e.dtype, a.hidden = e.hidden, a.steps = e.steps, a.reverse = c.attrs<LstmLayerAttrs>().reverse;
  const size_t weights = aligned(kernels::lstm_backward_weight_bytes(e.dtype, e.hidden)),
               sequence = aligned(kernels::lstm_backward_scratch_bytes(a, 1));
  return make_step(
      e.name("lstm backward"), weights + sequence * static_cast<size_t>(e.batch), [=](const StepArgs& step) {
        kernels::LstmBackwardArgs call = a;
        kernels::pack_lstm_backward(e.dtype, e.hidden, step.in(2), step.scratch);
        call.w_hh = step.scratch, call.gates = step.in(0), call.cells = step.in(1), call.c0 = step.in(3);
        call.y_ct = step.in(4), call.h_ct = step.in(5), call.c_ct = step.in(6);
        call.products_ct = step.out(0), call.h0_ct = step.out(1), call.c0_ct = step.out(2);
        for_ranges(step, e.batch, 1, e.work_ns(), [&](int64_t begin, int64_t end, int64_t) {
          kernels::lstm_backward(call, begin, end, step.scratch + weights + static_cast<size_t>(begin) * sequence);
        });
      });
}

}  // namespace rlx::cpu
