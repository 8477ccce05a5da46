// Elementary functions on vectors of f32 beyond those of vector_math-inl.h, for the element-wise machine, softmax and
// attention. Compiled per target. Polynomials are minimax fits of the relative error (Lawson's iteration on Chebyshev
// nodes, in 40 digits). A bare number such as 1.2e-7 in a comment is the function's largest relative error.
#if defined(RLX_KERNELS_VECTOR_ELEMENTARY_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RLX_KERNELS_VECTOR_ELEMENTARY_INL_H_
#undef RLX_KERNELS_VECTOR_ELEMENTARY_INL_H_
#else
#define RLX_KERNELS_VECTOR_ELEMENTARY_INL_H_
#endif

#include <cstdint>
#include <limits>

#include "hwy/highway.h"
#include "kernels/vector/vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace rlx::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// c0 + c1 x + c2 x^2 ... by Horner's rule.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V horner(D d, V, float c0) {
  return hn::Set(d, c0);
}
template <class D, class V = hn::Vec<D>, class... C>
HWY_INLINE V horner(D d, V x, float c0, float c1, C... rest) {
  V higher = horner(d, x, c1, rest...);
  hn::Between(d, higher);
  return hn::MulAdd(higher, x, hn::Set(d, c0));
}

/// v * 2^n for integral floats n in [-252, 254], rounded once if the result is subnormal.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V ScaleByPowerOfTwo(D d, V v, V n) {
#if HWY_TARGET == HWY_AVX3
  (void)d;
  return hn::EachVector([](auto x, auto e) HWY_ATTR { return decltype(x){_mm512_scalef_ps(x.raw, e.raw)}; }, v, n);
#else
  const V half = hn::Floor(hn::Mul(n, hn::Set(d, 0.5f)));
  return hn::Mul(hn::Mul(v, power_of_two(d, half)), power_of_two(d, hn::Sub(n, half)));
#endif
}

/// `x`, or `least` where it is less, for scaled_down(); AVX-512 leaves x as it is, as a mask keeps what follows from
/// such an x out of the result.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V not_below(D d, V least, V x) {
  (void)d, (void)least;
#if HWY_TARGET == HWY_AVX3
  return x;
#else
  return hn::Max(least, x);  // `least` is first, because x86 propagates only a second operand's NaN
#endif
}
/// p * 2^n for p in [0.7, 1.5], or that times a power of two, and the integer n = shifted - exponent_magic(d), in
/// [-151, 0]. It is rounded once, if it is subnormal. Where x is not above `least` the result is 0, which takes no
/// multiplication by a power: processors that trap on subnormal results would be slow for every masked key.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V scaled_down(D d, V x, V least, V p, V shifted, V n) {
#if HWY_TARGET == HWY_AVX3
  (void)d, (void)shifted;
  const __mmask16 is_more = _mm512_cmp_ps_mask(x.raw, least.raw, _CMP_NLE_UQ);  // true for NaN
  return V{_mm512_maskz_scalef_ps(is_more, p.raw, n.raw)};
#else
  (void)n;
  const hn::RebindToSigned<D> di;
  const V power = hn::BitCast(d, hn::ShiftLeft<23>(hn::BitCast(di, shifted)));
  return hn::Mul(hn::Mul(hn::IfThenZeroElse(hn::Eq(x, least), p), power), hn::Set(d, 0x1p-64f));
#endif
}
/// Adding this number (1.5 * 2^23 and more) rounds to an integer. The low bits then hold the integer plus the
/// exponent's bias of 127 and 64 more.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V exponent_magic(D d) {
  return hn::Set(d, 12582912.0f + 127.0f + 64.0f);
}

