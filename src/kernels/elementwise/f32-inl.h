// The vectorized element-wise ops on f32, as functions of a Highway tag and vectors. f32.cpp makes each into a loop
// over a tile, threaded_code.cpp into an instruction (threaded_code.h); float.cpp has the scalar reference of all float
// ops. To add an op, add it to one of the lists below and to the function of that list. Compiled per target.
#if defined(RLX_KERNELS_ELEMENTWISE_F32_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RLX_KERNELS_ELEMENTWISE_F32_INL_H_
#undef RLX_KERNELS_ELEMENTWISE_F32_INL_H_
#else
#define RLX_KERNELS_ELEMENTWISE_F32_INL_H_
#endif

#include <cmath>

#include "kernels/elementwise/elementwise.h"
#include "kernels/vector/elementary-inl.h"
#include "kernels/vector/narrow_float-inl.h"

HWY_BEFORE_NAMESPACE();
namespace rlx::kernels {
namespace HWY_NAMESPACE {

using Op = ElementwiseOp;
template <Op... ops>
struct OpList {};

using UnaryOps = OpList<Op::abs, Op::neg, Op::sign, Op::floor, Op::ceil, Op::trunc, Op::round_nearest_even,
                        Op::round_nearest_afz, Op::sqrt, Op::rsqrt, Op::reciprocal, Op::relu>;
/// Unary ops that take so many instructions that prefetches and streaming stores can be hidden between them.
using LongOps = OpList<Op::exp, Op::expm1, Op::log, Op::log1p, Op::sin, Op::cos, Op::tan, Op::tanh, Op::erf, Op::lgamma,
                       Op::logistic, Op::gelu_erf, Op::gelu_tanh, Op::silu>;
using BinaryOps = OpList<Op::add, Op::sub, Op::mul, Op::div, Op::max, Op::min>;
using CompareOps = OpList<Op::eq, Op::ne, Op::lt, Op::le, Op::gt, Op::ge>;

// x86's max and min instructions propagate a NaN only from the second operand.
template <class V>
HWY_INLINE V max_or_nan(V x, V y) {
  return hn::IfThenElse(hn::IsNaN(x), x, hn::Max(x, y));
}
template <class V>
HWY_INLINE V min_or_nan(V x, V y) {
  return hn::IfThenElse(hn::IsNaN(x), x, hn::Min(x, y));
}
HWY_INLINE F32Vec half_away_from_zero(F32Tag d, F32Vec x) {
  const F32Vec t = hn::Trunc(x);
  const auto up = hn::Ge(hn::Abs(hn::Sub(x, t)), hn::Set(d, 0.5f));
  return hn::CopySign(hn::IfThenElse(up, hn::Add(t, hn::CopySign(hn::Set(d, 1.0f), x)), t), x);
}
HWY_INLINE F32Vec sign_of(F32Tag d, F32Vec x) {
  const auto is_itself = hn::Or(hn::Eq(x, hn::Zero(d)), hn::IsNaN(x));
  return hn::IfThenElse(is_itself, x, hn::CopySign(hn::Set(d, 1.0f), x));
}

template <class D, class V>
HWY_INLINE V logistic(D d, V x) {
  return sigmoid_of(d, x, ExpFast(d, hn::Neg(hn::Abs(x))));
}
/// x / (1 + exp(-x)). For x < 0 it is computed as (x m / (1 + p)) 2^n with p = m 2^n = exp(x). Multiplying by m instead
/// of p keeps the accuracy where p is subnormal or 0 but x p is not.
template <class D, class V>
HWY_INLINE V silu(D d, V x) {
  const V min_x = hn::Set(d, -125.0f), zero = hn::Zero(d), one = hn::Set(d, 1.0f);
  V n;
  const V m = exp_mantissa(d, hn::Max(min_x, hn::Neg(hn::Abs(x))), n);
  const auto negative = hn::Lt(x, zero);
  const V y = hn::Mul(x, over_one_plus(d, hn::IfThenElse(negative, m, one), ScaleByPowerOfTwo(d, m, n)));
  const V scaled = ScaleByPowerOfTwo(d, y, hn::IfThenElseZero(negative, n));
  return hn::IfThenElse(hn::Lt(x, min_x), hn::Mul(x, zero), scaled);  // NaN for -infinity
}
/// x (1 + tanh u) / 2 = x logistic(2u), u = sqrt(2 / pi) (x + 0.044715 x^3) (Hendrycks and Gimpel 2016).
template <class D, class V>
HWY_INLINE V gelu_tanh(D d, V x) {
  const V c = hn::MulAdd(hn::Mul(x, x), hn::Set(d, 0.0713548162f), hn::Set(d, 1.59576912f));
  return hn::Div(x, hn::Add(hn::Set(d, 1.0f), ExpFast(d, hn::Neg(hn::Mul(c, x)))));
}

// Lanes whose argument is too large for the fast argument reduction, or not finite, are computed by libm.
template <class Fast, class Exact>
HWY_INLINE F32Vec trig(F32Tag d, F32Vec x, Fast fast, Exact exact) {
  const F32Vec y = fast(SinCos(d, x));
  const auto in_range = hn::Le(hn::Abs(x), hn::Set(d, kTrigLimit));
  if (HWY_LIKELY(hn::AllTrue(d, in_range))) return y;
  HWY_ALIGN float from[hn::MaxLanes(F32Tag())];
  HWY_ALIGN float to[hn::MaxLanes(F32Tag())];
  hn::Store(x, d, from);
  hn::Store(y, d, to);
  for (size_t i = 0; i < hn::Lanes(d); ++i)
    if (!(std::abs(from[i]) <= kTrigLimit)) to[i] = exact(from[i]);
  return hn::Load(d, to);
}

/// The ops of UnaryOps and LongOps.
template <Op op, class D, class V>
HWY_INLINE V unary([[maybe_unused]] D d, V x) {
  if constexpr (op == Op::abs) return hn::Abs(x);
  else if constexpr (op == Op::neg) return hn::Neg(x);
  else if constexpr (op == Op::sign) return sign_of(d, x);
  else if constexpr (op == Op::floor) return hn::Floor(x);
  else if constexpr (op == Op::ceil) return hn::Ceil(x);
  else if constexpr (op == Op::trunc) return hn::Trunc(x);
  else if constexpr (op == Op::round_nearest_even) return hn::Round(x);
  else if constexpr (op == Op::round_nearest_afz) return half_away_from_zero(d, x);
  else if constexpr (op == Op::exp) return ExpFast(d, x);
  else if constexpr (op == Op::expm1) return Expm1(d, x);
  else if constexpr (op == Op::log) return Log(d, x);
  else if constexpr (op == Op::log1p) return Log1p(d, x);
  else if constexpr (op == Op::sqrt) return hn::Sqrt(x);
  else if constexpr (op == Op::rsqrt) return hn::Div(hn::Set(d, 1.0f), hn::Sqrt(x));
  else if constexpr (op == Op::reciprocal) return hn::Div(hn::Set(d, 1.0f), x);
  else if constexpr (op == Op::sin)
    return trig(
        d, x, [](auto v) HWY_ATTR { return v.sin; }, [](float v) { return std::sin(v); });
  else if constexpr (op == Op::cos)
    return trig(
        d, x, [](auto v) HWY_ATTR { return v.cos; }, [](float v) { return std::cos(v); });
  else if constexpr (op == Op::tan)
    return trig(
        d, x, [](auto v) HWY_ATTR { return hn::Div(v.sin, v.cos); }, [](float v) { return std::tan(v); });
  else if constexpr (op == Op::tanh) return TanhFast(d, x);
  else if constexpr (op == Op::erf) return Erf(d, x);
  else if constexpr (op == Op::lgamma) return Lgamma(d, x);
  else if constexpr (op == Op::logistic) return logistic(d, x);
  else if constexpr (op == Op::gelu_erf) return GeluErfFast(d, x);
  else if constexpr (op == Op::gelu_tanh) return gelu_tanh(d, x);
  else if constexpr (op == Op::silu) return silu(d, x);
  else {
    static_assert(op == Op::relu);
    return hn::Max(hn::Zero(d), x);
  }
}

template <Op op>
HWY_INLINE F32Vec binary(F32Vec x, F32Vec y) {
  if constexpr (op == Op::add) return hn::Add(x, y);
  else if constexpr (op == Op::sub) return hn::Sub(x, y);
  else if constexpr (op == Op::mul) return hn::Mul(x, y);
  else if constexpr (op == Op::div) return hn::Div(x, y);
  else if constexpr (op == Op::max) return max_or_nan(x, y);
  else {
    static_assert(op == Op::min);
    return min_or_nan(x, y);
  }
}

/// Returns a mask.
template <Op op>
HWY_INLINE auto compare(F32Vec x, F32Vec y) {
  if constexpr (op == Op::eq) return hn::Eq(x, y);
  else if constexpr (op == Op::ne) return hn::Not(hn::Eq(x, y));  // on x86 Ne is false for NaN
  else if constexpr (op == Op::lt) return hn::Lt(x, y);
  else if constexpr (op == Op::le) return hn::Le(x, y);
  else if constexpr (op == Op::gt) return hn::Gt(x, y);
  else {
    static_assert(op == Op::ge);
    return hn::Ge(x, y);
  }
}

HWY_INLINE F32Vec clamp(F32Vec low, F32Vec x, F32Vec high) { return min_or_nan(max_or_nan(low, x), high); }

using BoolTag = hn::Rebind<uint8_t, F32Tag>;
template <class Mask>
HWY_INLINE void store_mask(Mask mask, uint8_t* to) {
  const hn::RebindToSigned<F32Tag> di;
  const auto ones = hn::IfThenElseZero(hn::RebindMask(di, mask), hn::Set(di, 1));
  hn::StoreU(hn::DemoteTo(BoolTag(), ones), BoolTag(), to);
}
HWY_INLINE hn::Mask<F32Tag> load_mask(const uint8_t* from) {
  const hn::RebindToSigned<F32Tag> di;
  return hn::RebindMask(F32Tag(), hn::Ne(hn::PromoteTo(di, hn::LoadU(BoolTag(), from)), hn::Zero(di)));
}
/// x rounded to the values of T, which is F16 or BF16.
template <class T>
HWY_INLINE F32Vec narrowed(F32Tag d, F32Vec x) {
  HWY_ALIGN T lanes[hn::MaxLanes(F32Tag())];
  store_f32(x, d, lanes);
  return load_f32(d, lanes);
}

}  // namespace HWY_NAMESPACE
}  // namespace rlx::kernels
HWY_AFTER_NAMESPACE();

#endif  // RLX_KERNELS_ELEMENTWISE_F32_INL_H_
