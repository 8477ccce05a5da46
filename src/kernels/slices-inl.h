// What slicing weights and slicing rows have in common: vectors of 16 numbers, parts of them, squares of weights. For
// slicing_plan.cpp, sliced_weights.cpp and sliced_product.cpp, which are compiled for one instruction set: matrix tiles
// come with AVX-512.
#pragma once

#include "kernels/matrix_tiles.h"

#if defined(__GNUC__) && !defined(__clang__)  // before the header, as in matrix_tiles.cpp
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#if RLX_HAS_TILES
#include <immintrin.h>

#include <algorithm>
#include <cstdint>

#include "kernels/gemm_kernels.h"
#include "kernels/sliced_weights.h"

#define RLX_WIDE __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512cd")))
#define RLX_WIDE_INLINE RLX_WIDE __attribute__((always_inline)) inline

namespace rlx::kernels {

RLX_WIDE_INLINE __mmask16 mask_of(int64_t count) {
  return count >= 16 ? __mmask16(0xffff) : count <= 0 ? __mmask16(0) : __mmask16((1u << count) - 1);
}
RLX_WIDE_INLINE __m512 magnitude(__m512 v) {
  return _mm512_castsi512_ps(_mm512_and_epi32(_mm512_castps_si512(v), _mm512_set1_epi32(0x7fffffff)));
}

/// 16 rows along k of 16 columns, zeros beyond the ends, where no pointer is formed either.
RLX_WIDE inline void load_square(const StridedMatrix& w, const SlicedLayout& l, int64_t p, int64_t column, float* out) {
  const int64_t rows = std::clamp<int64_t>(l.k - p, 0, 16), cols = std::min<int64_t>(16, l.n - column);
  const auto at = [&](int64_t i, int64_t j) {
    return static_cast<const float*>(w.data) + (p + i) * w.row_stride + (column + j) * w.col_stride;
  };
  if (w.col_stride == 1) {
    for (int64_t i = 0; i < 16; ++i)
      _mm512_store_ps(out + i * 16, i < rows ? _mm512_maskz_loadu_ps(mask_of(cols), at(i, 0)) : _mm512_setzero_ps());
    return;
  }
  alignas(64) float lines[256];
  for (int64_t j = 0; j < 16; ++j) {
    const bool is_used = j < cols && rows > 0;
    // The next block's, as the processor foresees too few columns side by side.
    if (is_used && column + j + 16 < l.n) _mm_prefetch(reinterpret_cast<const char*>(at(0, j + 16)), _MM_HINT_T1);
    _mm512_store_ps(lines + j * 16, is_used ? _mm512_maskz_loadu_ps(mask_of(rows), at(0, j)) : _mm512_setzero_ps());
  }
  turn_tile(lines, 16, out);
}

}  // namespace rlx::kernels
#endif
