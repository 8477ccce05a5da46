// What the formats with minima, q4_k and q5_k, have in front of a block's quantized values, for 16 rows at once: a row
// in each lane. For products by matrix tiles (integer_blocks.cpp, digit_blocks.cpp), which multiply integers.
#if defined(RLX_SUPER_BLOCKS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef RLX_SUPER_BLOCKS_INL_H
#undef RLX_SUPER_BLOCKS_INL_H
#else
#define RLX_SUPER_BLOCKS_INL_H
#endif

#include "hwy/highway.h"
#include "kernels/gemm/amx/tiles.h"

#if HWY_TARGET == HWY_AVX3 && RLX_HAS_TILES
HWY_BEFORE_NAMESPACE();
namespace rlx::kernels {
namespace HWY_NAMESPACE {
namespace {

/// An element is scale * q - min. With the integer that is nearest to min / scale it is scale * (q - zero_point) +
/// rest: a product with integers, and a rest of at most half the scale. The zero point is in [0, `largest`], `largest`
/// being the largest q: where min / scale lies outside, or the scale is 0, the rest is as large as it has to be.
struct RunOfRows {
  __m512 scale, zero_point, rest;
};
/// The eight runs of 32 elements. `rows` begin at the blocks.
HWY_INLINE void read_heads(const uint8_t* const (&rows)[kTileRows], int32_t largest, RunOfRows (&to)[8]) {
  __m512i four[4];  // rows 4 i + m in the 16 bytes i
  RLX_UNROLL for (int m = 0; m < 4; ++m) {
    const auto row = [&](int i) HWY_ATTR { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(rows[4 * i + m])); };
    four[m] = _mm512_inserti32x4(_mm512_castsi128_si512(row(0)), row(1), 1);
    four[m] = _mm512_inserti32x4(_mm512_inserti32x4(four[m], row(2), 2), row(3), 3);
  }
  const __m512i low01 = _mm512_unpacklo_epi32(four[0], four[1]), low23 = _mm512_unpacklo_epi32(four[2], four[3]);
  const __m512i high01 = _mm512_unpackhi_epi32(four[0], four[1]), high23 = _mm512_unpackhi_epi32(four[2], four[3]);
  const __m512i halves = _mm512_unpacklo_epi64(low01, low23), w0 = _mm512_unpackhi_epi64(low01, low23),
                w1 = _mm512_unpacklo_epi64(high01, high23), w2 = _mm512_unpackhi_epi64(high01, high23);
  const __m512 d = _mm512_cvtph_ps(_mm512_cvtepi32_epi16(halves)),
               d_min = _mm512_cvtph_ps(_mm512_cvtepi32_epi16(_mm512_srli_epi32(halves, 16)));
  // Six bits each, as unpack_six_bits() has them.
  const auto bits = [](__m512i v, int mask) HWY_ATTR { return _mm512_and_epi32(v, _mm512_set1_epi32(mask)); };
  const auto upper = [&](__m512i fours, __m512i w) HWY_ATTR {
    return _mm512_or_epi32(bits(fours, 0x0f0f0f0f), bits(_mm512_srli_epi32(w, 2), 0x30303030));
  };
  const __m512i scales_of[] = {bits(w0, 0x3f3f3f3f), upper(w2, w0)};
  const __m512i mins_of[] = {bits(w1, 0x3f3f3f3f), upper(_mm512_srli_epi32(w2, 4), w1)};
  RLX_UNROLL for (int run = 0; run < 8; ++run) {
    const auto number = [&](const __m512i(&words)[2]) HWY_ATTR {
      return _mm512_cvtepi32_ps(bits(_mm512_srli_epi32(words[run / 4], 8 * (run % 4)), 255));
    };
    RunOfRows& r = to[run];
    r.scale = _mm512_mul_ps(number(scales_of), d);
    const __m512 min = _mm512_mul_ps(number(mins_of), d_min);
    // A scale of 0 gives infinity or NaN, which are clamped too. 14 bits suffice: `rest` makes any integer right.
    const __m512 quotient = _mm512_mul_ps(min, _mm512_rcp14_ps(r.scale));
    r.zero_point = _mm512_roundscale_ps(
        _mm512_min_ps(_mm512_max_ps(quotient, _mm512_setzero_ps()), _mm512_set1_ps(static_cast<float>(largest))), 0);
    r.rest = _mm512_fmsub_ps(r.scale, r.zero_point, min);
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace rlx::kernels
HWY_AFTER_NAMESPACE();
#endif

#endif  // per-target include guard
