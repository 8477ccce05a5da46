// See the header. The tile instructions are assembly, as in tiles.cpp.
#include "kernels/gemm/ozaki/split_product.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "kernels/gemm/ozaki/splits-inl.h"
#include "kernels/vector/highway_targets.h"

namespace rlx::kernels {

#if RLX_HAS_TILES
namespace {

// The largest integer of four digits of 7 bits and a sign, for which the first digit cannot overflow.
constexpr int32_t kMax32 = 0x7f7f7f7f;

/// The maximum magnitude of a balanced row; NaN counts as larger than infinity.
RLX_WIDE float max_magnitude(const float* row, int64_t k, const float* balances) {
  __m512i max = _mm512_setzero_si512();
  for (int64_t p = 0; p < k; p += 16) {
    const __m512 v = _mm512_mul_ps(_mm512_maskz_loadu_ps(mask_of(k - p), row + p), _mm512_loadu_ps(balances + p));
    max = _mm512_max_epu32(max, _mm512_castps_si512(magnitude(v)));
  }
  return std::bit_cast<float>(_mm512_reduce_max_epu32(max));
}

/// The power of 2 by which a row of that maximum magnitude is multiplied to become 31-bit integers; 0 if it is out of
/// split range.
float row_multiplier(float max) {
  if (max == 0) return 1;
  if (!(max >= kMinSplit && max <= kMaxSplit)) return 0;
  const float multiplier = std::ldexp(1.0f, 30 - std::ilogb(max));
  return max * multiplier > static_cast<float>(kMax32 - 0x7f) ? multiplier / 2 : multiplier;
}

/// Splits 64 numbers of a row, or `count` without kAll: 64 bytes of each split at out + split * kTileBytes.
template <bool kAll>
RLX_WIDE_INLINE void split_step(const float* row, int64_t count, const float* balances, __m512 multiplier, char* out) {
  // Sorts the bytes of four numbers by split, the highest first.
  const __m512i by_split = _mm512_broadcast_i32x4(_mm_set_epi8(12, 8, 4, 0, 13, 9, 5, 1, 14, 10, 6, 2, 15, 11, 7, 3));
  const __m512i in_order = _mm512_set_epi32(15, 11, 7, 3, 14, 10, 6, 2, 13, 9, 5, 1, 12, 8, 4, 0);
  const __m512i bias = _mm512_set1_epi32(static_cast<int>(0x80808080u));
  __m512i q[4], t[4];
  RLX_UNROLL for (int v = 0; v < 4; ++v) {
    __m512 x = _mm512_setzero_ps();
    if constexpr (kAll) x = _mm512_loadu_ps(row + v * 16);
    else if (v * 16 < count) x = _mm512_maskz_loadu_ps(mask_of(count - v * 16), row + v * 16);
    x = _mm512_mul_ps(_mm512_mul_ps(x, _mm512_loadu_ps(balances + v * 16)), multiplier);
    const __m512i digits = _mm512_xor_epi32(_mm512_add_epi32(_mm512_cvtps_epi32(x), bias), bias);
    q[v] = _mm512_shuffle_epi8(digits, by_split);
  }
  // Transposes 4 x 4 elements of 32 bits across q, in each 16 bytes.
  t[0] = _mm512_unpacklo_epi32(q[0], q[1]), t[1] = _mm512_unpackhi_epi32(q[0], q[1]);
  t[2] = _mm512_unpacklo_epi32(q[2], q[3]), t[3] = _mm512_unpackhi_epi32(q[2], q[3]);
  q[0] = _mm512_unpacklo_epi64(t[0], t[2]), q[1] = _mm512_unpackhi_epi64(t[0], t[2]);
  q[2] = _mm512_unpacklo_epi64(t[1], t[3]), q[3] = _mm512_unpackhi_epi64(t[1], t[3]);
  RLX_UNROLL for (int v = 0; v < 4; ++v)
      _mm512_store_si512(out + v * kTileBytes, _mm512_permutexvar_epi32(in_order, q[v]));
}
RLX_WIDE void split_row(const float* row, int64_t k, const float* balances, float multiplier, char* out) {
  const __m512 by = _mm512_set1_ps(multiplier);
  int64_t p = 0;
  for (; p + kTileInt8 <= k; p += kTileInt8, out += SplitLayout::kRowStepBytes)
    split_step<true>(row + p, kTileInt8, balances + p, by, out);
  if (p < k) split_step<false>(row + p, k - p, balances + p, by, out);
}

// Registers: 0 to 3, with four splits of the weights also 4, are the sums by weight; the next one is a split of the
// columns, and the others are splits of the rows.
#define RLX_ZERO                                                                 \
  "tilezero %%tmm0\n\ttilezero %%tmm1\n\ttilezero %%tmm2\n\ttilezero %%tmm3\n\t" \
  "tilezero %%tmm4"
#define RLX_LOAD(tile, from, at) \
  asm volatile("tileloadd " #at "(%0,%1,1), %%tmm" #tile ::"r"(from), "r"(int64_t{64}) : "memory")
#define RLX_DOT(sums, rows, columns) asm volatile("tdpbssd %%tmm" #columns ", %%tmm" #rows ", %%tmm" #sums ::: "memory")
#define RLX_STORE(tile, to) asm volatile("tilestored %%tmm" #tile ", (%0,%1,1)" ::"r"(to), "r"(int64_t{64}) : "memory")

/// One step of weights in three splits; products that weigh 2^-32 of the first are left out. Calls `prefetch` six
/// times.
template <class PrefetchNext>
RLX_WIDE_INLINE void add_three(const char* columns, const char* rows, PrefetchNext prefetch) {
  RLX_LOAD(4, columns, 0);
  RLX_LOAD(5, rows, 0);
  RLX_DOT(0, 5, 4);
  prefetch();
  RLX_LOAD(6, rows, 1024);
  RLX_DOT(1, 6, 4);
  prefetch();
  RLX_LOAD(7, rows, 3072);
  RLX_DOT(3, 7, 4);
  prefetch();
  RLX_LOAD(7, rows, 2048);
  RLX_DOT(2, 7, 4);
  RLX_LOAD(4, columns, 1024);
  RLX_DOT(1, 5, 4);
  prefetch();
  RLX_DOT(2, 6, 4);
  prefetch();
  RLX_DOT(3, 7, 4);
  RLX_LOAD(4, columns, 2048);
  RLX_DOT(2, 5, 4);
  prefetch();
  RLX_DOT(3, 6, 4);
}
/// One step of weights in four splits; products that weigh 2^-40 of the first are left out.
template <class PrefetchNext>
RLX_WIDE_INLINE void add_four(const char* columns, const char* fourth, const char* rows, PrefetchNext prefetch) {
  RLX_LOAD(5, columns, 0);
  RLX_LOAD(6, rows, 0);
  RLX_DOT(0, 6, 5);
  prefetch();
  RLX_LOAD(7, rows, 1024);
  RLX_DOT(1, 7, 5);
  RLX_LOAD(6, rows, 2048);
  RLX_DOT(2, 6, 5);
  prefetch();
  RLX_LOAD(7, rows, 3072);
  RLX_DOT(3, 7, 5);
  RLX_LOAD(5, columns, 1024);
  RLX_DOT(4, 7, 5);
  prefetch();
  RLX_DOT(3, 6, 5);
  RLX_LOAD(7, rows, 1024);
  RLX_DOT(2, 7, 5);
  prefetch();
  RLX_LOAD(6, rows, 0);
  RLX_DOT(1, 6, 5);
  RLX_LOAD(5, columns, 2048);
  RLX_DOT(2, 6, 5);
  prefetch();
  RLX_DOT(3, 7, 5);
  RLX_LOAD(7, rows, 2048);
  RLX_DOT(4, 7, 5);
  prefetch();
  RLX_LOAD(5, fourth, 0);
  RLX_DOT(3, 6, 5);
  RLX_LOAD(7, rows, 1024);
  RLX_DOT(4, 7, 5);
}

template <bool kFourth>
RLX_WIDE void multiply(const SplitColumns& w, int64_t block, const char* rows, const float* row_scales, float* sums,
                       int64_t stride, Prefetch& memory) {
  const char *columns = w.tiles(block), *fourth = w.fourth(block);
  // Addresses as integers: a step may prefetch behind the end.
  auto at = reinterpret_cast<uintptr_t>(memory.at);
  const auto begin = at, end = reinterpret_cast<uintptr_t>(memory.end);
  const auto prefetch_stride = static_cast<uintptr_t>(memory.stride);
  const auto prefetch = [&]() __attribute__((always_inline)) {
    _mm_prefetch(reinterpret_cast<const char*>(at), _MM_HINT_T1);
    _mm_prefetch(reinterpret_cast<const char*>(at + prefetch_stride), _MM_HINT_T1);
    at += 2 * prefetch_stride;
  };
  asm volatile(RLX_ZERO ::: "memory");
  for (int64_t steps = w.layout().steps(); steps > 0; --steps) {
    if constexpr (kFourth) add_four(columns, fourth, rows, prefetch), fourth += kTileBytes;
    else add_three(columns, rows, prefetch);
    rows += SplitLayout::kRowStepBytes, columns += SplitLayout::kStepBytes;
    at = std::min(at, end);
  }
  memory.at += at - begin;
  alignas(64) int32_t s[5][256];
  RLX_STORE(0, s[0]);
  RLX_STORE(1, s[1]);
  RLX_STORE(2, s[2]);
  RLX_STORE(3, s[3]);
  if constexpr (kFourth) RLX_STORE(4, s[4]);
  const __m512 column_scales = _mm512_loadu_ps(w.column_scales(block));
  for (int64_t i = 0; i < 16; ++i) {
    const auto level = [&](int split) RLX_WIDE __attribute__((always_inline)) {
      return _mm512_cvtepi32_ps(_mm512_load_si512(s[split] + i * 16));
    };
    __m512 sum = _mm512_mul_ps(level(3), _mm512_set1_ps(0x1p-24f));
    if constexpr (kFourth) sum = _mm512_fmadd_ps(level(4), _mm512_set1_ps(0x1p-32f), sum);
    sum = _mm512_fmadd_ps(level(2), _mm512_set1_ps(0x1p-16f), sum);
    sum = _mm512_fmadd_ps(level(1), _mm512_set1_ps(0x1p-8f), sum);
    sum = _mm512_add_ps(level(0), sum);
    _mm512_storeu_ps(sums + i * stride,
                     _mm512_mul_ps(_mm512_mul_ps(sum, column_scales), _mm512_set1_ps(row_scales[i])));
  }
}

}  // namespace

RLX_WIDE void split_rows(const float* rows, int64_t stride, int64_t count, const SplitLayout& l, const float* balances,
                         char* out, float* column_scales) noexcept {
  for (int64_t i = 0; i < kTileRows; ++i, out += 64) {
    const float* const row = i < count ? rows + i * stride : nullptr;
    const float multiplier = row ? row_multiplier(max_magnitude(row, l.k, balances)) : 0;
    // The first of the rows' four splits weighs 2^24 times the last, the first of the columns' three 2^16 times.
    column_scales[i] = !row ? 1 : multiplier == 0 ? 0 : 0x1p40f / multiplier;
    if (multiplier != 0) split_row(row, l.k, balances, multiplier, out);
    else
      for (int64_t t = 0; t < l.steps() * 4; ++t) _mm512_store_si512(out + t * kTileBytes, _mm512_setzero_si512());
  }
}

void prefetch_some(const SplitLayout& layout, Prefetch& memory) noexcept {
  for (int64_t i = 0; i < 12 * layout.steps() && memory.at < memory.end; ++i) {
    _mm_prefetch(memory.at, _MM_HINT_T1);
    memory.at += std::min<int64_t>(memory.stride, memory.end - memory.at);
  }
}

void multiply_splits(const SplitColumns& columns, int64_t block, const char* rows, const float* row_scales, float* sums,
                     int64_t stride, Prefetch& memory) noexcept {
  if (columns.fourth(block)) multiply<true>(columns, block, rows, row_scales, sums, stride, memory);
  else multiply<false>(columns, block, rows, row_scales, sums, stride, memory);
}

#else

void prefetch_some(const SplitLayout&, Prefetch&) noexcept {}
void split_rows(const float*, int64_t, int64_t, const SplitLayout&, const float*, char*, float*) noexcept {}
void multiply_splits(const SplitColumns&, int64_t, const char*, const float*, float*, int64_t, Prefetch&) noexcept {}

#endif

}  // namespace rlx::kernels
