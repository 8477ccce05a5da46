// Kernels of split_blocks.cpp for AVX2: the numbers of x have two digits.
// * q4_k, q6_k: pairs of products are summed in 16 bits and multiplied by their scale in integers, digit by digit. Sums
//   over a piece of 256 are exact, and become floats once.
// * q8_0, whose scales are floats: values and numbers are multiplied in 16 bits. Sums over a block of 32 are exact, in
//   eight lanes, and each block becomes floats.
#include "kernels/quant/split_pieces.h"

#if defined(__x86_64__) && defined(__linux__)
#include <immintrin.h>

#include <algorithm>
#include <bit>

#include "tensor/blocks/block_bits.h"

namespace rlx::kernels::split {
namespace {

#define RLX_AVX2 __attribute__((target("avx2,fma,f16c")))
#define RLX_AVX2_INLINE RLX_AVX2 __attribute__((always_inline)) inline

constexpr int kDigits = 2;
using TwoDigits = Piece<kDigits>;

RLX_AVX2_INLINE __m256i load(const void* from) { return _mm256_loadu_si256(static_cast<const __m256i*>(from)); }
RLX_AVX2_INLINE __m128i load_half(const void* from) { return _mm_loadu_si128(static_cast<const __m128i*>(from)); }
RLX_AVX2_INLINE __m256i twice(__m128i v) { return _mm256_broadcastsi128_si256(v); }
RLX_AVX2_INLINE __m256i low_byte(__m256i v) { return _mm256_srai_epi32(_mm256_slli_epi32(v, 24), 24); }
/// The lowest 8 bits of 32 integers, in order.
RLX_AVX2_INLINE __m256i bytes_of(const __m256i (&v)[4]) {
  const __m256i bytes = _mm256_packs_epi16(_mm256_packs_epi32(v[0], v[1]), _mm256_packs_epi32(v[2], v[3]));
  return _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}
/// The sums of the first and of the last 16 bytes.
RLX_AVX2_INLINE void store_sums(__m256i bytes, int16_t* to) {
  const __m256i pairs = _mm256_maddubs_epi16(_mm256_set1_epi8(1), bytes);
  __m256i sums = _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
  sums = _mm256_hadd_epi32(sums, sums), sums = _mm256_hadd_epi32(sums, sums);
  to[0] = static_cast<int16_t>(_mm256_extract_epi32(sums, 0)),
  to[1] = static_cast<int16_t>(_mm256_extract_epi32(sums, 4));
}

/// Splits 256 numbers with the scale 2^exponent.
RLX_AVX2 void split_piece(DType format, const float* x, int exponent, TwoDigits& to) {
  constexpr int kBits = TwoDigits::kBits;
  const __m256 scale = _mm256_set1_ps(std::bit_cast<float>(static_cast<uint32_t>(127 + kBits - exponent) << 23));
  to.step = std::bit_cast<float>(static_cast<uint32_t>(127 - kBits + exponent) << 23);
  const __m256i max = _mm256_set1_epi32((1 << kBits) - 1), min = _mm256_set1_epi32(1 - (1 << kBits));
  for (int g = 0; g < kGroups; ++g)
    for (int half = 0; half < 2; ++half) {
      const int begin = format == q4_k ? 32 * kSubBlocks[g][half] : 64 * g + 32 * half;
      __m256i v[4], low[4], high[4];
      for (int i = 0; i < 4; ++i) {
        v[i] = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x + begin + 8 * i), scale));
        v[i] = _mm256_max_epi32(_mm256_min_epi32(v[i], max), min);
        low[i] = low_byte(v[i]), high[i] = _mm256_srai_epi32(_mm256_sub_epi32(v[i], low[i]), 8);
      }
      if (format == q8_0) {
        for (int i = 0; i < 4; i += 2) {
          const __m256i numbers = _mm256_permute4x64_epi64(_mm256_packs_epi32(v[i], v[i + 1]), 0xd8);
          _mm256_storeu_si256(reinterpret_cast<__m256i*>(to.numbers + begin + 8 * i), numbers);
        }
        continue;
      }
      const __m256i digits[kDigits] = {bytes_of(high), bytes_of(low)};
      for (int d = 0; d < kDigits; ++d) {
        _mm256_store_si256(reinterpret_cast<__m256i*>(to.digits[g][d] + 32 * half), digits[d]);
        int16_t sums[2];
        store_sums(digits[d], sums);
        if (format == q4_k) to.blocks[d][kSubBlocks[g][half]] = static_cast<int16_t>(sums[0] + sums[1]);
        else to.sixteens[d][begin / 16] = sums[0], to.sixteens[d][begin / 16 + 1] = sums[1];
      }
    }
}

