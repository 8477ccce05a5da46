// See the header. A row of a left tile has the quantized values of two runs of 32 elements of one column of weights (of
// q6_k: of 16), which have a scale each. Column 2 j + h of the right tile has digit j of the elements of run h, and
// zeros beside the other run. So a sum of the tile belongs to one run, is exact, and fits the 24 bits of a float. What
// scales and adds the sums are vector instructions, for each column of weights 16 lanes: the digits of both runs.
//
// Tile instructions and vector instructions take turns: behind each tile instruction stand some vector instructions
// (see interleaved-inl.h). In a step the products of a pair of runs are computed, those of the step before are stored,
// and those of the one before that, which are in memory by then, are added.
#include "kernels/quant/digit_blocks.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "kernels/gemm/amx/tiles.h"
#include "kernels/gemm/fma/micro_kernels.h"
#include "kernels/vector/highway_targets.h"
#include "tensor/blocks/block_bits.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/quant/digit_blocks.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/quant/super_blocks-inl.h"

#ifndef RLX_KERNELS_QUANT_DIGIT_BLOCKS
#define RLX_KERNELS_QUANT_DIGIT_BLOCKS
namespace rlx::kernels {
namespace {

constexpr int64_t kChunk = 1024;  // elements whose digits begin at the same power of 2, and which a partial sum adds
constexpr int64_t kRun = 32, kRuns = kChunk / kRun, kPairs = kRuns / 2;

struct alignas(64) DigitPair {
  int8_t digits[16][64];  ///< a right tile; the upper half is the first run
  float sums[16];         ///< of each column, where a run is one half
};
struct alignas(64) DigitChunk {
  DigitPair pairs[kPairs];
  float x[kRuns];     ///< the sum of x in each run
  float factors[16];  ///< of a digit in each column
};

}  // namespace
}  // namespace rlx::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace rlx::kernels {
namespace HWY_NAMESPACE {
namespace {

#if HWY_TARGET == HWY_AVX3 && RLX_HAS_TILES

constexpr int kDigitBits = 7, kBits = 8 * kDigitBits;

/// The runs of a pair, among the eight of 256 elements. Bytes of q4_k hold elements of two runs.
constexpr int kRunsOfQ4K[4][2] = {{0, 2}, {1, 3}, {4, 6}, {5, 7}};
constexpr int64_t run_of(DType format, int64_t pair, int64_t half) {
  return format == q4_k ? pair / 4 * 8 + kRunsOfQ4K[pair % 4][half] : 2 * pair + half;
}

// ---- digits

/// Each 56 bits as eight bytes of seven.
HWY_INLINE __m512i spread(__m512i v) {
  const auto spread_upper = [&](int64_t lower_bits, int by) HWY_ATTR {
    const __m512i mask = _mm512_set1_epi64(lower_bits);
    v = _mm512_or_si512(_mm512_and_si512(v, mask), _mm512_slli_epi64(_mm512_andnot_si512(mask, v), by));
  };
  spread_upper(0x000000000fffffff, 4), spread_upper(0x00003fff00003fff, 2), spread_upper(0x007f007f007f007f, 1);
  return v;
}
/// The digits of eight numbers: of the first four, then of the others, digit j of number e at 4 j + e, the lowest digit
/// first. Digits have the number's sign, so that those of numbers with one sign do not cancel.
HWY_INLINE __m512i digits_of(__m256 x, __m512d scale) {
  const __m512d wide = _mm512_cvtps_pd(x);
  const __m512i negative = _mm512_movm_epi64(_mm512_movepi64_mask(_mm512_castpd_si512(wide)));
  const __m512i magnitude = spread(_mm512_cvttpd_epi64(_mm512_mul_pd(_mm512_abs_pd(wide), scale)));
  const __m512i digits = _mm512_sub_epi8(_mm512_xor_si512(magnitude, negative), negative);
  // Two numbers each become pairs of bytes, and two such pairs become four bytes.
  const __m512i pairs = _mm512_broadcast_i32x4(_mm_set_epi8(15, 7, 14, 6, 13, 5, 12, 4, 11, 3, 10, 2, 9, 1, 8, 0));
  alignas(64) static constexpr uint16_t kFours[32] = {0,  8,  1,  9,  2,  10, 3,  11, 4,  12, 5,  13, 6,  14, 7,  15,
                                                      16, 24, 17, 25, 18, 26, 19, 27, 20, 28, 21, 29, 22, 30, 23, 31};
  return _mm512_permutexvar_epi16(_mm512_load_si512(kFours), _mm512_shuffle_epi8(digits, pairs));
}

/// 32 elements of a pair: a half of the tile; 16 of them in the columns `first`, then 16 in `second`. Returns the sums
/// of the eight digits of all.
HWY_INLINE __m256i put_run(const float* x, __m512d scale, __mmask16 first, __mmask16 second, int8_t (*to)[64]) {
  const __m512i ones = _mm512_set1_epi8(1);
  __m512i sums = _mm512_setzero_si512();  // of fours at even places, and at odd ones
  RLX_UNROLL for (int64_t i = 0; i < kRun; i += 8) {
    const __m512i digits = digits_of(_mm256_loadu_ps(x + i), scale);
    const __mmask16 columns = i < kRun / 2 ? first : second;
    sums = _mm512_add_epi32(sums, _mm512_madd_epi16(_mm512_maddubs_epi16(ones, digits), _mm512_set1_epi16(1)));
    _mm512_store_si512(to[i / 4], _mm512_maskz_expand_epi32(columns, digits));
    const __m512i upper = _mm512_castsi256_si512(_mm512_extracti64x4_epi64(digits, 1));
    _mm512_store_si512(to[i / 4 + 1], _mm512_maskz_expand_epi32(columns, upper));
  }
  return _mm256_add_epi32(_mm512_castsi512_si256(sums), _mm512_extracti64x4_epi64(sums, 1));
}

bool make_chunk(DType format, const float* x, int64_t count, DigitChunk& to) {
  __m512i max = _mm512_setzero_si512(), min = _mm512_set1_epi32(-1);
  for (int64_t i = 0; i < count; i += 16) {
    const __m512i bits = _mm512_and_epi32(_mm512_castps_si512(_mm512_loadu_ps(x + i)), _mm512_set1_epi32(0x7fffffff));
    max = _mm512_max_epu32(max, bits);
    min = _mm512_min_epu32(min, _mm512_sub_epi32(bits, _mm512_set1_epi32(1)));  // 0 becomes the largest
  }
  // 2^-60 to 2^60: all factors are normal, and so are products with scales of f16.
  constexpr uint32_t kMin = uint32_t{127 - 60} << 23, kMax = uint32_t{127 + 60} << 23;
  const uint32_t largest = _mm512_reduce_max_epu32(max), smallest = _mm512_reduce_min_epu32(min) + 1;
  if (largest != 0 && (largest < kMin || largest >= kMax)) return false;
  constexpr uint32_t kMaxDifference = kBits - 24;
  if (largest != 0 && (largest >> 23) - (smallest >> 23) > kMaxDifference) return false;
  const int exponent = largest == 0 ? 0 : static_cast<int>(largest >> 23) - 126;  // all are less than 2^exponent
  const __m512d scale = _mm512_set1_pd(std::bit_cast<double>(static_cast<uint64_t>(1023 + kBits - exponent) << 52));
  alignas(64) double factors[8];  // of digits
  for (int digit = 0; digit < 8; ++digit) {
    const int power = exponent - kBits + kDigitBits * digit;
    factors[digit] = std::bit_cast<double>(static_cast<uint64_t>(1023 + power) << 52);
    to.factors[2 * digit] = to.factors[2 * digit + 1] = static_cast<float>(factors[digit]);
  }
  const int64_t runs = count / kRun;
  for (int64_t pair = 0; pair < (runs + 1) / 2; ++pair) {
    __m512i sums = _mm512_setzero_si512();
    for (int64_t half = 0; half < 2; ++half) {
      const int64_t run = run_of(format, pair, half);
      int8_t(*const tile)[64] = to.pairs[pair].digits + 8 * half;
      if (run >= runs) {
        std::fill_n(tile[0], 8 * 64, int8_t{0});
        continue;
      }
      constexpr __mmask16 kEven = 0x5555, kOdd = 0xaaaa;
      const __mmask16 columns = half == 0 ? kEven : kOdd;
      const __m256i own = format == q6_k ? put_run(x + run * kRun, scale, kEven, kOdd, tile)
                                         : put_run(x + run * kRun, scale, columns, columns, tile);
      sums = _mm512_mask_expand_epi32(sums, columns, _mm512_castsi256_si512(own));
      to.x[run] =
          static_cast<float>(_mm512_reduce_add_pd(_mm512_mul_pd(_mm512_cvtepi32_pd(own), _mm512_load_pd(factors))));
    }
    _mm512_store_ps(to.pairs[pair].sums, _mm512_cvtepi32_ps(sums));
  }
  return true;
}

// ---- products

template <int kTile>
HWY_INLINE void load_tile(const void* from, int64_t stride) {
  asm volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(from), "r"(stride), "i"(kTile) : "memory");
}
template <int kTile>
HWY_INLINE void zero_tile() {
  asm volatile("tilezero %%tmm%c0" ::"i"(kTile) : "memory");
}
template <int kTile>
HWY_INLINE void store_tile(int32_t* to) {
  asm volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(to), "r"(int64_t{64}), "i"(kTile) : "memory");
}
/// Of signed values, or of values without a sign, with digits.
template <int kSums, int kLeft, int kRight, bool kSigned>
HWY_INLINE void add_tile_products() {
  if constexpr (kSigned)
    asm volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(kSums), "i"(kLeft), "i"(kRight) : "memory");
  else asm volatile("tdpbusd %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(kSums), "i"(kLeft), "i"(kRight) : "memory");
}

