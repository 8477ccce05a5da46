// See the header. A micro-kernel holds the sums of up to 8 rows by two tiles of columns, or of 6 rows by three or four:
// 16 to 24 of 32 registers, more than the 12 that hide the latency of two instructions a cycle (Zen 5: 6 cycles of
// bf16). It reads 10 operands for 16 or 24 products. The columns of a part of k, at most 24 KiB of two tiles, stay in
// the first-level cache while all rows are multiplied with them.
#include "kernels/gemm/fma/dot_tiles.h"

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wuninitialized"  // of _mm512_undefined_epi32; gcc bug 105593, fixed in 13
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#if defined(__x86_64__) && defined(__linux__)
#include <immintrin.h>
#endif

#include <algorithm>
#include <cstring>

#include "base/rounded_up.h"
#include "kernels/gemm/fma/micro_kernels.h"
#include "kernels/partial_sums.h"
#include "kernels/vector/highway_targets.h"
#include "kernels/vector/instruction_set.h"

namespace rlx::kernels {

#if defined(__x86_64__) && defined(__linux__)
namespace {

#define RLX_DOTS __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq")))
#define RLX_DOTS_INLINE RLX_DOTS __attribute__((always_inline)) inline

constexpr int kUnrolled = 4;  // quads

/// Some steps of some rows, and whether sums are added to those that are there.
struct DotPart {
  const char* const* rows;
  const int32_t* sum_rows;
  const int64_t* offsets;            ///< of the first of these steps; or null
  int64_t at;                        ///< without offsets, of the first of these steps
  int64_t step_bytes, steps, quads;  ///< quads: of four bytes, in a step
  const char* right;
  int64_t tile_stride;
  void* sums;
  bool adds;
  const char* prefetch;
  int64_t prefetch_bytes;
};

/// Adds to each lane of `sum` the products of its four bytes. Assembly, as in micro_kernel-inl.h: the intrinsics want
/// target attributes, which differ between the two.
template <DotValues kValues>
RLX_DOTS_INLINE void add_dots(__m512i& sum, __m512i left, __m512i right) {
  if constexpr (kValues == DotValues::bf16) asm("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(left), "v"(right));
  else asm("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(left), "v"(right));
}
template <DotValues kValues>
RLX_DOTS_INLINE __m512i added(__m512i a, __m512i b) {
  if constexpr (kValues == DotValues::bf16)
    return _mm512_castps_si512(_mm512_add_ps(_mm512_castsi512_ps(a), _mm512_castsi512_ps(b)));
  else return _mm512_add_epi32(a, b);
}

/// Four bytes along k of all rows and columns. Rows are at left + to_rows[i]: one pointer moves, and fewer registers
/// are needed than for a pointer to each row.
template <DotValues kValues, int kTiles, int kRows>
RLX_DOTS_INLINE void add_quads(const char* left_rows, const int64_t (&to_rows)[kRows], const char* right,
                               int64_t tile_bytes, __m512i (&sums)[kRows][kTiles]) {
  __m512i columns[kTiles];
  RLX_UNROLL
  for (int j = 0; j < kTiles; ++j) columns[j] = _mm512_load_si512(right + j * tile_bytes);
  RLX_UNROLL
  for (int i = 0; i < kRows; ++i) {
    int quad = 0;
    std::memcpy(&quad, left_rows + to_rows[i], sizeof quad);
    const __m512i left = _mm512_set1_epi32(quad);
    RLX_UNROLL
    for (int j = 0; j < kTiles; ++j) add_dots<kValues>(sums[i][j], left, columns[j]);
  }
}

template <DotValues kValues, int kTiles, int kRows>
RLX_DOTS void multiply_part(const DotPart& p) {
  __m512i sums[kRows][kTiles];
  RLX_UNROLL
  for (int i = 0; i < kRows; ++i) {
    RLX_UNROLL
    for (int j = 0; j < kTiles; ++j) sums[i][j] = _mm512_setzero_si512();
  }
  const char *right = p.right, *prefetch = p.prefetch;
  const char* const first_row = p.rows[0];
  int64_t to_rows[kRows];
  RLX_UNROLL
  for (int i = 0; i < kRows; ++i) {
    to_rows[i] = reinterpret_cast<intptr_t>(p.rows[i]) - reinterpret_cast<intptr_t>(first_row);
    if (i > 0) asm("" : "+r"(to_rows[i]));  // compilers make pointers to all rows again where they can
  }
  const int64_t tile_bytes = p.quads * 64, steps = p.steps, quads = p.quads, prefetch_bytes = p.prefetch_bytes;
  const int64_t* const offsets = p.offsets;
  for (int64_t s = 0; s < steps; ++s, right += (kTiles - 1) * tile_bytes) {
    const char* left = first_row + (offsets ? offsets[s] : p.at + s * p.step_bytes);
    int64_t q = quads;
    for (; q >= kUnrolled; q -= kUnrolled, left += 4 * kUnrolled, right += 64 * kUnrolled) {
      RLX_UNROLL
      for (int u = 0; u < kUnrolled; ++u)
        add_quads<kValues, kTiles, kRows>(left + 4 * u, to_rows, right + 64 * u, tile_bytes, sums);
    }
    for (; q > 0; --q, left += 4, right += 64)
      add_quads<kValues, kTiles, kRows>(left, to_rows, right, tile_bytes, sums);
    for (int64_t b = 0; b < prefetch_bytes; b += 64, prefetch += 64) __builtin_prefetch(prefetch, 0, 2);
  }
  auto* const first = static_cast<char*>(p.sums);  // copies, as stores might change what `p` has
  const int32_t* const sum_rows = p.sum_rows;
  const int64_t tile_stride = p.tile_stride * 4;
  const bool adds = p.adds;
  char* to[kRows];
  RLX_UNROLL
  for (int i = 0; i < kRows; ++i) to[i] = first + int64_t{sum_rows[i]} * 4;
  if (adds) {
    RLX_UNROLL
    for (int i = 0; i < kRows; ++i) {
      RLX_UNROLL
      for (int j = 0; j < kTiles; ++j)
        sums[i][j] = added<kValues>(_mm512_loadu_si512(to[i] + j * tile_stride), sums[i][j]);
    }
  }
  RLX_UNROLL
  for (int i = 0; i < kRows; ++i) {
    RLX_UNROLL
    for (int j = 0; j < kTiles; ++j) _mm512_storeu_si512(to[i] + j * tile_stride, sums[i][j]);
  }
}

using PartFunction = void (*)(const DotPart&);
template <DotValues kValues, int kTiles>
PartFunction part_function(int64_t rows) {
  if constexpr (kTiles == 2) {
    constexpr PartFunction kFunctions[] = {multiply_part<kValues, 2, 1>, multiply_part<kValues, 2, 2>,
                                           multiply_part<kValues, 2, 3>, multiply_part<kValues, 2, 4>,
                                           multiply_part<kValues, 2, 5>, multiply_part<kValues, 2, 6>,
                                           multiply_part<kValues, 2, 7>, multiply_part<kValues, 2, 8>};
    return kFunctions[rows - 1];
  } else {
    constexpr PartFunction kFunctions[] = {multiply_part<kValues, kTiles, 1>, multiply_part<kValues, kTiles, 2>,
                                           multiply_part<kValues, kTiles, 3>, multiply_part<kValues, kTiles, 4>,
                                           multiply_part<kValues, kTiles, 5>, multiply_part<kValues, kTiles, 6>};
    return kFunctions[rows - 1];
  }
}

/// Bytes along k between the additions to the sums in memory: a partial sum of bf16. Each addition costs as much as
/// some 10 bytes; of 8-bit integers, as many are together as leave room for rows in the first-level cache.
constexpr int64_t part_bytes(DotValues values) { return values == DotValues::bf16 ? kPartialSumTerms * 2 : 768; }

template <DotValues kValues, int kTiles>
void multiply_all(const DotTiles& t) {
  constexpr int64_t kRowsAtOnce = kTiles == 2 ? 8 : 6;
  const int64_t groups = divided_up(t.count, kRowsAtOnce);  // of nearly equal size
  const int64_t at_once = std::max<int64_t>(1, part_bytes(kValues) / t.k_bytes);
  DotPart p{};
  p.quads = t.k_bytes / 4, p.tile_stride = t.tile_stride, p.sums = t.sums;
  // With no steps there is one part, which writes zeros.
  for (int64_t first = 0; first == 0 || first < t.steps; first += at_once) {
    p.steps = std::min(at_once, t.steps - first), p.adds = first > 0;
    p.offsets = t.offsets ? t.offsets + first : nullptr, p.at = first * t.step_bytes, p.step_bytes = t.step_bytes;
    p.right = t.right + first * t.k_bytes * 16 * kTiles;
    p.prefetch = t.prefetch + first * t.prefetch_bytes, p.prefetch_bytes = t.prefetch_bytes;
    for (int64_t g = 0; g < groups; ++g, p.prefetch_bytes = 0) {
      const int64_t row = t.count * g / groups;
      p.rows = t.rows + row, p.sum_rows = t.sum_rows + row;
      part_function<kValues, kTiles>(t.count * (g + 1) / groups - row)(p);
    }
  }
}

template <DotValues kValues>
void multiply_tiles_of(const DotTiles& t, int64_t tiles) {
  if (tiles == 2) multiply_all<kValues, 2>(t);
  else if (tiles == 3) multiply_all<kValues, 3>(t);
  else multiply_all<kValues, 4>(t);
}

}  // namespace

bool has_bf16_tile_dots() { return product_lanes(f32) == 16 && packed_dtype_for(bf16, bf16) == bf16; }

void multiply_dot_tiles(const DotTiles& t, int64_t tiles) noexcept {
  if (t.values == DotValues::bf16) multiply_tiles_of<DotValues::bf16>(t, tiles);
  else multiply_tiles_of<DotValues::u8_by_i8>(t, tiles);
}

#else

bool has_bf16_tile_dots() { return false; }
void multiply_dot_tiles(const DotTiles&, int64_t) noexcept {}

#endif

}  // namespace rlx::kernels
