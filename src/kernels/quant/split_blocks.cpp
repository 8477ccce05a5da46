// See the header. A piece of 256 elements is four groups of 64, whose 16 lanes are sums of four products each. The
// three digits of x have signs, the quantized values have none (what is subtracted from them is subtracted from the
// sums, as integers), so that each digit is one instruction: t = (u d2) 2^16 + (u d1) 2^8 + u d0, modulo 2^32, and the
// sum of four fits 32 bits. Then one multiply-add of floats has the scales.
#include "kernels/quant/split_blocks.h"

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wuninitialized"  // of _mm512_undefined_epi32; gcc bug 105593, fixed in 13
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#if defined(__x86_64__) && defined(__linux__)
#include <immintrin.h>
#endif

#include <algorithm>
#include <bit>

#include "kernels/gemm/fma/micro_kernels.h"
#include "kernels/partial_sums.h"
#include "kernels/quant/vnni.h"
#include "kernels/vector/highway_targets.h"
#include "tensor/blocks/block_bits.h"

namespace rlx::kernels {
namespace {

constexpr int64_t kPiece = 256, kGroups = 4, kDigits = 3;
constexpr int kBits = 22;  // of a number's magnitude
/// Each lane adds a sum for 64 elements, and is not longer than a partial sum.
constexpr int64_t kMaxElements = 64 * kPartialSumTerms;

struct alignas(64) Piece {
  int8_t digits[kGroups][kDigits][64];  ///< the highest first
  int32_t offsets[kGroups][16];         ///< what the values' offset times x is, in each lane
  float factors[16];  ///< the scale of x; of q4_k in the first eight lanes, beside ones for the minima
  float sums[16];     ///< of q4_k: zeros, then the sum of x in each sub-block
};

}  // namespace

size_t split_row_bytes(int64_t k) { return static_cast<size_t>(k / kPiece) * sizeof(Piece); }

#if defined(__x86_64__) && defined(__linux__)
namespace {

#define RLX_VNNI __attribute__((target("avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")))
#define RLX_VNNI_INLINE RLX_VNNI __attribute__((always_inline)) inline

/// The sub-blocks of q4_k in the two halves of a group: bytes hold elements of two of them.
constexpr int kSubBlocks[kGroups][2] = {{0, 2}, {1, 3}, {4, 6}, {5, 7}};

RLX_VNNI_INLINE __m512i low_byte(__m512i v) { return _mm512_srai_epi32(_mm512_slli_epi32(v, 24), 24); }

/// Splits 256 numbers with the scale 2^exponent.
RLX_VNNI void split_piece(DType format, const float* x, int exponent, Piece& to) {
  const __m512 scale = _mm512_set1_ps(std::bit_cast<float>(static_cast<uint32_t>(127 + kBits - exponent) << 23));
  const float step = std::bit_cast<float>(static_cast<uint32_t>(127 - kBits + exponent) << 23);
  const __m512i max = _mm512_set1_epi32((1 << kBits) - 1), min = _mm512_set1_epi32(1 - (1 << kBits));
  for (int64_t g = 0; g < kGroups; ++g) {
    for (int64_t quarter = 0; quarter < 4; ++quarter) {
      const int64_t half = quarter / 2, begin = format == q4_k ? 32 * kSubBlocks[g][half] : 64 * g + 32 * half;
      const __m512 numbers = _mm512_loadu_ps(x + begin + quarter % 2 * 16);
      __m512i v = _mm512_cvtps_epi32(_mm512_mul_ps(numbers, scale));
      v = _mm512_max_epi32(_mm512_min_epi32(v, max), min);
      const __m512i d0 = low_byte(v);
      v = _mm512_srai_epi32(_mm512_sub_epi32(v, d0), 8);
      const __m512i d1 = low_byte(v), d2 = _mm512_srai_epi32(_mm512_sub_epi32(v, d1), 8);
      const __m512i digits[kDigits] = {d2, d1, d0};
      for (int64_t d = 0; d < kDigits; ++d)
        _mm_store_si128(reinterpret_cast<__m128i*>(to.digits[g][d] + 16 * quarter), _mm512_cvtepi32_epi8(digits[d]));
    }
    __m512i sum = _mm512_setzero_si512();
    for (int64_t d = 0; d < kDigits; ++d)
      sum = _mm512_dpbusd_epi32(_mm512_slli_epi32(sum, 8), _mm512_set1_epi8(1), _mm512_load_si512(to.digits[g][d]));
    _mm512_store_si512(to.offsets[g], format == q8_0 ? _mm512_slli_epi32(sum, 7) : _mm512_slli_epi32(sum, 5));
    if (format != q4_k) continue;
    alignas(64) int32_t lanes[16];
    _mm512_store_si512(lanes, sum);
    for (int half = 0; half < 2; ++half) {
      int32_t all = 0;
      for (int i = 0; i < 8; ++i) all += lanes[8 * half + i];
      to.sums[8 + kSubBlocks[g][half]] = step * static_cast<float>(all);
      to.sums[kSubBlocks[g][half]] = 0;
    }
  }
  for (int i = 0; i < 16; ++i) to.factors[i] = format == q4_k && i >= 8 ? 1 : step;
}

RLX_VNNI bool split_pieces(DType format, const float* x, int64_t k, Piece* to) {
  // 2^-60 to 2^60: the scale and its inverse are normal, and so are products with scales of f16.
  constexpr uint32_t kMin = uint32_t{127 - 60} << 23, kMax = uint32_t{127 + 60} << 23;
  for (int64_t i = 0; i < k; i += kPiece, ++to) {
    __m512i max = _mm512_setzero_si512();
    for (int64_t j = 0; j < kPiece; j += 16)
      max = _mm512_max_epu32(
          max, _mm512_and_epi32(_mm512_castps_si512(_mm512_loadu_ps(x + i + j)), _mm512_set1_epi32(0x7fffffff)));
    const uint32_t bits = _mm512_reduce_max_epu32(max);
    if (bits != 0 && (bits < kMin || bits >= kMax)) return false;
    split_piece(format, x + i, bits == 0 ? 0 : static_cast<int>(bits >> 23) - 126, *to);
  }
  return true;
}

/// The sums of four products each, of one group.
RLX_VNNI_INLINE __m512i products_of(__m512i values, const int8_t (&digits)[kDigits][64]) {
  __m512i t = _mm512_dpbusd_epi32(_mm512_setzero_si512(), values, _mm512_load_si512(digits[0]));
  t = _mm512_dpbusd_epi32(_mm512_slli_epi32(t, 8), values, _mm512_load_si512(digits[1]));
  return _mm512_dpbusd_epi32(_mm512_slli_epi32(t, 8), values, _mm512_load_si512(digits[2]));
}
/// Indices of a group's lanes into scales: `first` in the lower half, `second` in the upper one.
RLX_VNNI_INLINE __m512i halves(int first, int second) {
  return _mm512_inserti64x4(_mm512_set1_epi32(first), _mm256_set1_epi32(second), 1);
}

/// Columns of weights that are multiplied at a time, `row_bytes` apart, so that digits are loaded once for them.
struct Columns {
  const uint8_t* w;
  int64_t row_bytes, pieces;
  const uint8_t* at(int column) const { return w + column * row_bytes; }
};
/// Asks for the columns that come next while these are read: one stream, however many columns are read at a time.
class Prefetch {
 public:
  Prefetch(const Columns& columns, int count) : at_(columns.w + std::max(kAhead, count * columns.row_bytes)) {}
  template <int64_t kBytes>
  RLX_VNNI_INLINE void advance() {
    RLX_UNROLL for (int64_t i = 0; i < kBytes; i += 64)
        _mm_prefetch(reinterpret_cast<const char*>(at_ + i), _MM_HINT_T0);
    at_ += kBytes;
  }