/// Two numbers for each of 16 rows, those of a row beside each other, and in all pairs of lanes.
struct alignas(64) PairsOfRows {
  float numbers[2 * kTileRows];

  HWY_INLINE void put(__m512 first, __m512 second) {
    _mm512_store_ps(numbers, _mm512_unpacklo_ps(first, second));
    _mm512_store_ps(numbers + 16, _mm512_unpackhi_ps(first, second));
  }
  HWY_INLINE __m512 of_row(int row) const {
    double both;
    std::memcpy(&both, numbers + row % 4 / 2 * 16 + row / 4 * 4 + row % 2 * 2, sizeof both);
    return _mm512_castpd_ps(_mm512_set1_pd(both));
  }
};

/// Two of 16 numbers that stand beside each other for each row.
struct RowsOfNumbers {
  const float* first;

  HWY_INLINE __m512 of_row(int row) const {
    double both;
    std::memcpy(&both, first + 16 * row, sizeof both);
    return _mm512_castpd_ps(_mm512_set1_pd(both));
  }
};

/// The sums of the lanes of 16 vectors.
HWY_INLINE __m512 sums_of_lanes(const __m512 (&v)[16]) {
  __m512 four[4];
  RLX_UNROLL for (int m = 0; m < 4; ++m) {
    const auto two = [&](int i) HWY_ATTR {
      return _mm512_castps_pd(_mm512_add_ps(_mm512_unpacklo_ps(v[4 * m + i], v[4 * m + i + 1]),
                                            _mm512_unpackhi_ps(v[4 * m + i], v[4 * m + i + 1])));
    };
    const __m512d first = two(0), second = two(2);
    four[m] = _mm512_add_ps(_mm512_castpd_ps(_mm512_unpacklo_pd(first, second)),
                            _mm512_castpd_ps(_mm512_unpackhi_pd(first, second)));
  }
  const auto both = [](__m512 a, __m512 b) HWY_ATTR {
    return _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xdd));
  };
  return both(both(four[0], four[1]), both(four[2], four[3]));
}

