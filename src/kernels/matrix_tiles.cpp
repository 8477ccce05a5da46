// See the header. The instructions are written as assembly: the intrinsics want target attributes that depend on the
// compiler, and no value of tiles leaves this file.
#include "kernels/matrix_tiles.h"

#if defined(__GNUC__) && !defined(__clang__)      // before the header: it is its inline functions that are accused
#pragma GCC diagnostic ignored "-Wuninitialized"  // of _mm512_undefined_epi32; gcc bug 105593, fixed in 13
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

#if RLX_HAS_TILES
#include <cpuid.h>
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include <type_traits>

#include "kernels/gemm_kernels.h"
#include "kernels/highway_targets.h"

namespace rlx::kernels {

TileForm tile_form(DType lhs, DType rhs) {
  if (lhs == bf16 && rhs == bf16) return TileForm::one;
  return lhs == f16 && rhs == f16 ? TileForm::two : TileForm::three;
}

#if RLX_HAS_TILES

namespace {

/// The system keeps a thread's tiles only when asked to (Linux, Documentation/arch/x86/xstate.rst).
bool is_permitted() {
  constexpr long kRequestPermission = 0x1023, kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}
bool has_instructions() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return false;
  constexpr unsigned kBf16 = 1u << 22, kTile = 1u << 24, kInt8 = 1u << 25;
  if ((d & kBf16) == 0 || (d & kTile) == 0 || (d & kInt8) == 0) return false;
  return __builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
}

#define RLX_WIDE __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")))
#define RLX_WIDE_INLINE RLX_WIDE __attribute__((always_inline)) inline

/// Whether parts of bf16 stand for the numbers of 16 lines, of which these are the bits of the largest magnitudes.
/// Tiles take subnormal numbers for 0: where both lines have a number of 2^-50, so much is lost of a product as f32
/// rounds of it anyway. Parts are rounded up, too: below 2^62 they overflow no sooner than the numbers. What is one
/// bf16 already is not rounded, and may be infinite.
RLX_WIDE bool are_fit(__m512i most, int parts) {
  const __m512i least = _mm512_set1_epi32(0x26800000);  // 2^-50
  const __mmask16 used = _mm512_test_epi32_mask(most, most);
  const __mmask16 small = _mm512_mask_cmplt_epu32_mask(used, most, least);
  const __mmask16 large = _mm512_cmpge_epu32_mask(most, _mm512_set1_epi32(0x5e800000));  // 2^62
  return small == 0 && (parts == 1 || large == 0);
}

RLX_WIDE_INLINE __m512 as_f32(__m256i bf16s) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bf16s), 16));
}
/// Two vectors as bf16, one after the other: by parts, of which each takes what the one before has left.
template <int kParts>
RLX_WIDE_INLINE void split(__m512 first, __m512 second, __m512i interleaving, __m512i* parts, __m512i* pairs) {
  RLX_UNROLL for (int p = 0; p < kParts; ++p) {
    parts[p] = (__m512i)_mm512_cvtne2ps_pbh(second, first);
    pairs[p] = _mm512_permutexvar_epi16(interleaving, parts[p]);
    if (p + 1 == kParts) break;
    first = _mm512_sub_ps(first, _mm512_castsi512_ps(_mm512_slli_epi32(pairs[p], 16)));
    second = _mm512_sub_ps(
        second, _mm512_castsi512_ps(_mm512_and_epi32(pairs[p], _mm512_set1_epi32(static_cast<int>(0xffff0000u)))));
  }
}
/// 0, 16, 1, 17, ...
RLX_WIDE_INLINE __m512i interleaving_words() {
  const __m512i step = _mm512_set1_epi32(0x00010001);
  __m512i index = _mm512_mullo_epi16(_mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0), step);
  index = _mm512_or_epi32(index, _mm512_slli_epi32(index, 16));
  return _mm512_or_epi32(index, _mm512_set1_epi32(16 << 16));
}