 private:
  static constexpr int64_t kAhead = 8192;
  const uint8_t* at_;
};

struct Q4_K {
  static constexpr int kColumns = 4;
  static constexpr int64_t kPieceBytes = 144;

  template <int kCount>
  RLX_VNNI_INLINE static void dots(const Piece* x, const Columns& columns, float* to) {
    const __m512i nibble = _mm512_set1_epi8(15), of_d = halves(0, 1);
    __m512i of_group[kGroups];
    for (int g = 0; g < kGroups; ++g) of_group[g] = halves(kSubBlocks[g][0], kSubBlocks[g][1]);
    __m512 sum[kCount], minima[kCount];
    RLX_UNROLL for (int c = 0; c < kCount; ++c) sum[c] = minima[c] = _mm512_setzero_ps();
    Prefetch prefetch(columns, kCount);
    for (int64_t piece = 0; piece < columns.pieces; ++piece, ++x) {
      prefetch.advance<kCount * kPieceBytes>();
      __m512 scales[kCount];
      RLX_UNROLL for (int c = 0; c < kCount; ++c) {
        const uint8_t* const w = columns.at(c) + piece * kPieceBytes;
        constexpr uint32_t kSix = 0x3f3f3f3f, kFour = 0x0f0f0f0f, kTwo = 0x30303030;
        const auto w0 = blocks::read<uint32_t>(w + 4), w1 = blocks::read<uint32_t>(w + 8),
                   w2 = blocks::read<uint32_t>(w + 12);
        const auto word = [](uint32_t low, uint32_t high) {
          return static_cast<int64_t>(static_cast<uint64_t>(high) << 32 | low);
        };
        const __m128i six = _mm_set_epi64x(word(w1 & kSix, (w2 >> 4 & kFour) | (w1 >> 2 & kTwo)),
                                           word(w0 & kSix, (w2 & kFour) | (w0 >> 2 & kTwo)));
        const __m128 d = _mm_cvtph_ps(_mm_cvtsi32_si128(blocks::read<int32_t>(w)));
        const __m512 ds = _mm512_permutexvar_ps(of_d, _mm512_castps128_ps512(d));
        scales[c] =
            _mm512_mul_ps(_mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(six)), ds), _mm512_load_ps(x->factors));
        minima[c] = _mm512_fmadd_ps(scales[c], _mm512_load_ps(x->sums), minima[c]);
      }
      RLX_UNROLL for (int g = 0; g < kGroups; ++g) {
        RLX_UNROLL for (int c = 0; c < kCount; ++c) {
          const __m512i bytes = _mm512_loadu_si512(columns.at(c) + piece * kPieceBytes + 16 + g / 2 * 64);
          const __m512i values = _mm512_and_si512(g % 2 ? _mm512_srli_epi16(bytes, 4) : bytes, nibble);
          sum[c] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(products_of(values, x->digits[g])),
                                   _mm512_permutexvar_ps(of_group[g], scales[c]), sum[c]);
        }
      }
    }
    RLX_UNROLL for (int c = 0; c < kCount; ++c) to[c] = _mm512_reduce_add_ps(_mm512_sub_ps(sum[c], minima[c]));
  }
};