/// 16 columns of weights of a chunk: `row_bytes` apart, `runs` runs of each; `next` are those that are read next.
struct Columns {
  const uint8_t* w;
  int64_t row_bytes, runs;
  const uint8_t* next;
};
/// Prefetches some lines, into the second-level cache: there they wait until the present columns, of up to 17 KB, are
/// done. In each of a step's four slots they are those of another row, four rows on: of four rows, a chunk's steps
/// prefetch a piece after the other, then of the next four. Memory answers four streams faster than one.
template <int kLines>
HWY_INLINE void prefetch_lines(const uint8_t* from) {
  RLX_UNROLL for (int line = 0; line < kLines; ++line)
      _mm_prefetch(reinterpret_cast<const char*>(from + 64 * line), _MM_HINT_T1);
}

/// The products of steps with even and with odd numbers.
struct StepSums {
  alignas(64) int32_t of[2][16 * 16];
};

/// Adds what belongs to columns [kFirst, kFirst + kCount) of weights.
template <int kFirst, int kCount, class Scales>
HWY_INLINE void add_sums(const int32_t* sums, const Scales& scales, __m512 (&total)[16]) {
  RLX_UNROLL for (int i = kFirst; i < kFirst + kCount; ++i) total[i] =
      _mm512_fmadd_ps(scales.of_row(i), _mm512_cvtepi32_ps(_mm512_load_si512(sums + 16 * i)), total[i]);
}
/// The same, less the zero points times the sums of x, which is exact.
template <int kFirst, int kCount>
HWY_INLINE void add_sums(const int32_t* sums, const PairsOfRows& scales, const PairsOfRows& zero_points,
                         const float* x_sums, __m512 (&total)[16]) {
  RLX_UNROLL for (int i = kFirst; i < kFirst + kCount; ++i) {
    const __m512 of_q = _mm512_cvtepi32_ps(_mm512_load_si512(sums + 16 * i));
    total[i] = _mm512_fmadd_ps(scales.of_row(i), _mm512_fnmadd_ps(zero_points.of_row(i), _mm512_load_ps(x_sums), of_q),
                               total[i]);
  }
}
/// Adds the sums of 16 columns to to[16].
HWY_INLINE void finish(const DigitChunk& x, __m512 (&total)[16], __m512 more, float* to) {
  const __m512 factors = _mm512_load_ps(x.factors);
  RLX_UNROLL for (int i = 0; i < 16; ++i) total[i] = _mm512_mul_ps(total[i], factors);
  _mm512_storeu_ps(to, _mm512_add_ps(_mm512_loadu_ps(to), _mm512_add_ps(sums_of_lanes(total), more)));
}

