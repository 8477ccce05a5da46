// Kernels of split_blocks.cpp for AVX-512 VNNI. A piece of 256 elements is four groups of 64. The digits d of x have
// signs; the quantized values u are multiplied without one.
// * q8_0, q6_k: u is the value plus 128 or 32. Each lane sums four products, digit after digit: (u d2) 2^16 + (u d1)
// 2^8
//   + u d0. The offset times the sum of the digits (`fours`) is subtracted from that. Sums may wrap meanwhile; the last
//   one fits 32 bits. Then one multiply-add of floats has the scales.
// * q4_k, whose scales are integers: pairs of products are summed in 16 bits and multiplied by their scale in integers,
//   digit by digit. A piece becomes a float once. The scales of four columns are decoded together.
#include "kernels/quant/split_pieces.h"

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wuninitialized"  // of _mm512_undefined_epi32; gcc bug 105593, fixed in 13
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#if defined(__x86_64__) && defined(__linux__)
#include <immintrin.h>

#include <algorithm>
#include <bit>

#include "tensor/blocks/block_bits.h"

namespace rlx::kernels::split {
namespace {

#define RLX_VNNI __attribute__((target("avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")))
#define RLX_VNNI_INLINE RLX_VNNI __attribute__((always_inline)) inline

RLX_VNNI_INLINE __m512i low_byte(__m512i v) { return _mm512_srai_epi32(_mm512_slli_epi32(v, 24), 24); }

/// Splits 256 numbers with the scale 2^exponent.
template <int kDigits>
RLX_VNNI void split_piece(DType format, const float* x, int exponent, Piece<kDigits>& to) {
  constexpr int kBits = Piece<kDigits>::kBits;
  const __m512 scale = _mm512_set1_ps(std::bit_cast<float>(static_cast<uint32_t>(127 + kBits - exponent) << 23));
  to.step = std::bit_cast<float>(static_cast<uint32_t>(127 - kBits + exponent) << 23);
  const __m512i max = _mm512_set1_epi32((1 << kBits) - 1), min = _mm512_set1_epi32(1 - (1 << kBits));
  const __m512i one = _mm512_set1_epi8(1);
  for (int64_t g = 0; g < kGroups; ++g) {
    for (int64_t quarter = 0; quarter < 4; ++quarter) {
      const int64_t half = quarter / 2, begin = format == q4_k ? 32 * kSubBlocks[g][half] : 64 * g + 32 * half;
      const __m512 numbers = _mm512_loadu_ps(x + begin + quarter % 2 * 16);
      __m512i v = _mm512_cvtps_epi32(_mm512_mul_ps(numbers, scale));
      v = _mm512_max_epi32(_mm512_min_epi32(v, max), min);
      for (int d = kDigits - 1; d >= 0; --d) {
        const __m512i digit = low_byte(v);
        _mm_store_si128(reinterpret_cast<__m128i*>(to.digits[g][d] + 16 * quarter), _mm512_cvtepi32_epi8(digit));
        v = _mm512_srai_epi32(_mm512_sub_epi32(v, digit), 8);
      }
    }
    __m512i sum = _mm512_setzero_si512();
    for (int d = 0; d < kDigits; ++d) {
      const __m512i digits = _mm512_load_si512(to.digits[g][d]);
      sum = _mm512_dpbusd_epi32(_mm512_slli_epi32(sum, 8), one, digits);
      if (format != q4_k) continue;
      const __m512i fours = _mm512_dpbusd_epi32(_mm512_setzero_si512(), one, digits);
      to.blocks[d][kSubBlocks[g][0]] = static_cast<int16_t>(_mm512_mask_reduce_add_epi32(0x00ff, fours));
      to.blocks[d][kSubBlocks[g][1]] = static_cast<int16_t>(_mm512_mask_reduce_add_epi32(0xff00, fours));
    }
    _mm512_store_si512(to.fours[g], format == q8_0 ? _mm512_slli_epi32(sum, 7) : _mm512_slli_epi32(sum, 5));
  }
}

template <int kDigits>
RLX_VNNI bool split_pieces(DType format, const float* x, int64_t k, Piece<kDigits>* to) {
  for (int64_t i = 0; i < k; i += kPiece, ++to) {
    __m512i max = _mm512_setzero_si512();
    for (int64_t j = 0; j < kPiece; j += 16)
      max = _mm512_max_epu32(
          max, _mm512_and_epi32(_mm512_castps_si512(_mm512_loadu_ps(x + i + j)), _mm512_set1_epi32(0x7fffffff)));
    const uint32_t bits = _mm512_reduce_max_epu32(max);
    int exponent;
    if (!exponent_of(bits, exponent)) return false;
    split_piece(format, x + i, exponent, *to);
    to->is_for_avx2 = false;
  }
  return true;
}

/// What sums of digits' products stand for: `sums` has them in the order of the digits.
template <int kDigits>
RLX_VNNI_INLINE __m512 number_of(const __m512i (&sums)[kDigits]) {
  __m512 v = _mm512_cvtepi32_ps(sums[0]);
  RLX_UNROLL for (int d = 1; d < kDigits; ++d) v = _mm512_fmadd_ps(v, _mm512_set1_ps(256), _mm512_cvtepi32_ps(sums[d]));
  return v;
}
/// The sums of four products each, of one group, without what the values' offset adds.
template <int kDigits>
RLX_VNNI_INLINE __m512i fours_of(__m512i values, const int8_t (&digits)[kDigits][64], const int32_t (&offsets)[16]) {
  __m512i t = _mm512_dpbusd_epi32(_mm512_setzero_si512(), values, _mm512_load_si512(digits[0]));
  RLX_UNROLL for (int d = 1; d < kDigits; ++d) t =
      _mm512_dpbusd_epi32(_mm512_slli_epi32(t, 8), values, _mm512_load_si512(digits[d]));
  return _mm512_sub_epi32(t, _mm512_load_si512(offsets));
}
/// The sums of the lanes of four vectors.
RLX_VNNI_INLINE __m128 sums_of_lanes(const __m512 (&v)[4]) {
  const __m512 low = _mm512_add_ps(_mm512_unpacklo_ps(v[0], v[1]), _mm512_unpackhi_ps(v[0], v[1]));
  const __m512 high = _mm512_add_ps(_mm512_unpacklo_ps(v[2], v[3]), _mm512_unpackhi_ps(v[2], v[3]));
  const __m512 four = _mm512_add_ps(_mm512_shuffle_ps(low, high, 0x44), _mm512_shuffle_ps(low, high, 0xee));
  const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(four), _mm512_extractf32x8_ps(four, 1));
  return _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
}
/// Stores the sum of each vector's lanes, less the number of its column.
template <int kCount>
RLX_VNNI_INLINE void store_sums(const __m512 (&sums)[kCount], __m128 less, float* to) {
  static_assert(kCount == 1 || kCount == 4);
  if constexpr (kCount == 4) return _mm_storeu_ps(to, _mm_sub_ps(sums_of_lanes(sums), less));
  const __m512 none = _mm512_setzero_ps();
  const __m512 one[4] = {sums[0], none, none, none};
  _mm_store_ss(to, _mm_sub_ps(sums_of_lanes(one), less));
}
/// Indices of a group's lanes into scales: `first` in the lower half, `second` in the upper one.
RLX_VNNI_INLINE __m512i halves(int first, int second) {
  return _mm512_inserti64x4(_mm512_set1_epi32(first), _mm256_set1_epi32(second), 1);
}

/// Four numbers of 32 bits, in each 128 bits.
RLX_VNNI_INLINE __m512i in_each_lane(int a, int b, int c, int d) { return _mm512_set4_epi32(d, c, b, a); }

/// 128 bits of v, four times. A switch, as the instruction takes a constant alone.
RLX_VNNI_INLINE __m512i lane_of(__m512i v, int lane) {
  switch (lane) {
    case 0: return _mm512_shuffle_i32x4(v, v, 0x00);
    case 1: return _mm512_shuffle_i32x4(v, v, 0x55);
    case 2: return _mm512_shuffle_i32x4(v, v, 0xaa);
    default: return _mm512_shuffle_i32x4(v, v, 0xff);
  }
}

struct Q4_K {
  static constexpr int kColumns = 4;
  static constexpr int64_t kPieceBytes = 144;

