// exp, log, tanh, erf and the activations on Highway vectors, for the kernels that fuse them. Included once per target
// by a file that uses foreach_target. The largest errors in f32 over all arguments, subnormals included, in ulps: exp
// 0.8, log 0.9, erf 1.4, tanh 1.1, sigmoid 1.5, silu 2.1. gelu: 2 half-ulps of max(1, |x|), because only its absolute
// error matters where it approaches 0 at minus infinity. f64 calls the C library lane by lane, which is accurate and
// slow; it is only for checking.
//
// Polynomials are minimax (Remez exchange, relative error of the whole function), fitted for this file. Reductions:
// Muller, Elementary Functions, 3rd ed. (2016), ch. 11 (Cody and Waite: a constant as the sum of two floats). erfc is
// computed as 2^polynomial, because its logarithm is nearly a parabola.
#if defined(RLX_KERNELS_VECTOR_VECTOR_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RLX_KERNELS_VECTOR_VECTOR_MATH_INL_H_
#undef RLX_KERNELS_VECTOR_VECTOR_MATH_INL_H_
#else
#define RLX_KERNELS_VECTOR_VECTOR_MATH_INL_H_
#endif

#include <hwy/highway.h>

#include <cmath>

#include "kernels/vector/unrolled-inl.h"

HWY_BEFORE_NAMESPACE();
namespace rlx::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class D, class V = hn::Vec<D>>
HWY_INLINE V polynomial(D, V, V c) {
  return c;
}
/// c[0] + c[1] x + c[2] x^2 ...
template <class D, class V = hn::Vec<D>, class... Rest>
HWY_INLINE V polynomial(D d, V x, V c0, Rest... rest) {
  return hn::MulAdd(polynomial(d, x, rest...), x, c0);
}

template <class D, class F>
HWY_NOINLINE hn::Vec<D> lane_by_lane(D d, hn::Vec<D> x, F f) {
  HWY_ALIGN hn::TFromD<D> lanes[hn::MaxLanes(d)];
  hn::Store(x, d, lanes);
  for (size_t i = 0; i < hn::Lanes(d); ++i) lanes[i] = f(lanes[i]);
  return hn::Load(d, lanes);
}

// (e^r - 1 - r) / r^2 on [-ln2 / 2, ln2 / 2]. The error of r + r^2 times the result is 2^-28.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V exp_beyond_linear(D d, V r) {
  return polynomial(d, r, hn::Set(d, 0x1.fffffcp-2f), hn::Set(d, 0x1.55548ap-3f), hn::Set(d, 0x1.555916p-5f),
                    hn::Set(d, 0x1.123fc6p-7f), hn::Set(d, 0x1.6a1a70p-10f));
}
template <class D, class V = hn::Vec<D>>
HWY_INLINE V expm1_reduced(D d, V r) {
  return hn::MulAdd(hn::Mul(r, r), exp_beyond_linear(d, r), r);
}
// e^r for |r| <= ln2 / 2. The rounding error of 1 + r is added to the small terms, so that little more than the last
// rounding remains as error.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V exp_reduced(D d, V r) {
  const V one = hn::Set(d, 1.0f), sum = hn::Add(one, r), lost = hn::Sub(r, hn::Sub(sum, one));
  return hn::Add(sum, hn::MulAdd(hn::Mul(r, r), exp_beyond_linear(d, r), lost));
}

// Returns r and sets n of x = n ln 2 + r: n is an integral float, |r| <= ln2 / 2 (slightly more because of rounding).
template <class D, class V = hn::Vec<D>>
HWY_INLINE V reduce_by_ln2(D d, V x, V& n) {
  n = hn::Round(hn::Mul(x, hn::Set(d, 0x1.715476p+0f)));
  // ln 2 is the sum of two floats. The first has 9 bits, so that n times it is exact.
  V r = hn::NegMulAdd(n, hn::Set(d, 0.693359375f), x);
  return hn::NegMulAdd(n, hn::Set(d, -2.12194440e-4f), r);
}

