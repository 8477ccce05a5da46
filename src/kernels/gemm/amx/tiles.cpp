// See the header. The instructions are written as assembly: the intrinsics want target attributes that depend on the
// compiler. The file is longer than others because no value that is in a tile may leave it.
#include "kernels/gemm/amx/tiles.h"

#if defined(__GNUC__) && !defined(__clang__)
// GCC 12 warns of _mm512_undefined_epi32 in its own <immintrin.h> (bug 105593, fixed in 13). The warning is given for
// the header's inline functions, so it must be switched off before the header.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

#if RLX_HAS_TILES
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include <algorithm>
#include <atomic>
#include <bit>
#include <limits>
#include <type_traits>

#include "kernels/gemm/amx/one_term.h"
#include "kernels/gemm/fma/micro_kernels.h"
#include "kernels/vector/highway_targets.h"
#include "kernels/vector/instruction_set.h"

namespace rlx::kernels {

TileForm tile_form(DType lhs, DType rhs) {
  if (lhs == bf16 && rhs == bf16) return TileForm::one;
  return lhs == f16 && rhs == f16 ? TileForm::two : TileForm::three;
}

#if RLX_HAS_TILES

namespace {

/// Linux saves a thread's tiles only after a request for permission (Documentation/arch/x86/xstate.rst).
bool is_granted() {
  constexpr long kRequestPermission = 0x1023, kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}
/// Whether the processor has the vector instructions that are used beside the tiles.
bool has_vector_instructions() {
  return __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
}
/// Whether it has the one that rounds to bf16. All processors with tiles have it; tiles are emulated without it, too.
bool has_rounding_to_bf16() {
  static const bool has = __builtin_cpu_supports("avx512bf16");
  return has && is_permitted(kBF16Dots);
}

std::atomic<bool> is_emulated = false;

#define RLX_WIDE __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")))
#define RLX_WIDE_INLINE RLX_WIDE __attribute__((always_inline)) inline

/// The minimum magnitude that packing returns, from the bits of magnitudes; 0 if a number is out of split range.
/// Rounding may make a term larger than its number: up to 2^62, products of such terms overflow only if those of the
/// numbers do. A single bf16 term is the number itself, and may be infinite.
float min_magnitude(uint32_t max_bits, uint32_t min_bits_less_one, int terms) {
  constexpr uint32_t kTooLarge = 0x5e800000;  // 2^62
  if (terms > 1 && max_bits >= kTooLarge) return 0;
  if (min_bits_less_one == ~0u) return std::numeric_limits<float>::infinity();
  const auto min = std::bit_cast<float>(min_bits_less_one + 1);
  return min >= kMinSplitMagnitude ? min : 0;
}
/// The bits of magnitudes: the maximum, and the minimum less one of those that are not 0.
struct MagnitudeRange {
  __m512i max_bits, min_bits;

  RLX_WIDE_INLINE void begin() { max_bits = _mm512_setzero_si512(), min_bits = _mm512_set1_epi32(-1); }
  RLX_WIDE_INLINE void include(__m512 v) {
    const __m512i bits = _mm512_and_epi32(_mm512_castps_si512(v), _mm512_set1_epi32(0x7fffffff));
    max_bits = _mm512_max_epu32(max_bits, bits);
    min_bits = _mm512_min_epu32(min_bits, _mm512_sub_epi32(bits, _mm512_set1_epi32(1)));
  }
  RLX_WIDE_INLINE float result(int terms) const {
    return min_magnitude(_mm512_reduce_max_epu32(max_bits), _mm512_reduce_min_epu32(min_bits), terms);
  }
};

/// How many numbers that are not 0 each of 16 rows has, and the position along k of the last one. Vectors hold numbers
/// of one row (kAlongK), or one of each row.
template <bool kAlongK>
struct NumbersPerRow {
  alignas(64) int32_t counts[16] = {};
  alignas(64) int32_t last[16] = {};