  template <int kCount, int kDigits>
  RLX_VNNI_INLINE static void dots(const Piece<kDigits>* x, const Columns& columns, float* to) {
    static_assert(kCount == 1 || kCount == 4);
    const __m512i nibble = _mm512_set1_epi8(15);
    const __m512i down_p = in_each_lane(0, 0, 0, 4), down_q = in_each_lane(0, 2, 0, 2);
    const __m512i mask_p = in_each_lane(0x3f3f3f3f, 0x0f0f0f0f, 0x3f3f3f3f, 0x0f0f0f0f),
                  mask_q = in_each_lane(0, 0x30303030, 0, 0x30303030);
    const __m512i of_d = _mm512_set4_epi32(12, 8, 4, 0);
    const __m512i of_minimum = _mm512_set_epi32(7, 7, 7, 7, 5, 5, 5, 5, 3, 3, 3, 3, 1, 1, 1, 1);
    __m512i of_group[kGroups];  // of bytes, within 16
    for (int g = 0; g < kGroups; ++g) {
      const auto pair = [](int at) { return static_cast<int16_t>(2 * at | (2 * at + 1) << 8); };
      of_group[g] =
          _mm512_inserti64x4(_mm512_set1_epi16(pair(kSubBlocks[g][0])), _mm256_set1_epi16(pair(kSubBlocks[g][1])), 1);
    }
    __m512 sum[kCount], minima = _mm512_setzero_ps();
    RLX_UNROLL for (int c = 0; c < kCount; ++c) sum[c] = _mm512_setzero_ps();
    Prefetch prefetch(columns, kCount);
    for (int64_t piece = 0; piece < columns.pieces; ++piece, ++x) {
      prefetch.advance<kCount * kPieceBytes>();
      const auto head = [&](int c) RLX_VNNI {
        return _mm_loadu_si128(reinterpret_cast<const __m128i*>(columns.at(c) + piece * kPieceBytes));
      };
      __m512i heads;
      if constexpr (kCount == 1) heads = _mm512_broadcast_i32x4(head(0));
      else
        heads = _mm512_inserti64x4(
            _mm512_castsi256_si512(_mm256_inserti128_si256(_mm256_castsi128_si256(head(0)), head(1), 1)),
            _mm256_inserti128_si256(_mm256_castsi128_si256(head(2)), head(3), 1), 1);
      const __m512i p = _mm512_srlv_epi32(
          _mm512_shuffle_epi32(heads, static_cast<_MM_PERM_ENUM>(1 | 3 << 2 | 2 << 4 | 3 << 6)), down_p);
      const __m512i q = _mm512_srlv_epi32(
          _mm512_shuffle_epi32(heads, static_cast<_MM_PERM_ENUM>(1 | 1 << 2 | 2 << 4 | 2 << 6)), down_q);
      const __m512i six = _mm512_or_si512(_mm512_and_si512(p, mask_p), _mm512_and_si512(q, mask_q));
      const __m512i scales = _mm512_unpacklo_epi8(six, _mm512_setzero_si512()),
                    mins = _mm512_unpackhi_epi8(six, _mm512_setzero_si512());
      const __m256 ds = _mm256_mul_ps(_mm256_cvtph_ps(_mm512_castsi512_si128(_mm512_permutexvar_epi32(of_d, heads))),
                                      _mm256_set1_ps(x->step));
      alignas(32) float d[8];
      _mm256_store_ps(d, ds);
      __m512i minima_of[kDigits];
      RLX_UNROLL for (int i = 0; i < kDigits; ++i) minima_of[i] = _mm512_madd_epi16(
          mins, _mm512_broadcast_i32x4(_mm_load_si128(reinterpret_cast<const __m128i*>(x->blocks[i]))));
      minima =
          _mm512_fmadd_ps(number_of(minima_of), _mm512_permutexvar_ps(of_minimum, _mm512_castps256_ps512(ds)), minima);
      RLX_UNROLL for (int c = 0; c < kCount; ++c) {
        const uint8_t* const w = columns.at(c) + piece * kPieceBytes;
        const __m512i own = kCount == 1 ? scales : lane_of(scales, c);
        __m512i sums[kDigits];
        RLX_UNROLL for (int i = 0; i < kDigits; ++i) sums[i] = _mm512_setzero_si512();
        RLX_UNROLL for (int g = 0; g < kGroups; ++g) {
          const __m512i bytes = _mm512_loadu_si512(w + 16 + g / 2 * 64);
          const __m512i values = _mm512_and_si512(g % 2 ? _mm512_srli_epi16(bytes, 4) : bytes, nibble);
          const __m512i scale = _mm512_shuffle_epi8(own, of_group[g]);
          RLX_UNROLL for (int i = 0; i < kDigits; ++i) sums[i] =
              _mm512_dpwssd_epi32(sums[i], _mm512_maddubs_epi16(values, _mm512_load_si512(x->digits[g][i])), scale);
        }
        sum[c] = _mm512_fmadd_ps(number_of(sums), _mm512_set1_ps(d[2 * c]), sum[c]);
      }
    }
    // The minima of a column stand in 128 bits, and are added alike wherever these are.
    minima = _mm512_add_ps(minima, _mm512_permute_ps(minima, 0x4e));
    minima = _mm512_add_ps(minima, _mm512_permute_ps(minima, 0xb1));
    const __m512 of_columns = _mm512_permutexvar_ps(of_d, minima);
    store_sums(sum, _mm512_castps512_ps128(of_columns), to);
  }
};

struct Q8_0 {
  static constexpr int kColumns = 1;
  static constexpr int64_t kBlock = 34, kPieceBytes = 8 * kBlock;

