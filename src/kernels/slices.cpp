// See the header. An integer q of 24 bits becomes digits d2 2^16 + d1 2^8 + d0, each of -128 to 127: the bytes of
// q + 0x808080, each less 128. Tiles want four numbers along k in 32 bits, of each column.
#include "kernels/slices.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#if defined(__GNUC__) && !defined(__clang__)  // before the header, as in matrix_tiles.cpp
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#if RLX_HAS_TILES
#include <immintrin.h>
#endif

#include "kernels/cost_model.h"
#include "kernels/highway_targets.h"

namespace rlx::kernels {
namespace {

// Digits of 7 bits and a sign stand for so much, without an overflow of the first.
constexpr int32_t kMost24 = 0x7f7f7f, kMost32 = 0x7f7f7f7f;
// For three slices a column's largest number may be so many times the root of its mean square, or sqrt(k / 8) times:
// then sums of f32 along k lose as much.
constexpr float kMostUneven = 8;
// The other operand's rows are cut by their largest number, and columns by theirs, so every sum should have a part of
// both: numbers of a column may be 0 or negligible for one in so many rows, and spread by so many powers of 2 around
// their geometric mean (normally distributed ones by 1.6); its largest number may be above that by so many.
constexpr float kZerosShare = 16, kMostSpread = 3, kMostAbove = 12;
constexpr float kLeast = 0x1p-60f, kMost = 0x1p60f;
// By how many powers of 2 rows of weights differ in size at least, to be balanced, and at most.
constexpr int kLeastBalance = 2, kMostBalance = 40;

/// What was found of 16 columns, once their rows are balanced.
struct ColumnSurvey {
  float most[16];  ///< the largest magnitudes
  float mean_square[16];
  float count[16], log[16], log_variance[16];  ///< how many are not 0; mean and variance of their exponents
  int32_t last_bit[16];                        ///< the least power of 2 in the numbers of a column
};
/// Whether three slices stand for a column as it is: so integers are multiplied exactly.
bool is_exact(float most, int32_t last_bit) { return most <= std::ldexp(static_cast<float>(kMost24), last_bit); }
/// What a one of the third slice stands for.
float unit_of(float most, int32_t last_bit) {
  if (most == 0) return 1;
  if (is_exact(most, last_bit)) {
    // The smallest power of 2 that does: numbers of few bits go into the first slices, as products of the last ones of
    // both operands are left out.
    const float unit = std::ldexp(1.0f, std::ilogb(most) - 22);
    return most <= static_cast<float>(kMost24) * unit ? unit : 2 * unit;
  }
  return std::nextafter(most / static_cast<float>(kMost24), most);  // rounded up
}

}  // namespace

bool slices_weights() { return has_matrix_tiles() && cost_model().weight_slices; }

#if RLX_HAS_TILES
namespace {

#define RLX_WIDE __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512cd")))
#define RLX_WIDE_INLINE RLX_WIDE __attribute__((always_inline)) inline

RLX_WIDE_INLINE __mmask16 mask_of(int64_t count) {
  return count >= 16 ? __mmask16(0xffff) : count <= 0 ? __mmask16(0) : __mmask16((1u << count) - 1);
}
RLX_WIDE_INLINE __m512 magnitude(__m512 v) {
  return _mm512_castsi512_ps(_mm512_and_epi32(_mm512_castps_si512(v), _mm512_set1_epi32(0x7fffffff)));
}

/// 16 rows along k of 16 columns, zeros beyond the ends.
RLX_WIDE void load_square(const StridedMatrix& w, const SlicedLayout& l, int64_t p, int64_t column, float* out) {
  const auto* const data = static_cast<const float*>(w.data) + p * w.row_stride + column * w.col_stride;
  const int64_t rows = std::min<int64_t>(16, l.k - p), cols = std::min<int64_t>(16, l.n - column);
  if (w.col_stride == 1) {
    for (int64_t i = 0; i < 16; ++i)
      _mm512_store_ps(out + i * 16,
                      i < rows ? _mm512_maskz_loadu_ps(mask_of(cols), data + i * w.row_stride) : _mm512_setzero_ps());
    return;
  }
  alignas(64) float lines[256];
  for (int64_t j = 0; j < 16; ++j) {
    const float* const line = data + j * w.col_stride;
    // The next block's, as the processor foresees too few columns side by side.
    _mm_prefetch(reinterpret_cast<const char*>(line + 16 * w.col_stride), _MM_HINT_T1);
    _mm512_store_ps(lines + j * 16, j < cols ? _mm512_maskz_loadu_ps(mask_of(rows), line) : _mm512_setzero_ps());
  }
  turn_tile(lines, 16, out);
}

/// Exponents and numbers of what is not 0 in each row are added to `row_logs` and `row_counts`, unless these are null.
RLX_WIDE ColumnSurvey survey_columns(const StridedMatrix& w, const SlicedLayout& l, int64_t block,
                                     const float* inverses, float* row_logs, float* row_counts) {
  __m512 most = _mm512_setzero_ps(), squares = most, logs = most, log_squares = most, counts = most;
  __m512i last = _mm512_set1_epi32(1 << 20);
  const __m512i hidden = _mm512_set1_epi32(0x00800000);
  alignas(64) float square[256];
  for (int64_t p = 0; p < l.k; p += 16) {
    load_square(w, l, p, block * 16, square);
    for (int i = 0; i < 16; ++i) {
      const __m512 v = _mm512_mul_ps(magnitude(_mm512_load_ps(square + i * 16)), _mm512_set1_ps(inverses[p + i]));
      const __mmask16 used = _mm512_test_epi32_mask(_mm512_castps_si512(v), _mm512_castps_si512(v));
      const __m512 log = _mm512_maskz_getexp_ps(used, v);
      logs = _mm512_add_ps(logs, log), log_squares = _mm512_fmadd_ps(log, log, log_squares);
      counts = _mm512_mask_add_ps(counts, used, counts, _mm512_set1_ps(1));
      if (row_logs)
        row_logs[p + i] += _mm512_reduce_add_ps(log),
            row_counts[p + i] += static_cast<float>(std::popcount(static_cast<unsigned>(used)));
      most = _mm512_max_ps(most, v), squares = _mm512_fmadd_ps(v, v, squares);
      const __m512i bits = _mm512_castps_si512(v);
      const __m512i fraction = _mm512_ternarylogic_epi32(bits, _mm512_set1_epi32(0x007fffff), hidden, 0xea);  // & |
      const __m512i lowest = _mm512_and_epi32(fraction, _mm512_sub_epi32(_mm512_setzero_si512(), fraction));
      const __m512i place = _mm512_sub_epi32(_mm512_set1_epi32(31 - 150), _mm512_lzcnt_epi32(lowest));
      const __m512i at = _mm512_add_epi32(place, _mm512_srli_epi32(bits, 23));
      last = _mm512_mask_min_epi32(last, _mm512_test_epi32_mask(bits, bits), last, at);
    }
  }
  ColumnSurvey found;
  _mm512_storeu_ps(found.most, most);
  _mm512_storeu_ps(found.mean_square, _mm512_div_ps(squares, _mm512_set1_ps(static_cast<float>(l.k))));
  _mm512_storeu_ps(found.count, counts);
  counts = _mm512_max_ps(counts, _mm512_set1_ps(1));
  const __m512 mean = _mm512_div_ps(logs, counts);
  _mm512_storeu_ps(found.log, mean);
  _mm512_storeu_ps(found.log_variance, _mm512_fnmadd_ps(mean, mean, _mm512_div_ps(log_squares, counts)));
  _mm512_storeu_si512(found.last_bit, last);
  return found;
}

/// v / unit, rounded; what is not 0 does not become 0, so that it still makes infinities of infinities.
RLX_WIDE_INLINE __m512i to_integers(__m512 v, __m512d low_inverse, __m512d high_inverse) {
  const __m256 low = _mm512_castps512_ps256(v), high = _mm512_extractf32x8_ps(v, 1);
  const __m256i a = _mm512_cvtpd_epi32(_mm512_mul_pd(_mm512_cvtps_pd(low), low_inverse));
  const __m256i b = _mm512_cvtpd_epi32(_mm512_mul_pd(_mm512_cvtps_pd(high), high_inverse));
  const __m512i q = _mm512_inserti64x4(_mm512_castsi256_si512(a), b, 1);
  const __mmask16 lost = _mm512_cmpneq_ps_mask(v, _mm512_setzero_ps()) & _mm512_testn_epi32_mask(q, q);
  const __m512i one = _mm512_or_epi32(_mm512_srai_epi32(_mm512_castps_si512(v), 31), _mm512_set1_epi32(1));
  return _mm512_mask_mov_epi32(q, lost, one);
}

RLX_WIDE void slice_block(const StridedMatrix& w, const SlicedLayout& l, int64_t block, const float* inverses,
                          const float* units, char* out, char* fourth) {
  const __m512d one = _mm512_set1_pd(fourth ? 256 : 1);
  const __m512d low = _mm512_div_pd(one, _mm512_cvtps_pd(_mm256_loadu_ps(units + block * 16))),
                high = _mm512_div_pd(one, _mm512_cvtps_pd(_mm256_loadu_ps(units + block * 16 + 8)));
  const __m512i bias = _mm512_set1_epi32(static_cast<int>(0x80808080u)), byte = _mm512_set1_epi32(0xff);
  const int up = fourth ? 0 : 8;  // the first digit becomes the highest byte
  alignas(64) float square[256];
  for (int64_t p = 0; p < l.steps() * kTileCodes; p += 16) {
    load_square(w, l, p, block * 16, square);
    for (int64_t i = 0; i < 16; i += 4) {
      __m512i q[4];
      for (int64_t r = 0; r < 4; ++r) {
        const __m512 v = _mm512_mul_ps(_mm512_load_ps(square + (i + r) * 16), _mm512_set1_ps(inverses[p + i + r]));
        const __m512i integers = _mm512_sll_epi32(to_integers(v, low, high), _mm_cvtsi32_si128(up));
        q[r] = _mm512_xor_epi32(_mm512_add_epi32(integers, bias), bias);
      }
      const int64_t line = (p % kTileCodes + i) / 4, step = p / kTileCodes;
      for (int slice = 0; slice < (fourth ? 4 : 3); ++slice) {
        const auto down = static_cast<unsigned>(24 - 8 * slice);
        __m512i four = _mm512_setzero_si512();
        for (int r = 3; r >= 0; --r)
          four = _mm512_or_epi32(_mm512_slli_epi32(four, 8), _mm512_and_epi32(_mm512_srli_epi32(q[r], down), byte));
        char* const tile =
            slice == 3 ? fourth + step * kTileBytes : out + step * SlicedLayout::kStepBytes + slice * kTileBytes;
        _mm512_store_si512(tile + line * 64, four);
      }
    }
  }
}

RLX_WIDE void restore_block(const SlicedColumns& w, int64_t block, float* out) {
  const SlicedLayout& l = w.layout();
  const char *const tiles = w.tiles(block), *const fourth = w.fourth(block);
  const __m512 units = _mm512_mul_ps(_mm512_loadu_ps(w.units(block)), _mm512_set1_ps(fourth ? 0x1p-8f : 1.0f));
  for (int64_t p = 0; p < l.k; ++p) {
    const int64_t step = p / kTileCodes, line = p % kTileCodes / 4 * 64;
    const __m128i up = _mm_cvtsi32_si128(static_cast<int>(24 - p % 4 * 8));
    __m512i q = _mm512_setzero_si512();
    for (int slice = 0; slice < (fourth ? 4 : 3); ++slice) {
      const char* const tile =
          slice == 3 ? fourth + step * kTileBytes : tiles + step * SlicedLayout::kStepBytes + slice * kTileBytes;
      const __m512i digits = _mm512_srai_epi32(_mm512_sll_epi32(_mm512_load_si512(tile + line), up), 24);
      q = _mm512_add_epi32(_mm512_slli_epi32(q, 8), digits);
    }
    const __m512 balance = _mm512_set1_ps(w.balances()[p]);
    _mm512_storeu_ps(out + p * 16, _mm512_mul_ps(_mm512_mul_ps(_mm512_cvtepi32_ps(q), units), balance));
  }
}

/// The largest magnitude of a row that was balanced, NaN and infinities above all.
RLX_WIDE float most_of(const float* row, int64_t k, const float* balances) {
  __m512i most = _mm512_setzero_si512();
  for (int64_t p = 0; p < k; p += 16) {
    const __m512 v = _mm512_mul_ps(_mm512_maskz_loadu_ps(mask_of(k - p), row + p), _mm512_loadu_ps(balances + p));
    most = _mm512_max_epu32(most, _mm512_castps_si512(magnitude(v)));
  }
  return std::bit_cast<float>(_mm512_reduce_max_epu32(most));
}

/// The power of 2 that makes integers of numbers up to that size; 0 if none does.
float row_scale(float most) {
  if (most == 0) return 1;
  if (!(most >= kLeast && most <= kMost)) return 0;
  const float scale = std::ldexp(1.0f, 30 - std::ilogb(most));
  return most * scale > static_cast<float>(kMost32 - 0x7f) ? scale / 2 : scale;
}

/// A row's bytes of each slice, 64 k at a time, at out + slice * kTileBytes.
RLX_WIDE void slice_row(const float* row, const SlicedLayout& l, const float* balances, float scale, char* out) {
  // Of four numbers in 16 bytes, their bytes by slice, the highest first.
  const __m512i by_slice = _mm512_broadcast_i32x4(_mm_set_epi8(12, 8, 4, 0, 13, 9, 5, 1, 14, 10, 6, 2, 15, 11, 7, 3));
  const __m512i in_order = _mm512_set_epi32(15, 11, 7, 3, 14, 10, 6, 2, 13, 9, 5, 1, 12, 8, 4, 0);
  const __m512 by = _mm512_set1_ps(scale);
  const __m512i bias = _mm512_set1_epi32(static_cast<int>(0x80808080u));
  for (int64_t p = 0; p < l.steps() * kTileCodes; p += kTileCodes, out += SlicedLayout::kRowStepBytes) {
    __m512i q[4], t[4];
    RLX_UNROLL for (int v = 0; v < 4; ++v) {
      const int64_t at = p + v * 16;
      const __mmask16 mask = mask_of(l.k - at);
      __m512 x = _mm512_maskz_loadu_ps(mask, row + at);
      x = _mm512_mul_ps(_mm512_mul_ps(x, _mm512_loadu_ps(balances + at)), by);
      const __m512i digits = _mm512_xor_epi32(_mm512_add_epi32(_mm512_cvtps_epi32(x), bias), bias);
      q[v] = _mm512_shuffle_epi8(digits, by_slice);
    }
    // 4 x 4 of 32 bits in each 16 bytes.
    t[0] = _mm512_unpacklo_epi32(q[0], q[1]), t[1] = _mm512_unpackhi_epi32(q[0], q[1]);
    t[2] = _mm512_unpacklo_epi32(q[2], q[3]), t[3] = _mm512_unpackhi_epi32(q[2], q[3]);
    q[0] = _mm512_unpacklo_epi64(t[0], t[2]), q[1] = _mm512_unpackhi_epi64(t[0], t[2]);
    q[2] = _mm512_unpacklo_epi64(t[1], t[3]), q[3] = _mm512_unpackhi_epi64(t[1], t[3]);
    RLX_UNROLL for (int v = 0; v < 4; ++v)
        _mm512_store_si512(out + v * kTileBytes, _mm512_permutexvar_epi32(in_order, q[v]));
  }
}

// Registers: 0 to 3, and 4 of four slices, the sums by weight; then a slice of the columns, and slices of the rows.
#define RLX_ZERO                                                                 \
  "tilezero %%tmm0\n\ttilezero %%tmm1\n\ttilezero %%tmm2\n\ttilezero %%tmm3\n\t" \
  "tilezero %%tmm4"
#define RLX_LOAD(tile, from, at) \
  asm volatile("tileloadd " #at "(%0,%1,1), %%tmm" #tile ::"r"(from), "r"(int64_t{64}) : "memory")
#define RLX_DOT(sums, rows, columns) asm volatile("tdpbssd %%tmm" #columns ", %%tmm" #rows ", %%tmm" #sums ::: "memory")
#define RLX_STORE(tile, to) asm volatile("tilestored %%tmm" #tile ", (%0,%1,1)" ::"r"(to), "r"(int64_t{64}) : "memory")

/// A step of three slices: products that weigh 2^-32 of the first are left out. `ask` is called six times.
template <class Ask>
RLX_WIDE_INLINE void add_three(const char* columns, const char* rows, Ask ask) {
  RLX_LOAD(4, columns, 0);
  RLX_LOAD(5, rows, 0);
  RLX_DOT(0, 5, 4);
  ask();
  RLX_LOAD(6, rows, 1024);
  RLX_DOT(1, 6, 4);
  ask();
  RLX_LOAD(7, rows, 3072);
  RLX_DOT(3, 7, 4);
  ask();
  RLX_LOAD(7, rows, 2048);
  RLX_DOT(2, 7, 4);
  RLX_LOAD(4, columns, 1024);
  RLX_DOT(1, 5, 4);
  ask();
  RLX_DOT(2, 6, 4);
  ask();
  RLX_DOT(3, 7, 4);
  RLX_LOAD(4, columns, 2048);
  RLX_DOT(2, 5, 4);
  ask();
  RLX_DOT(3, 6, 4);
}
/// Of four: those that weigh 2^-40 are.
template <class Ask>
RLX_WIDE_INLINE void add_four(const char* columns, const char* fourth, const char* rows, Ask ask) {
  RLX_LOAD(5, columns, 0);
  RLX_LOAD(6, rows, 0);
  RLX_DOT(0, 6, 5);
  ask();
  RLX_LOAD(7, rows, 1024);
  RLX_DOT(1, 7, 5);
  RLX_LOAD(6, rows, 2048);
  RLX_DOT(2, 6, 5);
  ask();
  RLX_LOAD(7, rows, 3072);
  RLX_DOT(3, 7, 5);
  RLX_LOAD(5, columns, 1024);
  RLX_DOT(4, 7, 5);
  ask();
  RLX_DOT(3, 6, 5);
  RLX_LOAD(7, rows, 1024);
  RLX_DOT(2, 7, 5);
  ask();
  RLX_LOAD(6, rows, 0);
  RLX_DOT(1, 6, 5);
  RLX_LOAD(5, columns, 2048);
  RLX_DOT(2, 6, 5);
  ask();
  RLX_DOT(3, 7, 5);
  RLX_LOAD(7, rows, 2048);
  RLX_DOT(4, 7, 5);
  ask();
  RLX_LOAD(5, fourth, 0);
  RLX_DOT(3, 6, 5);
  RLX_LOAD(7, rows, 1024);
  RLX_DOT(4, 7, 5);
}

template <bool kFourth>
RLX_WIDE void multiply(const SlicedColumns& w, int64_t block, const char* rows, const float* row_units, float* sums,
                       int64_t stride, MemoryAhead& ahead) {
  const char *columns = w.tiles(block), *fourth = w.fourth(block);
  const char* at = ahead.at;
  const char* const end = ahead.end;
  const int64_t apart = ahead.stride;
  const auto ask = [&]() __attribute__((always_inline)) {
    _mm_prefetch(at, _MM_HINT_T1), _mm_prefetch(at + apart, _MM_HINT_T1);
    at += 2 * apart;
  };
  asm volatile(RLX_ZERO ::: "memory");
  for (int64_t steps = w.layout().steps(); steps > 0; --steps) {
    if constexpr (kFourth) add_four(columns, fourth, rows, ask), fourth += kTileBytes;
    else add_three(columns, rows, ask);
    rows += SlicedLayout::kRowStepBytes, columns += SlicedLayout::kStepBytes;
    at = std::min(at, end);
  }
  ahead.at = at;
  alignas(64) int32_t s[5][256];
  RLX_STORE(0, s[0]);
  RLX_STORE(1, s[1]);
  RLX_STORE(2, s[2]);
  RLX_STORE(3, s[3]);
  if constexpr (kFourth) RLX_STORE(4, s[4]);
  const __m512 units = _mm512_loadu_ps(w.units(block));
  for (int64_t i = 0; i < 16; ++i) {
    const auto level = [&](int slice) RLX_WIDE __attribute__((always_inline)) {
      return _mm512_cvtepi32_ps(_mm512_load_si512(s[slice] + i * 16));
    };
    __m512 sum = _mm512_mul_ps(level(3), _mm512_set1_ps(0x1p-24f));
    if constexpr (kFourth) sum = _mm512_fmadd_ps(level(4), _mm512_set1_ps(0x1p-32f), sum);
    sum = _mm512_fmadd_ps(level(2), _mm512_set1_ps(0x1p-16f), sum);
    sum = _mm512_fmadd_ps(level(1), _mm512_set1_ps(0x1p-8f), sum);
    sum = _mm512_add_ps(level(0), sum);
    _mm512_storeu_ps(sums + i * stride, _mm512_mul_ps(_mm512_mul_ps(sum, units), _mm512_set1_ps(row_units[i])));
  }
}

}  // namespace

bool plan_slicing(const StridedMatrix& w, const SlicedLayout& l, int threads, SlicingPlan& plan) {
  ThreadPool& pool = ThreadPool::shared();
  const auto padded = static_cast<size_t>(l.steps() * kTileCodes), blocks = static_cast<size_t>(l.blocks());
  plan.balances.assign(padded, 1.0f), plan.inverses = plan.balances;
  std::vector<ColumnSurvey> found(blocks);
  // Sums of so many groups of blocks, whatever the number of threads.
  const int64_t groups = std::min<int64_t>(l.blocks(), 16);
  std::vector<float> group_logs(static_cast<size_t>(groups) * padded, 0.0f), group_counts = group_logs;
  pool.parallel_for(threads, groups, [&](int64_t g) {
    const size_t at = static_cast<size_t>(g) * padded;
    for (int64_t block = l.blocks() * g / groups; block < l.blocks() * (g + 1) / groups; ++block)
      found[static_cast<size_t>(block)] =
          survey_columns(w, l, block, plan.inverses.data(), &group_logs[at], &group_counts[at]);
  });
  constexpr double kZeros = std::numeric_limits<double>::infinity();
  std::vector<double> logs(padded, kZeros);
  double all_logs = 0;
  int64_t rows = 0;
  for (size_t p = 0; p < padded; ++p) {
    double sum = 0, count = 0;
    for (size_t g = 0; g < static_cast<size_t>(groups); ++g)
      sum += static_cast<double>(group_logs[g * padded + p]),
          count += static_cast<double>(group_counts[g * padded + p]);
    if (count == 0) continue;
    logs[p] = sum / count;
    if (!std::isfinite(logs[p])) return false;
    all_logs += logs[p], ++rows;
  }
  if (rows == 0) return false;
  bool is_balanced = true;
  for (size_t p = 0; p < padded; ++p) {
    if (std::isinf(logs[p])) {
      plan.balances[p] = 0;  // a row of zeros: what it meets must not decide how finely the others are cut
      continue;
    }
    const auto by = static_cast<int>(std::lround(logs[p] - all_logs / static_cast<double>(rows)));
    if (std::abs(by) > kMostBalance) return false;
    if (std::abs(by) < kLeastBalance) continue;
    plan.balances[p] = std::ldexp(1.0f, by), plan.inverses[p] = std::ldexp(1.0f, -by);
    is_balanced = false;
  }
  if (!is_balanced)
    pool.parallel_for(threads, l.blocks(), [&](int64_t block) {
      found[static_cast<size_t>(block)] = survey_columns(w, l, block, plan.inverses.data(), nullptr, nullptr);
    });
  const float uneven = std::max(kMostUneven, std::sqrt(static_cast<float>(l.k) / 8));
  plan.units.assign(blocks * 16, 1.0f), plan.fourth_places.assign(blocks, -1);
  plan.fourth_blocks = 0;
  for (size_t block = 0; block < blocks; ++block) {
    const ColumnSurvey& c = found[block];
    bool has_fourth = false;
    for (int j = 0; j < 16; ++j) {
      if (c.most[j] != 0 && !(c.most[j] >= kLeast && c.most[j] <= kMost)) return false;
      if (c.most[j] == 0) continue;
      const bool is_dense = static_cast<float>(rows) - c.count[j] <= static_cast<float>(rows) / kZerosShare;
      const bool is_like = c.log_variance[j] <= kMostSpread * kMostSpread &&
                           static_cast<float>(std::ilogb(c.most[j])) - c.log[j] <= kMostAbove;
      if (!is_dense || !is_like) return false;
      const bool is_even = std::isfinite(c.mean_square[j]) && c.most[j] <= uneven * std::sqrt(c.mean_square[j]);
      has_fourth = has_fourth || (!is_even && !is_exact(c.most[j], c.last_bit[j]));
    }
    for (size_t j = 0; j < 16; ++j) plan.units[block * 16 + j] = unit_of(c.most[j], c.last_bit[j]);
    if (has_fourth) plan.fourth_places[block] = static_cast<int32_t>(plan.fourth_blocks++);
  }
  return true;
}

void slice_columns(const StridedMatrix& w, const SlicedLayout& l, const SlicingPlan& plan, int threads, char* out) {
  std::memset(out, 0, static_cast<size_t>(l.tiles()));
  std::memcpy(out, SlicedLayout::kMark, sizeof SlicedLayout::kMark);
  std::memcpy(out + l.units(), plan.units.data(), plan.units.size() * sizeof(float));
  std::memcpy(out + l.balances(), plan.balances.data(), plan.balances.size() * sizeof(float));
  std::memcpy(out + l.fourth_places(), plan.fourth_places.data(), plan.fourth_places.size() * sizeof(int32_t));
  ThreadPool::shared().parallel_for(threads, l.blocks(), [&](int64_t block) {
    const int32_t place = plan.fourth_places[static_cast<size_t>(block)];
    slice_block(w, l, block, plan.inverses.data(), plan.units.data(), out + l.tiles() + block * l.block_bytes(),
                place < 0 ? nullptr : out + l.fourths() + place * l.fourth_bytes());
  });
}

void SlicedColumns::restore(int64_t block, float* out) const noexcept { restore_block(*this, block, out); }

RLX_WIDE void slice_rows(const float* rows, int64_t stride, int64_t lines, const SlicedLayout& l, const float* balances,
                         char* out, float* units) noexcept {
  for (int64_t i = 0; i < kTileLines; ++i, rows += stride, out += 64) {
    const float scale = i < lines ? row_scale(most_of(rows, l.k, balances)) : 0;
    // The first slices of both weigh 2^24 and 2^16 more than the last ones.
    units[i] = scale == 0 ? 0 : 0x1p40f / scale;
    if (scale != 0) slice_row(rows, l, balances, scale, out);
    else
      for (int64_t t = 0; t < l.steps() * 4; ++t) _mm512_store_si512(out + t * kTileBytes, _mm512_setzero_si512());
  }
}

void multiply_slices(const SlicedColumns& columns, int64_t block, const char* rows, const float* row_units, float* sums,
                     int64_t stride, MemoryAhead& ahead) noexcept {
  if (columns.fourth(block)) multiply<true>(columns, block, rows, row_units, sums, stride, ahead);
  else multiply<false>(columns, block, rows, row_units, sums, stride, ahead);
}

#else

void SlicedColumns::restore(int64_t, float*) const noexcept {}
bool plan_slicing(const StridedMatrix&, const SlicedLayout&, int, SlicingPlan&) { return false; }
void slice_columns(const StridedMatrix&, const SlicedLayout&, const SlicingPlan&, int, char*) {}
void slice_rows(const float*, int64_t, int64_t, const SlicedLayout&, const float*, char*, float*) noexcept {}
void multiply_slices(const SlicedColumns&, int64_t, const char*, const float*, float*, int64_t, MemoryAhead&) noexcept {
}

#endif

}  // namespace rlx::kernels