// 2^n for an integral float n in [-126, 127].
template <class D, class V = hn::Vec<D>>
HWY_INLINE V power_of_two(D d, V n) {
  const hn::RebindToSigned<D> di;
  return hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(hn::ConvertTo(di, n), hn::Set(di, 127))));
}

/// 1 / x within an ulp, for x between 2^-100 and 2^100. AVX-512 has an approximation of 14 bits; with one Newton step
/// it costs a fifth of a division.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V quick_reciprocal(D d, V x) {
  const V one = hn::Set(d, hn::TFromD<D>(1));
#if HWY_TARGET == HWY_AVX3
  if constexpr (sizeof(hn::TFromD<D>) == 4) {
    const V r = hn::ApproximateReciprocal(x);
    return hn::MulAdd(r, hn::NegMulAdd(x, r, one), r);
  }
#endif
  return hn::Div(one, x);
}

/// e^x.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Exp(D d, V x) {
  if constexpr (sizeof(hn::TFromD<D>) == 8) {
    return lane_by_lane(d, x, [](double v) { return std::exp(v); });
  } else {
    // The constants are first operands: x86's min and max return the second operand if one is a NaN.
    V clamped = hn::Max(hn::Set(d, -104.0f), hn::Min(hn::Set(d, 89.0f), x)), n;
    V r = reduce_by_ln2(d, clamped, n);
    V e = exp_reduced(d, r);
    // n is between -150 and 128. 2^n is applied as two factors, so that subnormal results are rounded once, at the end.
    V half = hn::Round(hn::Mul(n, hn::Set(d, 0.5f)));
    return hn::Mul(hn::Mul(e, power_of_two(d, half)), power_of_two(d, hn::Sub(n, half)));
  }
}

/// e^x for x <= 88, with results below the smallest normal number, 2^-126, flushed to 0. For softmax and similar ops.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V ExpOrZero(D d, V x) {
  if constexpr (sizeof(hn::TFromD<D>) == 8) {
    return lane_by_lane(d, x, [](double v) { return std::exp(v); });
  } else {
    V n;
    V r = reduce_by_ln2(d, hn::Max(hn::Set(d, -88.0f), x), n);
    V e = hn::Mul(hn::Add(hn::Set(d, 1.0f), expm1_reduced(d, r)), power_of_two(d, hn::Max(hn::Set(d, -126.0f), n)));
    return hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, -0x1.5d589ep+6f)), e);  // -126 ln 2
  }
}

/// Natural logarithm; NaN below 0.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Log(D d, V x) {
  if constexpr (sizeof(hn::TFromD<D>) == 8) {
    return lane_by_lane(d, x, [](double v) { return std::log(v); });
  } else {
    const hn::RebindToSigned<D> di;
    auto subnormal = hn::Lt(x, hn::Set(d, 0x1p-126f));
    V scaled = hn::IfThenElse(subnormal, hn::Mul(x, hn::Set(d, 0x1p+25f)), x);
    // x = 2^e m with m in [sqrt(1/2), sqrt 2): the bits of sqrt(1/2) are subtracted before the exponent is extracted.
    auto offset = hn::Set(di, 0x3F3504F3);
    auto bits = hn::Sub(hn::BitCast(di, scaled), offset);
    V e = hn::ConvertTo(d, hn::ShiftRight<23>(bits));
    e = hn::Sub(e, hn::IfThenElseZero(subnormal, hn::Set(d, 25.0f)));
    V f = hn::BitCast(d, hn::Add(hn::And(bits, hn::Set(di, 0x007FFFFF)), offset));
    f = hn::Sub(f, hn::Set(d, 1.0f));
    // log(1 + f) = f - f^2 / 2 + f^3 P(f), error 2^-27.
    V p = polynomial(d, f, hn::Set(d, 0x1.55554ap-2f), hn::Set(d, -0x1.000220p-2f), hn::Set(d, 0x1.99a596p-3f),
                     hn::Set(d, -0x1.54788ap-3f), hn::Set(d, 0x1.226e4ap-3f), hn::Set(d, -0x1.0ce07cp-3f),
                     hn::Set(d, 0x1.07d0eep-3f), hn::Set(d, -0x1.41ee06p-4f));
    V f2 = hn::Mul(f, f);
    V tail = hn::MulAdd(hn::Mul(f2, f), p, hn::Mul(e, hn::Set(d, -2.12194440e-4f)));
    tail = hn::NegMulAdd(f2, hn::Set(d, 0.5f), tail);
    V y = hn::MulAdd(e, hn::Set(d, 0.693359375f), hn::Add(f, tail));
    V inf = hn::Inf(d), zero = hn::Zero(d);
    y = hn::IfThenElse(hn::Eq(x, inf), inf, y);
    y = hn::IfThenElse(hn::Eq(x, zero), hn::Neg(inf), y);
    return hn::IfThenElse(hn::Ge(x, zero), y, hn::NaN(d));
  }
}