/// 2^(x + kShift) for x <= 0, also for -infinity. For the weights of softmax. 1.2e-7, and below 2^-126 to the nearest
/// subnormal number. For x below -150.5 the result is 0, whatever kShift is.
template <int kShift = 0, class D, class V = hn::Vec<D>>
HWY_INLINE V Exp2Nonpositive(D d, V x) {
  static_assert(kShift >= 0 && kShift < 64);
  constexpr auto kScale = static_cast<float>(uint64_t{1} << kShift);
  const V least = hn::Set(d, -151.0f);  // 2^-150 is rounded to 0
  x = not_below(d, least, x);
  const V magic = exponent_magic(d), shifted = hn::Add(x, magic), n = hn::Sub(shifted, magic), r = hn::Sub(x, n);
  const V p = horner(d, r, kScale, kScale * 0.693146977738f, kScale * 0.240222422176f, kScale * 0.0555073348446f,
                     kScale * 0.00967150644708f, kScale * 0.00132648171459f);
  return scaled_down(d, x, least, p, shifted, n);
}

/// The base b of powers b^x: log2(b) as the sum of two f32 numbers, and an x for which b^x is rounded to 0.
struct Base {
  float log2, rest, least;
  static Base of_log2(double log2) {
    const auto nearest = static_cast<float>(log2);
    return {nearest, static_cast<float>(log2 - static_cast<double>(nearest)), -151.0f / nearest};
  }
};
/// b^x for x <= 0, also for -infinity, and b > 1. 1.2e-7, and below 2^-126 to the nearest subnormal number. Without
/// fused multiply-add x log2(b) is rounded, which loses up to 4e-6.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V PowerNonpositive(D d, const Base& base, V x) {
  const V least = hn::Set(d, base.least), log2 = hn::Set(d, base.log2);
  x = not_below(d, least, x);
  const V magic = exponent_magic(d), shifted = hn::MulAdd(x, log2, magic), n = hn::Sub(shifted, magic);
  const V r = hn::MulAdd(x, hn::Set(d, base.rest), hn::MulSub(x, log2, n));
  const V p =
      horner(d, r, 1.0f, 0.693146977738f, 0.240222422176f, 0.0555073348446f, 0.00967150644708f, 0.00132648171459f);
  return scaled_down(d, x, least, p, shifted, n);
}

/// e^x for x <= 0, also for -infinity. 1.2e-7, and below 2^-126 to the nearest subnormal number.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V ExpNonpositive(D d, V x) {
  const V least = hn::Set(d, -104.5f);  // e^-104 is rounded to 0
  x = not_below(d, least, x);
  const V magic = exponent_magic(d), log2e = hn::Set(d, 0x1.715476p+0f);
  const V shifted = hn::MulAdd(x, log2e, magic), n = hn::Sub(shifted, magic);
#if HWY_NATIVE_FMA
  V r = hn::MulSub(x, log2e, n);
  r = hn::MulAdd(x, hn::Set(d, 0x1.4ae0c0p-26f), r);  // log2(e) minus its f32 value
#else
  // The product with log2(e) would be rounded: n ln 2 is subtracted first, in two parts, the first of them exactly.
  V r = hn::Sub(hn::Sub(x, hn::Mul(n, hn::Set(d, 0.693359375f))), hn::Mul(n, hn::Set(d, -2.12194440e-4f)));
  r = hn::Mul(r, log2e);
#endif
  const V p =
      horner(d, r, 1.0f, 0.693146977738f, 0.240222422176f, 0.0555073348446f, 0.00967150644708f, 0.00132648171459f);
  return scaled_down(d, x, least, p, shifted, n);
}

/// Returns m and sets the integer n of e^x = m 2^n, for |x| <= 125.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V exp_mantissa(D d, V x, V& n) {
  const V magic = hn::Set(d, 12582912.0f);
  n = hn::Sub(hn::MulAdd(x, hn::Set(d, 0x1.715476p+0f), magic), magic);
  V r = hn::NegMulAdd(n, hn::Set(d, 0.693359375f), x);
  r = hn::NegMulAdd(n, hn::Set(d, -2.12194440e-4f), r);
  return exp_reduced(d, r);
}

/// e^x over the whole range, like Exp, for loops that compute nothing else: n is found without a rounding instruction,
/// and the scaling by 2^n is one instruction on AVX-512.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V ExpFast(D d, V x) {
  V n;
  const V m = exp_mantissa(d, hn::Min(hn::Set(d, 89.0f), hn::Max(hn::Set(d, -105.0f), x)), n);
  return ScaleByPowerOfTwo(d, m, n);
}