RLX_AVX2_INLINE float sum_of(__m128 v) {
  v = _mm_add_ps(v, _mm_movehl_ps(v, v));
  return _mm_cvtss_f32(_mm_add_ss(v, _mm_movehdup_ps(v)));
}
RLX_AVX2_INLINE __m128 halves_added(__m256 v) {
  return _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
}
/// What sums of digits' products stand for.
RLX_AVX2_INLINE __m256 number_of(__m256i high, __m256i low) {
  return _mm256_fmadd_ps(_mm256_cvtepi32_ps(high), _mm256_set1_ps(256), _mm256_cvtepi32_ps(low));
}
RLX_AVX2_INLINE float half_at(const uint8_t* from) {
  return _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(blocks::read<uint16_t>(from))));
}
/// Adds the products of 32 values (0 to 63) and digits to sums by digit; `scales` has one for each pair.
RLX_AVX2_INLINE void add_scaled(__m256i (&sums)[kDigits], __m256i values, const int8_t (&digits)[kDigits][64], int half,
                                __m256i scales) {
  for (int d = 0; d < kDigits; ++d) {
    const __m256i pairs = _mm256_maddubs_epi16(values, load(digits[d] + 32 * half));
    sums[d] = _mm256_add_epi32(sums[d], _mm256_madd_epi16(pairs, scales));
  }
}
/// In both halves of a vector: 16 bits from byte `at` on.
RLX_AVX2_INLINE __m256i both_bytes_of(int at) { return _mm256_set1_epi16(static_cast<int16_t>(at | (at + 1) << 8)); }

struct Q4_K {
  static constexpr int64_t kPieceBytes = 144;

  RLX_AVX2 static float dot(const TwoDigits* x, const Columns& column) {
    const __m256i nibble = _mm256_set1_epi8(15);
    __m256 sum = _mm256_setzero_ps();
    __m128 minima = _mm_setzero_ps();
    Prefetch prefetch(column, 1);
    const uint8_t* w = column.w;
    for (int64_t piece = 0; piece < column.pieces; ++piece, ++x, w += kPieceBytes) {
      prefetch.advance<kPieceBytes>();
      constexpr uint32_t kSix = 0x3f3f3f3f, kFour = 0x0f0f0f0f, kTwo = 0x30303030;
      const auto w0 = blocks::read<uint32_t>(w + 4), w1 = blocks::read<uint32_t>(w + 8),
                 w2 = blocks::read<uint32_t>(w + 12);
      const auto word = [](uint32_t low, uint32_t high) {
        return static_cast<int64_t>(static_cast<uint64_t>(high) << 32 | low);
      };
      const __m128i six = _mm_set_epi64x(word(w1 & kSix, (w2 >> 4 & kFour) | (w1 >> 2 & kTwo)),
                                         word(w0 & kSix, (w2 & kFour) | (w0 >> 2 & kTwo)));
      const __m128i scales_of_8 = _mm_cvtepu8_epi16(six), mins = _mm_cvtepu8_epi16(_mm_unpackhi_epi64(six, six));
      const __m256i scales = twice(scales_of_8);
      __m256i sums[kDigits] = {_mm256_setzero_si256(), _mm256_setzero_si256()};
      RLX_UNROLL for (int chunk = 0; chunk < 4; ++chunk) {
        const __m256i bytes = load(w + 16 + 32 * chunk);
        RLX_UNROLL for (int upper = 0; upper < 2; ++upper) {
          const int block = 2 * chunk + upper, group = block / 4 * 2 + upper, half = chunk % 2;
          const __m256i values = _mm256_and_si256(upper ? _mm256_srli_epi16(bytes, 4) : bytes, nibble);
          add_scaled(sums, values, x->digits[group], half, _mm256_shuffle_epi8(scales, both_bytes_of(2 * block)));
        }
      }
      sum = _mm256_fmadd_ps(number_of(sums[0], sums[1]), _mm256_set1_ps(half_at(w) * x->step), sum);
      const __m128 high = _mm_cvtepi32_ps(_mm_madd_epi16(mins, load_half(x->blocks[0]))),
                   low = _mm_cvtepi32_ps(_mm_madd_epi16(mins, load_half(x->blocks[1])));
      minima = _mm_fmadd_ps(_mm_fmadd_ps(high, _mm_set1_ps(256), low), _mm_set1_ps(half_at(w + 2) * x->step), minima);
    }
    return sum_of(_mm_sub_ps(halves_added(sum), minima));
  }
};

struct Q6_K {
  static constexpr int64_t kPieceBytes = 210;

