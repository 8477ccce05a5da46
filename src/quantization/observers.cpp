// Ranges from numbers. The histograms, percentiles and entropies are those of ONNX Runtime (onnxruntime.quantization,
// calibrate.py), so that the same data give the same scales.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "ops/quant/smallest_scale.h"
#include "rlx/element.h"
#include "rlx/quantization.h"

namespace rlx {
namespace {

void require(bool good, const char* name, double value, const char* wanted) {
  if (!good) fail(ErrorCode::invalid_argument, name, " is ", value, "; it must be ", wanted);
}

constexpr double kMostFloat = std::numeric_limits<float>::max();
/// Of the entropies, each of which takes longer the more bins there are.
constexpr int64_t kMostEntropyBins = int64_t{1} << 16;

/// count + 1 edges from -threshold to threshold, in f32 as the numbers are.
std::vector<double> edges_between(double threshold, size_t count) {
  std::vector<double> edges(count + 1);
  for (size_t i = 0; i <= count; ++i)
    edges[i] = static_cast<float>(std::clamp(
        -threshold + 2 * threshold * static_cast<double>(i) / static_cast<double>(count), -kMostFloat, kMostFloat));
  return edges;
}

/// The bin that x lies in: edges[i] <= x < edges[i + 1], the last bin with its end.
size_t bin_of(double x, const std::vector<double>& edges) {
  double width = (edges.back() - edges.front()) / static_cast<double>(edges.size() - 1);
  auto last = static_cast<double>(edges.size() - 2);
  auto bin = static_cast<size_t>(std::clamp(std::floor((x - edges.front()) / width), 0.0, last));
  while (bin > 0 && x < edges[bin]) --bin;
  while (bin + 2 < edges.size() && x >= edges[bin + 1]) ++bin;
  return bin;
}

/// Kullback-Leibler divergences of what `levels` bins keep of the inner bins of a histogram, from those bins with all
/// that lies outside added at their ends. Of both a little is taken from what is not zero and given to what is, and the
/// sum is scaled to 1. Asked for ever more inner bins; each answer takes time by the levels and by how many different
/// counts there are, not by the bins: sums over bins are differences of running sums, and bins of one count are one
/// logarithm.
class Divergences {
 public:
  Divergences(const std::vector<int64_t>& counts, size_t levels) : counts_(counts), levels_(levels) {
    different_ = counts;
    std::sort(different_.begin(), different_.end());
    different_.erase(std::unique(different_.begin(), different_.end()), different_.end());
    bins_of_.resize(different_.size());
    sum_.push_back(0), filled_.push_back(0);
    for (int64_t count : counts) {
      sum_.push_back(sum_.back() + count);
      filled_.push_back(filled_.back() + (count != 0));
    }
  }

  /// Of bins [begin, end), which hold those of the answer before.
  double of(size_t begin, size_t end) {
    grow_to(begin, end);
    const int64_t below = sum_[begin], above = sum_.back() - sum_[end];
    const size_t bins = end - begin;
    // The ends with what lies outside; all else is as it was counted.
    const int64_t first = counts_[begin] + below, last = counts_[end - 1] + above + (bins == 1 ? below : 0);
    const Smoothing p(filled_in(begin, end), bins);
    const size_t merged = bins / levels_;  // bins that become one; the last one takes the rest too
    levels_of_.clear();
    int64_t filled_levels = 0;
    for (size_t level = 0; level < levels_; ++level) {
      const size_t from = begin + level * merged, stop = from + merged;
      const int64_t sum = sum_[level + 1 == levels_ ? end : stop] - sum_[from], used = filled_in(from, stop);
      levels_of_.push_back({stop, used > 0 ? sum / used : 0});
      filled_levels += levels_of_.back().kept != 0;
    }
    const Smoothing q(filled_levels * static_cast<int64_t>(merged), bins);
    if (p.is_empty || q.is_empty) return std::numeric_limits<double>::infinity();

    double entropy = p.zeros * kEpsilon * std::log(kEpsilon), p_sum = p.zeros * kEpsilon;
    const auto add = [&](int64_t count, double times) {
      if (count == 0 || times == 0) return;
      const double x = static_cast<double>(count) - p.taken;
      entropy += times * x * std::log(x), p_sum += times * x;
    };
    add(first, 1);
    if (bins > 1) add(last, 1);
    for (size_t i = 0; i < different_.size(); ++i) {
      const int64_t ends = (different_[i] == counts_[begin]) + (bins > 1 && different_[i] == counts_[end - 1]);
      add(different_[i], static_cast<double>(bins_of_[i] - ends));
    }
    double cross = 0, q_sum = 0;
    const auto cross_with = [&](size_t from, size_t stop, int64_t kept) {
      if (from == stop) return;
      const int64_t filled = filled_in(from, stop), empty = static_cast<int64_t>(stop - from) - filled;
      const int64_t sum = sum_[stop] - sum_[from] + (from == begin ? below : 0) + (stop == end ? above : 0);
      const double x =
          static_cast<double>(sum) - static_cast<double>(filled) * p.taken + static_cast<double>(empty) * kEpsilon;
      const double y = kept == 0 ? kEpsilon : static_cast<double>(kept) - q.taken;
      cross += x * std::log(y), q_sum += y * static_cast<double>(stop - from);
    };
    size_t from = begin;
    for (const Level& level : levels_of_) cross_with(from, level.stop, level.kept), from = level.stop;
    cross_with(from, end, 0);
    return (entropy - cross) / p_sum - std::log(p_sum) + std::log(q_sum);
  }