  template <int kCount, int kDigits>
  RLX_VNNI_INLINE static void dots(const Piece<kDigits>* x, const Columns& columns, float* to) {
    const __m512i sign = _mm512_set1_epi8(-128);
    __m512i of_group[kGroups];
    for (int g = 0; g < kGroups; ++g) of_group[g] = halves(2 * g, 2 * g + 1);
    __m512 sum[kCount];
    RLX_UNROLL for (int c = 0; c < kCount; ++c) sum[c] = _mm512_setzero_ps();
    Prefetch prefetch(columns, kCount);
    for (int64_t piece = 0; piece < columns.pieces; ++piece, ++x) {
      prefetch.advance<kCount * kPieceBytes>();
      __m512 scales[kCount];
      RLX_UNROLL for (int c = 0; c < kCount; ++c) {
        const uint8_t* const w = columns.at(c) + piece * kPieceBytes;
        const auto four = [w](int64_t first) {
          uint64_t word = 0;
          for (int64_t b = 0; b < 4; ++b)
            word |= static_cast<uint64_t>(blocks::read<uint16_t>(w + (first + b) * kBlock)) << (16 * b);
          return static_cast<int64_t>(word);
        };
        const __m256 ds = _mm256_cvtph_ps(_mm_set_epi64x(four(4), four(0)));
        scales[c] = _mm512_mul_ps(_mm512_castps256_ps512(ds), _mm512_set1_ps(x->step));
      }
      RLX_UNROLL for (int64_t g = 0; g < kGroups; ++g) {
        RLX_UNROLL for (int c = 0; c < kCount; ++c) {
          const auto values_of = [&](int64_t block) RLX_VNNI {
            const uint8_t* const w = columns.at(c) + piece * kPieceBytes + block * kBlock + 2;
            return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(w));
          };
          const __m512i values = _mm512_xor_si512(
              _mm512_inserti64x4(_mm512_castsi256_si512(values_of(2 * g)), values_of(2 * g + 1), 1), sign);
          const __m512i t = fours_of(values, x->digits[g], x->fours[g]);
          sum[c] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(t), _mm512_permutexvar_ps(of_group[g], scales[c]), sum[c]);
        }
      }
    }
    RLX_UNROLL for (int c = 0; c < kCount; ++c) to[c] = _mm512_reduce_add_ps(sum[c]);
  }
};

