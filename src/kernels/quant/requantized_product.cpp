// See the header. With zero points a of x and b of w, sum (x - a)(w - b) = sum x w - a sum w - b sum x + k a b: the
// column sums of the weights, sum w, are packed behind them.
#include "kernels/quant/requantized_product.h"

#include <algorithm>
#include <cstring>

#include "base/rounded_up.h"
#include "kernels/gemm/amx/tiles.h"
#include "kernels/quant/int8_pairs.h"
#include "kernels/quant/requantize.h"

#if defined(__x86_64__) && defined(__linux__)
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wuninitialized"  // of _mm512_undefined_epi32; gcc bug 105593, fixed in 13
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace rlx::kernels {
namespace {

constexpr int64_t kBlockRows = 2 * kTileRows;
// Bytes of x's rows that are packed at a time: they stay in the L2 cache while the kernel walks along the columns.
constexpr int64_t kPackedRowBytes = 512 << 10;

int64_t steps_of(int64_t k) { return divided_up(k, kTileInt8); }
int64_t column_blocks(int64_t n) { return divided_up(n, kTiledColumns); }
int64_t tile_bytes(int64_t k) { return steps_of(k) * kTileBytes; }
int64_t column_sums_at(int64_t k, int64_t n) { return column_blocks(n) * 2 * tile_bytes(k); }

int32_t value_at(DType dtype, const void* values, int64_t i) {
  return dtype == i8 ? static_cast<const int8_t*>(values)[i] : static_cast<const uint8_t*>(values)[i];
}
int64_t rows_at_a_time(int64_t rows, int64_t k) {
  const int64_t max_rows = std::max<int64_t>(1, kPackedRowBytes / std::max<int64_t>(1, 2 * tile_bytes(k))) * kBlockRows;
  return std::min(rounded_up(rows, kBlockRows), max_rows);
}

/// What is added to quantized values and their zero points when they are packed: the product multiplies (x + shift.x)
/// with (w + shift.w). AMX tiles multiply either signedness; VNNI wants u8 for x and i8 for w, Arm i8 for both; pairs
/// want i8 for w.
struct Shifts {
  int32_t x = 0, w = 0;
  Shifts(Int8DotIsa isa, DType x_dtype, DType w_dtype) {
    if (isa == Int8DotIsa::tiles) return;
    const bool is_arm = isa == Int8DotIsa::neon_dot || isa == Int8DotIsa::neon_i8mm;
    if (is_arm && x_dtype == u8) x = -128;
    if (is_left_unsigned(isa) && x_dtype == i8) x = 128;
    if (w_dtype == u8) w = -128;
  }
  /// Adding 128 modulo 256 flips the highest bit.
  static char flip(int32_t shift) { return static_cast<char>(shift != 0 ? 0x80 : 0); }
};

template <class T>
uint32_t sum_of(const T* values, int64_t count) {
  uint32_t sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += static_cast<uint32_t>(int32_t{values[i]});
  return sum;
}

#if defined(__x86_64__) && defined(__linux__)

#define RLX_WIDE __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq")))
#define RLX_AVX2 __attribute__((target("avx2,fma")))

RLX_WIDE void pack_row_512(const char* from, int64_t k, char flip, char* to) {
  const __m512i flips = _mm512_set1_epi8(flip);
  for (int64_t at = 0; at < k; at += kTileInt8, to += kTileBytes) {
    const __mmask64 mask = k - at >= kTileInt8 ? ~__mmask64{0} : (__mmask64{1} << (k - at)) - 1;
    _mm512_store_si512(to, _mm512_xor_si512(_mm512_maskz_loadu_epi8(mask, from + at), flips));
  }
}
#else
void pack_row_512(const char*, int64_t, char, char*) {}
#endif

void pack_row(const char* from, int64_t k, char flip, char* to) {
  for (int64_t at = 0; at < k; at += kTileInt8, to += kTileBytes) {
    if (k - at >= kTileInt8) {
      std::memcpy(to, from + at, kTileInt8);
    } else {
      std::memset(to, 0, kTileInt8);
      std::memcpy(to, from + at, static_cast<size_t>(k - at));
    }
    for (int64_t q = 0; q < kTileInt8; ++q) to[q] = static_cast<char>(to[q] ^ flip);
  }
}

/// Packs rows of x as left tiles. If `sums` is not null, writes to it the sum of each row after the shift.
void pack_quantized_rows(const RequantizedProduct& p, Shifts shift, int64_t row, int64_t rows, char* out,
                         uint32_t* sums) {
  const int64_t k = p.w.k, bytes = tile_bytes(k);
  const char flip = Shifts::flip(shift.x);
  for (int64_t i = 0; i < rounded_up(rows, kBlockRows); ++i) {
    char* to = out + i / kTileRows * bytes + i % kTileRows * kTileInt8;
    const char* from = static_cast<const char*>(p.x) + (row + std::min(i, rows - 1)) * p.x_stride;
    if (i >= rows)
      for (int64_t at = 0; at < k; at += kTileInt8, to += kTileBytes) std::memset(to, 0, kTileInt8);
    else if (p.w.isa == Int8DotIsa::tiles || p.w.isa == Int8DotIsa::avx512_vnni) pack_row_512(from, k, flip, to);
    else pack_row(from, k, flip, to);
    if (!sums) continue;
    const uint32_t sum = i >= rows       ? 0
                         : p.dtype == i8 ? sum_of(reinterpret_cast<const int8_t*>(from), k)
                                         : sum_of(reinterpret_cast<const uint8_t*>(from), k);
    sums[i] = sum + static_cast<uint32_t>(shift.x) * static_cast<uint32_t>(i < rows ? k : 0);
  }
}

#if (defined(__x86_64__) && defined(__linux__)) || defined(__aarch64__)

/// What requantize_*() needs to turn the i32 sums of a block of columns into 8-bit results.
struct Requantize {
  alignas(64) int32_t offsets[kTiledColumns] = {};  ///< [column]: bias and zero point terms to add to the sum
  alignas(64) float multipliers[kTiledColumns] = {};
  float lowest, highest, zero_point;
  uint32_t w_zero;
  char* y;  ///< row 0, first column of the block
  int64_t y_stride, columns;
};

// Each writes `rows` rows of results, from row `row` on. `row_sums` is null if the weights' zero point is 0.
#if defined(__aarch64__)
void requantize_neon(const Requantize& q, const int32_t* sums, int64_t row, int64_t rows, const uint32_t* row_sums) {
  const float32x4_t lowest = vdupq_n_f32(q.lowest), highest = vdupq_n_f32(q.highest),
                    zero_point = vdupq_n_f32(q.zero_point);
  for (int64_t j = 0; j < q.columns; j += 8) {
    const auto count = static_cast<size_t>(std::min<int64_t>(8, q.columns - j));
    char* y = q.y + row * q.y_stride + j;
    for (int64_t i = 0; i < rows; ++i, y += q.y_stride) {
      const int32x4_t less = vdupq_n_s32(row_sums ? static_cast<int32_t>(row_sums[i] * q.w_zero) : 0);
      const auto four = [&](int64_t at) {
        const int32x4_t sum =
            vsubq_s32(vaddq_s32(vld1q_s32(sums + i * kTiledColumns + at), vld1q_s32(q.offsets + at)), less);
        float32x4_t v = vrndnq_f32(vmulq_f32(vcvtq_f32_s32(sum), vld1q_f32(q.multipliers + at)));  // ties to even
        v = vaddq_f32(v, zero_point);
        v = vreinterpretq_f32_u32(vandq_u32(vceqq_f32(v, v), vreinterpretq_u32_f32(v)));  // NaN becomes 0
        return vmovn_s32(vcvtq_s32_f32(vminq_f32(vmaxq_f32(v, lowest), highest)));
      };
      const int8x8_t bytes = vmovn_s16(vcombine_s16(four(j), four(j + 4)));
      std::memcpy(y, &bytes, count);
    }
  }
}
void requantize(Int8DotIsa, const Requantize& q, const int32_t* sums, int64_t row, int64_t rows,
                const uint32_t* row_sums) {
  requantize_neon(q, sums, row, rows, row_sums);
}
#else
RLX_WIDE void requantize_512(const Requantize& q, const int32_t* sums, int64_t row, int64_t rows,
                             const uint32_t* row_sums) {
  const __m512 lowest = _mm512_set1_ps(q.lowest), highest = _mm512_set1_ps(q.highest),
               zero_point = _mm512_set1_ps(q.zero_point);
  for (int64_t j = 0; j < q.columns; j += 16) {
    const auto mask = q.columns - j >= 16 ? __mmask16(0xffff) : __mmask16((1u << (q.columns - j)) - 1);
    const __m512 multipliers = _mm512_load_ps(q.multipliers + j);
    const __m512i offset = _mm512_load_si512(q.offsets + j);
    char* y = q.y + row * q.y_stride + j;
    for (int64_t i = 0; i < rows; ++i, y += q.y_stride) {
      __m512i sum = _mm512_add_epi32(_mm512_loadu_si512(sums + i * kTiledColumns + j), offset);
      if (row_sums) sum = _mm512_sub_epi32(sum, _mm512_set1_epi32(static_cast<int>(row_sums[i] * q.w_zero)));
      __m512 v =
          _mm512_roundscale_ps(_mm512_mul_ps(_mm512_cvtepi32_ps(sum), multipliers), 8);  // to nearest, ties to even
      v = _mm512_add_ps(v, zero_point);
      v = _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(v, v, _CMP_ORD_Q), v);  // NaN becomes 0, as in conversions to integers
      v = _mm512_min_ps(_mm512_max_ps(v, lowest), highest);
      _mm_mask_storeu_epi8(y, mask, _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(v)));
    }
  }
}
RLX_AVX2 void requantize_256(const Requantize& q, const int32_t* sums, int64_t row, int64_t rows,
                             const uint32_t* row_sums) {
  const __m256 lowest = _mm256_set1_ps(q.lowest), highest = _mm256_set1_ps(q.highest),
               zero_point = _mm256_set1_ps(q.zero_point);
  const __m256i low_bytes = _mm256_set1_epi32(0x0c080400);  // gathers the low byte of four lanes
  for (int64_t j = 0; j < q.columns; j += 8) {
    const auto count = static_cast<size_t>(std::min<int64_t>(8, q.columns - j));
    const __m256 multipliers = _mm256_load_ps(q.multipliers + j);
    const __m256i offset = _mm256_load_si256(reinterpret_cast<const __m256i*>(q.offsets + j));
    char* y = q.y + row * q.y_stride + j;
    for (int64_t i = 0; i < rows; ++i, y += q.y_stride) {
      const auto* from = reinterpret_cast<const __m256i*>(sums + i * kTiledColumns + j);
      __m256i sum = _mm256_add_epi32(_mm256_loadu_si256(from), offset);
      if (row_sums) sum = _mm256_sub_epi32(sum, _mm256_set1_epi32(static_cast<int>(row_sums[i] * q.w_zero)));
      __m256 v = _mm256_round_ps(_mm256_mul_ps(_mm256_cvtepi32_ps(sum), multipliers), 8);
      v = _mm256_add_ps(v, zero_point);
      v = _mm256_and_ps(_mm256_cmp_ps(v, v, _CMP_ORD_Q), v);
      v = _mm256_min_ps(_mm256_max_ps(v, lowest), highest);
      const __m256i bytes = _mm256_shuffle_epi8(_mm256_cvtps_epi32(v), low_bytes);
      const int halves[2] = {_mm256_extract_epi32(bytes, 0), _mm256_extract_epi32(bytes, 4)};
      std::memcpy(y, halves, count);
    }
  }
}

