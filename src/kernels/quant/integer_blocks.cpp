// See the header. All is written for AVX-512, which processors with matrix tiles have.
#include "kernels/quant/integer_blocks.h"

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
/// Its values stay nibbles: pack_nibbles().
struct Q4KLayout {
  static constexpr int64_t kElements = 256, kBytes = 144, kRun = 32;
  static constexpr bool kHasMin = true;
  template <class Block>
  static HWY_INLINE void unpack(const uint8_t* b, Block& to) {
    unpack_scales_and_mins(b, to.scale, to.min);
  }
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

/// 32 bytes of q4_k: the low nibbles are a step, the high ones the next. `terms` are the integers -15 to 16.
HWY_INLINE void pack_nibbles(const uint8_t* from, const int32_t* zero_points, __m512i terms, char* to) {
  const auto store = [&](__m512i q, int32_t zero_point, char* at) HWY_ATTR {
    const __m512i index = _mm512_add_epi16(q, _mm512_set1_epi32((15 - zero_point) * 0x10001));
    _mm512_store_si512(at, _mm512_permutexvar_epi16(index, terms));
  };
  const __m512i both = _mm512_cvtepu8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
  store(_mm512_and_si512(both, _mm512_set1_epi16(15)), zero_points[0], to);
  store(_mm512_srli_epi16(both, 4), zero_points[1], to + kTileBytes);
}
/// The upper words of 32 floats, which are those of integers.
HWY_INLINE __m512i terms_of(__m512i first, __m512i second) {
  const __m512i lanes = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
  const __m512i odd =  // 1, 3, 5 ...
      _mm512_add_epi32(_mm512_mullo_epi32(lanes, _mm512_set1_epi32(0x00040004)), _mm512_set1_epi32(0x00030001));
  return _mm512_permutex2var_epi16(_mm512_castps_si512(_mm512_cvtepi32_ps(first)), odd,
                                   _mm512_castps_si512(_mm512_cvtepi32_ps(second)));
}

template <class Layout>
HWY_INLINE void pack_layout(const uint8_t* from, int64_t row_bytes, int64_t rows, int64_t steps,
                            const PackedIntegers& to) {
  constexpr int64_t kRuns = Layout::kElements / Layout::kRun, kSteps = Layout::kElements / kTileFloats;
  static_assert(!Layout::kHasMin || kRuns == kSteps);
  const __m512i first_integers = _mm512_set_epi32(0, -1, -2, -3, -4, -5, -6, -7, -8, -9, -10, -11, -12, -13, -14, -15);
  const __m512i small = terms_of(first_integers, _mm512_add_epi32(first_integers, _mm512_set1_epi32(16)));
  for (int64_t i = 0; i < rows; ++i) {
    const uint8_t* b = from + i * row_bytes;
    for (int64_t step = 0; step < steps; step += kSteps, b += Layout::kBytes) {
      RLX_UNROLL for (int64_t byte = 0; byte < Layout::kBytes; byte += 64)
          hwy::Prefetch(b + kTileRows * row_bytes + byte);
      typename Unpacked<Layout>::Block block;
      Layout::unpack(b, block);
      HWY_ALIGN int32_t zero_points[kRuns] = {};
      if constexpr (Layout::kHasMin) separate_rests<Layout>(block, zero_points, to.rests + i * kTileFloats + step);
      char* const tiles = to.tiles + step * kTileBytes + i * 64;
      if constexpr (std::is_same_v<Layout, Q4KLayout>) {
        RLX_UNROLL for (int64_t s = 0; s < kSteps; s += 2)
            pack_nibbles(b + 16 + 16 * s, zero_points + s, small, tiles + s * kTileBytes);
      } else {
        RLX_UNROLL for (int64_t s = 0; s < kSteps; ++s) {
          const __m512i zero_point = _mm512_set1_epi32(zero_points[s * kTileFloats / Layout::kRun]);
          const auto integers = [&](int64_t half) HWY_ATTR {
            const uint8_t* const at = block.value + s * kTileFloats + half * 16;
            const __m512i q = _mm512_cvtepi8_epi32(_mm_load_si128(reinterpret_cast<const __m128i*>(at)));
            return Layout::kHasMin ? _mm512_sub_epi32(q, zero_point) : q;
          };
          _mm512_store_si512(tiles + s * kTileBytes, terms_of(integers(0), integers(1)));
        }
      }
      RLX_UNROLL for (int64_t s = 0; s < kSteps; ++s) to.scales[(step + s) * kTiledColumns + i] =
          block.scale[s * kTileFloats / Layout::kRun];
    }
  }
}

bool pack_integers(DType format, const std::byte* from, int64_t row_bytes, int64_t rows, int64_t steps,
                   const PackedIntegers& to) {
  for (int64_t i = rows; i < kTileRows; ++i)
    for (int64_t step = 0; step < steps; ++step) {
      _mm512_store_si512(to.tiles + step * kTileBytes + i * 64, _mm512_setzero_si512());
      to.scales[step * kTiledColumns + i] = 0;
      if (to.rests) to.rests[i * kTileFloats + step] = 0;
    }
  with_layout(format, [&]<class Layout>() HWY_ATTR {
    pack_layout<Layout>(reinterpret_cast<const uint8_t*>(from), row_bytes, rows, steps, to);
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