struct Q6_K {
  static constexpr int kColumns = 1;
  static constexpr int64_t kPieceBytes = 210;

  template <int kCount, int kDigits>
  RLX_VNNI_INLINE static void dots(const Piece<kDigits>* x, const Columns& columns, float* to) {
    const __m512i nibble = _mm512_set1_epi8(15), high = _mm512_set1_epi8(0x30);
    const __m512i left = _mm512_inserti64x4(_mm512_set1_epi16(4), _mm256_set1_epi16(2), 1),
                  right = _mm512_inserti64x4(_mm512_setzero_si512(), _mm256_set1_epi16(2), 1);
    const __m512i lanes = _mm512_set_epi32(3, 3, 3, 3, 2, 2, 2, 2, 1, 1, 1, 1, 0, 0, 0, 0);
    __m512 sum[kCount];
    RLX_UNROLL for (int c = 0; c < kCount; ++c) sum[c] = _mm512_setzero_ps();
    Prefetch prefetch(columns, kCount);
    for (int64_t piece = 0; piece < columns.pieces; ++piece, ++x) {
      prefetch.advance<kCount * kPieceBytes>();
      __m512 scales[kCount];
      RLX_UNROLL for (int c = 0; c < kCount; ++c) {
        const uint8_t* const w = columns.at(c) + piece * kPieceBytes;
        const __m512i steps = _mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(w + 192)));
        const __m512 d = _mm512_broadcastss_ps(_mm_cvtph_ps(_mm_cvtsi32_si128(blocks::read<uint16_t>(w + 208))));
        scales[c] = _mm512_mul_ps(_mm512_mul_ps(_mm512_cvtepi32_ps(steps), d), _mm512_set1_ps(x->step));
      }
      RLX_UNROLL for (int g = 0; g < kGroups; ++g) {
        const __m512i at = _mm512_add_epi32(lanes, _mm512_set1_epi32(4 * g));
        RLX_UNROLL for (int c = 0; c < kCount; ++c) {
          const uint8_t* const w = columns.at(c) + piece * kPieceBytes;
          const __m512i low = _mm512_loadu_si512(w + g / 2 * 64);
          // Two bits of 32 elements in a byte; this group has the first two pairs of them, or the last two.
          const __m512i pairs =
              _mm512_broadcast_i64x4(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(w + 128 + g / 2 * 32)));
          const __m512i fifth =
              _mm512_and_si512(g % 2 ? _mm512_srlv_epi16(pairs, right) : _mm512_sllv_epi16(pairs, left), high);
          const __m512i values =
              _mm512_or_si512(_mm512_and_si512(g % 2 ? _mm512_srli_epi16(low, 4) : low, nibble), fifth);
          const __m512i t = fours_of(values, x->digits[g], x->fours[g]);
          sum[c] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(t), _mm512_permutexvar_ps(at, scales[c]), sum[c]);
        }
      }
    }
    RLX_UNROLL for (int c = 0; c < kCount; ++c) to[c] = _mm512_reduce_add_ps(sum[c]);
  }
};