void requantize(Int8DotIsa isa, const Requantize& q, const int32_t* sums, int64_t row, int64_t rows,
                const uint32_t* row_sums) {
  if (isa == Int8DotIsa::avx_vnni) requantize_256(q, sums, row, rows, row_sums);
  else requantize_512(q, sums, row, rows, row_sums);
}
#endif

/// For AMX tiles (inside a TileScope) and for dot products.
void multiply_in_blocks(const RequantizedProduct& p, int64_t begin, int64_t end, char* scratch) {
  const int64_t k = p.w.k, bytes = tile_bytes(k), at_a_time = rows_at_a_time(p.rows, k);
  const auto* column_sums = reinterpret_cast<const uint32_t*>(p.w.packed + column_sums_at(k, p.w.n));
  auto* sums = reinterpret_cast<int32_t*>(scratch);
  auto* row_sums = reinterpret_cast<uint32_t*>(scratch + kBlockRows * kTiledColumns * 4);
  char* rows_packed = scratch + kBlockRows * kTiledColumns * 4 + at_a_time * 4;
  const Shifts shift(p.w.isa, p.dtype, p.w.dtype);
  const auto x_zero = static_cast<uint32_t>(p.x_zero_point + shift.x),
             w_zero = static_cast<uint32_t>(p.w.zero_point + shift.w);
  Requantize q;
  q.lowest = p.dtype == i8 ? -128.0f : 0.0f, q.highest = q.lowest + 255;
  q.zero_point = static_cast<float>(p.y_zero_point), q.w_zero = w_zero, q.y_stride = p.y_stride;
  for (int64_t first = 0; first < p.rows; first += at_a_time) {
    const int64_t rows = std::min(at_a_time, p.rows - first);
    pack_quantized_rows(p, shift, first, rows, rows_packed, w_zero != 0 ? row_sums : nullptr);
    for (int64_t column = begin; column < end; column += kTiledColumns) {
      q.columns = std::min(kTiledColumns, end - column), q.y = static_cast<char*>(p.y) + column;
      for (int64_t j = 0; j < q.columns; ++j) {
        q.offsets[j] =
            static_cast<int32_t>(static_cast<uint32_t>(p.bias[column + j]) - x_zero * column_sums[column + j] +
                                 static_cast<uint32_t>(k) * x_zero * w_zero);
        q.multipliers[j] = p.multipliers ? p.multipliers[column + j] : p.multiplier;
      }
      const char* right = p.w.packed + column / kTiledColumns * 2 * bytes;
      for (int64_t i = 0; i < rows; i += kBlockRows) {
        const int64_t count = std::min(kBlockRows, rows - i);
        const char *upper = rows_packed + i / kTileRows * bytes, *lower = upper + bytes;
        if (p.w.isa == Int8DotIsa::tiles)
          multiply_int8_tiles(p.dtype, p.w.dtype, steps_of(k), upper, count > kTileRows ? lower : nullptr, right, sums,
                              kTiledColumns);
        else multiply_int8_dots(p.w.isa, steps_of(k), count, upper, lower, right, sums, kTiledColumns);
        const uint32_t* row_sums_of_block = w_zero != 0 ? row_sums + i : nullptr;
        requantize(p.w.isa, q, sums, first + i, count, row_sums_of_block);
      }
    }
  }
}