// tanh a for a >= 0. Below 5/8, where the formula 1 - 2 / (e^2a + 1) would cancel, it is a + a^3 P(a^2) with error
// 2^-26.8. For other a it is `beyond`, the value of the formula, which the caller has computed.
inline constexpr float kTanhBySeries = 0.625f;
template <class D, class V = hn::Vec<D>>
HWY_INLINE V small_tanh_or(D d, V a, V beyond) {
  const V z = hn::Mul(a, a);
  const V p = polynomial(d, z, hn::Set(d, -0x1.555532p-2f), hn::Set(d, 0x1.110726p-3f), hn::Set(d, -0x1.b83c5ap-5f),
                         hn::Set(d, 0x1.52269ap-6f), hn::Set(d, -0x1.75e1ccp-8f));
  return hn::IfThenElse(hn::Lt(a, hn::Set(d, kTanhBySeries)), hn::MulAdd(hn::Mul(a, z), p, a), beyond);
}

#if HWY_TARGET == HWY_AVX3
// tanh a for a >= 0 by table lookup of polynomials: one in a below 1/16, and from there to 9.1 four per octave, each
// around a center c for which tanh c is nearly an f32 number (Gal, Bachelis, ACM Transactions on Mathematical Software
// 17 (1991)), so that little more than the last rounding remains as error. Each coefficient is looked up by a
// permutation of two registers. Errors are at most 2^-26.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V tanh_by_table(D d, V a) {
  static_assert(hn::MaxLanes(D()) == 16);
  // Rows: c, tanh c, then the coefficients of the powers of a - c. Columns: indexed by the low 3 bits of the exponent
  // and the high 2 bits of the mantissa.
  // clang-format off
  HWY_ALIGN static constexpr float kNumbers[7][32] = {
      {0x1.202ec8p+1f, 0x1.5fe7f2p+1f, 0x1.a01c78p+1f, 0x1.e0246ep+1f, 0x1.1fe142p+2f, 0x1.5fe8bep+2f, 0x1.9fef28p+2f,
       0x1.e02eep+2f, 0x1.11c87ap+3f, 0, 0, 0, 0x1.202a4cp-4f, 0x1.5fe34p-4f, 0x1.9fd63ap-4f, 0x1.dfe2e6p-4f,
       0x1.1ff20ep-3f, 0x1.6006ap-3f, 0x1.a01ad6p-3f, 0x1.e01738p-3f, 0x1.201c7cp-2f, 0x1.602b4ap-2f, 0x1.9fd89ap-2f,
       0x1.e0167ep-2f, 0x1.2018bp-1f, 0x1.5ffc7cp-1f, 0x1.a01cfcp-1f, 0x1.dfd2ecp-1f, 0x1.20155cp+0f, 0x1.5fef1ep+0f,
       0x1.a01248p+0f, 0x1.dfd734p+0f},
      {0x1.f4c7f6p-1f, 0x1.fbd37ap-1f, 0x1.fe7728p-1f, 0x1.ff6f6ap-1f, 0x1.ffdf88p-1f, 0x1.fffb9cp-1f, 0x1.ffff68p-1f,
       0x1.ffffecp-1f, 0x1.fffffep-1f, 0, 0, 0, 0x1.1fb0d4p-4f, 0x1.5f0648p-4f, 0x1.9e69fep-4f, 0x1.ddb3dep-4f,
       0x1.1e1024p-3f, 0x1.5c9976p-3f, 0x1.9a78dep-3f, 0x1.d77c5ap-3f, 0x1.18bdf2p-2f, 0x1.52e952p-2f, 0x1.8a6654p-2f,
       0x1.bfc09cp-2f, 0x1.051ab4p-1f, 0x1.31559cp-1f, 0x1.5798eep-1f, 0x1.77c36ep-1f, 0x1.9e6b72p-1f, 0x1.c27104p-1f,
       0x1.d9cc3cp-1f, 0x1.e8714ap-1f},
      {0x1.631258p-5f, 0x1.0a0ac4p-6f, 0x1.884158p-8f, 0x1.210336p-9f, 0x1.03b96p-11f, 0x1.1900a6p-14f,
       0x1.3001eap-17f, 0x1.4695f8p-20f, 0x1.3e1d66p-23f, 0, 0, 1, 0x1.fd7964p-1f, 0x1.fc3d5cp-1f, 0x1.fac24ap-1f,
       0x1.f9093p-1f, 0x1.f602cp-1f, 0x1.f12a74p-1f, 0x1.eb6ec4p-1f, 0x1.e4dd2ap-1f, 0x1.d983fep-1f, 0x1.c7ea62p-1f,
       0x1.b40c1cp-1f, 0x1.9e1bbap-1f, 0x1.7ad846p-1f, 0x1.49e972p-1f, 0x1.196a6cp-1f, 0x1.d871dep-2f, 0x1.61204ep-2f,
       0x1.cedcf8p-3f, 0x1.26374ep-3f, 0x1.703f8ep-4f},
      {-0x1.5b480ap-5f, -0x1.07dbaep-6f, -0x1.870d7cp-8f, -0x1.20ac2ep-9f, -0x1.03564cp-11f, -0x1.18a418p-14f,
       -0x1.2f9fdep-17f, -0x1.af2e7cp-20f, -0x1.1c338cp-21f, 0, 0, 0, -0x1.1e458cp-4f, -0x1.5c7238p-4f,
       -0x1.9a2c04p-4f, -0x1.d73492p-4f, -0x1.187b56p-3f, -0x1.527fd2p-3f, -0x1.89fbc2p-3f, -0x1.be7f34p-3f,
       -0x1.03a3dap-2f, -0x1.2dc97ep-2f, -0x1.4fe476p-2f, -0x1.6a24fep-2f, -0x1.8265fep-2f, -0x1.897d76p-2f,
       -0x1.79b5b2p-2f, -0x1.5abbbep-2f, -0x1.1dd3bap-2f, -0x1.9736fap-3f, -0x1.1043acp-3f, -0x1.5f4e1cp-4f},
      {0x1.baa5e4p-6f, 0x1.5a127p-7f, 0x1.032206p-8f, 0x1.800998p-10f, 0x1.59a638p-12f, 0x1.762f3ap-15f,
       0x1.94d60ep-18f, 0x1.ae547cp-21f, 0x1.69bb86p-24f, 0, 0, -0x1.55553ep-2f, -0x1.4e780cp-2f, -0x1.4c3cf4p-2f,
       -0x1.476cd2p-2f, -0x1.4216b8p-2f, -0x1.3b5942p-2f, -0x1.2ef2a4p-2f, -0x1.1fa8cp-2f, -0x1.10157cp-2f,
       -0x1.e8f03p-3f, -0x1.9828d4p-3f, -0x1.42c31cp-3f, -0x1.d6fd84p-4f, -0x1.bc4bc4p-5f, 0x1.d7c1eep-7f,
       0x1.07667cp-4f, 0x1.83fcdcp-4f, 0x1.c69344p-4f, 0x1.97ef14p-4f, 0x1.33c282p-4f, 0x1.a8ca3p-5f},
      {-0x1.94ea36p-7f, -0x1.51ce2cp-8f, -0x1.02cd42p-9f, -0x1.82b748p-11f, -0x1.69f2eap-13f, -0x1.884a7p-16f,
       -0x1.a881cep-19f, 0x1.31ae26p-20f, 0x1.449ceep-20f, 0, 0, 0, 0x1.84974cp-5f, 0x1.b350aap-5f, 0x1.0e0d8ap-4f,
       0x1.3efd8ap-4f, 0x1.690314p-4f, 0x1.acc4c6p-4f, 0x1.f0a0f6p-4f, 0x1.118376p-3f, 0x1.331106p-3f, 0x1.502b28p-3f,
       0x1.5c087p-3f, 0x1.585298p-3f, 0x1.39eedcp-3f, 0x1.e96e9p-4f, 0x1.46de34p-4f, 0x1.63ba1cp-5f, 0x1.d9bfc8p-9f,
       -0x1.59becap-6f, -0x1.9bb118p-6f, -0x1.55ddf2p-6f},
      {0x1.04a4b6p-8f, 0x1.f65a6p-10f, 0x1.94651ap-11f, 0x1.332428p-12f, 0x1.1fb044p-14f, 0x1.38b17ap-17f,
       0x1.52babp-20f, 0x1.01ec22p-22f, 0x1.f2978cp-24f, 0, 0, 0x1.10787p-3f, -0x1.b8028ep+0f, 0x1.625a22p+3f,
       -0x1.7b01bcp-2f, -0x1.57105ap+3f, 0x1.daf182p-1f, 0x1.10ca18p+0f, -0x1.64e988p+0f, 0x1.a2b7d2p-1f,
       0x1.4ec38cp-5f, 0x1.773fdep-5f, 0x1.8ff816p-5f, 0x1.9e465ap-9f, -0x1.3fcd8cp-5f, -0x1.0e214ap-4f,
       -0x1.e9451ap-5f, -0x1.bbf44cp-5f, -0x1.06dfe4p-5f, -0x1.3861cap-7f, 0x1.64dd9ap-10f, 0x1.2c095ep-8f},
  };
  // clang-format on
  const hn::RebindToSigned<D> di;
  // The constants are first operands, because x86 propagates only a second operand's NaN. For a NaN any entry gives
  // NaN.
  a = hn::Min(hn::Set(d, 9.1f), a);
  const auto entry = hn::ShiftRight<21>(hn::BitCast(di, hn::Max(hn::Set(d, 0x1.cp-5f), a)));
  auto number = [&](int i) HWY_ATTR {
    const hn::ScalableTag<float> one;
    const auto low = hn::Load(one, kNumbers[i]), high = hn::Load(one, kNumbers[i] + 16);
    return hn::EachVector(
        [&](auto e) HWY_ATTR { return decltype(hn::Zero(one)){_mm512_permutex2var_ps(low.raw, e.raw, high.raw)}; },
        entry);
  };
  const V t = hn::Sub(a, number(0));
  return hn::MulAdd(t, polynomial(d, t, number(2), number(3), number(4), number(5), number(6)), number(1));
}
#endif