/// The dot products of `count` columns. A column's sum does not depend on which columns are beside it.
template <class Format, int kDigits>
RLX_VNNI void dots_of_columns(const Piece<kDigits>* x, Columns columns, int64_t count, float* to) {
  for (; count >= Format::kColumns; count -= Format::kColumns, to += Format::kColumns) {
    Format::template dots<Format::kColumns, kDigits>(x, columns, to);
    columns.w += Format::kColumns * columns.row_bytes;
  }
  for (; count > 0; --count, ++to, columns.w += columns.row_bytes) Format::template dots<1, kDigits>(x, columns, to);
}

template <int kDigits>
void multiply(DType format, const Piece<kDigits>* x, const Columns& columns, int64_t count, float* to) {
  if (format == q8_0) return dots_of_columns<Q8_0>(x, columns, count, to);
  if (format == q4_k) return dots_of_columns<Q4_K>(x, columns, count, to);
  dots_of_columns<Q6_K>(x, columns, count, to);
}

}  // namespace

bool split_for_avx512(DType format, const float* x, int64_t k, Piece<2>* to) { return split_pieces(format, x, k, to); }
bool split_for_avx512(DType format, const float* x, int64_t k, Piece<3>* to) { return split_pieces(format, x, k, to); }
void multiply_by_avx512(DType format, const Piece<2>* x, const Columns& columns, int64_t count, float* to) {
  multiply(format, x, columns, count, to);
}
void multiply_by_avx512(DType format, const Piece<3>* x, const Columns& columns, int64_t count, float* to) {
  multiply(format, x, columns, count, to);
}

}  // namespace rlx::kernels::split
#endif
