// See the header. All is written for AVX-512, which processors with matrix tiles have.
#include "kernels/quant/integer_blocks.h"

#include <algorithm>
#include <cmath>
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
#include "kernels/quant/super_blocks-inl.h"

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

/// The zero point of a block of one run; its rest. See RunOfRows.
template <class Layout>
HWY_INLINE int32_t separate_rest(float scale, float min, float* rest) {
  const float quotient = min / scale;  // no number, or infinite, if the scale is 0: then any integer will do
  const float number = std::abs(quotient) <= 1e9F ? quotient : 0;
  const float zero_point = std::nearbyint(std::clamp(number, 0.0F, float{kLargest<Layout>}));
  *rest = std::fma(scale, zero_point, -min);
  return static_cast<int32_t>(zero_point);
}

/// What 16 rows' blocks of q4_k or q5_k have in front of their quantized values, run by run, with a row in each lane.
/// Zero points of q4_k are those of pack_nibbles().
template <class Layout>
HWY_INLINE void unpack_heads(const uint8_t* const (&rows)[kTileRows], float* scales, float* rests,
                             int32_t (&zero_points)[8][kTileRows]) {
  RunOfRows runs[8];
  read_heads(rows, kLargest<Layout>, runs);
  RLX_UNROLL for (int run = 0; run < 8; ++run) {
    _mm512_storeu_ps(scales + run * kTiledColumns, runs[run].scale);
    _mm512_storeu_ps(rests + run * kTileRows, runs[run].rest);
    __m512i integer = _mm512_cvtps_epi32(runs[run].zero_point);
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
      int32_t zero_point = 0;
      if constexpr (Layout::kHasMin)
        zero_point = separate_rest<Layout>(block.scale[0], block.min[0], to.rests + step * kTileRows + i);
      RLX_UNROLL for (int64_t s = 0; s < kSteps; ++s) {
        pack_values<Layout::kHasMin>(block.value + s * kTileFloats, zero_point,
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
        HWY_ALIGN uint8_t values[Layout::kElements];
        Layout::unpack_values(b, values);
        RLX_UNROLL for (int64_t s = 0; s < kSteps; ++s)
            pack_values<true>(values + s * kTileFloats, zero_points[s][i], tiles + s * kTileBytes);
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