  /// Of kAlongK: numbers `k` to k + 31 of a row. Otherwise: numbers k and k + 1 of each row.
  RLX_WIDE_INLINE void count(int64_t row, int64_t k, __m512 first, __m512 second) {
    const __mmask16 a = is_number(first), b = is_number(second);
    if constexpr (kAlongK) {
      const uint32_t all = static_cast<uint32_t>(b) << 16 | a;
      counts[row] += __builtin_popcount(all);
      if (all != 0) last[row] = static_cast<int32_t>(k) + __builtin_ctz(all);
    } else {
      const __m512i one = _mm512_set1_epi32(1);
      const __m512i all = _mm512_mask_add_epi32(_mm512_load_si512(counts), a, _mm512_load_si512(counts), one);
      _mm512_store_si512(counts, _mm512_mask_add_epi32(all, b, all, one));
      _mm512_mask_store_epi32(last, a, _mm512_set1_epi32(static_cast<int>(k)));
      _mm512_mask_store_epi32(last, b, _mm512_set1_epi32(static_cast<int>(k + 1)));
    }
  }
  /// As TileSource::singles.
  RLX_WIDE_INLINE void store_singles(int32_t* to) const {
    const __mmask16 single = _mm512_cmpeq_epi32_mask(_mm512_load_si512(counts), _mm512_set1_epi32(1));
    _mm512_storeu_si512(to, _mm512_mask_mov_epi32(_mm512_set1_epi32(-1), single, _mm512_load_si512(last)));
  }
  RLX_WIDE_INLINE bool are_few(int64_t few) const {
    const int all = _mm512_reduce_add_epi32(_mm512_load_si512(counts));
    return all > 0 && all <= few;
  }

 private:
  RLX_WIDE_INLINE static __mmask16 is_number(__m512 v) {
    return _mm512_cmp_ps_mask(v, _mm512_setzero_ps(), _CMP_NEQ_UQ);
  }
};

RLX_WIDE_INLINE __m512 as_f32(__m256i bf16s) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bf16s), 16));
}
/// 16 numbers of f32 rounded to bf16, to nearest and to even, without the instruction that does it.
RLX_WIDE_INLINE __m256i rounded_to_bf16(__m512 v) {
  const __m512i bits = _mm512_castps_si512(v);
  const __m512i odd = _mm512_and_epi32(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
  __m512i rounded = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
  // Rounding could make an infinity of a NaN.
  rounded = _mm512_mask_or_epi32(rounded, _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q), bits, _mm512_set1_epi32(0x400000));
  return _mm512_cvtepi32_epi16(_mm512_srli_epi32(rounded, 16));
}
/// Splits two vectors of f32 into bf16 terms, each of the remainder that the term before has left: terms[p] has the two
/// vectors one after the other, pairs[p] has them interleaved.
template <int kTerms, bool kHasRounding>
RLX_WIDE_INLINE void split(__m512 first, __m512 second, __m512i interleaving, __m512i* terms, __m512i* pairs) {
  RLX_UNROLL for (int p = 0; p < kTerms; ++p) {
    if constexpr (kHasRounding) terms[p] = (__m512i)_mm512_cvtne2ps_pbh(second, first);
    else terms[p] = _mm512_inserti64x4(_mm512_castsi256_si512(rounded_to_bf16(first)), rounded_to_bf16(second), 1);
    pairs[p] = _mm512_permutexvar_epi16(interleaving, terms[p]);
    if (p + 1 == kTerms) break;
    first = _mm512_sub_ps(first, _mm512_castsi512_ps(_mm512_slli_epi32(pairs[p], 16)));
    second = _mm512_sub_ps(
        second, _mm512_castsi512_ps(_mm512_and_epi32(pairs[p], _mm512_set1_epi32(static_cast<int>(0xffff0000u)))));
  }
}
/// The indices that interleave two halves of 16 words: 0, 16, 1, 17, ...
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

/// Transposes 16 x 16 elements of 32 bits in place.
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