HWY_INLINE void begin(StepSums& sums, __m512 (&total)[16]) {
  std::memset(&sums, 0, sizeof sums);
  RLX_UNROLL for (int i = 0; i < 16; ++i) total[i] = _mm512_setzero_ps();
}

// ---- q8_0

struct Q8_0Digits {
  static constexpr int64_t kBlock = 34, kStep = 2 * kBlock, kChunkBytes = kPairs * kStep, kTileBytesOfK = 32;

  /// kParity is that of the step.
  template <int kParity, bool kHasSecond>
  HWY_INLINE static void step(const DigitChunk& x, const Columns& c, __m512i rows, int64_t s, StepSums& sums,
                              PairsOfRows (&scales)[4], __m512 (&total)[16]) {
    const auto scales_of = [&](const uint8_t* block) HWY_ATTR {
      return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(_mm512_i32gather_epi32(rows, block, 1)));
    };
    const uint8_t* const w = c.w + s * kStep;
    const uint8_t* const next = c.next + s / 4 * c.row_bytes + s % 4 * 5 * 64;
    const int8_t(*const right)[64] = x.pairs[s].digits;
    const int32_t* const added = sums.of[kParity];
    const PairsOfRows& by = scales[(s + 2) % 4];
    load_tile<4>(w + 2, c.row_bytes);
    add_sums<0, 2>(added, by, total), prefetch_lines<5>(next);
    const __m512 first = scales_of(w);
    load_tile<6>(right, 64);
    add_sums<2, 2>(added, by, total);
    zero_tile<kParity>();
    add_sums<4, 2>(added, by, total), prefetch_lines<5>(next + 4 * c.row_bytes);
    add_tile_products<kParity, 4, 6, true>();
    add_sums<6, 2>(added, by, total);
    __m512 second = _mm512_setzero_ps();
    if constexpr (kHasSecond) second = scales_of(w + kBlock), load_tile<5>(w + kBlock + 2, c.row_bytes);
    add_sums<8, 2>(added, by, total), prefetch_lines<5>(next + 8 * c.row_bytes);
    if constexpr (kHasSecond) load_tile<7>(right + 8, 64);
    add_sums<10, 2>(added, by, total);
    if constexpr (kHasSecond) add_tile_products<kParity, 5, 7, true>();
    add_sums<12, 2>(added, by, total), prefetch_lines<5>(next + 12 * c.row_bytes);
    store_tile<1 - kParity>(sums.of[1 - kParity]);
    add_sums<14, 2>(added, by, total);
    scales[s % 4].put(first, second);
  }
  /// What two more steps would add. kParity is that of s, the number of steps.
  template <int kParity>
  HWY_INLINE static void add_last(int64_t s, StepSums& sums, const PairsOfRows (&scales)[4], __m512 (&total)[16]) {
    store_tile<1 - kParity>(sums.of[1 - kParity]);
    add_sums<0, 16>(sums.of[kParity], scales[(s + 2) % 4], total);
    add_sums<0, 16>(sums.of[1 - kParity], scales[(s + 3) % 4], total);
  }
  static void multiply(const DigitChunk& x, const Columns& c, float* to) {
    StepSums sums;
    PairsOfRows scales[4] = {};
    __m512 total[16];
    begin(sums, total);
    const __m512i rows = _mm512_mullo_epi32(_mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0),
                                            _mm512_set1_epi32(static_cast<int32_t>(c.row_bytes)));
    zero_tile<1>();
    const int64_t pairs = c.runs / 2;
    int64_t s = 0;
    for (; s + 2 <= pairs; s += 2) {
      step<0, true>(x, c, rows, s, sums, scales, total);
      step<1, true>(x, c, rows, s + 1, sums, scales, total);
    }
    if (s < pairs && c.runs % 2 == 0) {
      step<0, true>(x, c, rows, s, sums, scales, total), add_last<1>(s + 1, sums, scales, total);
    } else if (s < pairs) {
      step<0, true>(x, c, rows, s, sums, scales, total), step<1, false>(x, c, rows, s + 1, sums, scales, total);
      add_last<0>(s + 2, sums, scales, total);
    } else if (c.runs % 2 != 0) {
      step<0, false>(x, c, rows, s, sums, scales, total), add_last<1>(s + 1, sums, scales, total);
    } else {
      add_last<0>(s, sums, scales, total);
    }
    finish(x, total, _mm512_setzero_ps(), to);
  }
};