/// Up to 16 adjacent numbers as f32, zeros behind them.
template <DType kDtype>
RLX_WIDE_INLINE __m512 load_numbers(const char* from, __mmask16 mask) {
  if constexpr (kDtype == f32) return _mm512_maskz_loadu_ps(mask, from);
  const __m256i words = _mm256_maskz_loadu_epi16(mask, from);
  if constexpr (kDtype == bf16) return as_f32(words);
  return _mm512_cvtph_ps(words);
}
RLX_WIDE_INLINE __mmask16 mask_of(int64_t count) {
  return count >= 16 ? __mmask16(0xffff) : count <= 0 ? __mmask16(0) : __mmask16((1u << count) - 1);
}
RLX_WIDE_INLINE __m512i magnitude(__m512 v) {
  return _mm512_and_epi32(_mm512_castps_si512(v), _mm512_set1_epi32(0x7fffffff));
}

/// Of 16 vectors of 16, in place.
RLX_WIDE_INLINE void transpose(__m512i* r) {
  __m512i t[16];
  RLX_UNROLL for (int i = 0; i < 8; ++i) {
    t[2 * i] = _mm512_unpacklo_epi32(r[2 * i], r[2 * i + 1]);
    t[2 * i + 1] = _mm512_unpackhi_epi32(r[2 * i], r[2 * i + 1]);
  }
  RLX_UNROLL for (int i = 0; i < 16; i += 4) {
    r[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
    r[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
    r[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
    r[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
  }
  RLX_UNROLL for (int j = 0; j < 4; ++j) {
    t[j] = _mm512_shuffle_i32x4(r[j], r[4 + j], 0x88);
    t[4 + j] = _mm512_shuffle_i32x4(r[8 + j], r[12 + j], 0x88);
    t[8 + j] = _mm512_shuffle_i32x4(r[j], r[4 + j], 0xdd);
    t[12 + j] = _mm512_shuffle_i32x4(r[8 + j], r[12 + j], 0xdd);
  }
  RLX_UNROLL for (int j = 0; j < 4; ++j) {
    r[j] = _mm512_shuffle_i32x4(t[j], t[4 + j], 0x88);
    r[8 + j] = _mm512_shuffle_i32x4(t[j], t[4 + j], 0xdd);
    r[4 + j] = _mm512_shuffle_i32x4(t[8 + j], t[12 + j], 0x88);
    r[12 + j] = _mm512_shuffle_i32x4(t[8 + j], t[12 + j], 0xdd);
  }
}

/// A tile's vectors are made of 32 elements of a line if memory runs along k, else of pairs of elements of 16 lines.
/// The left operand's tiles have the former, the right one's the latter: where these differ, a tile is turned.
/// With `apart`, lines stand where that says, and only those that there are.
template <DType kDtype, int kParts, bool kAlongK, bool kLeft>
RLX_WIDE bool pack_tiles(const TileSource& s, int64_t lines, int64_t k, char* out, const LinesApart* apart = nullptr) {
  const int64_t kept = apart ? lines : 16, line_bytes = apart ? apart->line_bytes : 64;
  const int64_t part_bytes = apart ? 64 : kLeft ? kTileBytes : 2 * kTileBytes;
  const int64_t step_bytes = apart ? apart->step_bytes : kParts * part_bytes;
  constexpr auto kSize = static_cast<int64_t>(kDtype == f32 ? 4 : 2);
  constexpr bool kTurned = kAlongK != kLeft;
  constexpr int64_t kBytesAhead = 512;
  const __m512i interleaving = interleaving_words();
  const auto* const data = static_cast<const char*>(s.data);
  __m512i most[16] = {};  // by line; all lines in the first where a vector has one element of each
  __m512i turned[kParts][16];
  for (int64_t begin = 0; begin < k; begin += kTileFloats, out += step_bytes) {
    const int64_t left = k - begin;
    for (int64_t i = 0; i < (kTurned ? 16 : kept); ++i) {
      __m512 first = _mm512_setzero_ps(), second = first;
      if constexpr (kAlongK) {
        if (i < lines) {
          const char* from = data + (i * s.line_stride + begin) * kSize;
          _mm_prefetch(from + kBytesAhead, _MM_HINT_T0);
          if constexpr (kSize == 4) _mm_prefetch(from + kBytesAhead + 64, _MM_HINT_T0);
          first = load_numbers<kDtype>(from, mask_of(left));
          if (left > 16) second = load_numbers<kDtype>(from + 16 * kSize, mask_of(left - 16));
        }
      } else {
        const __mmask16 mask = mask_of(lines);
        const auto row = [&](int64_t below) { return data + (begin + 2 * i + below) * s.k_stride * kSize; };
        // Rows of 64 bytes that are far apart: the processor does not foresee them.
        if (2 * i + 33 < left) _mm_prefetch(row(32), _MM_HINT_T0), _mm_prefetch(row(33), _MM_HINT_T0);
        if (2 * i < left) first = load_numbers<kDtype>(row(0), mask);
        if (2 * i + 1 < left) second = load_numbers<kDtype>(row(1), mask);
      }
      __m512i& seen = most[kAlongK ? i : 0];
      seen = _mm512_max_epu32(seen, _mm512_max_epu32(magnitude(first), magnitude(second)));
      __m512i parts[kParts], pairs[kParts];
      split<kParts>(first, second, interleaving, parts, pairs);
      RLX_UNROLL for (int p = 0; p < kParts; ++p) {
        const __m512i v = kAlongK ? parts[p] : pairs[p];
        if constexpr (kTurned) turned[p][i] = v;
        else _mm512_store_si512(out + p * part_bytes + i * line_bytes, v);
      }
    }
    if constexpr (kTurned)
      for (int p = 0; p < kParts; ++p) {
        transpose(turned[p]);
        for (int64_t i = 0; i < kept; ++i) _mm512_store_si512(out + p * part_bytes + i * line_bytes, turned[p][i]);
      }
  }
  if constexpr (!kAlongK) return are_fit(most[0], kParts);
  alignas(64) uint32_t of_line[16];
  for (int i = 0; i < 16; ++i) of_line[i] = _mm512_reduce_max_epu32(most[i]);
  return are_fit(_mm512_load_si512(of_line), kParts);
}

/// bf16 that are packed in pairs already.
RLX_WIDE bool copy_pairs(const TileSource& s, int64_t lines, int64_t k, char* out) {
  const auto* from = static_cast<const char*>(s.data);
  const __mmask16 mask = mask_of(lines);
  __m512i most = _mm512_setzero_si512();  // of each line's even and odd places
  for (int64_t begin = 0; begin < k; begin += kTileFloats, out += 2 * kTileBytes)
    for (int64_t i = 0; i < 16; ++i) {
      __m512i v = _mm512_setzero_si512();
      if (begin + 2 * i < k) v = _mm512_maskz_loadu_epi32(mask, from + (begin / 2 + i) * s.k_stride * 4);
      _mm512_store_si512(out + i * 64, v);
      most = _mm512_max_epu16(most, _mm512_and_epi32(v, _mm512_set1_epi32(0x7fff7fff)));
    }
  const __m512i odd = _mm512_and_epi32(most, _mm512_set1_epi32(static_cast<int>(0xffff0000u)));
  return are_fit(_mm512_max_epu32(odd, _mm512_slli_epi32(most, 16)), 1);
}

template <bool kLeft>
bool pack(const TileSource& s, int64_t lines, int64_t k, TileForm form, char* out) {
  const bool along_k = s.k_stride == 1;
  const auto pack_as = [&](auto along) {
    constexpr bool kAlongK = decltype(along)::value;
    if (form == TileForm::one) return pack_tiles<bf16, 1, kAlongK, kLeft>(s, lines, k, out);
    if (form == TileForm::two) return pack_tiles<f16, 2, kAlongK, kLeft>(s, lines, k, out);
    if (s.dtype == bf16) return pack_tiles<bf16, 3, kAlongK, kLeft>(s, lines, k, out);
    if (s.dtype == f16) return pack_tiles<f16, 3, kAlongK, kLeft>(s, lines, k, out);
    return pack_tiles<f32, 3, kAlongK, kLeft>(s, lines, k, out);
  };
  return along_k ? pack_as(std::true_type()) : pack_as(std::false_type());
}

// Registers: 0 to 3 the sums (upper left, upper right, lower left, lower right), 4 and 5 the rows, 6 and 7 the columns.
#define RLX_LOAD_UPPER(at) "tileloadd " #at "(%[upper],%[line],1), %%tmm4\n\t"
#define RLX_LOAD_LOWER(at) "tileloadd " #at "(%[lower],%[line],1), %%tmm5\n\t"
#define RLX_LOAD_LEFT(at) RLX_LOAD_UPPER(at) RLX_LOAD_LOWER(at)
#define RLX_LOAD_RIGHT(at, next)     \
  "tileloadd " #at                   \
  "(%[right],%[line],1), %%tmm6\n\t" \
  "tileloadd " #next "(%[right],%[line],1), %%tmm7\n\t"
#define RLX_MULTIPLY_UPPER(dot) dot " %%tmm6, %%tmm4, %%tmm0\n\t" dot " %%tmm7, %%tmm4, %%tmm1\n\t"
#define RLX_MULTIPLY_LOWER(dot) dot " %%tmm6, %%tmm5, %%tmm2\n\t" dot " %%tmm7, %%tmm5, %%tmm3\n\t"
#define RLX_MULTIPLY(dot) RLX_MULTIPLY_UPPER(dot) RLX_MULTIPLY_LOWER(dot)
#define RLX_BF16 "tdpbf16ps"

constexpr int64_t kLine = 64;

struct Step {
  const char *upper, *lower, *right;
};

#define RLX_STEP(text) \
  asm volatile(text ::[upper] "r"(s.upper), [lower] "r"(s.lower), [right] "r"(s.right), [line] "r"(kLine) : "memory")

// Each product of parts shares an operand with the one before it.
template <TileForm kForm, bool kBoth>
inline void bf16_step(const Step& s) {
  if constexpr (kForm == TileForm::one) {
    if constexpr (kBoth) RLX_STEP(RLX_LOAD_LEFT(0) RLX_LOAD_RIGHT(0, 1024) RLX_MULTIPLY(RLX_BF16));
    else RLX_STEP(RLX_LOAD_UPPER(0) RLX_LOAD_RIGHT(0, 1024) RLX_MULTIPLY_UPPER(RLX_BF16));
  } else if constexpr (kForm == TileForm::two) {
    if constexpr (kBoth)
      RLX_STEP(RLX_LOAD_LEFT(1024) RLX_LOAD_RIGHT(2048, 3072) RLX_MULTIPLY(RLX_BF16)  // middle, middle
               RLX_LOAD_LEFT(0) RLX_MULTIPLY(RLX_BF16)                                // high, middle
               RLX_LOAD_RIGHT(0, 1024) RLX_MULTIPLY(RLX_BF16)                         // high, high
               RLX_LOAD_LEFT(1024) RLX_MULTIPLY(RLX_BF16));                           // middle, high
    else
      RLX_STEP(RLX_LOAD_UPPER(1024) RLX_LOAD_RIGHT(2048, 3072) RLX_MULTIPLY_UPPER(RLX_BF16)  //
               RLX_LOAD_UPPER(0) RLX_MULTIPLY_UPPER(RLX_BF16)                                //
               RLX_LOAD_RIGHT(0, 1024) RLX_MULTIPLY_UPPER(RLX_BF16)                          //
               RLX_LOAD_UPPER(1024) RLX_MULTIPLY_UPPER(RLX_BF16));
  } else {
    if constexpr (kBoth)
      RLX_STEP(RLX_LOAD_LEFT(2048) RLX_LOAD_RIGHT(0, 1024) RLX_MULTIPLY(RLX_BF16)  // low, high
               RLX_LOAD_LEFT(1024) RLX_MULTIPLY(RLX_BF16)                          // middle, high
               RLX_LOAD_RIGHT(2048, 3072) RLX_MULTIPLY(RLX_BF16)                   // middle, middle
               RLX_LOAD_LEFT(0) RLX_MULTIPLY(RLX_BF16)                             // high, middle
               RLX_LOAD_RIGHT(4096, 5120) RLX_MULTIPLY(RLX_BF16)                   // high, low
               RLX_LOAD_RIGHT(0, 1024) RLX_MULTIPLY(RLX_BF16));                    // high, high
    else
      RLX_STEP(RLX_LOAD_UPPER(2048) RLX_LOAD_RIGHT(0, 1024) RLX_MULTIPLY_UPPER(RLX_BF16)  //
               RLX_LOAD_UPPER(1024) RLX_MULTIPLY_UPPER(RLX_BF16)                          //
               RLX_LOAD_RIGHT(2048, 3072) RLX_MULTIPLY_UPPER(RLX_BF16)                    //
               RLX_LOAD_UPPER(0) RLX_MULTIPLY_UPPER(RLX_BF16)                             //
               RLX_LOAD_RIGHT(4096, 5120) RLX_MULTIPLY_UPPER(RLX_BF16)                    //
               RLX_LOAD_RIGHT(0, 1024) RLX_MULTIPLY_UPPER(RLX_BF16));
  }
}

template <bool kLeftSigned, bool kRightSigned, bool kBoth>
inline void code_step(const Step& s) {
#define RLX_CODE_STEP(dot)                                                                   \
  if constexpr (kBoth) RLX_STEP(RLX_LOAD_LEFT(0) RLX_LOAD_RIGHT(0, 1024) RLX_MULTIPLY(dot)); \
  else RLX_STEP(RLX_LOAD_UPPER(0) RLX_LOAD_RIGHT(0, 1024) RLX_MULTIPLY_UPPER(dot))
  if constexpr (kLeftSigned && kRightSigned) {
    RLX_CODE_STEP("tdpbssd");
  } else if constexpr (kLeftSigned) {
    RLX_CODE_STEP("tdpbsud");
  } else if constexpr (kRightSigned) {
    RLX_CODE_STEP("tdpbusd");
  } else {
    RLX_CODE_STEP("tdpbuud");
  }
}

/// `step` adds one step; `parts` tiles of each operand belong to it.
template <class AddStep>
inline void all_steps(int64_t parts, int64_t steps, const char* upper, const char* lower, const char* right, void* sums,
                      int64_t stride_bytes, AddStep add_step) {
  asm volatile("tilezero %%tmm0\n\ttilezero %%tmm1\n\ttilezero %%tmm2\n\ttilezero %%tmm3" ::: "memory");
  Step s{upper, lower ? lower : upper, right};
  for (int64_t i = 0; i < steps; ++i) {
    add_step(s);
    s.upper += parts * kTileBytes, s.lower += parts * kTileBytes, s.right += 2 * parts * kTileBytes;
  }
  char* to = static_cast<char*>(sums);
  asm volatile("tilestored %%tmm0, (%0,%1,1)\n\ttilestored %%tmm1, 64(%0,%1,1)" ::"r"(to), "r"(stride_bytes)
               : "memory");
  if (!lower) return;
  to += kTileLines * stride_bytes;
  asm volatile("tilestored %%tmm2, (%0,%1,1)\n\ttilestored %%tmm3, 64(%0,%1,1)" ::"r"(to), "r"(stride_bytes)
               : "memory");
}

template <TileForm kForm>
void multiply_form(int64_t steps, const char* upper, const char* lower, const char* right, float* sums,
                   int64_t stride) {
  const auto run = [&](auto step) {
    all_steps(static_cast<int64_t>(kForm), steps, upper, lower, right, sums, stride * 4, step);
  };
  if (lower) run([](const Step& s) { bf16_step<kForm, true>(s); });
  else run([](const Step& s) { bf16_step<kForm, false>(s); });
}

RLX_WIDE void turn(const float* from, int64_t stride, float* to, int64_t to_stride) {
  __m512i lines[16];
  RLX_UNROLL for (int i = 0; i < 16; ++i) lines[i] = _mm512_loadu_si512(from + i * stride);
  transpose(lines);
  RLX_UNROLL for (int i = 0; i < 16; ++i) _mm512_storeu_si512(to + i * to_stride, lines[i]);
}

template <bool kLeftSigned, bool kRightSigned>
void multiply_codes_as(int64_t steps, const char* upper, const char* lower, const char* right, int32_t* sums,
                       int64_t stride) {
  const auto run = [&](auto step) { all_steps(1, steps, upper, lower, right, sums, stride * 4, step); };
  if (lower) run([](const Step& s) { code_step<kLeftSigned, kRightSigned, true>(s); });
  else run([](const Step& s) { code_step<kLeftSigned, kRightSigned, false>(s); });
}

}  // namespace

bool has_matrix_tiles() {
  static const bool has = has_instructions() && is_permitted();
  // As wide as the vectors that were chosen, which takes no question to the processor: a virtual one takes 20 us.
  return has && product_lanes(f32) == kTileLines;
}

TileScope::TileScope() {
  struct alignas(64) Config {  // Intel SDM, volume 1, table 18-1
    uint8_t palette = 1, start_row = 0, reserved[14] = {};
    uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
    uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
  };
  static constexpr Config kConfig;
  asm volatile("ldtilecfg %0" ::"m"(kConfig));
}
// Tiles that are not in use need not be kept when the system changes threads.
TileScope::~TileScope() { asm volatile("tilerelease"); }

bool pack_left_tiles(const TileSource& s, int64_t lines, int64_t k, TileForm form, char* out) noexcept {
  return pack<true>(s, lines, k, form, out);
}
bool pack_left_lines(const TileSource& s, int64_t lines, int64_t k, char* out, const LinesApart& apart) noexcept {
  if (s.k_stride == 1) return pack_tiles<f32, 3, true, true>(s, lines, k, out, &apart);
  return pack_tiles<f32, 3, false, true>(s, lines, k, out, &apart);
}
bool pack_right_tiles(const TileSource& s, int64_t lines, int64_t k, TileForm form, char* out) noexcept {
  if (!s.pairs) return pack<false>(s, lines, k, form, out);
  return copy_pairs(s, lines, k, out);
}

RLX_WIDE bool parts_stand_for(const uint32_t* magnitudes) noexcept {
  return are_fit(_mm512_loadu_si512(magnitudes), 3);
}

void multiply_tiles(TileForm form, int64_t steps, const char* upper, const char* lower, const char* right, float* sums,
                    int64_t stride) noexcept {
  if (form == TileForm::one) multiply_form<TileForm::one>(steps, upper, lower, right, sums, stride);
  else if (form == TileForm::two) multiply_form<TileForm::two>(steps, upper, lower, right, sums, stride);
  else multiply_form<TileForm::three>(steps, upper, lower, right, sums, stride);
}

void turn_tile(const float* from, int64_t stride, float* to, int64_t to_stride) noexcept {
  turn(from, stride, to, to_stride);
}

void multiply_code_tiles(DType left, DType right_dtype, int64_t steps, const char* upper, const char* lower,
                         const char* right, int32_t* sums, int64_t stride) noexcept {
  if (left == i8 && right_dtype == i8) multiply_codes_as<true, true>(steps, upper, lower, right, sums, stride);
  else if (left == i8) multiply_codes_as<true, false>(steps, upper, lower, right, sums, stride);
  else if (right_dtype == i8) multiply_codes_as<false, true>(steps, upper, lower, right, sums, stride);
  else multiply_codes_as<false, false>(steps, upper, lower, right, sums, stride);
}

#else

bool has_matrix_tiles() { return false; }
TileScope::TileScope() = default;
TileScope::~TileScope() = default;
bool pack_left_tiles(const TileSource&, int64_t, int64_t, TileForm, char*) noexcept { return false; }
bool pack_left_lines(const TileSource&, int64_t, int64_t, char*, const LinesApart&) noexcept { return false; }
bool pack_right_tiles(const TileSource&, int64_t, int64_t, TileForm, char*) noexcept { return false; }
void multiply_tiles(TileForm, int64_t, const char*, const char*, const char*, float*, int64_t) noexcept {}
bool parts_stand_for(const uint32_t*) noexcept { return false; }
void turn_tile(const float*, int64_t, float*, int64_t) noexcept {}
void multiply_code_tiles(DType, DType, int64_t, const char*, const char*, const char*, int32_t*, int64_t) noexcept {}

#endif

}  // namespace rlx::kernels
