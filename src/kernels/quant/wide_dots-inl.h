// Dot products of one row of x with columns of weights in blocks of q8_0, q4_k or q6_k, by AVX-512. blocks.cpp includes
// this file. For q8_0 and q6_k the quantized integers are converted to f32, which is exact, and a scale is applied once
// per short sum instead of once per element. This order can give an infinity or NaN where elements that are decoded
// first give none, but no other wrong number: so a caller computes every sum that is not finite again from decoded
// elements. A column's sum must not depend on the columns beside it.
#if defined(RLX_WIDE_DOTS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef RLX_WIDE_DOTS_INL_H
#undef RLX_WIDE_DOTS_INL_H
#else
#define RLX_WIDE_DOTS_INL_H
#endif

#include "hwy/cache_control.h"
#include "hwy/highway.h"
#include "kernels/quant/block_formats-inl.h"
#include "kernels/vector/highway_targets.h"

#if HWY_TARGET <= HWY_AVX3
HWY_BEFORE_NAMESPACE();
namespace rlx::kernels {
namespace HWY_NAMESPACE {
namespace {

/// The columns, from the first one on: `row_bytes` apart.
struct WideColumns {
  const uint8_t* w;
  int64_t row_bytes;
  const uint8_t* column(int c) const { return w + c * row_bytes; }
};

/// Prefetches the bytes behind these columns as one stream, however many columns are read at a time. They are what is
/// read next where a call covers whole rows, k up to 4096.
class WidePrefetch {
 public:
  HWY_INLINE WidePrefetch(const WideColumns& columns, int count)
      : at_(columns.w + HWY_MAX(kAhead, count * columns.row_bytes)) {}
  template <int64_t kBytes>
  HWY_INLINE void advance() {
    RLX_UNROLL for (int64_t i = 0; i < kBytes; i += 64) hwy::Prefetch(at_ + i);
    at_ += kBytes;
  }

 private:
  /// At 4096 bytes memory's answers come too late where others read, too.
  static constexpr int64_t kAhead = 8192;
  const uint8_t* at_;
};

/// A pointer to 16 bytes, for a load.
HWY_INLINE const __m128i* sixteen_at(const uint8_t* from) { return reinterpret_cast<const __m128i*>(from); }

/// Each lane adds its two products of a block, scales that sum, and adds it to one of two sums, which alternate between
/// blocks. One column at a time, as memory answers one stream faster than two, and x waits in the first-level cache.
struct WideQ8_0 {
  static constexpr int kColumns = 1;
  static constexpr int64_t kElements = 32, kBlock = 34;
  template <int kCount>
  static HWY_INLINE void dots(const float* x, const WideColumns& w, int64_t count, float* to) {
    static_assert(kCount == 1);
    __m512 sums[2] = {_mm512_setzero_ps(), _mm512_setzero_ps()};
    const auto add = [&](int64_t block, int which) HWY_ATTR {
      const uint8_t* const at = w.w + block * kBlock;
      const float* const from = x + block * kElements;
      const __m512 q0 = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(sixteen_at(at + 2))));
      const __m512 q1 = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(sixteen_at(at + 18))));
      const __m512 products = _mm512_fmadd_ps(q1, _mm512_loadu_ps(from + 16), _mm512_mul_ps(q0, _mm512_loadu_ps(from)));
      sums[which] = _mm512_fmadd_ps(products, half_everywhere(at).raw, sums[which]);
    };
    WidePrefetch prefetch(w, 1);
    int64_t block = 0;
    for (; block + 8 <= count / kElements; block += 8) {
      prefetch.advance<8 * kBlock>();
      RLX_UNROLL for (int i = 0; i < 8; ++i) add(block + i, i % 2);
    }
    for (; block < count / kElements; ++block) add(block, 0);
    to[0] = _mm512_reduce_add_ps(_mm512_add_ps(sums[0], sums[1]));
  }
};

