// See the header. The steps are bound by memory: Adam reads 16 bytes an element and writes 12, and its square root and
// division took less time than that on every machine measured.
#include "kernels/optim/optimizer.h"

#include <algorithm>
#include <type_traits>

#include "kernels/threads/flush_subnormals.h"
#include "kernels/vector/highway_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/optim/optimizer.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/vector/narrow_float-inl.h"

HWY_BEFORE_NAMESPACE();
namespace rlx::kernels {
namespace HWY_NAMESPACE {
namespace {

HWY_INLINE F32Vec broadcast(float v) { return hn::Set(F32Tag(), v); }
/// old * old_weight + now * new_weight: a moving mean.
HWY_INLINE F32Vec moved(F32Vec old, float old_weight, F32Vec now, float new_weight) {
  return hn::MulAdd(old, broadcast(old_weight), hn::Mul(now, broadcast(new_weight)));
}
/// grad + decay * param. Without decay the param is not read, because it may be infinite.
HWY_INLINE F32Vec decayed(F32Vec grad, F32Vec param, float decay) {
  return decay == 0 ? grad : hn::MulAdd(param, broadcast(decay), grad);
}
HWY_INLINE F32Vec scaled_param(F32Vec param, float keep) { return keep == 1 ? param : hn::Mul(param, broadcast(keep)); }

// Each rule maps a param, its gradient and its states to the new param, and updates the states in place.
template <bool kNesterov>
HWY_INLINE F32Vec stepped(const SgdStep& a, F32Vec param, F32Vec grad, F32Vec (&velocity)[1]) {
  grad = decayed(grad, param, a.decay);
  velocity[0] = hn::MulAdd(velocity[0], broadcast(a.momentum), grad);
  const F32Vec u = kNesterov ? hn::MulAdd(velocity[0], broadcast(a.momentum), grad) : velocity[0];
  return hn::NegMulAdd(broadcast(a.rate), u, param);
}
HWY_INLINE F32Vec stepped(const AdamStep& a, F32Vec param, F32Vec grad, F32Vec (&moments)[2]) {
  grad = decayed(grad, param, a.decay);
  moments[0] = moved(moments[0], a.beta1, grad, a.rest1);
  moments[1] = moved(moments[1], a.beta2, hn::Mul(grad, grad), a.rest2);
  const F32Vec root = hn::MulAdd(hn::Sqrt(moments[1]), broadcast(a.root), broadcast(a.epsilon));
  return hn::Sub(scaled_param(param, a.keep), hn::Div(hn::Mul(moments[0], broadcast(a.rate)), root));
}
HWY_INLINE F32Vec stepped(const AdagradStep& a, F32Vec param, F32Vec grad, F32Vec (&sum)[1]) {
  grad = decayed(grad, param, a.decay);
  sum[0] = hn::MulAdd(grad, grad, sum[0]);
  const F32Vec root = hn::Add(hn::Sqrt(sum[0]), broadcast(a.epsilon));
  return hn::Sub(param, hn::Div(hn::Mul(grad, broadcast(a.rate)), root));
}
template <bool kCentered, bool kMomentum>
HWY_INLINE F32Vec stepped(const RmspropStep& a, F32Vec param, F32Vec grad,
                          F32Vec (&states)[1 + int(kCentered) + int(kMomentum)]) {
  grad = decayed(grad, param, a.decay);
  F32Vec spread = states[0] = moved(states[0], a.alpha, hn::Mul(grad, grad), a.rest);
  if constexpr (kCentered) {
    states[1] = moved(states[1], a.alpha, grad, a.rest);
    spread = hn::Sub(spread, hn::Mul(states[1], states[1]));
  }
  F32Vec u = hn::Div(grad, hn::Add(hn::Sqrt(spread), broadcast(a.epsilon)));
  if constexpr (kMomentum) {
    F32Vec& velocity = states[int(kCentered) + 1];
    u = velocity = hn::MulAdd(velocity, broadcast(a.momentum), u);
  }
  return hn::NegMulAdd(broadcast(a.rate), u, param);
}
HWY_INLINE F32Vec stepped(const LionStep& a, F32Vec param, F32Vec grad, F32Vec (&m)[1]) {
  const F32Tag d;
  const F32Vec to = moved(m[0], a.beta1, grad, a.rest1);
  const auto is_itself = hn::Or(hn::Eq(to, hn::Zero(d)), hn::IsNaN(to));
  const F32Vec sign = hn::IfThenElse(is_itself, to, hn::CopySign(broadcast(1), to));
  m[0] = moved(m[0], a.beta2, grad, a.rest2);
  return hn::NegMulAdd(broadcast(a.rate), decayed(sign, param, a.decay), param);
}
/// `bounded`, or v if that is NaN: whether Max and Min keep a NaN depends on the processor.
HWY_INLINE F32Vec kept_nan(F32Vec v, F32Vec bounded) { return hn::IfThenElse(hn::IsNaN(v), v, bounded); }
HWY_INLINE F32Vec stepped(const SophiaStep& a, F32Vec param, F32Vec grad, F32Vec (&states)[2]) {
  states[0] = moved(states[0], a.beta1, grad, a.rest1);
  const F32Vec scaled = hn::Mul(states[1], broadcast(a.gamma));
  const F32Vec ratio = hn::Div(states[0], kept_nan(scaled, hn::Max(broadcast(a.epsilon), scaled)));
  const F32Vec u = kept_nan(ratio, hn::Min(broadcast(1), hn::Max(broadcast(-1), ratio)));
  return hn::NegMulAdd(broadcast(a.rate), u, scaled_param(param, a.keep));
}

/// Calls `step(param, grad, states)` for all elements, vector by vector.
template <int kStates, class Step>
HWY_INLINE void for_elements(const OptimizerBuffers& b, int64_t begin, int64_t end, Step step) {
  const F32Tag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  F32Vec states[kStates > 0 ? kStates : 1];
  int64_t i = begin;
  for (; i + lanes <= end; i += lanes) {
    for (int s = 0; s < kStates; ++s) states[s] = hn::LoadU(d, b.states[s] + i);
    hn::StoreU(step(hn::LoadU(d, b.param + i), hn::LoadU(d, b.grad + i), states), d, b.new_param + i);
    for (int s = 0; s < kStates; ++s) hn::StoreU(states[s], d, b.new_states[s] + i);
  }
  const auto rest = static_cast<size_t>(end - i);
  if (rest == 0) return;
  for (int s = 0; s < kStates; ++s) states[s] = load_f32_some(d, b.states[s] + i, rest);
  const F32Vec param = load_f32_some(d, b.param + i, rest), grad = load_f32_some(d, b.grad + i, rest);
  store_f32_some(step(param, grad, states), d, b.new_param + i, rest);
  for (int s = 0; s < kStates; ++s) store_f32_some(states[s], d, b.new_states[s] + i, rest);
}

template <bool kCentered, bool kMomentum>
void rmsprop(const RmspropStep& a, const OptimizerBuffers& b, int64_t begin, int64_t end) {
  constexpr int kStates = 1 + int(kCentered) + int(kMomentum);
  for_elements<kStates>(b, begin, end, [&](F32Vec param, F32Vec grad, F32Vec(&states)[kStates]) HWY_ATTR {
    return stepped<kCentered, kMomentum>(a, param, grad, states);
  });
}

void sgd_f32(const SgdStep& a, const OptimizerBuffers& b, int64_t begin, int64_t end) {
  if (!a.has_momentum)
    return for_elements<0>(b, begin, end, [&](F32Vec param, F32Vec grad, F32Vec(&)[1]) HWY_ATTR {
      return hn::NegMulAdd(broadcast(a.rate), decayed(grad, param, a.decay), param);
    });
  if (a.nesterov)
    return for_elements<1>(b, begin, end, [&](F32Vec param, F32Vec grad, F32Vec(&velocity)[1]) HWY_ATTR {
      return stepped<true>(a, param, grad, velocity);
    });
  for_elements<1>(b, begin, end, [&](F32Vec param, F32Vec grad, F32Vec(&velocity)[1]) HWY_ATTR {
    return stepped<false>(a, param, grad, velocity);
  });
}
void adam_f32(const AdamStep& a, const OptimizerBuffers& b, int64_t begin, int64_t end) {
  for_elements<2>(b, begin, end, [&](F32Vec param, F32Vec grad, F32Vec(&moments)[2]) HWY_ATTR {
    return stepped(a, param, grad, moments);
  });
}
void adagrad_f32(const AdagradStep& a, const OptimizerBuffers& b, int64_t begin, int64_t end) {
  for_elements<1>(b, begin, end,
                  [&](F32Vec param, F32Vec grad, F32Vec(&sum)[1]) HWY_ATTR { return stepped(a, param, grad, sum); });
}
void rmsprop_f32(const RmspropStep& a, const OptimizerBuffers& b, int64_t begin, int64_t end) {
  if (a.centered)
    return a.has_momentum ? rmsprop<true, true>(a, b, begin, end) : rmsprop<true, false>(a, b, begin, end);
  a.has_momentum ? rmsprop<false, true>(a, b, begin, end) : rmsprop<false, false>(a, b, begin, end);
}
void lion_f32(const LionStep& a, const OptimizerBuffers& b, int64_t begin, int64_t end) {
  for_elements<1>(b, begin, end,
                  [&](F32Vec param, F32Vec grad, F32Vec(&m)[1]) HWY_ATTR { return stepped(a, param, grad, m); });
}
void sophia_f32(const SophiaStep& a, const OptimizerBuffers& b, int64_t begin, int64_t end) {
  for_elements<2>(b, begin, end, [&](F32Vec param, F32Vec grad, F32Vec(&states)[2]) HWY_ATTR {
    return stepped(a, param, grad, states);
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace rlx::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rlx::kernels {
namespace {

HWY_EXPORT(sgd_f32);
HWY_EXPORT(adam_f32);
HWY_EXPORT(adagrad_f32);
HWY_EXPORT(rmsprop_f32);
HWY_EXPORT(lion_f32);
HWY_EXPORT(sophia_f32);

struct Dispatch {
  const OptimizerBuffers& buffers;
  int64_t begin, end;

  void operator()(const SgdStep& a) const { HWY_DYNAMIC_DISPATCH(sgd_f32)(a, buffers, begin, end); }
  void operator()(const AdamStep& a) const { HWY_DYNAMIC_DISPATCH(adam_f32)(a, buffers, begin, end); }
  void operator()(const AdagradStep& a) const { HWY_DYNAMIC_DISPATCH(adagrad_f32)(a, buffers, begin, end); }
  void operator()(const RmspropStep& a) const { HWY_DYNAMIC_DISPATCH(rmsprop_f32)(a, buffers, begin, end); }
  void operator()(const LionStep& a) const { HWY_DYNAMIC_DISPATCH(lion_f32)(a, buffers, begin, end); }
  void operator()(const SophiaStep& a) const { HWY_DYNAMIC_DISPATCH(sophia_f32)(a, buffers, begin, end); }
};

}  // namespace

bool flushes_subnormals(const OptimizerStep& step) noexcept {
  constexpr float kMinEpsilon = 0x1p-40f;
  return FlushSubnormals::kHasEffect && std::visit(
                                            [](const auto& a) {
                                              using A = std::remove_cvref_t<decltype(a)>;
                                              if constexpr (std::is_same_v<A, LionStep>) return false;
                                              else if constexpr (std::is_same_v<A, AdamStep>)
                                                return a.epsilon >= kMinEpsilon * std::max(1.0f, a.root);
                                              else if constexpr (requires { a.epsilon; })
                                                return a.epsilon >= kMinEpsilon;
                                              else return true;
                                            },
                                            step);
}

void step_params(const OptimizerStep& step, const OptimizerBuffers& buffers, int64_t begin, int64_t end) noexcept {
  const FlushSubnormals scope(flushes_subnormals(step));
  std::visit(Dispatch{buffers, begin, end}, step);
}

}  // namespace rlx::kernels
#endif  // HWY_ONCE