/// Packs the terms of up to 16 rows. If memory is contiguous along k (kAlongK), a vector is loaded as 32 elements of
/// one row, which is how a left tile stores them; else as pairs of elements of 16 rows, which is how a right tile does.
/// Where the operand needs the other order, each tile is transposed. With `strides`, rows are stored where it says, and
/// only those that exist. With kCounts, numbers that are not 0 are counted, for TileSource::singles or
/// PackedRowStrides::few_numbers.
template <DType kDtype, int kTerms, bool kAlongK, bool kLeft, bool kCounts, bool kHasRounding>
RLX_WIDE float pack_tiles_with(const TileSource& s, int64_t rows, int64_t k, char* out,
                               const PackedRowStrides* strides) {
  const int64_t written_rows = strides ? rows : 16, row_bytes = strides ? strides->row_bytes : 64;
  const int64_t term_bytes = strides ? 64 : kLeft ? kTileBytes : 2 * kTileBytes;
  const int64_t step_bytes = strides ? strides->step_bytes : kTerms * term_bytes;
  constexpr auto kSize = static_cast<int64_t>(kDtype == f32 ? 4 : 2);
  constexpr bool kTransposed = kAlongK != kLeft;
  constexpr int64_t kPrefetchBytes = 512;
  const __m512i interleaving = interleaving_words();
  const auto* const data = static_cast<const char*>(s.data);
  MagnitudeRange range;
  range.begin();
  [[maybe_unused]] NumbersPerRow<kAlongK> numbers;
  __m512i transposed[kTerms][16];
  for (int64_t begin = 0; begin < k; begin += kTileFloats, out += step_bytes) {
    const int64_t left = k - begin;
    for (int64_t i = 0; i < (kTransposed ? 16 : written_rows); ++i) {
      __m512 first = _mm512_setzero_ps(), second = first;
      if constexpr (kAlongK) {
        if (i < rows) {
          const char* from = data + (i * s.row_stride + begin) * kSize;
          _mm_prefetch(from + kPrefetchBytes, _MM_HINT_T0);
          if constexpr (kSize == 4) _mm_prefetch(from + kPrefetchBytes + 64, _MM_HINT_T0);
          first = load_numbers<kDtype>(from, mask_of(left));
          if (left > 16) second = load_numbers<kDtype>(from + 16 * kSize, mask_of(left - 16));
        }
      } else {
        const __mmask16 mask = mask_of(rows);
        const auto row = [&](int64_t below) { return data + (begin + 2 * i + below) * s.k_stride * kSize; };
        // The hardware prefetcher does not foresee rows of 64 bytes with a large stride.
        if (2 * i + 33 < left) _mm_prefetch(row(32), _MM_HINT_T0), _mm_prefetch(row(33), _MM_HINT_T0);
        if (2 * i < left) first = load_numbers<kDtype>(row(0), mask);
        if (2 * i + 1 < left) second = load_numbers<kDtype>(row(1), mask);
      }
      range.include(first), range.include(second);
      if constexpr (kCounts) numbers.count(i, kAlongK ? begin : begin + 2 * i, first, second);
      __m512i terms[kTerms], pairs[kTerms];
      split<kTerms, kHasRounding>(first, second, interleaving, terms, pairs);
      RLX_UNROLL for (int p = 0; p < kTerms; ++p) {
        const __m512i v = kAlongK ? terms[p] : pairs[p];
        if constexpr (kTransposed) transposed[p][i] = v;
        else _mm512_store_si512(out + p * term_bytes + i * row_bytes, v);
      }
    }
    if constexpr (kTransposed)
      for (int p = 0; p < kTerms; ++p) {
        transpose(transposed[p]);
        for (int64_t i = 0; i < written_rows; ++i)
          _mm512_store_si512(out + p * term_bytes + i * row_bytes, transposed[p][i]);
      }
  }
  if constexpr (kCounts) {
    if (s.singles) numbers.store_singles(s.singles);
    if (strides && numbers.are_few(strides->few_numbers)) return 0;
  }
  return range.result(kTerms);
}
template <DType kDtype, int kTerms, bool kAlongK, bool kLeft, bool kCounts = false>
float pack_tiles(const TileSource& s, int64_t rows, int64_t k, char* out, const PackedRowStrides* strides = nullptr) {
  return (has_rounding_to_bf16()
              ? pack_tiles_with<kDtype, kTerms, kAlongK, kLeft, kCounts, true>
              : pack_tiles_with<kDtype, kTerms, kAlongK, kLeft, kCounts, false>)(s, rows, k, out, strides);
}

/// `range` with the two bf16 of each of 16 words.
RLX_WIDE_INLINE void include_pairs(MagnitudeRange& range, __m512i words) {
  range.include(_mm512_castsi512_ps(_mm512_slli_epi32(words, 16)));
  range.include(_mm512_castsi512_ps(_mm512_and_epi32(words, _mm512_set1_epi32(static_cast<int>(0xffff0000u)))));
}

/// As pack_tiles for the right operand, of bf16 that are packed in pairs already.
RLX_WIDE float copy_pairs(const TileSource& s, int64_t rows, int64_t k, char* out) {
  const auto* from = static_cast<const char*>(s.data);
  const __mmask16 mask = mask_of(rows);
  MagnitudeRange range;
  range.begin();
  for (int64_t begin = 0; begin < k; begin += kTileFloats, out += 2 * kTileBytes)
    for (int64_t i = 0; i < 16; ++i) {
      __m512i v = _mm512_setzero_si512();
      if (begin + 2 * i < k) v = _mm512_maskz_loadu_epi32(mask, from + (begin / 2 + i) * s.k_stride * 4);
      _mm512_store_si512(out + i * 64, v);
      include_pairs(range, v);
    }
  return range.result(1);
}