/// Elements are looked up, as Q4_K does. Scales and minima of all blocks are in memory before they are broadcast from
/// there: loads that follow their store too closely would wait for it.
struct WideQ4_K {
  static constexpr int kColumns = 4;
  static constexpr int64_t kElements = 256, kBlock = 144, kMaxBlocks = 16;
  template <int kCount>
  static HWY_INLINE void dots(const float* x, const WideColumns& w, int64_t count, float* to) {
    const int64_t blocks = count / kElements;
    HWY_ALIGN float heads[kMaxBlocks][kCount][16];
    for (int64_t b = 0; b < blocks; ++b)
      RLX_UNROLL for (int c = 0; c < kCount; ++c) Q4_K::unpack_head(w.column(c) + b * kBlock, heads[b][c]);
    __m512 sums[kCount][2];
    RLX_UNROLL for (int c = 0; c < kCount; ++c) sums[c][0] = sums[c][1] = _mm512_setzero_ps();
    const __m512 numbers = hn::Iota(D(), 0).raw;
    WidePrefetch prefetch(w, kCount);
    for (int64_t b = 0; b < blocks; ++b, x += kElements) {
      prefetch.advance<kCount * kBlock>();
      RLX_UNROLL for (int chunk = 0; chunk < 4; ++chunk) {
        __m512 numbers_of_x[4];
        RLX_UNROLL for (int i = 0; i < 4; ++i) numbers_of_x[i] = _mm512_loadu_ps(x + 64 * chunk + 16 * i);
        RLX_UNROLL for (int c = 0; c < kCount; ++c) {
          const float* const head = heads[b][c];
          const auto table = [&](int run) HWY_ATTR {
            return _mm512_fmsub_ps(_mm512_set1_ps(head[run]), numbers, _mm512_set1_ps(head[8 + run]));
          };
          const auto add = [&](__m512 elements, __m512i index, int i) HWY_ATTR {
            sums[c][i % 2] = _mm512_fmadd_ps(_mm512_permutexvar_ps(index, elements), numbers_of_x[i], sums[c][i % 2]);
          };
          const uint8_t* const bytes = w.column(c) + b * kBlock + 16 + 32 * chunk;
          const __m512i q0 = _mm512_cvtepu8_epi32(_mm_loadu_si128(sixteen_at(bytes)));
          const __m512i q1 = _mm512_cvtepu8_epi32(_mm_loadu_si128(sixteen_at(bytes + 16)));
          const __m512 low = table(2 * chunk), high = table(2 * chunk + 1);
          add(low, q0, 0), add(low, q1, 1);
          add(high, _mm512_srli_epi32(q0, 4), 2), add(high, _mm512_srli_epi32(q1, 4), 3);
        }
      }
    }
    RLX_UNROLL for (int c = 0; c < kCount; ++c) to[c] = _mm512_reduce_add_ps(_mm512_add_ps(sums[c][0], sums[c][1]));
  }
};

/// 64 quantized values are the bytes of 16 lanes. Each is made a float where it is in its lane: as the lowest, the
/// second or the third byte of the mantissa of 2^23, which is subtracted, so that it is 2^8 or 2^16 times too large.
/// order() puts x in the order of these bytes, 2^16, 2^8 or 1 times too large, so that all products are 2^16 times too
/// large, as the block's scale is too small. One column at a time, as of q8_0.
struct WideQ6_K {
  static constexpr int kColumns = 1;
  static constexpr int64_t kElements = 256, kBlock = 210;

