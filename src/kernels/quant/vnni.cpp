// See the header.
#include "kernels/quant/vnni.h"

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

#include "kernels/gemm/amx/tiles.h"
#include "kernels/gemm/fma/micro_kernels.h"
#include "kernels/vector/highway_targets.h"
#include "kernels/vector/instruction_set.h"

namespace rlx::kernels {

#if defined(__x86_64__) && defined(__linux__)
namespace {

#define RLX_VNNI_512 __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")))
#define RLX_VNNI_256 __attribute__((target("avx2,fma,avxvnni")))

constexpr int kMaxRows = 8;
constexpr int64_t kQuadsPerStep = kTileInt8 / 4;  // groups of four along k in a step

/// Four 8-bit values of a row, as one 32-bit lane. An instruction multiplies them with four values of each column.
inline int quad_at(const char* row) {
  int quad = 0;
  std::memcpy(&quad, row, sizeof quad);
  return quad;
}

template <int kRows>
RLX_VNNI_512 void multiply_512(int64_t steps, const char* left, const char* right, int32_t* sums, int64_t stride,
                               const char* prefetch, int64_t prefetch_bytes) {
  __m512i sums_of[kRows][2];
  RLX_UNROLL
  for (int i = 0; i < kRows; ++i) sums_of[i][0] = sums_of[i][1] = _mm512_setzero_si512();
  for (int64_t s = 0; s < steps; ++s, left += kTileBytes, right += 2 * kTileBytes) {
    for (int64_t b = 0; b < prefetch_bytes; b += 64, prefetch += 64) __builtin_prefetch(prefetch, 0, 2);
    for (int64_t p = 0; p < kQuadsPerStep; ++p) {
      const __m512i w0 = _mm512_load_si512(right + p * 64), w1 = _mm512_load_si512(right + kTileBytes + p * 64);
      RLX_UNROLL
      for (int i = 0; i < kRows; ++i) {
        const __m512i x = _mm512_set1_epi32(quad_at(left + i * kTileInt8 + p * 4));
        sums_of[i][0] = _mm512_dpbusd_epi32(sums_of[i][0], x, w0);
        sums_of[i][1] = _mm512_dpbusd_epi32(sums_of[i][1], x, w1);
      }
    }
  }
  RLX_UNROLL
  for (int i = 0; i < kRows; ++i, sums += stride) {
    _mm512_storeu_si512(sums, sums_of[i][0]);
    _mm512_storeu_si512(sums + 16, sums_of[i][1]);
  }
}

/// The 32 columns are computed in two halves, because there are only 16 registers.
template <int kRows>
RLX_VNNI_256 void multiply_256(int64_t steps, const char* left, const char* right, int32_t* sums, int64_t stride,
                               const char*, int64_t) {
  for (int half = 0; half < 2; ++half) {
    __m256i sums_of[kRows][2];
    RLX_UNROLL
    for (int i = 0; i < kRows; ++i) sums_of[i][0] = sums_of[i][1] = _mm256_setzero_si256();
    const char *x = left, *w = right + half * kTileBytes;
    for (int64_t s = 0; s < steps; ++s, x += kTileBytes, w += 2 * kTileBytes)
      for (int64_t p = 0; p < kQuadsPerStep; ++p) {
        const auto* columns = reinterpret_cast<const __m256i*>(w + p * 64);
        const __m256i w0 = _mm256_load_si256(columns), w1 = _mm256_load_si256(columns + 1);
        RLX_UNROLL
        for (int i = 0; i < kRows; ++i) {
          const __m256i quad = _mm256_set1_epi32(quad_at(x + i * kTileInt8 + p * 4));
          sums_of[i][0] = _mm256_dpbusd_avx_epi32(sums_of[i][0], quad, w0);
          sums_of[i][1] = _mm256_dpbusd_avx_epi32(sums_of[i][1], quad, w1);
        }
      }
    RLX_UNROLL
    for (int i = 0; i < kRows; ++i) {
      auto* to = reinterpret_cast<__m256i*>(sums + i * stride + half * 16);
      _mm256_storeu_si256(to, sums_of[i][0]);
      _mm256_storeu_si256(to + 1, sums_of[i][1]);
    }
  }
}

using MicroKernel = void (*)(int64_t, const char*, const char*, int32_t*, int64_t, const char*, int64_t);
constexpr MicroKernel kKernels512[kMaxRows] = {multiply_512<1>, multiply_512<2>, multiply_512<3>, multiply_512<4>,
                                               multiply_512<5>, multiply_512<6>, multiply_512<7>, multiply_512<8>};
constexpr int kMaxRows256 = 5;  // 16 registers hold 10 sums, 2 vectors of columns and 1 broadcast of a row
constexpr MicroKernel kKernels256[kMaxRows256] = {multiply_256<1>, multiply_256<2>, multiply_256<3>, multiply_256<4>,
                                                  multiply_256<5>};

bool has_avx512_vnni() {
  return __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
}
bool has_avx_vnni() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  // A bit of CPUID leaf 7, subleaf 1. The AVX2 check says that the system saves the registers.
  constexpr unsigned kAvxVnni = 1u << 4;
  return __builtin_cpu_supports("avx2") && __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 && (a & kAvxVnni) != 0;
}

}  // namespace