template <bool kLeft>
float pack(const TileSource& s, int64_t rows, int64_t k, TileForm form, char* out) {
  const bool along_k = s.k_stride == 1;
  const auto pack_as = [&](auto along) {
    constexpr bool kAlongK = decltype(along)::value;
    if (form == TileForm::one) return pack_tiles<bf16, 1, kAlongK, kLeft>(s, rows, k, out);
    if (form == TileForm::two) return pack_tiles<f16, 2, kAlongK, kLeft>(s, rows, k, out);
    if (s.dtype == bf16) return pack_tiles<bf16, 3, kAlongK, kLeft>(s, rows, k, out);
    if (s.dtype == f16) return pack_tiles<f16, 3, kAlongK, kLeft>(s, rows, k, out);
    if (s.singles) return pack_tiles<f32, 3, kAlongK, kLeft, true>(s, rows, k, out);
    return pack_tiles<f32, 3, kAlongK, kLeft>(s, rows, k, out);
  };
  return along_k ? pack_as(std::true_type()) : pack_as(std::false_type());
}

// Registers: 0 to 3 the sums (upper left, upper right, lower left, lower right), 4 and 5 the rows, 6 and 7 the columns.
#define RLX_LOAD_UPPER(at) "tileloadd " #at "(%[upper],%[stride],1), %%tmm4\n\t"
#define RLX_LOAD_LOWER(at) "tileloadd " #at "(%[lower],%[stride],1), %%tmm5\n\t"
#define RLX_LOAD_LEFT(at) RLX_LOAD_UPPER(at) RLX_LOAD_LOWER(at)
#define RLX_LOAD_RIGHT(at, next)       \
  "tileloadd " #at                     \
  "(%[right],%[stride],1), %%tmm6\n\t" \
  "tileloadd " #next "(%[right],%[stride],1), %%tmm7\n\t"
#define RLX_MULTIPLY_UPPER(dot) dot " %%tmm6, %%tmm4, %%tmm0\n\t" dot " %%tmm7, %%tmm4, %%tmm1\n\t"
#define RLX_MULTIPLY_LOWER(dot) dot " %%tmm6, %%tmm5, %%tmm2\n\t" dot " %%tmm7, %%tmm5, %%tmm3\n\t"
#define RLX_MULTIPLY(dot) RLX_MULTIPLY_UPPER(dot) RLX_MULTIPLY_LOWER(dot)
#define RLX_BF16 "tdpbf16ps"

constexpr int64_t kRowBytes = 64;

struct Step {
  const char *upper, *lower, *right;
};

#define RLX_STEP(text)                                                                                          \
  asm volatile(text ::[upper] "r"(s.upper), [lower] "r"(s.lower), [right] "r"(s.right), [stride] "r"(kRowBytes) \
               : "memory")

// Adds one step. Each product of terms shares an operand with the one before it.
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
inline void int8_step(const Step& s) {
#define RLX_INT8_STEP(dot)                                                                   \
  if constexpr (kBoth) RLX_STEP(RLX_LOAD_LEFT(0) RLX_LOAD_RIGHT(0, 1024) RLX_MULTIPLY(dot)); \
  else RLX_STEP(RLX_LOAD_UPPER(0) RLX_LOAD_RIGHT(0, 1024) RLX_MULTIPLY_UPPER(dot))
  if constexpr (kLeftSigned && kRightSigned) {
    RLX_INT8_STEP("tdpbssd");
  } else if constexpr (kLeftSigned) {
    RLX_INT8_STEP("tdpbsud");
  } else if constexpr (kRightSigned) {
    RLX_INT8_STEP("tdpbusd");
  } else {
    RLX_INT8_STEP("tdpbuud");
  }
}

inline void store_tiles(void* sums, int64_t stride_bytes, bool both) {
  char* to = static_cast<char*>(sums);
  asm volatile("tilestored %%tmm0, (%0,%1,1)\n\ttilestored %%tmm1, 64(%0,%1,1)" ::"r"(to), "r"(stride_bytes)
               : "memory");
  if (!both) return;
  to += kTileRows * stride_bytes;
  asm volatile("tilestored %%tmm2, (%0,%1,1)\n\ttilestored %%tmm3, 64(%0,%1,1)" ::"r"(to), "r"(stride_bytes)
               : "memory");
}
RLX_WIDE void add_tiles(float* sums, int64_t stride, bool both) {
  alignas(64) float partial[2 * kTileRows * kTiledColumns];
  store_tiles(partial, kTiledColumns * 4, both);
  for (int64_t i = 0; i < (both ? 2 : 1) * kTileRows; ++i)
    for (int64_t j = 0; j < kTiledColumns; j += kTileRows) {
      float* const to = sums + i * stride + j;
      _mm512_storeu_ps(to, _mm512_add_ps(_mm512_loadu_ps(to), _mm512_load_ps(partial + i * kTiledColumns + j)));
    }
}

