// See the header.
#include "kernels/gemm/ozaki/split_plan.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "kernels/gemm/ozaki/splits-inl.h"
#include "kernels/threads/thread_pool.h"

namespace rlx::kernels {

#if RLX_HAS_TILES
namespace {

// The largest integer of three digits of 7 bits and a sign, for which the first digit cannot overflow.
constexpr int32_t kMax24 = 0x7f7f7f;
// Three splits suffice for a column whose maximum is at most kMaxUneven times its root mean square, or sqrt(k / 8)
// times: up to there, f32 sums along k lose as much as the splits do.
constexpr float kMaxUneven = 8;
// Errors are relative to the maxima of a row and of a column, so both maxima should contribute to every sum: a column's
// numbers must be of similar magnitude. At most one in kZerosShare of them may be 0. The binary logarithms of the
// others may have a standard deviation of kMaxSpread (normally distributed numbers have 1.6), and their maximum may
// exceed their mean by kMaxAbove.
constexpr float kZerosShare = 16, kMaxSpread = 3, kMaxAbove = 12;
// At most one in kF32Share blocks may stay f32. Each time blocks are found that must, the statistics of the others are
// computed again, in at most kMaxRounds rounds. With k below kMinF32K no block may: there splits gain too little, for
// products of 128 rows and more, to pay for the fp32 fallback.
constexpr int64_t kF32Share = 8, kMinF32K = 128;
constexpr int kMaxRounds = 4;
// A row of weights is balanced if its mean exponent differs from that of all rows by at least kMinBalance. If one
// differs by more than kMaxBalance, the weights are not split.
constexpr int kMinBalance = 2, kMaxBalance = 40;

/// Statistics of 16 columns, of balanced weights.
struct ColumnSurvey {
  float max[16];  ///< magnitude; NaN counts as larger than infinity
  float mean_square[16];
  float count[16], log[16], log_variance[16];  ///< how many are not 0; mean and variance of their exponents
  int32_t lowest_bit[16];                      ///< the exponent of the lowest bit that is set in any number
};
/// Whether three splits represent a column exactly, as they must if it holds small integers.
bool is_exact(float max, int32_t lowest_bit) { return max <= std::ldexp(static_cast<float>(kMax24), lowest_bit); }
/// The scale of a column for 24-bit integers.
float column_scale(float max, int32_t lowest_bit) {
  if (max == 0) return 1;
  if (is_exact(max, lowest_bit)) {
    // The smallest power of 2 that fits: numbers of few bits then lie in the first splits, because products of the last
    // splits of both operands are left out.
    const float scale = std::ldexp(1.0f, std::ilogb(max) - 22);
    return max <= static_cast<float>(kMax24) * scale ? scale : 2 * scale;
  }
  return std::nextafter(max / static_cast<float>(kMax24), max);  // rounded up
}

/// Computes the statistics of a block. Adds to row_logs[p] and row_counts[p], unless they are null, the sum of
/// exponents and the number of the weights in row p that are finite and not 0.
RLX_WIDE ColumnSurvey survey_columns(const StridedMatrix& w, const SplitLayout& l, int64_t block, const float* inverses,
                                     float* row_logs, float* row_counts) {
  __m512 squares = _mm512_setzero_ps(), logs = squares, log_squares = squares, counts = squares;
  __m512i max = _mm512_setzero_si512(), last = _mm512_set1_epi32(1 << 20);
  const __m512i infinity = _mm512_set1_epi32(0x7f800000);
  const __m512i hidden = _mm512_set1_epi32(0x00800000);
  alignas(64) float square[256];
  for (int64_t p = 0; p < l.k; p += 16) {
    load_square(w, l, p, block * 16, square);
    for (int i = 0; i < 16; ++i) {
      const __m512 weights = magnitude(_mm512_load_ps(square + i * 16));
      const __mmask16 is_nonzero = _mm512_test_epi32_mask(_mm512_castps_si512(weights), _mm512_castps_si512(weights));
      // What balancing rounds to 0 counts as the smallest subnormal.
      const __m512i bits = _mm512_mask_max_epu32(
          _mm512_setzero_si512(), is_nonzero,
          _mm512_castps_si512(_mm512_mul_ps(weights, _mm512_set1_ps(inverses[p + i]))), _mm512_set1_epi32(1));
      const __m512 v = _mm512_castsi512_ps(bits);
      const __mmask16 used = _mm512_mask_cmplt_epu32_mask(is_nonzero, bits, infinity);
      const __m512 log = _mm512_maskz_getexp_ps(used, v);
      logs = _mm512_add_ps(logs, log), log_squares = _mm512_fmadd_ps(log, log, log_squares);
      counts = _mm512_mask_add_ps(counts, used, counts, _mm512_set1_ps(1));
      if (row_logs)
        row_logs[p + i] += _mm512_reduce_add_ps(log),
            row_counts[p + i] += static_cast<float>(std::popcount(static_cast<unsigned>(used)));
      max = _mm512_max_epu32(max, bits), squares = _mm512_fmadd_ps(v, v, squares);
      const __m512i fraction = _mm512_ternarylogic_epi32(bits, _mm512_set1_epi32(0x007fffff), hidden, 0xea);  // & |
      const __m512i lowest = _mm512_and_epi32(fraction, _mm512_sub_epi32(_mm512_setzero_si512(), fraction));
      const __m512i offset = _mm512_sub_epi32(_mm512_set1_epi32(31 - 150), _mm512_lzcnt_epi32(lowest));
      const __m512i at = _mm512_add_epi32(offset, _mm512_srli_epi32(bits, 23));
      last = _mm512_mask_min_epi32(last, is_nonzero, last, at);
    }
  }
  ColumnSurvey found;
  _mm512_storeu_si512(found.max, max);
  _mm512_storeu_ps(found.mean_square, _mm512_div_ps(squares, _mm512_set1_ps(static_cast<float>(l.k))));
  _mm512_storeu_ps(found.count, counts);
  counts = _mm512_max_ps(counts, _mm512_set1_ps(1));
  const __m512 mean = _mm512_div_ps(logs, counts);
  _mm512_storeu_ps(found.log, mean);
  _mm512_storeu_ps(found.log_variance, _mm512_fnmadd_ps(mean, mean, _mm512_div_ps(log_squares, counts)));
  _mm512_storeu_si512(found.lowest_bit, last);
  return found;
}

/// Chooses the balances of rows from the blocks that do not stay f32, and computes the statistics of the balanced
/// blocks. Returns the number of rows that are not all 0, or 0 if a row needs more than kMaxBalance.
int64_t balance_rows(const StridedMatrix& w, const SplitLayout& l, int threads, const std::vector<char>& is_f32,
                     SplitPlan& plan, std::vector<ColumnSurvey>& found) {
  ThreadPool& pool = ThreadPool::shared();
  const auto padded = static_cast<size_t>(l.steps() * kTileInt8);
  plan.balances.assign(padded, 1.0f), plan.inverses = plan.balances;
  // Each group of blocks has sums of its own. The groups do not depend on the number of threads, so neither do the
  // balances.
  const int64_t groups = std::min<int64_t>(l.blocks(), 16);
  std::vector<float> group_logs(static_cast<size_t>(groups) * padded, 0.0f), group_counts = group_logs;
  pool.parallel_for(threads, groups, [&](int64_t g) {
    const size_t at = static_cast<size_t>(g) * padded;
    for (int64_t block = l.blocks() * g / groups; block < l.blocks() * (g + 1) / groups; ++block)
      if (const auto b = static_cast<size_t>(block); !is_f32[b])
        found[b] = survey_columns(w, l, block, plan.inverses.data(), &group_logs[at], &group_counts[at]);
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
    all_logs += logs[p], ++rows;
  }
  bool is_balanced = true;
  for (size_t p = 0; p < padded; ++p) {
    if (std::isinf(logs[p])) {
      plan.balances[p] = 0;  // a row of zeros: the numbers that it meets must not enlarge their rows' scales
      continue;
    }
    const auto by = static_cast<int>(std::lround(logs[p] - all_logs / static_cast<double>(rows)));
    if (std::abs(by) > kMaxBalance) return 0;
    if (std::abs(by) < kMinBalance) continue;
    plan.balances[p] = std::ldexp(1.0f, by), plan.inverses[p] = std::ldexp(1.0f, -by);
    is_balanced = false;
  }
  if (!is_balanced)
    pool.parallel_for(threads, l.blocks(), [&](int64_t block) {
      if (const auto b = static_cast<size_t>(block); !is_f32[b])
        found[b] = survey_columns(w, l, block, plan.inverses.data(), nullptr, nullptr);
    });
  return rows;
}

/// Whether 16 columns can be split, where `rows` rows are not all 0.
bool can_be_split(const ColumnSurvey& c, int64_t rows) {
  for (int j = 0; j < 16; ++j) {
    if (c.max[j] == 0) continue;
    if (!(c.max[j] >= kMinSplit && c.max[j] <= kMaxSplit)) return false;
    const bool is_dense = static_cast<float>(rows) - c.count[j] <= static_cast<float>(rows) / kZerosShare;
    const bool is_like = c.log_variance[j] <= kMaxSpread * kMaxSpread &&
                         static_cast<float>(std::ilogb(c.max[j])) - c.log[j] <= kMaxAbove;
    if (!is_dense || !is_like) return false;
  }
  return true;
}
/// Whether three splits suffice for 16 columns.
bool three_splits_suffice(const ColumnSurvey& c, int64_t k) {
  const float uneven = std::max(kMaxUneven, std::sqrt(static_cast<float>(k) / 8));
  for (int j = 0; j < 16; ++j) {
    const bool is_even = std::isfinite(c.mean_square[j]) && c.max[j] <= uneven * std::sqrt(c.mean_square[j]);
    if (!is_even && !is_exact(c.max[j], c.lowest_bit[j])) return false;
  }
  return true;
}

}  // namespace

bool plan_splits(const StridedMatrix& w, const SplitLayout& l, int threads, SplitPlan& plan) {
  const auto blocks = static_cast<size_t>(l.blocks());
  std::vector<ColumnSurvey> found(blocks);
  std::vector<char> is_f32(blocks, 0);
  int64_t f32_blocks = 0, rejected = 1;
  // The balances are those of the blocks that are split. When a block is found that cannot be, the balances change, and
  // then other blocks may no longer be split either.
  for (int round = 0; rejected > 0; ++round) {
    const int64_t rows = balance_rows(w, l, threads, is_f32, plan, found);
    if (rows == 0 || round == kMaxRounds) return false;
    rejected = 0;
    for (size_t b = 0; b < blocks; ++b)
      if (!is_f32[b] && !can_be_split(found[b], rows)) is_f32[b] = 1, ++rejected;
    f32_blocks += rejected;
    if (f32_blocks * kF32Share > l.blocks() || (f32_blocks > 0 && l.k < kMinF32K)) return false;
  }
  plan.column_scales.assign(blocks * 16, 1.0f), plan.forms.assign(blocks, SplitLayout::kThreeSplits);
  int32_t fourths = 0;
  for (size_t b = 0; b < blocks; ++b) {
    if (is_f32[b]) {
      plan.forms[b] = SplitLayout::f32_block(fourths++);
      continue;
    }
    for (size_t j = 0; j < 16; ++j)
      plan.column_scales[b * 16 + j] = column_scale(found[b].max[j], found[b].lowest_bit[j]);
    if (!three_splits_suffice(found[b], l.k)) plan.forms[b] = SplitLayout::four_splits(fourths++);
  }
  plan.fourth_blocks = fourths;
  return true;
}

#else

bool plan_splits(const StridedMatrix&, const SplitLayout&, int, SplitPlan&) { return false; }

#endif

}  // namespace rlx::kernels
