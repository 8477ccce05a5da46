// See the header. All is written for AVX-512, which processors with matrix tiles have.
#include "kernels/quant/integer_blocks.h"

#include <algorithm>
#include <type_traits>

#include "kernels/gemm/amx/tiles.h"
#include "kernels/vector/highway_targets.h"
#include "tensor/blocks/block_bits.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/quant/integer_blocks.cpp"
#include "hwy/cache_control.h"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/quant/block_formats-inl.h"

HWY_BEFORE_NAMESPACE();
namespace rlx::kernels {
namespace HWY_NAMESPACE {
namespace {

#if HWY_TARGET == HWY_AVX3 && RLX_HAS_TILES

// The formats that block_formats-inl.h decodes in registers.
struct Q8_0Layout {
  static constexpr int64_t kElements = 32, kBytes = 34, kRun = 32;
  static constexpr bool kHasMin = false;
  template <class Block>
  static HWY_INLINE void unpack(const uint8_t* b, Block& to) {
    to.scale[0] = blocks::half_at(b);
    put(bytes_at(b + 2), to.value);
  }
};
struct Q4_0Layout {
  static constexpr int64_t kElements = 32, kBytes = 18, kRun = 32;
  static constexpr bool kHasMin = false;
  template <class Block>
  static HWY_INLINE void unpack(const uint8_t* b, Block& to) {
    to.scale[0] = blocks::half_at(b);
    split_nibbles(b + 2, to.value);
    put(hn::Sub(bytes_at(to.value), all_of(8)), to.value);
  }
};
/// See pack_super_blocks().
struct Q4KLayout {
  static constexpr int64_t kElements = 256, kBytes = 144;
};

template <class F>
HWY_INLINE void with_layout(DType format, F f) {
  switch (format) {
    case DType::q4_0: return f.template operator()<Q4_0Layout>();
    case DType::q4_1: return f.template operator()<Q4_1Layout>();
    case DType::q5_0: return f.template operator()<Q5_0Layout>();
    case DType::q5_1: return f.template operator()<Q5_1Layout>();
    case DType::q8_0: return f.template operator()<Q8_0Layout>();
    case DType::iq4_nl: return f.template operator()<Iq4NlLayout>();
    case DType::iq4_xs: return f.template operator()<Iq4XsLayout>();
    case DType::mxfp4: return f.template operator()<Mxfp4Layout>();
    case DType::q4_k: return f.template operator()<Q4KLayout>();
    case DType::q5_k: return f.template operator()<Q5KLayout>();
    case DType::tq2_0: return f.template operator()<Tq2_0Layout>();
    default: return;
  }
}

/// Of q4_k and q4_1, and of q5_k and q5_1.
template <class Layout>
constexpr int32_t kLargest = std::is_same_v<Layout, Q4KLayout> || std::is_same_v<Layout, Q4_1Layout> ? 15 : 31;

/// The zero points of a block's runs, as integers; their rests.
template <class Layout, class Block, size_t kRuns>
HWY_INLINE void separate_rests(const Block& block, int32_t (&zero_points)[kRuns], float* rests) {
  const hn::CappedTag<float, kRuns> d;
  const hn::Rebind<int32_t, decltype(d)> di;
  for (size_t run = 0; run < kRuns; run += hn::Lanes(d)) {
    const auto scale = hn::Load(d, block.scale + run), min = hn::Load(d, block.min + run);
    const auto quotient = hn::Div(min, scale);  // no number, or infinite, if the scale is 0: then any integer will do
    const auto number = hn::IfThenElseZero(hn::Le(hn::Abs(quotient), hn::Set(d, 1e9F)), quotient);
    const auto zero_point = hn::Round(hn::Clamp(number, hn::Zero(d), hn::Set(d, float{kLargest<Layout>})));
    hn::StoreU(hn::MulSub(scale, zero_point, min), d, rests + run);
    hn::Store(hn::ConvertTo(di, zero_point), di, zero_points + run);
  }
}

/// What 16 rows' blocks of q4_k or q5_k have in front of their quantized values, run by run, with a row in each lane:
/// as unpack_scales_and_mins() and separate_rests() have it for a row. `rows` begin at the blocks. Zero points of q4_k
/// are those of pack_nibbles().
template <class Layout>
HWY_INLINE void unpack_heads(const uint8_t* const (&rows)[kTileRows], float* scales, float* rests,
                             int32_t (&zero_points)[8][kTileRows]) {
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
    const __m512 scale = _mm512_mul_ps(number(scales_of), d), min = _mm512_mul_ps(number(mins_of), d_min);
    // No number, or infinite, if the scale is 0: then any integer will do.
    const __m512 near = _mm512_rcp14_ps(scale);
    const __m512 inverse = _mm512_fnmadd_ps(_mm512_fmsub_ps(scale, near, _mm512_set1_ps(1)), near, near);
    const __m512 quotient = _mm512_mul_ps(min, inverse);
    const __mmask16 is_some = _mm512_cmp_ps_mask(_mm512_abs_ps(quotient), _mm512_set1_ps(1e9F), _CMP_LE_OQ);
    const __m512 zero_point = _mm512_roundscale_ps(
        _mm512_min_ps(_mm512_maskz_max_ps(is_some, quotient, _mm512_setzero_ps()), _mm512_set1_ps(kLargest<Layout>)),
        0);
    _mm512_storeu_ps(scales + run * kTiledColumns, scale);
    _mm512_storeu_ps(rests + run * kTileRows, _mm512_fmsub_ps(scale, zero_point, min));
    __m512i integer = _mm512_cvtps_epi32(zero_point);
    if constexpr (std::is_same_v<Layout, Q4KLayout>) {
      integer = _mm512_sub_epi32(_mm512_set1_epi32(15), integer);
      integer = _mm512_or_epi32(integer, _mm512_slli_epi32(integer, 16));
    }
    _mm512_store_si512(zero_points[run], integer);
  }
}

/// 32 bytes of q4_k: the low nibbles are a step, the high ones the next. `terms` are the integers -15 to 16; `offset`
/// is 15 - zero point, in both halves.
HWY_INLINE void pack_nibbles(const uint8_t* from, int32_t offset, int32_t next_offset, __m512i terms, char* to) {
  const auto store = [&](__m512i q, int32_t both_halves, char* at) HWY_ATTR {
    _mm512_store_si512(at, _mm512_permutexvar_epi16(_mm512_add_epi16(q, _mm512_set1_epi32(both_halves)), terms));
  };
  const __m512i both = _mm512_cvtepu8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
  store(_mm512_and_si512(both, _mm512_set1_epi16(15)), offset, to);
  store(_mm512_srli_epi16(both, 4), next_offset, to + kTileBytes);
}
/// The upper words of 32 floats, which are those of integers.
HWY_INLINE __m512i terms_of(__m512i first, __m512i second) {
  const __m512i lanes = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
  const __m512i odd =  // 1, 3, 5 ...
      _mm512_add_epi32(_mm512_mullo_epi32(lanes, _mm512_set1_epi32(0x00040004)), _mm512_set1_epi32(0x00030001));
  return _mm512_permutex2var_epi16(_mm512_castps_si512(_mm512_cvtepi32_ps(first)), odd,
                                   _mm512_castps_si512(_mm512_cvtepi32_ps(second)));
}

/// 32 values less their zero point.
template <bool kHasZeroPoint>
HWY_INLINE void pack_values(const uint8_t* values, int32_t zero_point, char* to) {
  const auto integers = [&](int64_t half) HWY_ATTR {
    const __m512i q = _mm512_cvtepi8_epi32(_mm_load_si128(reinterpret_cast<const __m128i*>(values + half * 16)));
    return kHasZeroPoint ? _mm512_sub_epi32(q, _mm512_set1_epi32(zero_point)) : q;
  };
  _mm512_store_si512(to, terms_of(integers(0), integers(1)));
}
template <class Layout>
HWY_INLINE void prefetch_block(const uint8_t* b) {
  RLX_UNROLL for (int64_t byte = 0; byte < Layout::kBytes; byte += 64) hwy::Prefetch(b + byte);
}

/// Row by row.
template <class Layout>
HWY_INLINE void pack_layout(const uint8_t* from, int64_t row_bytes, int64_t rows, int64_t steps,
                            const PackedIntegers& to) {
  constexpr int64_t kRuns = Layout::kElements / Layout::kRun, kSteps = Layout::kElements / kTileFloats;
  static_assert(!Layout::kHasMin || (kRuns == 1 && kSteps == 1));
  for (int64_t i = 0; i < rows; ++i) {
    const uint8_t* b = from + i * row_bytes;
    for (int64_t step = 0; step < steps; step += kSteps, b += Layout::kBytes) {
      prefetch_block<Layout>(b + kTileRows * row_bytes);
      typename Unpacked<Layout>::Block block;
      Layout::unpack(b, block);
      HWY_ALIGN int32_t zero_point[1] = {};
      if constexpr (Layout::kHasMin) separate_rests<Layout>(block, zero_point, to.rests + step * kTileRows + i);
      RLX_UNROLL for (int64_t s = 0; s < kSteps; ++s) {
        pack_values<Layout::kHasMin>(block.value + s * kTileFloats, zero_point[0],
                                     to.tiles + (step + s) * kTileBytes + i * 64);
        to.scales[(step + s) * kTiledColumns + i] = block.scale[s * kTileFloats / Layout::kRun];
      }
    }
  }
}
/// q4_k and q5_k: what all rows have in front of a block, then the values.
template <class Layout>
HWY_INLINE void pack_super_blocks(const uint8_t* from, int64_t row_bytes, int64_t rows, int64_t steps,
                                  const PackedIntegers& to) {
  constexpr int64_t kSteps = Layout::kElements / kTileFloats;
  const __m512i first_integers = _mm512_set_epi32(0, -1, -2, -3, -4, -5, -6, -7, -8, -9, -10, -11, -12, -13, -14, -15);
  const __m512i small = terms_of(first_integers, _mm512_add_epi32(first_integers, _mm512_set1_epi32(16)));
  for (int64_t step = 0; step < steps; step += kSteps, from += Layout::kBytes) {
    const uint8_t* all[kTileRows];
    for (int64_t i = 0; i < kTileRows; ++i) all[i] = from + std::min(i, rows - 1) * row_bytes;
    HWY_ALIGN int32_t zero_points[kSteps][kTileRows];
    unpack_heads<Layout>(all, to.scales + step * kTiledColumns, to.rests + step * kTileRows, zero_points);
    for (int64_t i = 0; i < rows; ++i) {
      const uint8_t* const b = all[i];
      prefetch_block<Layout>(b + kTileRows * row_bytes);
      char* const tiles = to.tiles + step * kTileBytes + i * 64;
      if constexpr (std::is_same_v<Layout, Q4KLayout>) {
        RLX_UNROLL for (int64_t s = 0; s < kSteps; s += 2)
            pack_nibbles(b + 16 + 16 * s, zero_points[s][i], zero_points[s + 1][i], small, tiles + s * kTileBytes);
      } else {
        typename Unpacked<Layout>::Block block;
        Layout::unpack(b, block);
        RLX_UNROLL for (int64_t s = 0; s < kSteps; ++s)
            pack_values<true>(block.value + s * kTileFloats, zero_points[s][i], tiles + s * kTileBytes);
      }
    }
  }
}

bool pack_integers(DType format, const std::byte* from, int64_t row_bytes, int64_t rows, int64_t steps,
                   const PackedIntegers& to) {
  for (int64_t i = rows; i < kTileRows; ++i)
    for (int64_t step = 0; step < steps; ++step) {
      _mm512_store_si512(to.tiles + step * kTileBytes + i * 64, _mm512_setzero_si512());
      to.scales[step * kTiledColumns + i] = 0;
      if (to.rests) to.rests[step * kTileRows + i] = 0;
    }
  with_layout(format, [&]<class Layout>() HWY_ATTR {
    const auto* const blocks = reinterpret_cast<const uint8_t*>(from);
    if constexpr (std::is_same_v<Layout, Q4KLayout> || std::is_same_v<Layout, Q5KLayout>) {
      if (rows > 0) pack_super_blocks<Layout>(blocks, row_bytes, rows, steps, to);
    } else {
      pack_layout<Layout>(blocks, row_bytes, rows, steps, to);
    }
  });
  __mmask16 odd = 0;
  for (int64_t step = 0; step < steps; ++step) {
    const __m512 size = _mm512_abs_ps(_mm512_loadu_ps(to.scales + step * kTiledColumns));
    const __mmask16 small = _mm512_cmp_ps_mask(size, _mm512_set1_ps(0x1p-60F), _CMP_LT_OQ);
    odd |= _mm512_mask_cmp_ps_mask(small, size, _mm512_setzero_ps(), _CMP_NEQ_OQ);
    odd |= _mm512_cmp_ps_mask(size, _mm512_set1_ps(0x1p60F), _CMP_NLE_UQ);
  }
  return odd == 0;
}

void sum_runs(const float* x, int64_t runs, float* to) {
  const hn::ScalableTag<float> d;
  for (int64_t i = 0; i < runs; ++i, x += kTileFloats)
    to[i] = hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::LoadU(d, x), hn::LoadU(d, x + kTileRows))));
}

