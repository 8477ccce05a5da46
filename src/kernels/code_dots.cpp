// See the header.
#include "kernels/code_dots.h"

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wuninitialized"  // of _mm512_undefined_epi32; gcc bug 105593, fixed in 13
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <immintrin.h>

#include <cstring>
#endif

#include <algorithm>

#include "kernels/gemm_kernels.h"
#include "kernels/highway_targets.h"
#include "kernels/matrix_tiles.h"

namespace rlx::kernels {

#if defined(__x86_64__) && defined(__linux__)
namespace {

#define RLX_VNNI_512 __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")))
#define RLX_VNNI_256 __attribute__((target("avx2,fma,avxvnni")))

constexpr int kMostRows = 8;
constexpr int64_t kFours = kTileCodes / 4;  // along k in a step

/// Four codes of a row, to be multiplied with four of each column.
inline int four_at(const char* row) {
  int four = 0;
  std::memcpy(&four, row, sizeof four);
  return four;
}

template <int kRows>
RLX_VNNI_512 void multiply_512(int64_t steps, const char* left, const char* right, int32_t* sums, int64_t stride) {
  __m512i all[kRows][2];
  RLX_UNROLL
  for (int i = 0; i < kRows; ++i) all[i][0] = all[i][1] = _mm512_setzero_si512();
  for (int64_t s = 0; s < steps; ++s, left += kTileBytes, right += 2 * kTileBytes)
    for (int64_t p = 0; p < kFours; ++p) {
      const __m512i w0 = _mm512_load_si512(right + p * 64), w1 = _mm512_load_si512(right + kTileBytes + p * 64);
      RLX_UNROLL
      for (int i = 0; i < kRows; ++i) {
        const __m512i x = _mm512_set1_epi32(four_at(left + i * kTileCodes + p * 4));
        all[i][0] = _mm512_dpbusd_epi32(all[i][0], x, w0);
        all[i][1] = _mm512_dpbusd_epi32(all[i][1], x, w1);
      }
    }
  RLX_UNROLL
  for (int i = 0; i < kRows; ++i, sums += stride) {
    _mm512_storeu_si512(sums, all[i][0]);
    _mm512_storeu_si512(sums + 16, all[i][1]);
  }
}

/// Half of the columns at a time: there are 16 registers.
template <int kRows>
RLX_VNNI_256 void multiply_256(int64_t steps, const char* left, const char* right, int32_t* sums, int64_t stride) {
  for (int half = 0; half < 2; ++half) {
    __m256i all[kRows][2];
    RLX_UNROLL
    for (int i = 0; i < kRows; ++i) all[i][0] = all[i][1] = _mm256_setzero_si256();
    const char *x = left, *w = right + half * kTileBytes;
    for (int64_t s = 0; s < steps; ++s, x += kTileBytes, w += 2 * kTileBytes)
      for (int64_t p = 0; p < kFours; ++p) {
        const auto* columns = reinterpret_cast<const __m256i*>(w + p * 64);
        const __m256i w0 = _mm256_load_si256(columns), w1 = _mm256_load_si256(columns + 1);
        RLX_UNROLL
        for (int i = 0; i < kRows; ++i) {
          const __m256i four = _mm256_set1_epi32(four_at(x + i * kTileCodes + p * 4));
          all[i][0] = _mm256_dpbusd_avx_epi32(all[i][0], four, w0);
          all[i][1] = _mm256_dpbusd_avx_epi32(all[i][1], four, w1);
        }
      }
    RLX_UNROLL
    for (int i = 0; i < kRows; ++i) {
      auto* to = reinterpret_cast<__m256i*>(sums + i * stride + half * 16);
      _mm256_storeu_si256(to, all[i][0]);
      _mm256_storeu_si256(to + 1, all[i][1]);
    }
  }
}

using Multiply = void (*)(int64_t, const char*, const char*, int32_t*, int64_t);
constexpr Multiply kBy512[kMostRows] = {multiply_512<1>, multiply_512<2>, multiply_512<3>, multiply_512<4>,
                                        multiply_512<5>, multiply_512<6>, multiply_512<7>, multiply_512<8>};
constexpr int kMostRows256 = 5;  // ten sums, two columns, one row
constexpr Multiply kBy256[kMostRows256] = {multiply_256<1>, multiply_256<2>, multiply_256<3>, multiply_256<4>,
                                           multiply_256<5>};

bool has_avx512_vnni() {
  return __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
}
bool has_avx_vnni() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  constexpr unsigned kAvxVnni = 1u << 4;  // of leaf 7, 1; AVX2 says that the system keeps the registers
  return __builtin_cpu_supports("avx2") && __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 && (a & kAvxVnni) != 0;
}

}  // namespace

bool has_code_form(CodeForm form) {
  static const bool has_512 = has_avx512_vnni(), has_256 = has_avx_vnni();
  switch (form) {
    case CodeForm::tiles: return has_matrix_tiles();
    case CodeForm::avx512_vnni: return has_512 && product_lanes(f32) == 16;
    case CodeForm::avx_vnni: return has_256 && product_lanes(f32) >= 8;
    case CodeForm::plain: break;
  }
  return true;
}

void multiply_code_dots(CodeForm form, int64_t steps, int64_t rows, const char* upper, const char* lower,
                        const char* right, int32_t* sums, int64_t stride) noexcept {
  const bool wide = form == CodeForm::avx512_vnni;
  const Multiply* multiply = wide ? kBy512 : kBy256;
  const int64_t most = wide ? kMostRows : kMostRows256;
  for (int64_t begin = 0; begin < rows;) {
    const bool is_upper = begin < kTileLines;
    const int64_t end = is_upper ? std::min(rows, kTileLines) : rows, count = std::min(most, end - begin);
    const char* left = is_upper ? upper + begin * kTileCodes : lower + (begin - kTileLines) * kTileCodes;
    multiply[count - 1](steps, left, right, sums + begin * stride, stride);
    begin += count;
  }
}

#else

bool has_code_form(CodeForm form) { return form == CodeForm::plain; }
void multiply_code_dots(CodeForm, int64_t, int64_t, const char*, const char*, const char*, int32_t*, int64_t) noexcept {
}

#endif

CodeForm best_code_form() {
  for (CodeForm form : {CodeForm::tiles, CodeForm::avx512_vnni, CodeForm::avx_vnni})
    if (has_code_form(form)) return form;
  return CodeForm::plain;
}

}  // namespace rlx::kernels