// ---- q4_k

struct Q4_KDigits {
  static constexpr int64_t kBlock = 144, kChunkBytes = 4 * kBlock, kTileBytesOfK = 64;

  /// Two rows of the left tiles of two steps: low nibbles of 64 bytes, and high ones.
  template <int kFirst>
  HWY_INLINE static void unpack(const uint8_t* from, int64_t row_bytes, uint8_t (*to)[16][64]) {
    const __m512i nibble = _mm512_set1_epi8(15);
    RLX_UNROLL for (int i = kFirst; i < kFirst + 2; ++i) {
      const __m512i both = _mm512_loadu_si512(from + i * row_bytes);
      _mm512_store_si512(to[0][i], _mm512_and_si512(both, nibble));
      _mm512_store_si512(to[1][i], _mm512_and_si512(_mm512_srli_epi16(both, 4), nibble));
    }
  }
  /// What a step adds: the sums of two steps ago.
  struct Addition {
    const PairsOfRows &scales, &zero_points;
    const float* x_sums;
  };
  /// kStepOfFour: of a block's four. `from` is what is unpacked meanwhile, its rows from kRow on, to two tiles.
  template <int kStepOfFour, int kRow>
  HWY_INLINE static void step(const uint8_t (&left)[16][64], const int8_t (&right)[16][64], const Addition& add,
                              const uint8_t* from, int64_t row_bytes, uint8_t (*to)[16][64], const uint8_t* next,
                              StepSums& sums, __m512 (&total)[16]) {
    constexpr int kParity = kStepOfFour % 2, kSums = kStepOfFour, kBefore = (kStepOfFour + 3) % 4;
    const int32_t* const added = sums.of[kParity];
    load_tile<4 + kParity>(left, 64);
    add_sums<0, 3>(added, add.scales, add.zero_points, add.x_sums, total);
    unpack<kRow>(from, row_bytes, to), prefetch_lines<3>(next);
    load_tile<6 + kParity>(right, 64);
    add_sums<3, 3>(added, add.scales, add.zero_points, add.x_sums, total);
    unpack<kRow + 2>(from, row_bytes, to), prefetch_lines<3>(next + 4 * row_bytes);
    zero_tile<kSums>();
    add_sums<6, 3>(added, add.scales, add.zero_points, add.x_sums, total);
    prefetch_lines<3>(next + 8 * row_bytes);
    add_tile_products<kSums, 4 + kParity, 6 + kParity, false>();
    add_sums<9, 3>(added, add.scales, add.zero_points, add.x_sums, total);
    unpack<kRow + 4>(from, row_bytes, to);
    store_tile<kBefore>(sums.of[1 - kParity]);
    add_sums<12, 4>(added, add.scales, add.zero_points, add.x_sums, total);
    unpack<kRow + 6>(from, row_bytes, to), prefetch_lines<3>(next + 12 * row_bytes);
  }
  static void multiply(const DigitChunk& x, const Columns& c, float* to) {
    struct Numbers {
      PairsOfRows scales[4], zero_points[4];
    };
    Numbers even, odd;  // of blocks with such numbers
    StepSums sums;
    alignas(64) uint8_t left[4][16][64];
    __m512 total[16], rests = _mm512_setzero_ps();
    begin(sums, total), std::memset(&odd, 0, sizeof odd);
    zero_tile<3>();
    const uint8_t* w = c.w;
    unpack<0>(w + 16, c.row_bytes, left), unpack<2>(w + 16, c.row_bytes, left);
    unpack<4>(w + 16, c.row_bytes, left), unpack<6>(w + 16, c.row_bytes, left);
    unpack<8>(w + 16, c.row_bytes, left), unpack<10>(w + 16, c.row_bytes, left);
    unpack<12>(w + 16, c.row_bytes, left), unpack<14>(w + 16, c.row_bytes, left);
    const DigitPair* before = x.pairs;  // any, as what is added then is 0
    const int64_t blocks = c.runs / 8;
    for (int64_t b = 0; b < blocks; ++b, w += kBlock) {
      const DigitPair* const pairs = x.pairs + 4 * b;
      Numbers &own = b % 2 == 0 ? even : odd, &last = b % 2 == 0 ? odd : even;
      const uint8_t* rows[kTileRows];
      for (int i = 0; i < kTileRows; ++i) rows[i] = w + i * c.row_bytes;
      RunOfRows runs[8];
      read_heads(rows, 15, runs);
      RLX_UNROLL for (int run = 0; run < 8; ++run) rests =
          _mm512_fmadd_ps(runs[run].rest, _mm512_set1_ps(x.x[8 * b + run]), rests);
      RLX_UNROLL for (int pair = 0; pair < 4; ++pair) {
        const int first = kRunsOfQ4K[pair][0], second = kRunsOfQ4K[pair][1];
        own.scales[pair].put(runs[first].scale, runs[second].scale);
        own.zero_points[pair].put(runs[first].zero_point, runs[second].zero_point);
      }
      const auto adds = [](const Numbers& of, const DigitPair* digits, int pair) HWY_ATTR {
        return Addition{of.scales[pair], of.zero_points[pair], digits[pair].sums};
      };
      const uint8_t* const next = c.next + b * c.row_bytes;
      const uint8_t* const following = b + 1 < blocks ? w + kBlock : w;  // nothing is read behind the end
      step<0, 0>(left[0], pairs[0].digits, adds(last, before, 2), w + 80, c.row_bytes, left + 2, next, sums, total);
      step<1, 8>(left[1], pairs[1].digits, adds(last, before, 3), w + 80, c.row_bytes, left + 2, next + 3 * 64, sums,
                 total);
      step<2, 0>(left[2], pairs[2].digits, adds(own, pairs, 0), following + 16, c.row_bytes, left, next + 6 * 64, sums,
                 total);
      step<3, 8>(left[3], pairs[3].digits, adds(own, pairs, 1), following + 16, c.row_bytes, left, next + 9 * 64, sums,
                 total);
      before = pairs;
    }
    store_tile<3>(sums.of[1]);
    const Numbers& last = blocks % 2 == 0 ? odd : even;
    add_sums<0, 16>(sums.of[0], last.scales[2], last.zero_points[2], before[2].sums, total);
    add_sums<0, 16>(sums.of[1], last.scales[3], last.zero_points[3], before[3].sums, total);
    finish(x, total, rests, to);
  }
};

