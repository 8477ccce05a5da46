// See the header.
#include "kernels/slicing_plan.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "kernels/slices-inl.h"
#include "kernels/thread_pool.h"

namespace rlx::kernels {

#if RLX_HAS_TILES
namespace {

// Three digits of 7 bits and a sign stand for so much, without an overflow of the first.
constexpr int32_t kMost24 = 0x7f7f7f;
// For three slices a column's largest number may be so many times the root of its mean square, or sqrt(k / 8) times:
// then sums of f32 along k lose as much.
constexpr float kMostUneven = 8;
// The other operand's rows are cut by their largest number, and columns by theirs, so every sum should have a part of
// both: numbers of a column may be 0 or negligible for one in so many rows, and spread by so many powers of 2 around
// their geometric mean (normally distributed ones by 1.6); its largest number may be above that by so many.
constexpr float kZerosShare = 16, kMostSpread = 3, kMostAbove = 12;
// One block in so many may be unfit; what is left is surveyed anew, so often. Of weights that are shorter along k none
// may: from 128 rows on their slices gain nothing that could pay for it.
constexpr int64_t kPlainShare = 8, kLeastPlainK = 128;
constexpr int kMostRounds = 4;
// By how many powers of 2 rows of weights differ in size at least, to be balanced, and at most.
constexpr int kLeastBalance = 2, kMostBalance = 40;

/// What was found of 16 columns, once their rows are balanced.
struct ColumnSurvey {
  float most[16];  ///< the largest magnitudes, NaN and infinities above all
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

/// Exponents and numbers of what is finite and not 0 in each row are added to `row_logs` and `row_counts`, unless these
/// are null.
RLX_WIDE ColumnSurvey survey_columns(const StridedMatrix& w, const SlicedLayout& l, int64_t block,
                                     const float* inverses, float* row_logs, float* row_counts) {
  __m512 squares = _mm512_setzero_ps(), logs = squares, log_squares = squares, counts = squares;
  __m512i most = _mm512_setzero_si512(), last = _mm512_set1_epi32(1 << 20);
  const __m512i infinity = _mm512_set1_epi32(0x7f800000);
  const __m512i hidden = _mm512_set1_epi32(0x00800000);
  alignas(64) float square[256];
  for (int64_t p = 0; p < l.k; p += 16) {
    load_square(w, l, p, block * 16, square);
    for (int i = 0; i < 16; ++i) {
      const __m512 weights = magnitude(_mm512_load_ps(square + i * 16));
      const __mmask16 is_nonzero = _mm512_test_epi32_mask(_mm512_castps_si512(weights), _mm512_castps_si512(weights));
      // What balancing rounds to 0 still is not: the smallest there is.
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
      most = _mm512_max_epu32(most, bits), squares = _mm512_fmadd_ps(v, v, squares);
      const __m512i fraction = _mm512_ternarylogic_epi32(bits, _mm512_set1_epi32(0x007fffff), hidden, 0xea);  // & |
      const __m512i lowest = _mm512_and_epi32(fraction, _mm512_sub_epi32(_mm512_setzero_si512(), fraction));
      const __m512i place = _mm512_sub_epi32(_mm512_set1_epi32(31 - 150), _mm512_lzcnt_epi32(lowest));
      const __m512i at = _mm512_add_epi32(place, _mm512_srli_epi32(bits, 23));
      last = _mm512_mask_min_epi32(last, is_nonzero, last, at);
    }
  }
  ColumnSurvey found;
  _mm512_storeu_si512(found.most, most);
  _mm512_storeu_ps(found.mean_square, _mm512_div_ps(squares, _mm512_set1_ps(static_cast<float>(l.k))));
  _mm512_storeu_ps(found.count, counts);
  counts = _mm512_max_ps(counts, _mm512_set1_ps(1));
  const __m512 mean = _mm512_div_ps(logs, counts);
  _mm512_storeu_ps(found.log, mean);
  _mm512_storeu_ps(found.log_variance, _mm512_fnmadd_ps(mean, mean, _mm512_div_ps(log_squares, counts)));
  _mm512_storeu_si512(found.last_bit, last);
  return found;
}

/// Chooses powers of 2 for rows, by the blocks that are not plain, and surveys these once they are balanced. Returns
/// how many rows are not all 0; none, also if the rows differ beyond measure.
int64_t balance_rows(const StridedMatrix& w, const SlicedLayout& l, int threads, const std::vector<char>& is_plain,
                     SlicingPlan& plan, std::vector<ColumnSurvey>& found) {
  ThreadPool& pool = ThreadPool::shared();
  const auto padded = static_cast<size_t>(l.steps() * kTileCodes);
  plan.balances.assign(padded, 1.0f), plan.inverses = plan.balances;
  // Sums of so many groups of blocks, whatever the number of threads.
  const int64_t groups = std::min<int64_t>(l.blocks(), 16);
  std::vector<float> group_logs(static_cast<size_t>(groups) * padded, 0.0f), group_counts = group_logs;
  pool.parallel_for(threads, groups, [&](int64_t g) {
    const size_t at = static_cast<size_t>(g) * padded;
    for (int64_t block = l.blocks() * g / groups; block < l.blocks() * (g + 1) / groups; ++block)
      if (const auto b = static_cast<size_t>(block); !is_plain[b])
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
      plan.balances[p] = 0;  // a row of zeros: what it meets must not decide how finely the others are cut
      continue;
    }
    const auto by = static_cast<int>(std::lround(logs[p] - all_logs / static_cast<double>(rows)));
    if (std::abs(by) > kMostBalance) return 0;
    if (std::abs(by) < kLeastBalance) continue;
    plan.balances[p] = std::ldexp(1.0f, by), plan.inverses[p] = std::ldexp(1.0f, -by);
    is_balanced = false;
  }
  if (!is_balanced)
    pool.parallel_for(threads, l.blocks(), [&](int64_t block) {
      if (const auto b = static_cast<size_t>(block); !is_plain[b])
        found[b] = survey_columns(w, l, block, plan.inverses.data(), nullptr, nullptr);
    });
  return rows;
}

/// Whether slices stand for 16 columns, of which so many rows are not all 0.
bool are_fit(const ColumnSurvey& c, int64_t rows) {
  for (int j = 0; j < 16; ++j) {
    if (c.most[j] == 0) continue;
    if (!(c.most[j] >= kLeastSliced && c.most[j] <= kMostSliced)) return false;
    const bool is_dense = static_cast<float>(rows) - c.count[j] <= static_cast<float>(rows) / kZerosShare;
    const bool is_like = c.log_variance[j] <= kMostSpread * kMostSpread &&
                         static_cast<float>(std::ilogb(c.most[j])) - c.log[j] <= kMostAbove;
    if (!is_dense || !is_like) return false;
  }
  return true;
}
/// Whether three slices do.
bool are_even(const ColumnSurvey& c, int64_t k) {
  const float uneven = std::max(kMostUneven, std::sqrt(static_cast<float>(k) / 8));
  for (int j = 0; j < 16; ++j) {
    const bool is_even = std::isfinite(c.mean_square[j]) && c.most[j] <= uneven * std::sqrt(c.mean_square[j]);
    if (!is_even && !is_exact(c.most[j], c.last_bit[j])) return false;
  }
  return true;
}

}  // namespace

bool plan_slicing(const StridedMatrix& w, const SlicedLayout& l, int threads, SlicingPlan& plan) {
  const auto blocks = static_cast<size_t>(l.blocks());
  std::vector<ColumnSurvey> found(blocks);
  std::vector<char> is_plain(blocks, 0);
  int64_t plain_blocks = 0, unfit = 1;
  // Without blocks that are unfit others may be so: rows are balanced by what is left.
  for (int round = 0; unfit > 0; ++round) {
    const int64_t rows = balance_rows(w, l, threads, is_plain, plan, found);
    if (rows == 0 || round == kMostRounds) return false;
    unfit = 0;
    for (size_t b = 0; b < blocks; ++b)
      if (!is_plain[b] && !are_fit(found[b], rows)) is_plain[b] = 1, ++unfit;
    plain_blocks += unfit;
    if (plain_blocks * kPlainShare > l.blocks() || (plain_blocks > 0 && l.k < kLeastPlainK)) return false;
  }
  plan.units.assign(blocks * 16, 1.0f), plan.forms.assign(blocks, SlicedLayout::kThreeSlices);
  int32_t fourths = 0;
  for (size_t b = 0; b < blocks; ++b) {
    if (is_plain[b]) {
      plan.forms[b] = SlicedLayout::plain(fourths++);
      continue;
    }
    for (size_t j = 0; j < 16; ++j) plan.units[b * 16 + j] = unit_of(found[b].most[j], found[b].last_bit[j]);
    if (!are_even(found[b], l.k)) plan.forms[b] = SlicedLayout::four_slices(fourths++);
  }
  plan.fourth_blocks = fourths;
  return true;
}

#else

bool plan_slicing(const StridedMatrix&, const SlicedLayout&, int, SlicingPlan&) { return false; }

#endif

}  // namespace rlx::kernels