 private:
  static constexpr double kEpsilon = 1e-4;

  struct Smoothing {
    double zeros, taken;
    bool is_empty;
    Smoothing(int64_t filled, size_t bins)
        : zeros(static_cast<double>(bins) - static_cast<double>(filled)),
          taken(kEpsilon * zeros / static_cast<double>(filled)), is_empty(filled == 0) {}
  };

  /// How many of the bins are not 0, those at the ends with what lies outside.
  int64_t filled_in(size_t from, size_t stop) const {
    if (from == stop) return 0;
    int64_t filled = filled_[stop] - filled_[from];
    if (from == begin_ && counts_[from] == 0 && sum_[from] > 0) ++filled;
    if (stop == end_ && counts_[stop - 1] == 0 && sum_.back() > sum_[stop] && (stop - 1 != begin_ || sum_[begin_] == 0))
      ++filled;
    return filled;
  }
  void grow_to(size_t begin, size_t end) {
    const auto add = [&](size_t bin) {
      ++bins_of_[static_cast<size_t>(std::lower_bound(different_.begin(), different_.end(), counts_[bin]) -
                                     different_.begin())];
    };
    if (begin_ == end_) begin_ = end_ = begin;
    while (begin_ > begin) add(--begin_);
    while (end_ < end) add(end_++);
  }

  const std::vector<int64_t>& counts_;
  size_t levels_;
  std::vector<int64_t> sum_, filled_;         // before each bin
  std::vector<int64_t> different_, bins_of_;  // counts, and how many of the inner bins have them
  size_t begin_ = 0, end_ = 0;                // the inner bins
  struct Level {
    size_t stop;
    int64_t kept;  // what each of its bins has in the end
  };
  std::vector<Level> levels_of_;
};

/// What two ranges share; what was seen, if that is no range: then all lies in one bin, or beyond all others.
Range within(Range seen, Range found) {
  const Range both = {std::max(found.low, seen.low), std::min(found.high, seen.high)};
  return both.low < both.high ? both : seen;
}

}  // namespace

CodeScale scale_for(Range range, int64_t low, int64_t high, bool symmetric) {
  if (!std::isfinite(range.low) || !std::isfinite(range.high) || range.low > range.high)
    fail(ErrorCode::invalid_argument, "a range from ", range.low, " to ", range.high, " has no scale");
  if (low >= high || high <= 0 || low > 0)
    fail(ErrorCode::invalid_argument, "codes go from 0 or below to above 0, not from ", low, " to ", high);
  const double least = std::min(range.low, 0.0), most = std::max(range.high, 0.0);
  if (least == most)
    fail(ErrorCode::invalid_argument, "the range is only 0: no scale stands for it, for nothing but zeros was seen");
  if (!std::isfinite(most - least))
    fail(ErrorCode::invalid_argument, "a range from ", range.low, " to ", range.high, " has no finite scale");
  if (symmetric) return {std::max(std::max(-least, most) / static_cast<double>(high), kLeastScale), 0};
  const double scale = std::max((most - least) / static_cast<double>(high - low), kLeastScale);
  const double zero_point = static_cast<double>(low) - std::nearbyint(least / scale);
  return {scale, static_cast<int64_t>(std::clamp(zero_point, static_cast<double>(low), static_cast<double>(high)))};
}

RangeObserver::RangeObserver(CalibrationOptions options) : options_(options) {
  require(options.averaging > 0 && options.averaging <= 1, "averaging", options.averaging, "above 0, and at most 1");
  require(options.percentile > 50 && options.percentile <= 100, "percentile", options.percentile,
          "above 50, and at most 100");
  require(options.bins >= 2 && options.bins <= 1 << 20, "bins", static_cast<double>(options.bins), "2 to 1048576");
  require(options.levels >= 2 && options.levels <= options.bins, "levels", static_cast<double>(options.levels),
          "at least 2, and at most as many as the bins");
  require(options.method != CalibrationMethod::entropy || options.bins <= kMostEntropyBins, "bins",
          static_cast<double>(options.bins), "at most 65536 where entropies are compared");
}

void RangeObserver::observe(const Tensor& x) {
  if (!is_float(x.dtype())) fail(ErrorCode::invalid_argument, "ranges are taken of floats, not of ", x.type());
  if (x.element_count() == 0) return;
  const bool has_histogram =
      options_.method == CalibrationMethod::percentile || options_.method == CalibrationMethod::entropy;
  std::vector<double> values(x.element_count());
  Range batch = {std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity()};
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = load_number(x, i);
    if (!std::isfinite(values[i]))
      fail(ErrorCode::invalid_argument, "element ", i, " of ", x.type(), " is ", values[i],
           "; a range needs finite numbers");
    if (has_histogram && std::abs(values[i]) > kMostFloat)
      fail(ErrorCode::invalid_argument, "element ", i, " of ", x.type(), " is ", values[i],
           "; the bins of a histogram are numbers of f32, to ", kMostFloat, ". Calibrate by min_max");
    batch.low = std::min(batch.low, values[i]), batch.high = std::max(batch.high, values[i]);
  }
  const bool first = count_ == 0;
  auto averaged = [&](double mean, double now) { return first ? now : mean + options_.averaging * (now - mean); };
  average_ = {averaged(average_.low, batch.low), averaged(average_.high, batch.high)};
  seen_ = first ? batch : Range{std::min(seen_.low, batch.low), std::max(seen_.high, batch.high)};
  count_ += static_cast<int64_t>(values.size());
  if (has_histogram) count_in_bins(values);
}