/// Zeroes the sums and calls `add_step` for each step; a step has `terms` tiles of each 16 rows or columns.
template <class AddStep>
inline void all_steps(int64_t terms, int64_t steps, Step& s, AddStep add_step) {
  asm volatile("tilezero %%tmm0\n\ttilezero %%tmm1\n\ttilezero %%tmm2\n\ttilezero %%tmm3" ::: "memory");
  for (int64_t i = 0; i < steps; ++i) {
    add_step(s);
    s.upper += terms * kTileBytes, s.lower += terms * kTileBytes, s.right += 2 * terms * kTileBytes;
  }
}

template <TileForm kForm>
void multiply_form(int64_t steps, const char* upper, const char* lower, const char* right, float* sums,
                   int64_t stride) {
  Step s{upper, lower ? lower : upper, right};
  for (int64_t begin = 0; begin < steps; begin += kSumTileSteps) {
    const int64_t count = std::min(steps - begin, kSumTileSteps);
    const auto run = [&](auto step) { all_steps(static_cast<int64_t>(kForm), count, s, step); };
    if (lower) run([](const Step& at) { bf16_step<kForm, true>(at); });
    else run([](const Step& at) { bf16_step<kForm, false>(at); });
    if (begin == 0) store_tiles(sums, stride * 4, lower != nullptr);
    else add_tiles(sums, stride, lower != nullptr);
  }
}

template <bool kBoth>
void multiply_rows(int64_t steps, TileRows upper, TileRows lower, TileRows first, TileRows second, float* sums,
                   int64_t stride) {
  for (int64_t begin = 0; begin < steps; begin += kSumTileSteps) {
    asm volatile("tilezero %%tmm0\n\ttilezero %%tmm1\n\ttilezero %%tmm2\n\ttilezero %%tmm3" ::: "memory");
    for (int64_t i = begin; i < std::min(steps, begin + kSumTileSteps); ++i) {
      asm volatile("tileloadd (%0,%1,1), %%tmm4" ::"r"(upper.data), "r"(upper.stride) : "memory");
      asm volatile("tileloadd (%0,%1,1), %%tmm6" ::"r"(first.data), "r"(first.stride) : "memory");
      asm volatile("tdpbf16ps %%tmm6, %%tmm4, %%tmm0" ::: "memory");
      if constexpr (kBoth) {
        asm volatile("tileloadd (%0,%1,1), %%tmm5" ::"r"(lower.data), "r"(lower.stride) : "memory");
        asm volatile("tdpbf16ps %%tmm6, %%tmm5, %%tmm2" ::: "memory");
      }
      asm volatile("tileloadd (%0,%1,1), %%tmm7" ::"r"(second.data), "r"(second.stride) : "memory");
      asm volatile("tdpbf16ps %%tmm7, %%tmm4, %%tmm1" ::: "memory");
      if constexpr (kBoth) asm volatile("tdpbf16ps %%tmm7, %%tmm5, %%tmm3" ::: "memory");
      upper.data += upper.step, lower.data += lower.step, first.data += first.step, second.data += second.step;
    }
    if (begin == 0) store_tiles(sums, stride * 4, kBoth);
    else add_tiles(sums, stride, kBoth);
  }
}

