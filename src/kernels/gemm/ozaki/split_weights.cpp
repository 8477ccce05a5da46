// See the header. An integer q of 24 bits is split into digits, q = d2 2^16 + d1 2^8 + d0, each of -128 to 127: the
// bytes of q + 0x808080, each less 128. A tile row has for each column four numbers along k in 32 bits.
#include "kernels/gemm/ozaki/split_weights.h"

#include <algorithm>
#include <cstring>

#include "kernels/gemm/ozaki/split_plan.h"
#include "kernels/gemm/ozaki/splits-inl.h"
#include "kernels/threads/thread_pool.h"

namespace rlx::kernels {

#if RLX_HAS_TILES
namespace {

/// The integers weights / balance / scale of 16 columns, rounded; low and high are the scales' inverses, in f64. A
/// weight that is not 0 becomes at least 1 or -1, so that its product with an infinity is infinite.
RLX_WIDE_INLINE __m512i to_integers(__m512 weights, float inverse_balance, __m512d low_inverse, __m512d high_inverse) {
  const __m512 v = _mm512_mul_ps(weights, _mm512_set1_ps(inverse_balance));
  const __m256 low = _mm512_castps512_ps256(v), high = _mm512_extractf32x8_ps(v, 1);
  const __m256i a = _mm512_cvtpd_epi32(_mm512_mul_pd(_mm512_cvtps_pd(low), low_inverse));
  const __m256i b = _mm512_cvtpd_epi32(_mm512_mul_pd(_mm512_cvtps_pd(high), high_inverse));
  const __m512i q = _mm512_inserti64x4(_mm512_castsi256_si512(a), b, 1);
  const __mmask16 lost = _mm512_cmpneq_ps_mask(weights, _mm512_setzero_ps()) & _mm512_testn_epi32_mask(q, q);
  const __m512i one = _mm512_or_epi32(_mm512_srai_epi32(_mm512_castps_si512(weights), 31), _mm512_set1_epi32(1));
  return _mm512_mask_mov_epi32(q, lost, one);
}

RLX_WIDE void split_block(const StridedMatrix& w, const SplitLayout& l, int64_t block, const float* inverses,
                          const float* column_scales, char* out, char* fourth) {
  const __m512d one = _mm512_set1_pd(fourth ? 256 : 1);
  const __m512d low = _mm512_div_pd(one, _mm512_cvtps_pd(_mm256_loadu_ps(column_scales + block * 16))),
                high = _mm512_div_pd(one, _mm512_cvtps_pd(_mm256_loadu_ps(column_scales + block * 16 + 8)));
  const __m512i bias = _mm512_set1_epi32(static_cast<int>(0x80808080u)), byte = _mm512_set1_epi32(0xff);
  const int up = fourth ? 0 : 8;  // so that the first digit is the highest byte
  alignas(64) float square[256];
  for (int64_t p = 0; p < l.steps() * kTileInt8; p += 16) {
    load_square(w, l, p, block * 16, square);
    for (int64_t i = 0; i < 16; i += 4) {
      __m512i q[4];
      for (int64_t r = 0; r < 4; ++r) {
        const __m512 weights = _mm512_load_ps(square + (i + r) * 16);
        const __m512i integers =
            _mm512_sll_epi32(to_integers(weights, inverses[p + i + r], low, high), _mm_cvtsi32_si128(up));
        q[r] = _mm512_xor_epi32(_mm512_add_epi32(integers, bias), bias);
      }
      const int64_t row = (p % kTileInt8 + i) / 4, step = p / kTileInt8;
      for (int split = 0; split < (fourth ? 4 : 3); ++split) {
        const auto down = static_cast<unsigned>(24 - 8 * split);
        __m512i four = _mm512_setzero_si512();
        for (int r = 3; r >= 0; --r)
          four = _mm512_or_epi32(_mm512_slli_epi32(four, 8), _mm512_and_epi32(_mm512_srli_epi32(q[r], down), byte));
        char* const tile =
            split == 3 ? fourth + step * kTileBytes : out + step * SplitLayout::kStepBytes + split * kTileBytes;
        _mm512_store_si512(tile + row * 64, four);
      }
    }
  }
}

/// Stores a block as f32: three quarters at `out`, the last at `fourth`.
void copy_block(const StridedMatrix& w, const SplitLayout& l, int64_t block, char* out, char* fourth) {
  for (int64_t p = 0; p < l.steps() * kTileInt8; p += 16, out += kTileBytes) {
    if (p * 64 == l.block_bytes()) out = fourth;
    load_square(w, l, p, block * 16, reinterpret_cast<float*>(out));
  }
}

RLX_WIDE void dequantize_block(const SplitColumns& w, int64_t block, float* out) {
  const SplitLayout& l = w.layout();
  const char *const tiles = w.tiles(block), *const fourth = w.fourth(block);
  const __m512 column_scales =
      _mm512_mul_ps(_mm512_loadu_ps(w.column_scales(block)), _mm512_set1_ps(fourth ? 0x1p-8f : 1.0f));
  for (int64_t p = 0; p < l.k; ++p) {
    const int64_t step = p / kTileInt8, row = p % kTileInt8 / 4 * 64;
    const __m128i shift = _mm_cvtsi32_si128(static_cast<int>(24 - p % 4 * 8));
    __m512i q = _mm512_setzero_si512();
    for (int split = 0; split < (fourth ? 4 : 3); ++split) {
      const char* const tile =
          split == 3 ? fourth + step * kTileBytes : tiles + step * SplitLayout::kStepBytes + split * kTileBytes;
      const __m512i digits = _mm512_srai_epi32(_mm512_sll_epi32(_mm512_load_si512(tile + row), shift), 24);
      q = _mm512_add_epi32(_mm512_slli_epi32(q, 8), digits);
    }
    const __m512 balance = _mm512_set1_ps(w.balances()[p]);
    _mm512_storeu_ps(out + p * 16, _mm512_mul_ps(_mm512_mul_ps(_mm512_cvtepi32_ps(q), column_scales), balance));
  }
}

}  // namespace

void split_columns(const StridedMatrix& w, const SplitLayout& l, const SplitPlan& plan, int threads, char* out) {
  std::memset(out, 0, static_cast<size_t>(l.tiles()));
  std::memcpy(out, SplitLayout::kMark, sizeof SplitLayout::kMark);
  std::memcpy(out + l.column_scales(), plan.column_scales.data(), plan.column_scales.size() * sizeof(float));
  std::memcpy(out + l.balances(), plan.balances.data(), plan.balances.size() * sizeof(float));
  std::memcpy(out + l.forms(), plan.forms.data(), plan.forms.size() * sizeof(int32_t));
  ThreadPool::shared().parallel_for(threads, l.blocks(), [&](int64_t block) {
    const int32_t form = plan.forms[static_cast<size_t>(block)];
    char* const tiles = out + l.tiles() + block * l.block_bytes();
    char* const fourth = form == SplitLayout::kThreeSplits
                             ? nullptr
                             : out + l.fourths() + SplitLayout::fourth_index(form) * l.fourth_bytes();
    if (SplitLayout::is_f32(form)) copy_block(w, l, block, tiles, fourth);
    else split_block(w, l, block, plan.inverses.data(), plan.column_scales.data(), tiles, fourth);
  });
}

void SplitColumns::dequantize(int64_t block, float* out) const noexcept {
  if (!is_f32(block)) return dequantize_block(*this, block, out);
  const int64_t bytes = layout_.dequantized_bytes(), first = std::min(bytes, layout_.block_bytes());
  std::memcpy(out, tiles(block), static_cast<size_t>(first));
  std::memcpy(reinterpret_cast<char*>(out) + first, fourth(block), static_cast<size_t>(bytes - first));
}

#else

void SplitColumns::dequantize(int64_t, float*) const noexcept {}
void split_columns(const StridedMatrix&, const SplitLayout&, const SplitPlan&, int, char*) {}

#endif

}  // namespace rlx::kernels