  RLX_AVX2 static float dot(const TwoDigits* x, const Columns& column) {
    const __m256i nibble = _mm256_set1_epi8(15), high_bits = _mm256_set1_epi8(0x30);
    __m256 sum = _mm256_setzero_ps();
    Prefetch prefetch(column, 1);
    const uint8_t* w = column.w;
    for (int64_t piece = 0; piece < column.pieces; ++piece, ++x, w += kPieceBytes) {
      prefetch.advance<kPieceBytes>();
      const __m128i bytes_of_scales = load_half(w + 192);
      const __m256i scales = twice(bytes_of_scales);
      __m256i sums[kDigits] = {_mm256_setzero_si256(), _mm256_setzero_si256()};
      RLX_UNROLL for (int part = 0; part < 2; ++part) {
        const __m256i first = load(w + 64 * part), second = load(w + 64 * part + 32), bits = load(w + 128 + 32 * part);
        const __m256i fifth[4] = {_mm256_slli_epi16(bits, 4), _mm256_slli_epi16(bits, 2), bits,
                                  _mm256_srli_epi16(bits, 2)};
        const __m256i low[4] = {first, second, _mm256_srli_epi16(first, 4), _mm256_srli_epi16(second, 4)};
        RLX_UNROLL for (int i = 0; i < 4; ++i) {
          const __m256i values =
              _mm256_or_si256(_mm256_and_si256(low[i], nibble), _mm256_and_si256(fifth[i], high_bits));
          // A scale for 16 values: in the upper bytes of 16 bits, from where they are brought down with their sign.
          const int at = 8 * part + 2 * i;
          const __m256i pick =
              _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_set1_epi16(static_cast<int16_t>(at << 8 | 0x80))),
                                      _mm_set1_epi16(static_cast<int16_t>((at + 1) << 8 | 0x80)), 1);
          add_scaled(sums, values, x->digits[2 * part + i / 2], i % 2,
                     _mm256_srai_epi16(_mm256_shuffle_epi8(scales, pick), 8));
        }
      }
      const __m256i wide = _mm256_cvtepi8_epi16(bytes_of_scales);
      for (int d = 0; d < kDigits; ++d)  // the values are 32 too large
        sums[d] = _mm256_sub_epi32(sums[d], _mm256_slli_epi32(_mm256_madd_epi16(wide, load(x->sixteens[d])), 5));
      sum = _mm256_fmadd_ps(number_of(sums[0], sums[1]), _mm256_set1_ps(half_at(w + 208) * x->step), sum);
    }
    return sum_of(halves_added(sum));
  }
};

struct Q8_0 {
  static constexpr int64_t kBlock = 34;

  RLX_AVX2 static float dot(const TwoDigits* x, const Columns& column) {
    __m256 sum = _mm256_setzero_ps();
    Prefetch prefetch(column, 1);
    const uint8_t* w = column.w;
    for (int64_t piece = 0; piece < column.pieces; ++piece, ++x) {
      prefetch.advance<8 * kBlock>();
      __m256 of_piece = _mm256_setzero_ps();
      RLX_UNROLL for (int block = 0; block < 8; ++block, w += kBlock) {
        const int16_t* const numbers = x->numbers + 32 * block;
        const __m256i first = _mm256_madd_epi16(_mm256_cvtepi8_epi16(load_half(w + 2)), load(numbers)),
                      second = _mm256_madd_epi16(_mm256_cvtepi8_epi16(load_half(w + 18)), load(numbers + 16));
        of_piece =
            _mm256_fmadd_ps(_mm256_cvtepi32_ps(_mm256_add_epi32(first, second)), _mm256_set1_ps(half_at(w)), of_piece);
      }
      sum = _mm256_fmadd_ps(of_piece, _mm256_set1_ps(x->step), sum);
    }
    return sum_of(halves_added(sum));
  }
};

template <class Format>
RLX_AVX2 void dots_of_columns(const TwoDigits* x, Columns columns, int64_t count, float* to) {
  for (; count > 0; --count, ++to, columns.w += columns.row_bytes) *to = Format::dot(x, columns);
}

}  // namespace

RLX_AVX2 bool split_for_avx2(DType format, const float* x, int64_t k, TwoDigits* to) {
  for (int64_t i = 0; i < k; i += kPiece, ++to) {
    __m256i max = _mm256_setzero_si256();
    for (int64_t j = 0; j < kPiece; j += 8)
      max = _mm256_max_epu32(
          max, _mm256_and_si256(_mm256_castps_si256(_mm256_loadu_ps(x + i + j)), _mm256_set1_epi32(0x7fffffff)));
    alignas(32) uint32_t lanes[8];
    _mm256_store_si256(reinterpret_cast<__m256i*>(lanes), max);
    int exponent;
    if (!exponent_of(*std::max_element(lanes, lanes + 8), exponent)) return false;
    split_piece(format, x + i, exponent, *to);
    to->is_for_avx2 = true;
  }
  return true;
}
void multiply_by_avx2(DType format, const TwoDigits* x, const Columns& columns, int64_t count, float* to) {
  if (format == q8_0) return dots_of_columns<Q8_0>(x, columns, count, to);
  if (format == q4_k) return dots_of_columns<Q4_K>(x, columns, count, to);
  dots_of_columns<Q6_K>(x, columns, count, to);
}

}  // namespace rlx::kernels::split
#endif