#else
void multiply_in_blocks(const RequantizedProduct&, int64_t, int64_t, char*) {}
#endif

// ---- pairs of 16 bits

int64_t pair_stride(int64_t k) { return 2 * pair_count(k); }
int64_t pair_rows_at_a_time(int64_t rows, int64_t k) {
  // Rows of sums between a product and its epilogue take 6 KiB of the first-level cache, the rows of x half of the
  // second.
  constexpr int64_t kMaxRows = 96;
  const int64_t in_cache = kPackedRowBytes / 2 / std::max<int64_t>(1, 2 * pair_stride(k)) / 6 * 6;
  return std::min(rows, std::clamp<int64_t>(in_cache, 6, kMaxRows));
}

/// Writes x - x_zero, and returns the sum of them.
template <class T>
uint32_t center_row(const T* from, int64_t k, int32_t zero_point, int16_t* to) {
  uint32_t sum = 0;
  for (int64_t p = 0; p < k; ++p) {
    const int32_t v = from[p] - zero_point;
    to[p] = static_cast<int16_t>(v), sum += static_cast<uint32_t>(v);
  }
  if (k % 2 != 0) to[k] = 0;
  return sum;
}

/// sum (x - a)(w - b) = sum (x - a) w - b sum (x - a).
void multiply_in_pairs(const RequantizedProduct& p, int64_t begin, int64_t end, char* scratch) {
  const int64_t k = p.w.k, stride = pair_stride(k), at_a_time = pair_rows_at_a_time(p.rows, k);
  const auto w_zero = static_cast<uint32_t>(p.w.zero_point + Shifts(p.w.isa, p.dtype, p.w.dtype).w);
  auto* sums = reinterpret_cast<int32_t*>(scratch);
  auto* row_terms = sums + at_a_time * kPairColumns;
  auto* centered = reinterpret_cast<int16_t*>(row_terms + rounded_up(at_a_time, 16));
  SumsToRequantize s;
  s.sums = sums, s.stride = kPairColumns, s.row_terms = w_zero != 0 ? row_terms : nullptr;
  s.multiplier = p.multiplier, s.y_dtype = p.dtype, s.y_zero_point = p.y_zero_point, s.y_stride = p.y_stride;
  for (int64_t first = 0; first < p.rows; first += at_a_time) {
    s.rows = std::min(at_a_time, p.rows - first);
    for (int64_t i = 0; i < s.rows; ++i) {
      const char* from = static_cast<const char*>(p.x) + (first + i) * p.x_stride;
      int16_t* to = centered + i * stride;
      const uint32_t sum = p.dtype == i8 ? center_row(reinterpret_cast<const int8_t*>(from), k, p.x_zero_point, to)
                                         : center_row(reinterpret_cast<const uint8_t*>(from), k, p.x_zero_point, to);
      row_terms[i] = static_cast<int32_t>(w_zero * sum);
    }
    for (int64_t column = begin; column < end; column += kPairColumns) {
      multiply_int8_pairs(k, s.rows, centered, stride, p.w.packed + column / kPairColumns * pair_panel_bytes(k), sums);
      s.columns = std::min(kPairColumns, end - column), s.bias = p.bias + column;
      s.multipliers = p.multipliers ? p.multipliers + column : nullptr;
      s.y = static_cast<char*>(p.y) + first * p.y_stride + column;
      requantize_sums(s);
    }
  }
}

}  // namespace