// ---- q6_k

/// A run has 16 elements: a step is two runs, 32 elements, a half of a left tile's rows.
struct Q6_KDigits {
  static constexpr int64_t kBlock = 210, kChunkBytes = 4 * kBlock, kTileBytesOfK = 32;

  /// Two rows of 64 elements of a block: of group 0 to 3.
  template <int kGroup, int kFirst>
  HWY_INLINE static void unpack(const uint8_t* block, int64_t row_bytes, int8_t (&to)[16][64]) {
    const __m512i nibble = _mm512_set1_epi8(15), high_bits = _mm512_set1_epi8(0x30), offset = _mm512_set1_epi8(32);
    // A byte has the high bits of four elements, 32 apart: this group has the first two pairs of them, or the last two.
    const __m512i left = _mm512_inserti64x4(_mm512_set1_epi16(4), _mm256_set1_epi16(2), 1),
                  right = _mm512_inserti64x4(_mm512_setzero_si512(), _mm256_set1_epi16(2), 1);
    RLX_UNROLL for (int i = kFirst; i < kFirst + 2; ++i) {
      const uint8_t* const row = block + i * row_bytes;
      const __m512i low = _mm512_loadu_si512(row + kGroup / 2 * 64);
      const __m512i pairs =
          _mm512_broadcast_i64x4(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(row + 128 + kGroup / 2 * 32)));
      const __m512i nibbles = kGroup % 2 == 0 ? low : _mm512_srli_epi16(low, 4);
      const __m512i high = kGroup % 2 == 0 ? _mm512_sllv_epi16(pairs, left) : _mm512_srlv_epi16(pairs, right);
      const __m512i six = _mm512_or_si512(_mm512_and_si512(nibbles, nibble), _mm512_and_si512(high, high_bits));
      _mm512_store_si512(to[i], _mm512_sub_epi8(six, offset));
    }
  }
  /// kStep: of a block's eight. `scales` are those of two steps ago, `from` the block of which a group is unpacked.
  template <int kStep>
  HWY_INLINE static void step(const DigitPair* pairs, const RowsOfNumbers& scales, const uint8_t* from,
                              int64_t row_bytes, const uint8_t* next, int8_t (&left)[2][16][64], StepSums& sums,
                              __m512 (&total)[16]) {
    constexpr int kParity = kStep % 2, kSums = kStep % 4, kBefore = (kStep + 3) % 4, kGroup = kStep / 2;
    constexpr int kNext = (kGroup + 1) % 4, kRow = 8 * kParity;
    int8_t(&to)[16][64] = left[kNext % 2];
    const int32_t* const added = sums.of[kParity];
    load_tile<4 + kParity>(left[kGroup % 2][0] + 32 * kParity, 64);
    add_sums<0, 3>(added, scales, total);
    unpack<kNext, kRow>(from, row_bytes, to), prefetch_lines<2>(next);
    load_tile<6 + kParity>(pairs[kGroup].digits + 8 * kParity, 64);
    add_sums<3, 3>(added, scales, total);
    unpack<kNext, kRow + 2>(from, row_bytes, to), prefetch_lines<2>(next + 4 * row_bytes);
    zero_tile<kSums>();
    add_sums<6, 3>(added, scales, total);
    prefetch_lines<2>(next + 8 * row_bytes);
    add_tile_products<kSums, 4 + kParity, 6 + kParity, true>();
    add_sums<9, 3>(added, scales, total);
    unpack<kNext, kRow + 4>(from, row_bytes, to), prefetch_lines<2>(next + 12 * row_bytes);
    store_tile<kBefore>(sums.of[1 - kParity]);
    add_sums<12, 4>(added, scales, total);
    unpack<kNext, kRow + 6>(from, row_bytes, to);
  }
  static void multiply(const DigitChunk& x, const Columns& c, float* to) {
    alignas(64) float scales[2][16][16];  // of blocks with even and with odd numbers
    alignas(64) int8_t left[2][16][64];
    StepSums sums;
    __m512 total[16];
    std::memset(scales[1], 0, sizeof scales[1]), begin(sums, total);
    zero_tile<3>();
    const __m512i rows = _mm512_mullo_epi32(_mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0),
                                            _mm512_set1_epi32(static_cast<int32_t>(c.row_bytes)));
    const uint8_t* w = c.w;
    unpack<0, 0>(w, c.row_bytes, left[0]), unpack<0, 2>(w, c.row_bytes, left[0]);
    unpack<0, 4>(w, c.row_bytes, left[0]), unpack<0, 6>(w, c.row_bytes, left[0]);
    unpack<0, 8>(w, c.row_bytes, left[0]), unpack<0, 10>(w, c.row_bytes, left[0]);
    unpack<0, 12>(w, c.row_bytes, left[0]), unpack<0, 14>(w, c.row_bytes, left[0]);
    const int64_t blocks = c.runs / 8;
    for (int64_t b = 0; b < blocks; ++b, w += kBlock) {
      alignas(64) float d[16];
      // The scale is the block's end: the upper half of the four bytes that end there.
      const __m512i ends = _mm512_i32gather_epi32(rows, w + kBlock - 4, 1);
      _mm512_store_ps(d, _mm512_cvtph_ps(_mm512_cvtepi32_epi16(_mm512_srli_epi32(ends, 16))));
      RLX_UNROLL for (int i = 0; i < 16; ++i) {
        const auto* const at = reinterpret_cast<const __m128i*>(w + i * c.row_bytes + 192);
        const __m512 steps = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(at)));
        _mm512_store_ps(scales[b % 2][i], _mm512_mul_ps(steps, _mm512_set1_ps(d[i])));
      }
      const float *const own = scales[b % 2][0], *const last = scales[1 - b % 2][0];
      const DigitPair* const pairs = x.pairs + 4 * b;
      const uint8_t* const next = c.next + b * c.row_bytes;
      const uint8_t* const following = b + 1 < blocks ? w + kBlock : w;  // nothing is read behind the end
      step<0>(pairs, {last + 12}, w, c.row_bytes, next, left, sums, total);
      step<1>(pairs, {last + 14}, w, c.row_bytes, next + 2 * 64, left, sums, total);
      step<2>(pairs, {own}, w, c.row_bytes, next + 4 * 64, left, sums, total);
      step<3>(pairs, {own + 2}, w, c.row_bytes, next + 6 * 64, left, sums, total);
      step<4>(pairs, {own + 4}, w, c.row_bytes, next + 8 * 64, left, sums, total);
      step<5>(pairs, {own + 6}, w, c.row_bytes, next + 10 * 64, left, sums, total);
      step<6>(pairs, {own + 8}, following, c.row_bytes, next + 12 * 64, left, sums, total);
      step<7>(pairs, {own + 10}, following, c.row_bytes, next + 14 * 64, left, sums, total);
    }
    store_tile<3>(sums.of[1]);
    const float* const last = scales[1 - blocks % 2][0];
    add_sums<0, 16>(sums.of[0], RowsOfNumbers{last + 12}, total);
    add_sums<0, 16>(sums.of[1], RowsOfNumbers{last + 14}, total);
    finish(x, total, _mm512_setzero_ps(), to);
  }
};

