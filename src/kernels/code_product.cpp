// See the header. With zero points, sum (x - a)(w - b) = sum x w - a sum w - b sum x + k a b: the sums of the weights'
// columns are packed with them.
#include "kernels/code_product.h"

#include <algorithm>

#include "kernels/integer_product.h"
#include "kernels/matrix_tiles.h"

#if defined(__x86_64__) && defined(__linux__)
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wuninitialized"  // of _mm512_undefined_epi32; gcc bug 105593, fixed in 13
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>
#endif

namespace rlx::kernels {
namespace {

constexpr int64_t kBlockRows = 2 * kTileLines;
// Rows that are packed at a time: they stay in the second-level cache while the columns pass.
constexpr int64_t kPackedRowBytes = 512 << 10;

int64_t divided_up(int64_t a, int64_t b) { return (a + b - 1) / b; }
int64_t steps_of(int64_t k) { return divided_up(k, kTileCodes); }
int64_t column_blocks(int64_t n) { return divided_up(n, kTiledColumns); }
int64_t tile_bytes(int64_t k) { return steps_of(k) * kTileBytes; }
int64_t column_sums_at(int64_t k, int64_t n) { return column_blocks(n) * 2 * tile_bytes(k); }

int32_t code_at(DType dtype, const void* codes, int64_t i) {
  return dtype == i8 ? static_cast<const int8_t*>(codes)[i] : static_cast<const uint8_t*>(codes)[i];
}
int64_t rows_at_a_time(int64_t rows, int64_t k) {
  const int64_t most = std::max<int64_t>(1, kPackedRowBytes / std::max<int64_t>(1, 2 * tile_bytes(k))) * kBlockRows;
  return std::min(divided_up(rows, kBlockRows) * kBlockRows, most);
}

#if defined(__x86_64__) && defined(__linux__)

#define RLX_WIDE __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq")))

/// Rows of x as left tiles, and if asked for, the sum of each.
RLX_WIDE void pack_code_rows(const CodeProduct& p, int64_t row, int64_t rows, char* out, uint32_t* sums) {
  const int64_t k = p.w.k, bytes = tile_bytes(k);
  for (int64_t i = 0; i < divided_up(rows, kBlockRows) * kBlockRows; ++i) {
    char* to = out + i / kTileLines * bytes + i % kTileLines * kTileCodes;
    const char* from = static_cast<const char*>(p.x) + (row + i) * p.x_stride;
    for (int64_t at = 0; at < k; at += kTileCodes, to += kTileBytes) {
      const int64_t count = i < rows ? std::min(k - at, kTileCodes) : 0;
      const __mmask64 mask = count == kTileCodes ? ~__mmask64{0} : (__mmask64{1} << count) - 1;
      _mm512_store_si512(to, count > 0 ? _mm512_maskz_loadu_epi8(mask, from + at) : _mm512_setzero_si512());
    }
    if (!sums) continue;
    sums[i] = 0;
    for (int64_t q = 0; q < k && i < rows; ++q) sums[i] += static_cast<uint32_t>(code_at(p.dtype, from, q));
  }
}

/// A block of sums to codes. `offsets`: what the columns add; `row_sums` may be null.
RLX_WIDE void requantize(const CodeProduct& p, const int32_t* sums, int64_t rows, int64_t row, int64_t column,
                         int64_t cols, const int32_t* offsets, const uint32_t* row_sums) {
  const float low = p.dtype == i8 ? -128.0f : 0.0f;
  const __m512 lowest = _mm512_set1_ps(low), highest = _mm512_set1_ps(low + 255),
               zero_point = _mm512_set1_ps(static_cast<float>(p.y_zero_point));
  for (int64_t j = 0; j < cols; j += 16) {
    const auto mask = cols - j >= 16 ? __mmask16(0xffff) : __mmask16((1u << (cols - j)) - 1);
    const __m512 by =
        p.multipliers ? _mm512_maskz_loadu_ps(mask, p.multipliers + column + j) : _mm512_set1_ps(p.multiplier);
    const __m512i offset = _mm512_loadu_si512(offsets + j);
    char* y = static_cast<char*>(p.y) + row * p.y_stride + column + j;
    for (int64_t i = 0; i < rows; ++i, y += p.y_stride) {
      __m512i sum = _mm512_add_epi32(_mm512_loadu_si512(sums + i * kTiledColumns + j), offset);
      if (row_sums)
        sum = _mm512_sub_epi32(
            sum, _mm512_set1_epi32(static_cast<int>(row_sums[i] * static_cast<uint32_t>(p.w.zero_point))));
      __m512 v = _mm512_roundscale_ps(_mm512_mul_ps(_mm512_cvtepi32_ps(sum), by), 8);  // to nearest, ties to even
      v = _mm512_add_ps(v, zero_point);
      v = _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(v, v, _CMP_ORD_Q), v);  // NaN becomes 0, as a conversion has it
      v = _mm512_min_ps(_mm512_max_ps(v, lowest), highest);
      _mm_mask_storeu_epi8(y, mask, _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(v)));
    }
  }
}