struct Q8_0 {
  static constexpr int kColumns = 2;
  static constexpr int64_t kBlock = 34, kPieceBytes = 8 * kBlock;

  template <int kCount>
  RLX_VNNI_INLINE static void dots(const Piece* x, const Columns& columns, float* to) {
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
        scales[c] = _mm512_mul_ps(_mm512_castps256_ps512(ds), _mm512_load_ps(x->factors));
      }
      RLX_UNROLL for (int64_t g = 0; g < kGroups; ++g) {
        RLX_UNROLL for (int c = 0; c < kCount; ++c) {
          const auto values_of = [&](int64_t block) RLX_VNNI {
            const uint8_t* const w = columns.at(c) + piece * kPieceBytes + block * kBlock + 2;
            return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(w));
          };
          const __m512i values = _mm512_xor_si512(
              _mm512_inserti64x4(_mm512_castsi256_si512(values_of(2 * g)), values_of(2 * g + 1), 1), sign);
          const __m512i t = _mm512_sub_epi32(products_of(values, x->digits[g]), _mm512_load_si512(x->offsets[g]));
          sum[c] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(t), _mm512_permutexvar_ps(of_group[g], scales[c]), sum[c]);
        }
      }
    }
    RLX_UNROLL for (int c = 0; c < kCount; ++c) to[c] = _mm512_reduce_add_ps(sum[c]);
  }
};