template <bool kBoth>
void multiply_rows_by_three(int64_t steps, TileRows upper, TileRows lower, const char* right, float* sums,
                            int64_t stride) {
  for (int64_t begin = 0; begin < steps; begin += kSumTileSteps) {
    asm volatile("tilezero %%tmm0\n\ttilezero %%tmm1\n\ttilezero %%tmm2\n\ttilezero %%tmm3" ::: "memory");
    for (int64_t i = begin; i < std::min(steps, begin + kSumTileSteps); ++i, right += 6 * kTileBytes) {
      asm volatile("tileloadd (%0,%1,1), %%tmm4" ::"r"(upper.data), "r"(upper.stride) : "memory");
      if constexpr (kBoth) {
        asm volatile("tileloadd (%0,%1,1), %%tmm5" ::"r"(lower.data), "r"(lower.stride) : "memory");
        asm volatile(RLX_LOAD_RIGHT(4096, 5120) RLX_MULTIPLY(RLX_BF16)  // low, middle, high
                     RLX_LOAD_RIGHT(2048, 3072) RLX_MULTIPLY(RLX_BF16)  //
                     RLX_LOAD_RIGHT(0, 1024) RLX_MULTIPLY(RLX_BF16)     //
                     ::[right] "r"(right),
                     [stride] "r"(kRowBytes)
                     : "memory");
      } else {
        asm volatile(RLX_LOAD_RIGHT(4096, 5120) RLX_MULTIPLY_UPPER(RLX_BF16)  //
                     RLX_LOAD_RIGHT(2048, 3072) RLX_MULTIPLY_UPPER(RLX_BF16)  //
                     RLX_LOAD_RIGHT(0, 1024) RLX_MULTIPLY_UPPER(RLX_BF16)     //
                     ::[right] "r"(right),
                     [stride] "r"(kRowBytes)
                     : "memory");
      }
      upper.data += upper.step, lower.data += lower.step;
    }
    if (begin == 0) store_tiles(sums, stride * 4, kBoth);
    else add_tiles(sums, stride, kBoth);
  }
}

RLX_WIDE float min_of_bf16(const TileSource& s, int64_t rows, int64_t k, int terms) {
  MagnitudeRange range;
  range.begin();
  const auto* from = static_cast<const char*>(s.data);
  if (s.pairs) {
    const __mmask16 mask = mask_of(rows);
    for (int64_t i = 0; 2 * i < k; ++i) include_pairs(range, _mm512_maskz_loadu_epi32(mask, from + i * s.k_stride * 4));
    return range.result(terms);
  }
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t p = 0; p < k; p += kTileFloats) {
      const auto rest = static_cast<uint32_t>(std::min<int64_t>(kTileFloats, k - p));
      const __mmask32 mask = rest == kTileFloats ? ~__mmask32{0} : (__mmask32{1} << rest) - 1;
      include_pairs(range, _mm512_maskz_loadu_epi16(mask, from + (i * s.row_stride + p) * 2));
    }
  return range.result(terms);
}

RLX_WIDE void transpose_16x16(const float* from, int64_t stride, float* to, int64_t to_stride) {
  __m512i rows[16];
  RLX_UNROLL for (int i = 0; i < 16; ++i) rows[i] = _mm512_loadu_si512(from + i * stride);
  transpose(rows);
  RLX_UNROLL for (int i = 0; i < 16; ++i) _mm512_storeu_si512(to + i * to_stride, rows[i]);
}

RLX_WIDE void add_16x16(const float* from, int64_t stride, float* to, int64_t to_stride) {
  for (int64_t i = 0; i < kTileRows; ++i, from += stride, to += to_stride)
    _mm512_storeu_ps(to, _mm512_add_ps(_mm512_loadu_ps(to), _mm512_loadu_ps(from)));
}