/// gelu(x) = x Phi(x), computed as max(x, 0) - |x| Phi(-|x|) with Phi(-a) = 2^(a R(a) - 1), R a polynomial: no division
/// and no cancellation. The absolute error of a Phi(-a) is 7.4e-9 before rounding; of a from 6.5 on it is taken for 0,
/// which is 2.6e-10 off at most.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V GeluErfFast(D d, V x) {
  const hn::RebindToSigned<D> di;
  const V magnitude = hn::Abs(x), most = hn::Set(d, 6.5f), a = hn::Min(most, magnitude);
  const V r = horner(d, a, -1.151109667f, -0.4591750484f, -0.05258267968f, 0.007166888838f, -0.0001950411412f,
                     -0.0001755814088f, 4.262167999e-5f, -4.460883658e-6f, 1.84448068e-7f);
  // Adding 1.5 * 2^23 - 1 rounds a R(a) to an integer, and leaves that less 1 in the low bits.
  const V magic = hn::Set(d, 12582911.0f);
  const V shifted = hn::MulAdd(a, r, magic);
  const V f = hn::MulSub(a, r, hn::Sub(shifted, magic));
  const V p =
      horner(d, f, 1.0f, 0.693146977738f, 0.240222422176f, 0.0555073348446f, 0.00967150644708f, 0.00132648171459f);
  const V q = hn::BitCast(d, hn::Add(hn::BitCast(di, p), hn::ShiftLeft<23>(hn::BitCast(di, shifted))));
  // max(x, 0) as x - min(x, 0), which is NaN where x is -infinity, as -infinity * Phi(-infinity) is.
  return hn::NegMulAdd(hn::IfThenElseZero(hn::Lt(magnitude, most), a), q, hn::Sub(x, hn::Min(x, hn::Zero(d))));
}
/// tanh a = 1 - 2 / (e^2a + 1), like Tanh, but without a rounding instruction.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V TanhFast(D d, V x) {
#if HWY_TARGET == HWY_AVX3
  return Tanh(d, x);
#else
  const hn::RebindToSigned<D> di;
  const V a = hn::Min(hn::Set(d, 9.1f), hn::Abs(x));  // tanh rounds to 1 from 9.1 on
  const V magic = hn::Set(d, 12582912.0f + 127.0f);
  const V shifted = hn::MulAdd(a, hn::Set(d, 2.88539008f), magic);
  const V n = hn::Sub(shifted, magic);
  V r = hn::NegMulAdd(n, hn::Set(d, 0.693359375f), hn::Add(a, a));
  r = hn::NegMulAdd(n, hn::Set(d, -2.12194440e-4f), r);
  const V power = hn::BitCast(d, hn::ShiftLeft<23>(hn::BitCast(di, shifted)));
  const V one = hn::Set(d, 1.0f), sum = hn::MulAdd(power, expm1_reduced(d, r), hn::Add(power, one));
  return hn::CopySign(small_tanh_or(d, a, hn::NegMulAdd(hn::Set(d, 2.0f), quick_reciprocal(d, sum), one)), x);