// Columns that take a chunk of x, which stays in the first-level cache, one after the other.
constexpr int64_t kStrip = 64;

template <class Format>
void multiply_columns(const BlockWeightsProduct& p, const DigitChunk* x, int64_t begin, int64_t end) {
  constexpr int64_t kColumns = BlockWeightsProduct::kColumns;
  const DTypeInfo& f = info(p.format);
  const int64_t row_bytes = p.k / f.block_elements * f.block_bytes, chunks = (p.k + kChunk - 1) / kChunk;
  const auto* const w = reinterpret_cast<const uint8_t*>(p.w);
  BlockProduct y;
  y.y = p.y, y.y_dtype = p.y_dtype, y.y_row_stride = p.y_stride;
  y.bias = p.bias, y.residual = p.residual, y.residual_row_stride = p.residual_stride, y.epilogue = &p.epilogue;
  for (int64_t strip = begin; strip < end; strip += kStrip) {
    const int64_t columns = std::min(kStrip, end - strip), groups = (columns + kTileRows - 1) / kTileRows;
    alignas(64) float of_groups[kStrip] = {}, sums[kStrip] = {};
    const auto first_of = [&](int64_t group) { return std::min(strip + group * kTileRows, end - kTileRows); };
    {
      const TileScope scope(Format::kTileBytesOfK);
      for (int64_t chunk = 0; chunk < chunks; ++chunk)
        for (int64_t group = 0; group < groups; ++group) {
          const auto at = [&](int64_t column, int64_t of_chunk) {
            return w + column * row_bytes + of_chunk * Format::kChunkBytes;
          };
          const uint8_t* const next = group + 1 < groups   ? at(first_of(group + 1), chunk)
                                      : chunk + 1 < chunks ? at(first_of(0), chunk + 1)
                                                           : at(strip + kStrip, 0);
          const int64_t runs = std::min(kRuns, p.k / kRun - chunk * kRuns);
          Format::multiply(x[chunk], {at(first_of(group), chunk), row_bytes, runs, next},
                           of_groups + group * kTileRows);
        }
    }
    for (int64_t i = 0; i < columns; ++i) {
      const int64_t group = i / kTileRows;
      sums[i] = of_groups[group * kTileRows + strip + i - first_of(group)];
    }
    for (int64_t i = 0; i < columns; i += kColumns) {
      const int64_t count = std::min(kColumns, columns - i);
      // Sums of what is not finite, or overflows, are those of the elements.
      if (std::all_of(sums + i, sums + i + count, [](float v) { return std::isfinite(v); }))
        apply_epilogue(y, sums + i, kStrip, 0, 1, strip + i, count);
      else multiply_block_weights(p, strip + i, strip + i + count);
    }
  }
}