#else  // never called: there are no tiles

bool pack_integers(DType, const std::byte*, int64_t, int64_t, int64_t, const PackedIntegers&) { return false; }
void sum_runs(const float*, int64_t, float*) {}

#endif

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace rlx::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rlx::kernels {

HWY_EXPORT(pack_integers);
HWY_EXPORT(sum_runs);

bool has_integers(DType format) {
  switch (format) {
    case DType::q4_0:
    case DType::q4_1:
    case DType::q5_0:
    case DType::q5_1:
    case DType::q8_0:
    case DType::iq4_nl:
    case DType::iq4_xs:
    case DType::mxfp4:
    case DType::q4_k:
    case DType::q5_k:
    case DType::tq2_0: return true;
    default: return false;
  }
}
bool has_rests(DType format) { return format == q4_1 || format == q5_1 || format == q4_k || format == q5_k; }

bool pack_integers(DType format, const std::byte* from, int64_t row_bytes, int64_t rows, int64_t steps,
                   const PackedIntegers& to) noexcept {
  return HWY_DYNAMIC_DISPATCH(pack_integers)(format, from, row_bytes, rows, steps, to);
}
void sum_runs(const float* x, int64_t runs, float* to) noexcept { HWY_DYNAMIC_DISPATCH(sum_runs)(x, runs, to); }

}  // namespace rlx::kernels
#endif  // HWY_ONCE