#endif
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V Expm1(D d, V x) {
  const V clamped = hn::Min(hn::Set(d, 89.0f), hn::Max(hn::Set(d, -30.0f), x));
  V n;
  const V r = reduce_by_ln2(d, clamped, n);
  const V e = expm1_reduced(d, r);
  // 2^n e + (2^n - 1), computed with 2^(n - 1) and doubled at the end, because 2^128 is not an f32.
  const V half = power_of_two(d, hn::Sub(n, hn::Set(d, 1.0f)));
  const V sum = hn::MulAdd(e, half, hn::Sub(half, hn::Set(d, 0.5f)));
  return hn::IfThenElse(hn::Eq(n, hn::Zero(d)), hn::IfThenElse(hn::Eq(x, hn::Zero(d)), x, e), hn::Add(sum, sum));
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V Log1p(D d, V x) {
  // log(u) x / (u - 1) for u = 1 + x rounded: the factor corrects the rounding error of u (Kahan, in Goldberg 1991,
  // theorem 4).
  const V u = hn::Add(x, hn::Set(d, 1.0f));
  const V kept = hn::Sub(u, hn::Set(d, 1.0f));
  const auto is_tiny = hn::Eq(kept, hn::Zero(d));
  const auto is_exact = hn::Or(hn::Eq(kept, x), hn::Eq(x, hn::Set(d, std::numeric_limits<float>::infinity())));
  const V y = Log(d, u);
  return hn::IfThenElse(is_tiny, x, hn::IfThenElse(is_exact, y, hn::Mul(y, hn::Div(x, kept))));
}

/// SinCos is accurate for |x| up to this; for larger arguments the caller has to use libm.
inline constexpr float kTrigLimit = 8192.0f;

template <class V>
struct SinCosResult {
  V sin, cos;
};
template <class D, class V = hn::Vec<D>>
HWY_INLINE SinCosResult<V> SinCos(D d, V x) {
  const hn::RebindToSigned<D> di;
  // Adding 1.5 * 2^23 rounds to an integer, which is then in the low bits, and never gives -0 (so sin -0 stays -0).
  const V magic = hn::Set(d, 12582912.0f);
  const V shifted = hn::MulAdd(x, hn::Set(d, 0.636619772f), magic);
  const V n = hn::Sub(shifted, magic);
  // pi/2 as a sum of three terms of at most 11 bits and a fourth (Cody and Waite): n times one of the three is exact
  // for |n| <= 2^13, even on SSE4, whose multiply-add rounds twice.
  V r = hn::NegMulAdd(n, hn::Set(d, 0x1.92p+0f), x);
  r = hn::NegMulAdd(n, hn::Set(d, 0x1.fb4p-12f), r);
  r = hn::NegMulAdd(n, hn::Set(d, 0x1.444p-24f), r);
  r = hn::NegMulAdd(n, hn::Set(d, 0x1.68c234p-39f), r);
  const V z = hn::Mul(r, r);
  // sin r = r + r z p(z), 3.6e-9; cos r = 1 - z/2 + z^2 q(z), 9.6e-11
  const V p = horner(d, z, -0.166666549103f, 0.00833217597442f, -0.000195169955985f);
  const V q = horner(d, z, 0.0416666468135f, -0.00138873646709f, 2.44381063954e-5f);
  const V s = hn::CopySign(hn::MulAdd(hn::Mul(p, z), r, r), r);  // the sum of -0 and 0 is 0
  const V c = hn::MulAdd(hn::Mul(z, z), q, hn::NegMulAdd(z, hn::Set(d, 0.5f), hn::Set(d, 1.0f)));
  const auto quadrant = hn::BitCast(di, shifted);
  const auto one = hn::Set(di, 1);
  const auto swap = hn::RebindMask(d, hn::Eq(hn::And(quadrant, one), one));
  const V sin_sign = hn::BitCast(d, hn::ShiftLeft<30>(hn::And(quadrant, hn::Set(di, 2))));
  const V cos_sign = hn::BitCast(d, hn::ShiftLeft<30>(hn::And(hn::Add(quadrant, one), hn::Set(di, 2))));
  return {hn::Xor(hn::IfThenElse(swap, c, s), sin_sign), hn::Xor(hn::IfThenElse(swap, s, c), cos_sign)};
}

/// ln gamma(x) for x >= 0. Below 8, gamma(y + 1) = y gamma(y) moves the argument into [1, 2), and the logarithm of the
/// product of these y is added; from 8 on it is Stirling's series. The relative error stays small near the zeros at 1
/// and 2; near the zeros at negative x (see Lgamma) only the absolute error does.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V LgammaPositive(D d, V x) {
  const V one = hn::Set(d, 1.0f), two = hn::Set(d, 2.0f), bound = hn::Set(d, 8.0f);
  const auto large = hn::Ge(x, bound);
  V result = x;
  if (!hn::AllTrue(d, large)) {
    const auto below_one = hn::Lt(x, one);
    V y = hn::IfThenElse(large, two, x), product = one;
    for (int step = 0; step < 6; ++step) {
      const V next = hn::Sub(y, one);
      const auto moves = hn::Ge(next, one);
      if (hn::AllFalse(d, moves)) break;
      product = hn::IfThenElse(moves, hn::Mul(product, next), product);
      y = hn::IfThenElse(moves, next, y);
    }
    const V from_one = hn::IfThenElse(below_one, x, hn::Sub(y, one));
    const V from_two = hn::IfThenElse(below_one, hn::Sub(x, one), hn::Sub(y, two));
    const V log = Log(d, hn::IfThenElse(below_one, x, product));
    // lgamma(y) / ((y - 1) (y - 2)) in 2 y - 3, y in [1, 2].
    const V p =
        horner(d, hn::MulSub(two, from_one, one), 0.483128950495983f, -0.0729799510504546f, 0.015727853479238753f,
               -0.00391349979280726f, 0.0010497816773023122f, -0.0002948871806554151f, 8.525577522215422e-05f,
               -2.434717637839731e-05f, 7.22187185157695e-06f, -2.9794039552436527e-06f, 9.36653023804758e-07f);
    result = hn::MulAdd(hn::Mul(from_one, from_two), p, hn::IfThenElse(below_one, hn::Neg(log), log));
  }
  if (!hn::AllFalse(d, large)) {
    const V z = hn::IfThenElse(hn::Lt(x, bound), bound, x), inverse = hn::Div(one, z);  // a NaN stays a NaN
    const V series = horner(d, hn::Mul(inverse, inverse), 0x1.555556p-4f, -0x1.6c16c2p-9f, 0x1.a01a02p-11f);
    // ln(2 pi) / 2 - 1/2
    const V stirling = hn::MulAdd(hn::Sub(z, hn::Set(d, 0.5f)), hn::Sub(Log(d, z), one),
                                  hn::MulAdd(series, inverse, hn::Set(d, 0.418938533f)));
    result = hn::IfThenElse(large, stirling, result);
  }
  return result;
}