template <class D, class V = hn::Vec<D>>
HWY_INLINE V Tanh(D d, V x) {
  if constexpr (sizeof(hn::TFromD<D>) == 8) {
    return lane_by_lane(d, x, [](double v) { return std::tanh(v); });
#if HWY_TARGET == HWY_AVX3
  } else if constexpr (hn::MaxLanes(D()) == 16) {
    return hn::CopySign(tanh_by_table(d, hn::Abs(x)), x);
#endif
  } else {
    // tanh a = 1 - 2 / (e^2a + 1), which rounds to 1 from 9.1 on.
    V a = hn::Min(hn::Set(d, 9.1f), hn::Abs(x)), n;
    V r = reduce_by_ln2(d, hn::Add(a, a), n);
    V scale = power_of_two(d, n), one = hn::Set(d, 1.0f);
    V sum = hn::MulAdd(scale, expm1_reduced(d, r), hn::Add(scale, one));
    return hn::CopySign(small_tanh_or(d, a, hn::NegMulAdd(hn::Set(d, 2.0f), quick_reciprocal(d, sum), one)), x);
  }
}

// 2^y for y in [-126, 0], error 2^-29. Adding 1.5 * 2^23 to y = n + f leaves the integer n in the low bits.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V exp2_not_positive(D d, V y) {
  const hn::RebindToSigned<D> di;
  V shifter = hn::Set(d, 0x1.8p+23f);
  V shifted = hn::Add(y, shifter);
  V f = hn::Sub(y, hn::Sub(shifted, shifter));
  V p = polynomial(d, f, hn::Set(d, 1.0f), hn::Set(d, 0x1.62e430p-1f), hn::Set(d, 0x1.ebfbdcp-3f),
                   hn::Set(d, 0x1.c6aee8p-5f), hn::Set(d, 0x1.3b2d4cp-7f), hn::Set(d, 0x1.5f3e52p-10f),
                   hn::Set(d, 0x1.41fbbcp-13f));
  return hn::BitCast(d, hn::Add(hn::BitCast(di, p), hn::ShiftLeft<23>(hn::BitCast(di, shifted))));
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V Erf(D d, V x) {
  if constexpr (sizeof(hn::TFromD<D>) == 8) {
    return lane_by_lane(d, x, [](double v) { return std::erf(v); });
  } else {
    V a = hn::Min(hn::Set(d, 3.95f), hn::Abs(x)), t = hn::Mul(a, a);  // erf rounds to 1 from 3.95 on
    // a <= 1: a + a P(a^2), error 2^-29.
    V p = polynomial(d, t, hn::Set(d, 0x1.06eba8p-3f), hn::Set(d, -0x1.81273ep-2f), hn::Set(d, 0x1.ce2cf8p-4f),
                     hn::Set(d, -0x1.b7f90ep-6f), hn::Set(d, 0x1.540590p-8f), hn::Set(d, -0x1.a3f700p-11f),
                     hn::Set(d, 0x1.496a30p-14f));
    V small = hn::MulAdd(a, p, a);
    // a > 1: 1 - 2^Q(a), error 2^-29.
    V q = polynomial(d, a, hn::Set(d, -0x1.025364p-11f), hn::Set(d, -0x1.a0448cp+0f), hn::Set(d, -0x1.d75f3ap-1f),
                     hn::Set(d, -0x1.30a4acp-3f), hn::Set(d, 0x1.021828p-5f), hn::Set(d, -0x1.16b248p-8f),
                     hn::Set(d, 0x1.19f31ap-12f));
    V large = hn::Sub(hn::Set(d, 1.0f), exp2_not_positive(d, q));
    return hn::CopySign(hn::IfThenElse(hn::Gt(a, hn::Set(d, 1.0f)), large, small), x);
  }
}