  /// x[count] in the order that dots() reads.
  static void order(const float* x, int64_t count, float* to) {
    for (int64_t i = 0; i < count; i += 64) {
      V of_byte[4];
      hn::LoadInterleaved4(D(), x + i, of_byte[0], of_byte[1], of_byte[2], of_byte[3]);
      constexpr float kFactors[4] = {0x1p16F, 0x1p8F, 1, 1};  // the fourth byte is shifted to the third
      RLX_UNROLL for (int byte = 0; byte < 4; ++byte)
          hn::Store(hn::Mul(of_byte[byte], hn::Set(D(), kFactors[byte])), D(), to + i + 16 * byte);
    }
  }
  template <int kCount>
  static HWY_INLINE void dots(const float* x, const WideColumns& w, int64_t count, float* to) {
    static_assert(kCount == 1);
    const __m512i nibble = _mm512_set1_epi8(15);
    const __m512i left = _mm512_inserti64x4(_mm512_set1_epi16(4), _mm256_set1_epi16(2), 1),
                  right = _mm512_inserti64x4(_mm512_setzero_si512(), _mm256_set1_epi16(2), 1);
    const __m512i fours = _mm512_set_epi32(3, 3, 3, 3, 2, 2, 2, 2, 1, 1, 1, 1, 0, 0, 0, 0);
    /// The values in the bits `mask` of all lanes, less 32, times the byte's `weight`.
    const auto floats = [](__m512i values, int mask, int weight) HWY_ATTR {
      constexpr int kAnd_Or = 0xea;
      const __m512i bits =
          _mm512_ternarylogic_epi32(values, _mm512_set1_epi32(mask), _mm512_set1_epi32(0x4b000000), kAnd_Or);  // 2^23
      return _mm512_sub_ps(_mm512_castsi512_ps(bits), _mm512_set1_ps(0x1p23F + static_cast<float>(32 * weight)));
    };
    __m512 total = _mm512_setzero_ps();
    WidePrefetch prefetch(w, 1);
    const uint8_t* block = w.w;
    for (int64_t b = 0; b < count / kElements; ++b, x += kElements, block += kBlock) {
      prefetch.advance<kBlock>();
      const __m512 steps = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(sixteen_at(block + 192))));
      const __m512 scales =
          _mm512_mul_ps(_mm512_mul_ps(steps, half_everywhere(block + 208).raw), _mm512_set1_ps(0x1p-16F));
      RLX_UNROLL for (int group = 0; group < 4; ++group) {
        const auto of_byte = [&](int i) HWY_ATTR { return _mm512_load_ps(x + 64 * group + 16 * i); };
        const __m512i low = _mm512_loadu_si512(block + group / 2 * 64);
        // See Q6KLayout.
        const __m512i pairs =
            _mm512_broadcast_i64x4(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(block + 128 + group / 2 * 32)));
        const __m512i upper = group % 2 ? _mm512_srlv_epi16(pairs, right) : _mm512_sllv_epi16(pairs, left);
        const __m512i lower = group % 2 ? _mm512_srli_epi16(low, 4) : low;
        constexpr int kSelect = 0xca;  // the upper two bits of a byte are any
        const __m512i values = _mm512_ternarylogic_epi32(nibble, lower, upper, kSelect);
        __m512 sum = _mm512_mul_ps(floats(values, 0x3f, 1), of_byte(0));
        sum = _mm512_fmadd_ps(floats(values, 0x3f00, 1 << 8), of_byte(1), sum);
        sum = _mm512_fmadd_ps(floats(values, 0x3f0000, 1 << 16), of_byte(2), sum);
        sum = _mm512_fmadd_ps(floats(_mm512_srli_epi32(values, 8), 0x3f0000, 1 << 16), of_byte(3), sum);
        const __m512i at = _mm512_add_epi32(fours, _mm512_set1_epi32(4 * group));
        total = _mm512_fmadd_ps(sum, _mm512_permutexvar_ps(at, scales), total);
      }
    }
    to[0] = _mm512_reduce_add_ps(total);
  }
};

/// The dot products of `columns` columns with x[count]. A column's sum does not depend on which columns are beside it.
template <class Format>
HWY_NOINLINE void wide_dots(const float* x, const WideColumns& w, int64_t columns, int64_t count, float* to) {
  int64_t j = 0;
  for (; j + Format::kColumns <= columns; j += Format::kColumns)
    Format::template dots<Format::kColumns>(x, {w.w + j * w.row_bytes, w.row_bytes}, count, to + j);
  if constexpr (Format::kColumns > 1)
    for (; j < columns; ++j) Format::template dots<1>(x, {w.w + j * w.row_bytes, w.row_bytes}, count, to + j);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace rlx::kernels
HWY_AFTER_NAMESPACE();
#endif

#endif  // per-target include guard