bool has_int8_dot_isa(Int8DotIsa isa) {
  static const bool has_512 = has_avx512_vnni(), has_256 = has_avx_vnni();
  const bool may = is_permitted(InstructionSet::avx512_vnni);
  switch (isa) {
    case Int8DotIsa::tiles: return has_matrix_tiles();
    case Int8DotIsa::avx512_vnni: return may && has_512 && product_lanes(f32) == 16;
    case Int8DotIsa::avx_vnni: return may && has_256 && product_lanes(f32) >= 8;
    case Int8DotIsa::pairs: return true;
    default: return false;
  }
}

void multiply_int8_dots(Int8DotIsa isa, int64_t steps, int64_t rows, const char* upper, const char* lower,
                        const char* right, int32_t* sums, int64_t stride, ComingWeights* coming) noexcept {
  const bool wide = isa == Int8DotIsa::avx512_vnni;
  const MicroKernel* kernels = wide ? kKernels512 : kKernels256;
  const int64_t max_rows = wide ? kMaxRows : kMaxRows256;
  for (int64_t begin = 0; begin < rows;) {
    const bool is_upper = begin < kTileRows;
    const int64_t end = is_upper ? std::min(rows, kTileRows) : rows, count = std::min(max_rows, end - begin);
    const char* left = is_upper ? upper + begin * kTileInt8 : lower + (begin - kTileRows) * kTileInt8;
    const bool prefetches = coming && coming->end - coming->at >= steps * coming->step_bytes;
    const char* const prefetch = prefetches ? coming->at : nullptr;
    kernels[count - 1](steps, left, right, sums + begin * stride, stride, prefetch,
                       prefetches ? coming->step_bytes : 0);
    if (prefetches) coming->at += steps * coming->step_bytes;
    begin += count;
  }
}

#elif !defined(__aarch64__) || defined(__AARCH64EB__)  // whose own are in neon_dots.cpp

bool has_int8_dot_isa(Int8DotIsa isa) { return isa == Int8DotIsa::pairs; }
void multiply_int8_dots(Int8DotIsa, int64_t, int64_t, const char*, const char*, const char*, int32_t*, int64_t,
                        ComingWeights*) noexcept {}

#endif

Int8DotIsa best_int8_dot_isa() {
  Int8DotIsa best = Int8DotIsa::pairs;
  for (Int8DotIsa isa : kInt8DotIsas)
    if (has_int8_dot_isa(isa)) best = isa;
  return best;
}

}  // namespace rlx::kernels