// Rows, right tile and sums are numbers of tile registers.
#define RLX_PRODUCT_OF(values, right, left, sums)                                        \
  if constexpr ((values) == TileValues::bf16)                                            \
    asm volatile("tdpbf16ps %%tmm" #right ", %%tmm" #left ", %%tmm" #sums ::: "memory"); \
  else if constexpr ((values) == TileValues::i8)                                         \
    asm volatile("tdpbssd %%tmm" #right ", %%tmm" #left ", %%tmm" #sums ::: "memory");   \
  else asm volatile("tdpbusd %%tmm" #right ", %%tmm" #left ", %%tmm" #sums ::: "memory")

template <TileValues kValues, bool kBoth>
void multiply_at(const TilesAt& t, void* sums) {
  const char *right = t.right, *prefetch = t.prefetch;
  const int64_t right_bytes = t.k_bytes * kTileRows, most = kValues == TileValues::bf16 ? kSumTileSteps : t.steps;
  for (int64_t begin = 0; begin == 0 || begin < t.steps; begin += most) {
    asm volatile("tilezero %%tmm0\n\ttilezero %%tmm1\n\ttilezero %%tmm2\n\ttilezero %%tmm3" ::: "memory");
    for (int64_t i = begin; i < std::min(t.steps, begin + most); ++i, right += 2 * right_bytes) {
      asm volatile("tileloadd (%0,%1,1), %%tmm4" ::"r"(t.upper + t.offsets[i]), "r"(t.stride) : "memory");
      asm volatile("tileloadd (%0,%1,1), %%tmm6" ::"r"(right), "r"(kRowBytes) : "memory");
      RLX_PRODUCT_OF(kValues, 6, 4, 0);
      if constexpr (kBoth) {
        asm volatile("tileloadd (%0,%1,1), %%tmm5" ::"r"(t.lower + t.offsets[i]), "r"(t.stride) : "memory");
        RLX_PRODUCT_OF(kValues, 6, 5, 2);
      }
      asm volatile("tileloadd (%0,%1,1), %%tmm7" ::"r"(right + right_bytes), "r"(kRowBytes) : "memory");
      RLX_PRODUCT_OF(kValues, 7, 4, 1);
      if constexpr (kBoth) {
        RLX_PRODUCT_OF(kValues, 7, 5, 3);
      }
      for (int64_t at = 0; at < t.prefetch_bytes; at += 64, prefetch += 64) __builtin_prefetch(prefetch, 0, 2);
    }
    if constexpr (kValues == TileValues::bf16) {
      if (begin > 0) {
        add_tiles(static_cast<float*>(sums), kTiledColumns, kBoth);
        continue;
      }
    }
    store_tiles(sums, kTiledColumns * 4, kBoth);
    if (most == 0) break;
  }
}
template <TileValues kValues>
void multiply_at(const TilesAt& t, void* sums) {
  if (t.lower) multiply_at<kValues, true>(t, sums);
  else multiply_at<kValues, false>(t, sums);
}
#undef RLX_PRODUCT_OF

template <bool kLeftSigned, bool kRightSigned>
void multiply_int8_as(int64_t steps, const char* upper, const char* lower, const char* right, int32_t* sums,
                      int64_t stride) {
  Step s{upper, lower ? lower : upper, right};
  if (lower) all_steps(1, steps, s, [](const Step& at) { int8_step<kLeftSigned, kRightSigned, true>(at); });
  else all_steps(1, steps, s, [](const Step& at) { int8_step<kLeftSigned, kRightSigned, false>(at); });
  store_tiles(sums, stride * 4, lower != nullptr);
}

}  // namespace

bool has_matrix_tiles() {
  // Linux is asked for permission by the first that may use tiles.
  const auto has_them = [] {
    static const bool has = processor_has_tiles() && has_vector_instructions() && is_granted();
    return has;
  };
  const bool has = is_permitted(InstructionSet::amx) && has_them();
  // Compares with the width of the chosen vectors, without a cpuid: in a virtual machine that takes 20 us.
  return (has || is_emulated.load(std::memory_order_relaxed)) && product_lanes(f32) == kTileRows;
}

bool tiles_round_to_bf16() { return has_rounding_to_bf16(); }

void set_tiles_emulated(bool emulated) noexcept {
  is_emulated = emulated && has_vector_instructions() && is_permitted(InstructionSet::avx512);
}

TileScope::TileScope(int64_t k_bytes) {
  struct alignas(64) Config {  // Intel SDM, volume 1, table 18-1
    uint8_t palette = 1, start_row = 0, reserved[14] = {};
    uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
    uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
  };
  Config config;  // registers 4 and 5 hold left tiles, 6 and 7 right ones
  config.row_bytes[4] = config.row_bytes[5] = static_cast<uint16_t>(k_bytes);
  config.rows[6] = config.rows[7] = static_cast<uint8_t>(k_bytes / 4);
  asm volatile("ldtilecfg %0" ::"m"(config));
}
// Released tiles need not be saved when the system switches threads.
TileScope::~TileScope() { asm volatile("tilerelease"); }

float pack_left_tiles(const TileSource& s, int64_t rows, int64_t k, TileForm form, char* out) noexcept {
  return pack<true>(s, rows, k, form, out);
}
float pack_left_rows(const TileSource& s, int64_t rows, int64_t k, char* out,
                     const PackedRowStrides& strides) noexcept {
  if (s.k_stride == 1) return pack_tiles<f32, 3, true, true, true>(s, rows, k, out, &strides);
  return pack_tiles<f32, 3, false, true, true>(s, rows, k, out, &strides);
}
float pack_right_tiles(const TileSource& s, int64_t rows, int64_t k, TileForm form, char* out) noexcept {
  if (!s.pairs) return pack<false>(s, rows, k, form, out);
  return copy_pairs(s, rows, k, out);
}

float min_of_three_terms(uint32_t max_bits, uint32_t min_bits_less_one) noexcept {
  return min_magnitude(max_bits, min_bits_less_one, 3);
}

void multiply_tiles(TileForm form, int64_t steps, const char* upper, const char* lower, const char* right, float* sums,
                    int64_t stride) noexcept {
  if (form == TileForm::one) multiply_form<TileForm::one>(steps, upper, lower, right, sums, stride);
  else if (form == TileForm::two) multiply_form<TileForm::two>(steps, upper, lower, right, sums, stride);
  else multiply_form<TileForm::three>(steps, upper, lower, right, sums, stride);
}

void multiply_bf16_tiles(int64_t steps, const TileRows& upper, const TileRows& lower, const TileRows& first,
                         const TileRows& second, float* sums, int64_t stride) noexcept {
  if (lower.data) multiply_rows<true>(steps, upper, lower, first, second, sums, stride);
  else multiply_rows<false>(steps, upper, upper, first, second, sums, stride);
}
void multiply_one_by_three_terms(int64_t steps, const TileRows& upper, const TileRows& lower, const char* right,
                                 float* sums, int64_t stride) noexcept {
  if (lower.data) multiply_rows_by_three<true>(steps, upper, lower, right, sums, stride);
  else multiply_rows_by_three<false>(steps, upper, upper, right, sums, stride);
}
float min_magnitude_of(const TileSource& from, int64_t rows, int64_t k) noexcept {
  return min_of_bf16(from, rows, k, 1);
}
float min_magnitude_beside_three(const TileSource& from, int64_t rows, int64_t k) noexcept {
  return min_of_bf16(from, rows, k, 3);
}
float pack_left_rounded(const TileSource& from, int64_t rows, int64_t k, char* out) noexcept {
  if (from.k_stride == 1) return pack_tiles<f32, 1, true, true>(from, rows, k, out);
  return pack_tiles<f32, 1, false, true>(from, rows, k, out);
}

void transpose_tile(const float* from, int64_t stride, float* to, int64_t to_stride) noexcept {
  transpose_16x16(from, stride, to, to_stride);
}
void add_tile(const float* from, int64_t stride, float* to, int64_t to_stride) noexcept {
  add_16x16(from, stride, to, to_stride);
}

void multiply_int8_tiles(DType left, DType right_dtype, int64_t steps, const char* upper, const char* lower,
                         const char* right, int32_t* sums, int64_t stride) noexcept {
  if (left == i8 && right_dtype == i8) multiply_int8_as<true, true>(steps, upper, lower, right, sums, stride);
  else if (left == i8) multiply_int8_as<true, false>(steps, upper, lower, right, sums, stride);
  else if (right_dtype == i8) multiply_int8_as<false, true>(steps, upper, lower, right, sums, stride);
  else multiply_int8_as<false, false>(steps, upper, lower, right, sums, stride);
}
void multiply_tiles_at(const TilesAt& tiles, void* sums) noexcept {
  if (tiles.values == TileValues::bf16) multiply_at<TileValues::bf16>(tiles, sums);
  else if (tiles.values == TileValues::i8) multiply_at<TileValues::i8>(tiles, sums);
  else multiply_at<TileValues::u8>(tiles, sums);
}

#else

bool has_matrix_tiles() { return false; }
bool tiles_round_to_bf16() { return false; }
void set_tiles_emulated(bool) noexcept {}
TileScope::TileScope(int64_t) {}
TileScope::~TileScope() = default;
float pack_left_tiles(const TileSource&, int64_t, int64_t, TileForm, char*) noexcept { return 0; }
float pack_left_rows(const TileSource&, int64_t, int64_t, char*, const PackedRowStrides&) noexcept { return 0; }
float pack_right_tiles(const TileSource&, int64_t, int64_t, TileForm, char*) noexcept { return 0; }
void multiply_tiles(TileForm, int64_t, const char*, const char*, const char*, float*, int64_t) noexcept {}
void multiply_bf16_tiles(int64_t, const TileRows&, const TileRows&, const TileRows&, const TileRows&, float*,
                         int64_t) noexcept {}
void multiply_one_by_three_terms(int64_t, const TileRows&, const TileRows&, const char*, float*, int64_t) noexcept {}
float min_magnitude_of(const TileSource&, int64_t, int64_t) noexcept { return 0; }
float min_magnitude_beside_three(const TileSource&, int64_t, int64_t) noexcept { return 0; }
float pack_left_rounded(const TileSource&, int64_t, int64_t, char*) noexcept { return 0; }
float min_of_three_terms(uint32_t, uint32_t) noexcept { return 0; }
void transpose_tile(const float*, int64_t, float*, int64_t) noexcept {}
void add_tile(const float*, int64_t, float*, int64_t) noexcept {}
void multiply_int8_tiles(DType, DType, int64_t, const char*, const char*, const char*, int32_t*, int64_t) noexcept {}
void multiply_tiles_at(const TilesAt&, void*) noexcept {}

#endif

}  // namespace rlx::kernels
