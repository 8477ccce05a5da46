// See the header. The tiles' instructions are written as assembly, as in matrix_tiles.cpp.
#include "kernels/sliced_product.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "kernels/highway_targets.h"
#include "kernels/slices-inl.h"

namespace rlx::kernels {

#if RLX_HAS_TILES
namespace {

// Four digits of 7 bits and a sign stand for so much, without an overflow of the first.
constexpr int32_t kMost32 = 0x7f7f7f7f;

/// The largest magnitude of a row that was balanced, NaN and infinities above all.
RLX_WIDE float most_of(const float* row, int64_t k, const float* balances) {
  __m512i most = _mm512_setzero_si512();
  for (int64_t p = 0; p < k; p += 16) {
    const __m512 v = _mm512_mul_ps(_mm512_maskz_loadu_ps(mask_of(k - p), row + p), _mm512_loadu_ps(balances + p));
    most = _mm512_max_epu32(most, _mm512_castps_si512(magnitude(v)));
  }
  return std::bit_cast<float>(_mm512_reduce_max_epu32(most));
}

/// The power of 2 that makes integers of numbers up to that size; 0 if none does.
float row_scale(float most) {
  if (most == 0) return 1;
  if (!(most >= kLeastSliced && most <= kMostSliced)) return 0;
  const float scale = std::ldexp(1.0f, 30 - std::ilogb(most));
  return most * scale > static_cast<float>(kMost32 - 0x7f) ? scale / 2 : scale;
}

/// 64 numbers of a row, or fewer, as bytes of each slice at out + slice * kTileBytes.
template <bool kAll>
RLX_WIDE_INLINE void slice_step(const float* row, int64_t count, const float* balances, __m512 scale, char* out) {
  // Of four numbers in 16 bytes, their bytes by slice, the highest first.
  const __m512i by_slice = _mm512_broadcast_i32x4(_mm_set_epi8(12, 8, 4, 0, 13, 9, 5, 1, 14, 10, 6, 2, 15, 11, 7, 3));
  const __m512i in_order = _mm512_set_epi32(15, 11, 7, 3, 14, 10, 6, 2, 13, 9, 5, 1, 12, 8, 4, 0);
  const __m512i bias = _mm512_set1_epi32(static_cast<int>(0x80808080u));
  __m512i q[4], t[4];
  RLX_UNROLL for (int v = 0; v < 4; ++v) {
    __m512 x = _mm512_setzero_ps();
    if constexpr (kAll) x = _mm512_loadu_ps(row + v * 16);
    else if (v * 16 < count) x = _mm512_maskz_loadu_ps(mask_of(count - v * 16), row + v * 16);
    x = _mm512_mul_ps(_mm512_mul_ps(x, _mm512_loadu_ps(balances + v * 16)), scale);
    const __m512i digits = _mm512_xor_epi32(_mm512_add_epi32(_mm512_cvtps_epi32(x), bias), bias);
    q[v] = _mm512_shuffle_epi8(digits, by_slice);
  }
  // 4 x 4 of 32 bits in each 16 bytes.
  t[0] = _mm512_unpacklo_epi32(q[0], q[1]), t[1] = _mm512_unpackhi_epi32(q[0], q[1]);
  t[2] = _mm512_unpacklo_epi32(q[2], q[3]), t[3] = _mm512_unpackhi_epi32(q[2], q[3]);
  q[0] = _mm512_unpacklo_epi64(t[0], t[2]), q[1] = _mm512_unpackhi_epi64(t[0], t[2]);
  q[2] = _mm512_unpacklo_epi64(t[1], t[3]), q[3] = _mm512_unpackhi_epi64(t[1], t[3]);
  RLX_UNROLL for (int v = 0; v < 4; ++v)
      _mm512_store_si512(out + v * kTileBytes, _mm512_permutexvar_epi32(in_order, q[v]));
}
RLX_WIDE void slice_row(const float* row, int64_t k, const float* balances, float scale, char* out) {
  const __m512 by = _mm512_set1_ps(scale);
  int64_t p = 0;
  for (; p + kTileCodes <= k; p += kTileCodes, out += SlicedLayout::kRowStepBytes)
    slice_step<true>(row + p, kTileCodes, balances + p, by, out);
  if (p < k) slice_step<false>(row + p, k - p, balances + p, by, out);
}

// Registers: 0 to 3, and 4 of four slices, the sums by weight; then a slice of the columns, and slices of the rows.
#define RLX_ZERO                                                                 \
  "tilezero %%tmm0\n\ttilezero %%tmm1\n\ttilezero %%tmm2\n\ttilezero %%tmm3\n\t" \
  "tilezero %%tmm4"
#define RLX_LOAD(tile, from, at) \
  asm volatile("tileloadd " #at "(%0,%1,1), %%tmm" #tile ::"r"(from), "r"(int64_t{64}) : "memory")
#define RLX_DOT(sums, rows, columns) asm volatile("tdpbssd %%tmm" #columns ", %%tmm" #rows ", %%tmm" #sums ::: "memory")
#define RLX_STORE(tile, to) asm volatile("tilestored %%tmm" #tile ", (%0,%1,1)" ::"r"(to), "r"(int64_t{64}) : "memory")

/// A step of three slices: products that weigh 2^-32 of the first are left out. `ask` is called six times.
template <class Ask>
RLX_WIDE_INLINE void add_three(const char* columns, const char* rows, Ask ask) {
  RLX_LOAD(4, columns, 0);
  RLX_LOAD(5, rows, 0);
  RLX_DOT(0, 5, 4);
  ask();
  RLX_LOAD(6, rows, 1024);
  RLX_DOT(1, 6, 4);
  ask();
  RLX_LOAD(7, rows, 3072);
  RLX_DOT(3, 7, 4);
  ask();
  RLX_LOAD(7, rows, 2048);
  RLX_DOT(2, 7, 4);
  RLX_LOAD(4, columns, 1024);
  RLX_DOT(1, 5, 4);
  ask();
  RLX_DOT(2, 6, 4);
  ask();
  RLX_DOT(3, 7, 4);
  RLX_LOAD(4, columns, 2048);
  RLX_DOT(2, 5, 4);
  ask();
  RLX_DOT(3, 6, 4);
}
/// Of four: those that weigh 2^-40 are.
template <class Ask>
RLX_WIDE_INLINE void add_four(const char* columns, const char* fourth, const char* rows, Ask ask) {
  RLX_LOAD(5, columns, 0);
  RLX_LOAD(6, rows, 0);
  RLX_DOT(0, 6, 5);
  ask();
  RLX_LOAD(7, rows, 1024);
  RLX_DOT(1, 7, 5);
  RLX_LOAD(6, rows, 2048);
  RLX_DOT(2, 6, 5);
  ask();
  RLX_LOAD(7, rows, 3072);
  RLX_DOT(3, 7, 5);
  RLX_LOAD(5, columns, 1024);
  RLX_DOT(4, 7, 5);
  ask();
  RLX_DOT(3, 6, 5);
  RLX_LOAD(7, rows, 1024);
  RLX_DOT(2, 7, 5);
  ask();
  RLX_LOAD(6, rows, 0);
  RLX_DOT(1, 6, 5);
  RLX_LOAD(5, columns, 2048);
  RLX_DOT(2, 6, 5);
  ask();
  RLX_DOT(3, 7, 5);
  RLX_LOAD(7, rows, 2048);
  RLX_DOT(4, 7, 5);
  ask();
  RLX_LOAD(5, fourth, 0);
  RLX_DOT(3, 6, 5);
  RLX_LOAD(7, rows, 1024);
  RLX_DOT(4, 7, 5);
}

template <bool kFourth>
RLX_WIDE void multiply(const SlicedColumns& w, int64_t block, const char* rows, const float* row_units, float* sums,
                       int64_t stride, MemoryAhead& ahead) {
  const char *columns = w.tiles(block), *fourth = w.fourth(block);
  // Numbers, as a step asks for what is behind the end, too.
  auto at = reinterpret_cast<uintptr_t>(ahead.at);
  const auto begin = at, end = reinterpret_cast<uintptr_t>(ahead.end);
  const auto apart = static_cast<uintptr_t>(ahead.stride);
  const auto ask = [&]() __attribute__((always_inline)) {
    _mm_prefetch(reinterpret_cast<const char*>(at), _MM_HINT_T1);
    _mm_prefetch(reinterpret_cast<const char*>(at + apart), _MM_HINT_T1);
    at += 2 * apart;
  };
  asm volatile(RLX_ZERO ::: "memory");
  for (int64_t steps = w.layout().steps(); steps > 0; --steps) {
    if constexpr (kFourth) add_four(columns, fourth, rows, ask), fourth += kTileBytes;
    else add_three(columns, rows, ask);
    rows += SlicedLayout::kRowStepBytes, columns += SlicedLayout::kStepBytes;
    at = std::min(at, end);
  }
  ahead.at += at - begin;
  alignas(64) int32_t s[5][256];
  RLX_STORE(0, s[0]);
  RLX_STORE(1, s[1]);
  RLX_STORE(2, s[2]);
  RLX_STORE(3, s[3]);
  if constexpr (kFourth) RLX_STORE(4, s[4]);
  const __m512 units = _mm512_loadu_ps(w.units(block));
  for (int64_t i = 0; i < 16; ++i) {
    const auto level = [&](int slice) RLX_WIDE __attribute__((always_inline)) {
      return _mm512_cvtepi32_ps(_mm512_load_si512(s[slice] + i * 16));
    };
    __m512 sum = _mm512_mul_ps(level(3), _mm512_set1_ps(0x1p-24f));
    if constexpr (kFourth) sum = _mm512_fmadd_ps(level(4), _mm512_set1_ps(0x1p-32f), sum);
    sum = _mm512_fmadd_ps(level(2), _mm512_set1_ps(0x1p-16f), sum);
    sum = _mm512_fmadd_ps(level(1), _mm512_set1_ps(0x1p-8f), sum);
    sum = _mm512_add_ps(level(0), sum);
    _mm512_storeu_ps(sums + i * stride, _mm512_mul_ps(_mm512_mul_ps(sum, units), _mm512_set1_ps(row_units[i])));
  }
}

}  // namespace

RLX_WIDE void slice_rows(const float* rows, int64_t stride, int64_t lines, const SlicedLayout& l, const float* balances,
                         char* out, float* units) noexcept {
  for (int64_t i = 0; i < kTileLines; ++i, out += 64) {
    const float* const row = i < lines ? rows + i * stride : nullptr;
    const float scale = row ? row_scale(most_of(row, l.k, balances)) : 0;
    // The first slices of both weigh 2^24 and 2^16 more than the last ones.
    units[i] = !row ? 1 : scale == 0 ? 0 : 0x1p40f / scale;
    if (scale != 0) slice_row(row, l.k, balances, scale, out);
    else
      for (int64_t t = 0; t < l.steps() * 4; ++t) _mm512_store_si512(out + t * kTileBytes, _mm512_setzero_si512());
  }
}

void ask_ahead(const SlicedLayout& layout, MemoryAhead& ahead) noexcept {
  for (int64_t i = 0; i < 12 * layout.steps() && ahead.at < ahead.end; ++i) {
    _mm_prefetch(ahead.at, _MM_HINT_T1);
    ahead.at += std::min<int64_t>(ahead.stride, ahead.end - ahead.at);
  }
}

void multiply_slices(const SlicedColumns& columns, int64_t block, const char* rows, const float* row_units, float* sums,
                     int64_t stride, MemoryAhead& ahead) noexcept {
  if (columns.fourth(block)) multiply<true>(columns, block, rows, row_units, sums, stride, ahead);
  else multiply<false>(columns, block, rows, row_units, sums, stride, ahead);
}

#else

void ask_ahead(const SlicedLayout&, MemoryAhead&) noexcept {}
void slice_rows(const float*, int64_t, int64_t, const SlicedLayout&, const float*, char*, float*) noexcept {}
void multiply_slices(const SlicedColumns&, int64_t, const char*, const float*, float*, int64_t, MemoryAhead&) noexcept {
}

#endif

}  // namespace rlx::kernels