/// ln |gamma(x)|; infinite at 0, -1, -2 ... and at both infinities. For x < 0 it uses the reflection formula
/// gamma(x) gamma(1 - x) = pi / sin(pi x).
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Lgamma(D d, V x) {
  const auto negative = hn::Lt(x, hn::Zero(d));
  if (HWY_LIKELY(hn::AllFalse(d, negative))) return LgammaPositive(d, x);
  const V positive = LgammaPositive(d, hn::IfThenElse(negative, hn::Sub(hn::Set(d, 1.0f), x), x));
  // x minus the nearest integer, exact. Floats of magnitude 2^23 or more are integers.
  const V fraction = hn::IfThenElseZero(hn::Gt(x, hn::Set(d, -8388608.0f)), hn::Sub(x, hn::Round(x)));
  // The sine of a subnormal number would have few bits. For tiny fractions sin(pi f) = pi f is scaled by 2^64, and
  // 64 ln 2 is subtracted from the logarithm.
  const V angle = hn::Mul(fraction, hn::Set(d, 3.14159265f));
  const auto tiny = hn::Lt(hn::Abs(fraction), hn::Set(d, 0x1p-40f));
  const V sine = hn::IfThenElse(tiny, hn::Mul(hn::Mul(fraction, hn::Set(d, 0x1p+64f)), hn::Set(d, 3.14159265f)),
                                SinCos(d, angle).sin);
  const V log = hn::Sub(Log(d, hn::Abs(sine)), hn::IfThenElseZero(tiny, hn::Set(d, 44.3614195f)));
  const V reflected = hn::Sub(hn::Sub(hn::Set(d, 1.14472989f), log), positive);
  // Below -2^23 there are only poles, and `positive` may be infinite too.
  const auto far = hn::Lt(x, hn::Set(d, -8388608.0f));
  return hn::IfThenElse(far, hn::Inf(d), hn::IfThenElse(negative, reflected, positive));
}

}  // namespace HWY_NAMESPACE
}  // namespace rlx::kernels
HWY_AFTER_NAMESPACE();

#endif  // RLX_KERNELS_VECTOR_ELEMENTARY_INL_H_