/// numerator / (1 + e) for e between 0 and 1, corrected for the rounding errors of 1 + e and of the quotient.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V over_one_plus(D d, V numerator, V e) {
  const V one = hn::Set(d, hn::TFromD<D>(1));
#if !HWY_NATIVE_FMA
  if constexpr (sizeof(hn::TFromD<D>) == 4) {  // without fma the remainder would be rounded: divide in f64
    const hn::Half<D> half;
    const hn::Rebind<double, hn::Half<D>> wide;
    auto quotient = [&](auto a, auto b) HWY_ATTR {
      return hn::DemoteTo(half, hn::Div(hn::PromoteTo(wide, a), hn::Add(hn::Set(wide, 1.0), hn::PromoteTo(wide, b))));
    };
    return hn::Combine(d, quotient(hn::UpperHalf(half, numerator), hn::UpperHalf(half, e)),
                       quotient(hn::LowerHalf(half, numerator), hn::LowerHalf(half, e)));
  }
#endif
  const V sum = hn::Add(one, e), lost = hn::Sub(e, hn::Sub(sum, one)), inverse = quick_reciprocal(d, sum);
  const V q = hn::Mul(numerator, inverse);
  const V rest = hn::NegMulAdd(q, lost, hn::NegMulAdd(q, sum, numerator));
  return hn::MulAdd(rest, inverse, q);
}
/// 1 / (1 + e^-x) from e = e^-|x|. For x < 0 it is computed as e / (1 + e), where e^-x could overflow although the
/// result is not 0.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V sigmoid_of(D d, V x, V e) {
  return over_one_plus(d, hn::IfThenElse(hn::Lt(x, hn::Zero(d)), e, hn::Set(d, hn::TFromD<D>(1))), e);
}
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Sigmoid(D d, V x) {
  return sigmoid_of(d, x, Exp(d, hn::Neg(hn::Abs(x))));
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V Silu(D d, V x) {
  return hn::Mul(x, Sigmoid(d, x));
}

#if HWY_TARGET == HWY_AVX3
// Phi(a) - 1/2 for a >= 0 by 16 polynomials, each around an integer multiple of 1 / scale; one permutation of a
// register looks up each coefficient. Error 2^-27. It needs about half the operations of the formula in GeluErf, which
// matters because gelu takes most of the time of a product's epilogue.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V half_erf_by_table(D d, V a) {
  static_assert(hn::MaxLanes(D()) == 16);
  HWY_ALIGN static constexpr float kCoefficients[6][16] = {
      {0, 0x1.29629ap-3f, 0x1.1655e4p-2f, 0x1.78e342p-2f, 0x1.ba34eep-2f, 0x1.dff3c4p-2f, 0x1.f2f80cp-2f,
       0x1.fb5270p-2f, 0x1.fe8556p-2f, 0x1.ff96bcp-2f, 0x1.ffe650p-2f, 0x1.fffa80p-2f, 0x1.fffef8p-2f, 0x1.ffffd4p-2f,
       0x1.fffffap-2f, 0x1.000000p-1f},
      {0x1.304650p-3f, 0x1.1be3b0p-3f, 0x1.cd22ecp-4f, 0x1.46058cp-4f, 0x1.914ab4p-5f, 0x1.adf908p-6f, 0x1.910a6ap-7f,
       0x1.459d1cp-8f, 0x1.cc456cp-10f, 0x1.1b2df2p-11f, 0x1.2f52f2p-13f, 0x1.1ad362p-15f, 0x1.cb1f4ep-18f,
       0x1.446560p-20f, 0x1.8f0b38p-23f, 0},
      {0, -0x1.3afa42p-7f, -0x1.ffa362p-7f, -0x1.0f4c2cp-6f, -0x1.bd3feap-7f, -0x1.2a2c5ap-7f, -0x1.4dbbb0p-8f,
       -0x1.3c1fd0p-9f, -0x1.feaed6p-11f, -0x1.61741ep-12f, -0x1.a4a1bap-14f, -0x1.af6078p-16f, -0x1.7de736p-18f,
       -0x1.2441b2p-20f, -0x1.830c1ap-23f, 0},
      {-0x1.c22080p-9f, -0x1.69b9f4p-9f, -0x1.2fbdf8p-10f, 0x1.ded402p-12f, 0x1.69d93ep-10f, 0x1.885ba8p-10f,
       0x1.282022p-10f, 0x1.5d0012p-11f, 0x1.4f3364p-12f, 0x1.0bf592p-13f, 0x1.68e85ep-15f, 0x1.9ca4bep-17f,
       0x1.9293eep-19f, 0x1.505e88p-21f, 0x1.e2b4b2p-24f, 0},
      {0, 0x1.4a9772p-12f, 0x1.cb860ap-12f, 0x1.5e2034p-12f, 0x1.0278f6p-13f, -0x1.909c9ap-15f, -0x1.e7aff6p-14f,
       -0x1.ba6bfap-14f, -0x1.15dff4p-14f, -0x1.0ebd1ap-15f, -0x1.ab690ap-17f, -0x1.176130p-18f, -0x1.325bdep-20f,
       -0x1.1c1ffcp-22f, -0x1.c04274p-25f, 0},
      {0x1.293466p-14f, 0x1.94e2dap-15f, -0x1.c991e4p-23f, -0x1.3642d2p-15f, -0x1.60ab78p-15f, -0x1.97c2aap-16f,
       -0x1.13a108p-18f, 0x1.b9ae08p-18f, 0x1.0be86ap-17f, 0x1.67345cp-18f, 0x1.5ef45cp-19f, 0x1.0dd140p-20f,
       0x1.51b17ap-22f, 0x1.5e6920p-24f, 0x1.30e7eep-26f, 0},
  };
  const hn::RebindToSigned<D> di;
  // From 5.4 on the last centre applies, whose polynomial is the constant 1/2.
  V t = hn::Min(hn::Set(d, 15.0f), hn::Mul(a, hn::Set(d, 0x1.57b426p+1f)));
  V shifter = hn::Set(d, 0x1.8p+23f), shifted = hn::Add(t, shifter);
  V f = hn::Sub(t, hn::Sub(shifted, shifter));
  const hn::ScalableTag<float> one;
  const auto centre = hn::And(hn::BitCast(di, shifted), hn::Set(di, 15));
  auto coefficient = [&](int i) HWY_ATTR {
    const auto table = hn::Load(one, kCoefficients[i]);
    return hn::EachVector(
        [&](auto index) HWY_ATTR { return hn::TableLookupLanes(table, hn::IndicesFromVec(one, index)); }, centre);
  };
  V sum = coefficient(5);
  // Not by polynomial(), whose arguments would all be in registers at once, too many of unrolled vectors.
  RLX_UNROLL
  for (int i = 4; i >= 0; --i) sum = hn::MulAdd(sum, f, coefficient(i));
  return sum;
}
#endif