void multiply_by_tiles(const CodeProduct& p, int64_t begin, int64_t end, char* scratch) {
  const int64_t k = p.w.k, bytes = tile_bytes(k), at_a_time = rows_at_a_time(p.rows, k);
  const auto* column_sums = reinterpret_cast<const uint32_t*>(p.w.packed + column_sums_at(k, p.w.n));
  auto* sums = reinterpret_cast<int32_t*>(scratch);
  auto* row_sums = reinterpret_cast<uint32_t*>(scratch + kBlockRows * kTiledColumns * 4);
  char* rows_packed = scratch + kBlockRows * kTiledColumns * 4 + at_a_time * 4;
  const bool with_row_sums = p.w.zero_point != 0;
  const auto x_zero = static_cast<uint32_t>(p.x_zero_point), w_zero = static_cast<uint32_t>(p.w.zero_point);
  const TileScope scope;
  for (int64_t first = 0; first < p.rows; first += at_a_time) {
    const int64_t rows = std::min(at_a_time, p.rows - first);
    pack_code_rows(p, first, rows, rows_packed, with_row_sums ? row_sums : nullptr);
    for (int64_t column = begin; column < end; column += kTiledColumns) {
      const int64_t cols = std::min(kTiledColumns, end - column);
      int32_t offsets[kTiledColumns] = {};
      for (int64_t j = 0; j < cols; ++j)
        offsets[j] = static_cast<int32_t>(static_cast<uint32_t>(p.bias[column + j]) - x_zero * column_sums[column + j] +
                                          static_cast<uint32_t>(k) * x_zero * w_zero);
      const char* right = p.w.packed + column / kTiledColumns * 2 * bytes;
      for (int64_t i = 0; i < rows; i += kBlockRows) {
        const int64_t count = std::min(kBlockRows, rows - i);
        const char* upper = rows_packed + i / kTileLines * bytes;
        multiply_code_tiles(p.dtype, p.w.dtype, steps_of(k), upper, count > kTileLines ? upper + bytes : nullptr, right,
                            sums, kTiledColumns);
        requantize(p, sums, count, first + i, column, cols, offsets, with_row_sums ? row_sums + i : nullptr);
      }
    }
  }
}

#else
void multiply_by_tiles(const CodeProduct&, int64_t, int64_t, char*) {}
#endif

}  // namespace

size_t packed_code_bytes(int64_t k, int64_t n) {
  if (!has_matrix_tiles()) return static_cast<size_t>(k * n);
  return static_cast<size_t>(column_sums_at(k, n) + column_blocks(n) * kTiledColumns * 4);
}

void pack_codes(const CodeWeights& w, const void* codes, int64_t k_stride, int64_t n_stride, char* out) noexcept {
  const auto* from = static_cast<const char*>(codes);
  if (!w.tiled) {
    for (int64_t p = 0; p < w.k; ++p)
      for (int64_t j = 0; j < w.n; ++j) out[p * w.n + j] = from[p * k_stride + j * n_stride];
    return;
  }
  const int64_t bytes = tile_bytes(w.k), columns = column_blocks(w.n) * kTiledColumns;
  auto* sums = reinterpret_cast<uint32_t*>(out + column_sums_at(w.k, w.n));
  for (int64_t j = 0; j < columns; ++j) {
    char* tile = out + j / kTiledColumns * 2 * bytes + j % kTiledColumns / kTileLines * kTileBytes + j % kTileLines * 4;
    sums[j] = 0;
    for (int64_t p = 0; p < steps_of(w.k) * kTileCodes; ++p) {
      const bool is_there = p < w.k && j < w.n;
      const int64_t at = p * k_stride + j * n_stride;
      tile[p / kTileCodes * 2 * kTileBytes + p % kTileCodes / 4 * 64 + p % 4] = is_there ? from[at] : char{0};
      if (is_there) sums[j] += static_cast<uint32_t>(code_at(w.dtype, codes, at));
    }
  }
}

size_t code_product_scratch_bytes(int64_t rows, int64_t k) {
  const int64_t at_a_time = rows_at_a_time(rows, k);
  const int64_t tiles = kBlockRows * kTiledColumns * 4 + at_a_time * 4 + at_a_time / kTileLines * tile_bytes(k);
  const int64_t plain = std::min<int64_t>(rows, kBlockRows) * k * 4;
  return static_cast<size_t>(divided_up(has_matrix_tiles() ? tiles : plain, 64) * 64);
}

void multiply_packed_codes(const CodeProduct& p, int64_t begin, int64_t end, void* scratch) noexcept {
  if (p.w.tiled) return multiply_by_tiles(p, begin, end, static_cast<char*>(scratch));
  auto* centered = static_cast<float*>(scratch);
  for (int64_t first = 0; first < p.rows; first += kBlockRows) {
    IntegerProduct q;
    q.rows = std::min(kBlockRows, p.rows - first), q.k = p.w.k, q.n = p.w.n;
    for (int64_t i = 0; i < q.rows; ++i)
      center_codes(p.dtype, static_cast<const char*>(p.x) + (first + i) * p.x_stride, q.k, p.x_zero_point,
                   centered + i * q.k);
    q.x = centered, q.w = p.w.packed, q.w_dtype = p.w.dtype, q.y_dtype = p.dtype;
    q.w_zero_point = p.w.zero_point, q.y_zero_point = p.y_zero_point;
    q.multiplier = p.multiplier, q.multipliers = p.multipliers, q.bias = p.bias;
    q.y = static_cast<char*>(p.y) + first * p.y_stride;
    multiply_codes(q, begin, end);
  }
}

}  // namespace rlx::kernels