void RangeObserver::count_in_bins(std::span<const double> x) {
  double threshold = 0;
  for (double each : x) threshold = std::max(threshold, std::abs(each));
  threshold = static_cast<float>(threshold);  // of f64: what f32 has no number for counts as 0
  Histogram& h = histogram_;
  if (h.counts.empty() || h.edges.back() == 0) {
    // Nothing but zeros so far: what they are counted in widens with the first other number.
    const auto zeros = std::accumulate(h.counts.begin(), h.counts.end(), int64_t{0});
    h.counts.assign(static_cast<size_t>(options_.bins), 0);
    h.edges = edges_between(threshold, h.counts.size());
    if (threshold == 0) {
      h.counts[h.counts.size() / 2] += zeros + static_cast<int64_t>(x.size());
      return;
    }
    h.counts[bin_of(0, h.edges)] += zeros;
  } else if (threshold > h.edges.back()) {
    const double old = h.edges.back(), width = 2 * old / static_cast<double>(h.counts.size());
    const double grown = std::floor((threshold - old) / width) + 1;  // at each end
    const bool entropy = options_.method == CalibrationMethod::entropy;
    const double most = entropy ? double{kMostEntropyBins} : double{1 << 25};
    if (!(static_cast<double>(h.counts.size()) + 2 * grown <= most))
      fail(ErrorCode::invalid_argument, "a batch reaches ", threshold, " where those before it reached ", old,
           "; a histogram with bins of ", width, " cannot hold both in ", most,
           " bins. Shuffle the batches, or calibrate by ", entropy ? "percentile or " : "", "min_max");
    const auto more = static_cast<size_t>(grown);
    h.counts.insert(h.counts.begin(), more, 0);
    h.counts.resize(h.counts.size() + more, 0);
    h.edges = edges_between(old + static_cast<double>(more) * width, h.counts.size());
  }
  for (double each : x) ++h.counts[bin_of(each, h.edges)];
}

Range RangeObserver::percentile_range() const {
  const double cut = (100 - options_.percentile) / 200;
  std::vector<double> below(histogram_.counts.size());  // the part of the numbers up to the end of each bin
  double sum = 0;
  for (size_t i = 0; i < below.size(); ++i)
    below[i] = sum += static_cast<double>(histogram_.counts[i]) / static_cast<double>(count_);
  auto edge_at = [&](double part) {
    auto found = std::lower_bound(below.begin(), below.end(), part) - below.begin();
    return histogram_.edges[std::min(static_cast<size_t>(found), below.size() - 1)];
  };
  return within(seen_, {edge_at(cut), edge_at(1 - cut)});
}

Range RangeObserver::entropy_range() const {
  const std::vector<int64_t>& counts = histogram_.counts;
  const auto levels = static_cast<size_t>(options_.levels);
  const size_t middle = counts.size() / 2;
  double least = std::numeric_limits<double>::infinity();
  Range best = {histogram_.edges.front(), histogram_.edges.back()};
  Divergences divergences(counts, levels);
  for (size_t half = levels / 2; half <= middle; ++half) {
    const size_t begin = middle - half, end = std::min(middle + half + 1, counts.size());
    const double d = divergences.of(begin, end);
    // Of equal ones the first: exact zeros, which a range with as many levels as bins has, come out as 1e-15 or so.
    constexpr double kRounding = 1e-12;
    if (d < least - kRounding) least = d, best = {histogram_.edges[begin], histogram_.edges[end]};
  }
  return within(seen_, best);
}

Range RangeObserver::range() const {
  if (count_ == 0) fail(ErrorCode::invalid_argument, "there are no calibration data: nothing was observed");
  switch (options_.method) {
    case CalibrationMethod::min_max: break;
    case CalibrationMethod::moving_average: return average_;
    case CalibrationMethod::percentile: return histogram_.edges.back() == 0 ? seen_ : percentile_range();
    case CalibrationMethod::entropy: return histogram_.edges.back() == 0 ? seen_ : entropy_range();
  }
  return seen_;
}

}  // namespace rlx