/// gelu: x / 2 (1 + erf(x / sqrt 2)) = x Phi(x).
template <class D, class V = hn::Vec<D>>
HWY_INLINE V GeluErf(D d, V x) {
  using T = hn::TFromD<D>;
  if constexpr (sizeof(T) == 8) {
    return lane_by_lane(d, x, [](double v) { return v * 0.5 * std::erfc(v * -0.70710678118654752440); });
  } else {
    // Only the absolute error of Phi matters: the result is multiplied by x and added to numbers around 1. gelu of
    // -infinity is NaN, as -infinity * Phi(-infinity) is, and 0 of what is less than some -14.
#if HWY_TARGET == HWY_AVX3
    return hn::MulAdd(x, hn::CopySign(half_erf_by_table(d, hn::Abs(x)), x), hn::Mul(x, hn::Set(d, 0.5f)));
#else
    // The least Phi is 2^-126, so x is clamped; the difference is 0, but NaN where x is -infinity.
    const V below = hn::Min(x, hn::Zero(d)), undefined = hn::Sub(below, below);
    x = hn::Max(hn::Set(d, -27.0f), x);
    // Phi(-a) = 2^(a R(a) - 1) with one polynomial R for all a; the absolute error of erfc is 2^-29.
    V a = hn::Mul(hn::Abs(x), hn::Set(d, 0x1.6a09e6p-1f));
    V r = polynomial(d, hn::Min(hn::Set(d, 3.95f), a), hn::Set(d, -0x1.a0be88p+0f), hn::Set(d, -0x1.d63e26p-1f),
                     hn::Set(d, -0x1.2fbc0ep-3f), hn::Set(d, 0x1.c63ce4p-6f), hn::Set(d, 0x1.63b022p-14f),
                     hn::Set(d, -0x1.2a290ep-9f), hn::Set(d, 0x1.bcb7eap-11f), hn::Set(d, -0x1.40c9ecp-13f),
                     hn::Set(d, 0x1.856436p-17f));
    V y = hn::MulAdd(a, r, hn::Set(d, -1.0f));
    V q = exp2_not_positive(d, hn::Max(hn::Set(d, -126.0f), y));
    V phi = hn::IfThenElse(hn::Lt(x, hn::Zero(d)), q, hn::Sub(hn::Set(d, 1.0f), q));
    return hn::MulAdd(x, phi, undefined);
#endif
  }
}

/// Approximate gelu: x / 2 (1 + tanh u) = x sigmoid(2 u), u = sqrt(2 / pi) (x + 0.044715 x^3).
template <class D, class V = hn::Vec<D>>
HWY_INLINE V GeluTanh(D d, V x) {
  using T = hn::TFromD<D>;
  V c = hn::MulAdd(hn::Mul(x, x), hn::Set(d, T(2 * 0.79788456080286535588 * 0.044715)),
                   hn::Set(d, T(2 * 0.79788456080286535588)));
  return hn::Div(x, hn::Add(hn::Set(d, T(1)), Exp(d, hn::Neg(hn::Mul(c, x)))));
}

}  // namespace rlx::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