bool make_digits(DType format, const float* x, int64_t k, DigitChunk* to) {
  for (int64_t i = 0; i < k; i += kChunk, ++to)
    if (!make_chunk(format, x + i, std::min(kChunk, k - i), *to)) return false;
  return true;
}
void multiply_digits(const BlockWeightsProduct& p, const DigitChunk* x, int64_t begin, int64_t end) {
  if (p.format == q8_0) multiply_columns<Q8_0Digits>(p, x, begin, end);
  else if (p.format == q4_k) multiply_columns<Q4_KDigits>(p, x, begin, end);
  else multiply_columns<Q6_KDigits>(p, x, begin, end);
}

#else  // never called: there are no tiles

bool make_digits(DType, const float*, int64_t, DigitChunk*) { return false; }
void multiply_digits(const BlockWeightsProduct&, const DigitChunk*, int64_t, int64_t) {}

#endif

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace rlx::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rlx::kernels {

HWY_EXPORT(make_digits);
HWY_EXPORT(multiply_digits);

bool has_digits_beside(DType format, int64_t k, int64_t n) {
  return (format == q8_0 || format == q4_k || format == q6_k) && k > 0 && k < int64_t{1} << 26 && n >= kTileRows &&
         has_matrix_tiles();
}
size_t digit_row_bytes(int64_t k) { return static_cast<size_t>((k + kChunk - 1) / kChunk) * sizeof(DigitChunk); }
bool make_digits(DType format, const float* x, int64_t k, void* to) noexcept {
  return HWY_DYNAMIC_DISPATCH(make_digits)(format, x, k, static_cast<DigitChunk*>(to));
}
void multiply_digits(const BlockWeightsProduct& p, const void* row, int64_t begin, int64_t end) noexcept {
  HWY_DYNAMIC_DISPATCH(multiply_digits)(p, static_cast<const DigitChunk*>(row), begin, end);
}

}  // namespace rlx::kernels
#endif  // HWY_ONCE
