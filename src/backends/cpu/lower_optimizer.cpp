// Optimizer steps whose rule looks at one element at a time, in f32. They update params and states in one pass, in
// place.
#include <cmath>
#include <cstring>

#include "backends/cpu/lowerings.h"
#include "kernels/index/index.h"
#include "kernels/optim/optimizer.h"
#include "rlx/ops/optimizer.h"

namespace rlx::cpu {
namespace {

using kernels::OptimizerStep;

float f(double v) { return static_cast<float>(v); }
/// 1 - beta^step.
double correction(double beta, double step) { return beta == 0 ? 1 : -std::expm1(step * std::log(beta)); }

// The numbers of one step, from the rule's attributes, the learning rate and the count of steps.
kernels::SgdStep numbers_of(const SgdAttrs& a, double rate, double) {
  return {a.momentum > 0, a.nesterov, f(rate), f(a.momentum), f(a.weight_decay)};
}
kernels::AdamStep numbers_of(const AdamAttrs& a, double rate, double step) {
  return {.rate = f(rate / correction(a.beta1, step)),
          .root = f(1 / std::sqrt(correction(a.beta2, step))),
          .beta1 = f(a.beta1),
          .rest1 = f(1 - a.beta1),
          .beta2 = f(a.beta2),
          .rest2 = f(1 - a.beta2),
          .epsilon = f(a.epsilon),
          .decay = a.decoupled ? 0 : f(a.weight_decay),
          .keep = a.decoupled ? f(1 - rate * a.weight_decay) : 1};
}
kernels::AdagradStep numbers_of(const AdagradAttrs& a, double rate, double) {
  return {f(rate), f(a.epsilon), f(a.weight_decay)};
}
kernels::RmspropStep numbers_of(const RmspropAttrs& a, double rate, double) {
  return {a.centered,     a.momentum > 0, f(rate),      f(a.alpha),
          f(1 - a.alpha), f(a.momentum),  f(a.epsilon), f(a.weight_decay)};
}
kernels::LionStep numbers_of(const LionAttrs& a, double rate, double) {
  return {f(rate), f(a.beta1), f(1 - a.beta1), f(a.beta2), f(1 - a.beta2), f(a.weight_decay)};
}
kernels::SophiaStep numbers_of(const SophiaAttrs& a, double rate, double) {
  return {f(rate), f(a.beta1), f(1 - a.beta1), f(a.gamma), f(a.epsilon), f(1 - rate * a.weight_decay)};
}

template <class A>
std::unique_ptr<Step> params_step(const LoweringContext& c) {
  const auto& attrs = c.attrs<A>();
  const size_t states = c.results.size() - 1;
  const bool may_stay = c.operands.size() > 4 + states;
  const int64_t count = c.results[0].count();
  const DType step_dtype = c.operands[3].dtype;
  return make_step("optimizer", 0, [=](const StepArgs& args) {
    kernels::OptimizerBuffers b{args.in<float>(0), args.in<float>(1), {}, args.out<float>(), {}};
    for (size_t s = 0; s < states; ++s) b.states[s] = args.in<float>(4 + s), b.new_states[s] = args.out<float>(1 + s);
    if (may_stay && !*args.in<bool>(4 + states)) {
      auto copy = [&](const float* from, float* to) {
        if (from != to) std::memcpy(to, from, static_cast<size_t>(count) * sizeof(float));
      };
      copy(b.param, b.new_param);
      for (size_t s = 0; s < states; ++s) copy(b.states[s], b.new_states[s]);
      return;
    }
    const OptimizerStep step = numbers_of(attrs, static_cast<double>(*args.in<float>(2)),
                                          static_cast<double>(kernels::read_index(args.in(3), step_dtype, 0)));
    // Ranges are whole pages, because the hardware prefetcher stops at page boundaries. A range is computed in blocks
    // from its end to its beginning, so that its beginning is in the cache for the next forward pass, which reads it
    // first.
    constexpr int64_t kGrain = 4096;
    for_ranges(args, count, kGrain, static_cast<double>(count) * 0.5 * static_cast<double>(2 + states),
               [&](int64_t begin, int64_t end, int64_t) {
                 for (int64_t at = end; at > begin; at -= kGrain)
                   kernels::step_params(step, b, std::max(begin, at - kGrain), at);
               });
  });
}

}  // namespace

std::string when_params(const Question& q) {
  if (q.operands[0].dtype != f32) return text_of("no kernel steps a param of ", q.operands[0].dtype);
  return when::is_byte_sized(q);
}

Prepared lower_params(const LoweringContext& c) {
  if (c.node.op == &op::sgd_update) return params_step<SgdAttrs>(c);
  if (c.node.op == &op::adam_update) return params_step<AdamAttrs>(c);
  if (c.node.op == &op::adagrad_update) return params_step<AdagradAttrs>(c);
  if (c.node.op == &op::rmsprop_update) return params_step<RmspropAttrs>(c);
  if (c.node.op == &op::lion_update) return params_step<LionAttrs>(c);
  return params_step<SophiaAttrs>(c);
}

}  // namespace rlx::cpu