struct Q6_K {
  static constexpr int kColumns = 4;
  static constexpr int64_t kPieceBytes = 210;

  template <int kCount>
  RLX_VNNI_INLINE static void dots(const Piece* x, const Columns& columns, float* to) {
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
        scales[c] = _mm512_mul_ps(_mm512_mul_ps(_mm512_cvtepi32_ps(steps), d), _mm512_load_ps(x->factors));
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
          const __m512i t = _mm512_sub_epi32(products_of(values, x->digits[g]), _mm512_load_si512(x->offsets[g]));
          sum[c] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(t), _mm512_permutexvar_ps(at, scales[c]), sum[c]);
        }
      }
    }
    RLX_UNROLL for (int c = 0; c < kCount; ++c) to[c] = _mm512_reduce_add_ps(sum[c]);
  }
};

/// The dot products of `count` columns. A column's sum does not depend on which columns are beside it.
template <class Format>
RLX_VNNI void dots_of_columns(const Piece* x, Columns columns, int64_t count, float* to) {
  for (; count >= Format::kColumns; count -= Format::kColumns, to += Format::kColumns) {
    Format::template dots<Format::kColumns>(x, columns, to);
    columns.w += Format::kColumns * columns.row_bytes;
  }
  for (; count > 0; --count, ++to, columns.w += columns.row_bytes) Format::template dots<1>(x, columns, to);
}

}  // namespace

bool splits_rows_beside(DType format, int64_t k) {
  return (format == q8_0 || format == q4_k || format == q6_k) && k > 0 && k % kPiece == 0 && k <= kMaxElements &&
         has_int8_dot_isa(Int8DotIsa::avx512_vnni);
}
bool split_row(DType format, const float* x, int64_t k, void* to) noexcept {
  return split_pieces(format, x, k, static_cast<Piece*>(to));
}
void multiply_split_row(const BlockWeightsProduct& p, const void* row, int64_t begin, int64_t end) noexcept {
  constexpr int64_t kColumns = BlockWeightsProduct::kColumns;
  const auto* x = static_cast<const Piece*>(row);
  const int64_t row_bytes = p.k / info(p.format).block_elements * info(p.format).block_bytes;
  const auto dots = p.format == q8_0   ? dots_of_columns<Q8_0>
                    : p.format == q4_k ? dots_of_columns<Q4_K>
                                       : dots_of_columns<Q6_K>;
  BlockProduct y;
  y.y = p.y, y.y_dtype = p.y_dtype, y.y_row_stride = p.y_stride;
  y.bias = p.bias, y.residual = p.residual, y.residual_row_stride = p.residual_stride, y.epilogue = &p.epilogue;
  for (int64_t j = begin; j < end; j += kColumns) {
    alignas(64) float sums[kColumns] = {};
    const int64_t columns = std::min(kColumns, end - j);
    dots(x, {reinterpret_cast<const uint8_t*>(p.w) + j * row_bytes, row_bytes, p.k / kPiece}, columns, sums);
    apply_epilogue(y, sums, kColumns, 0, 1, j, columns);
  }
}

#else

bool splits_rows_beside(DType, int64_t) { return false; }
bool split_row(DType, const float*, int64_t, void*) noexcept { return false; }
void multiply_split_row(const BlockWeightsProduct&, const void*, int64_t, int64_t) noexcept {}

#endif

}  // namespace rlx::kernels
