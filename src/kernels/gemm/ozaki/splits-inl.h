// AVX-512 functions that split_plan.cpp, split_weights.cpp and split_product.cpp share. These files are compiled for
// one instruction set, because matrix tiles come with AVX-512.
#pragma once

#include "kernels/gemm/amx/tiles.h"

#if defined(__GNUC__) && !defined(__clang__)  // before the header, as in tiles.cpp
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#if RLX_HAS_TILES
#include <immintrin.h>

#include <algorithm>
#include <cstdint>

#include "kernels/gemm/fma/micro_kernels.h"
#include "kernels/gemm/ozaki/split_weights.h"

#define RLX_WIDE __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512cd")))
#define RLX_WIDE_INLINE RLX_WIDE __attribute__((always_inline)) inline

namespace rlx::kernels {

RLX_WIDE_INLINE __mmask16 mask_of(int64_t count) {
  return count >= 16 ? __mmask16(0xffff) : count <= 0 ? __mmask16(0) : __mmask16((1u << count) - 1);
}
RLX_WIDE_INLINE __m512 magnitude(__m512 v) {
  return _mm512_castsi512_ps(_mm512_and_epi32(_mm512_castps_si512(v), _mm512_set1_epi32(0x7fffffff)));
}

/// Loads weights (p .. p + 15, column .. column + 15) to out[i * 16 + j]; zeros behind the ends, where nothing is read.
RLX_WIDE inline void load_square(const StridedMatrix& w, const SplitLayout& l, int64_t p, int64_t column, float* out) {
  const int64_t rows = std::clamp<int64_t>(l.k - p, 0, 16), cols = std::min<int64_t>(16, l.n - column);
  const auto at = [&](int64_t i, int64_t j) {
    return static_cast<const float*>(w.data) + (p + i) * w.row_stride + (column + j) * w.col_stride;
  };
  if (w.col_stride == 1) {
    for (int64_t i = 0; i < 16; ++i)
      _mm512_store_ps(out + i * 16, i < rows ? _mm512_maskz_loadu_ps(mask_of(cols), at(i, 0)) : _mm512_setzero_ps());
    return;
  }
  alignas(64) float columns[256];
  for (int64_t j = 0; j < 16; ++j) {
    const bool is_used = j < cols && rows > 0;
    // Prefetches the next block's columns: the hardware prefetcher does not follow 16 columns at once.
    if (is_used && column + j + 16 < l.n) _mm_prefetch(reinterpret_cast<const char*>(at(0, j + 16)), _MM_HINT_T1);
    _mm512_store_ps(columns + j * 16, is_used ? _mm512_maskz_loadu_ps(mask_of(rows), at(0, j)) : _mm512_setzero_ps());
  }
  transpose_tile(columns, 16, out);
}

}  // namespace rlx::kernels
#endif