size_t packed_quantized_bytes(const PackedQuantizedWeights& w) {
  if (w.isa == Int8DotIsa::pairs) return static_cast<size_t>(divided_up(w.n, kPairColumns) * pair_panel_bytes(w.k));
  return static_cast<size_t>(column_sums_at(w.k, w.n) + column_blocks(w.n) * kTiledColumns * 4);
}

void pack_quantized(const PackedQuantizedWeights& w, const void* values, int64_t k_stride, int64_t n_stride,
                    char* out) noexcept {
  const auto* from = static_cast<const char*>(values);
  const int32_t shift = Shifts(w.isa, i8, w.dtype).w;
  const char flip = Shifts::flip(shift);
  if (w.isa == Int8DotIsa::pairs) {
    if (w.k == 0) return;  // panels of no bytes, and `values` may be null
    const int64_t panel = pair_panel_bytes(w.k);
    for (int64_t j = 0; j < w.n; j += kPairColumns, out += panel) {
      pack_pair_panel(static_cast<const int8_t*>(values) + j * n_stride, w.k, k_stride, n_stride,
                      std::min(kPairColumns, w.n - j), out);
      for (int64_t i = 0; i < panel; ++i) out[i] = static_cast<char>(out[i] ^ flip);
    }
    return;
  }
  const int64_t bytes = tile_bytes(w.k), columns = column_blocks(w.n) * kTiledColumns;
  auto* sums = reinterpret_cast<uint32_t*>(out + column_sums_at(w.k, w.n));
  for (int64_t j = 0; j < columns; ++j) {
    char* tile = out + j / kTiledColumns * 2 * bytes + j % kTiledColumns / kTileRows * kTileBytes + j % kTileRows * 4;
    sums[j] = 0;
    for (int64_t p = 0; p < steps_of(w.k) * kTileInt8; ++p) {
      const bool is_inside = p < w.k && j < w.n;
      const int64_t at = p * k_stride + j * n_stride;
      tile[p / kTileInt8 * 2 * kTileBytes + p % kTileInt8 / 4 * 64 + p % 4] =
          is_inside ? static_cast<char>(from[at] ^ flip) : char{0};
      if (is_inside) sums[j] += static_cast<uint32_t>(value_at(w.dtype, values, at) + shift);
    }
  }
}

size_t requantized_product_scratch_bytes(const PackedQuantizedWeights& w, int64_t rows) {
  const int64_t k = w.k;
  if (w.isa == Int8DotIsa::pairs) {
    const int64_t at_a_time = pair_rows_at_a_time(rows, k);
    return static_cast<size_t>(
        aligned((at_a_time * kPairColumns + rounded_up(at_a_time, 16)) * 4 + at_a_time * pair_stride(k) * 2));
  }
  const int64_t at_a_time = rows_at_a_time(rows, k);
  return static_cast<size_t>(
      aligned(kBlockRows * kTiledColumns * 4 + at_a_time * 4 + at_a_time / kTileRows * tile_bytes(k)));
}

void multiply_packed_quantized(const RequantizedProduct& p, int64_t begin, int64_t end, void* scratch) noexcept {
  if (p.w.isa == Int8DotIsa::tiles) {
    const TileScope scope;
    return multiply_in_blocks(p, begin, end, static_cast<char*>(scratch));
  }
  if (p.w.isa == Int8DotIsa::pairs) return multiply_in_pairs(p, begin, end, static_cast<char*>(scratch));
  multiply_in_blocks(p, begin, end, static_cast<char*>(scratch));
}

}  // namespace rlx::kernels
