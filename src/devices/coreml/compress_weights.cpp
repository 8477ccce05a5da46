// See the header. Codes are `dequantize` and `dequantize_blockwise` of constants, and a palette is a constant of few
// different numbers; what the emitter makes of these is what Core ML reads when it loads a program (constexpr_*).
#include "devices/coreml/compress_weights.h"

#include <algorithm>
#include <cmath>

#include "backends/coreml/weights.h"
#include "ir/rewrite.h"
#include "passes/output_channels.h"
#include "rlx/element.h"
#include "rlx/ops.h"

namespace rlx::coreml {
namespace {

constexpr size_t kFewWeights = 2048;  // coremltools' weight_threshold
constexpr int64_t kGroup = 32;        // numbers that share a scale of int4

/// What a constant is read by.
struct WeightUse {
  bool is_weight = false;  ///< by products, lookups and what moves data alone: anything else would read rounded numbers
  std::optional<int64_t> channels = {};  ///< the axis of a product's output channels; else rows are channels
};

bool is_product(const Node& node) {
  return node.op == &op::conv || node.op == &op::convolution || node.op == &op::linear || node.op == &op::matmul ||
         node.op == &op::dot_general;
}

WeightUse use_of(const Graph& g, const Uses& uses, Ref constant) {
  WeightUse use;
  if (uses.outputs(constant) > 0) return use;
  for (const int32_t user : uses.of(constant)) {
    const Node& node = g.nodes()[static_cast<size_t>(user)];
    if (is_product(node)) {
      use.is_weight = true;
      if (node.operands[1] == constant && !use.channels) use.channels = output_channel_axis(node, g);
    } else if (node.operands[0] == constant && node.op->moves_data) {  // a lookup, or a transposition before a product
      use.is_weight = true;
    } else {
      return {};
    }
  }
  return use;
}

std::vector<float> numbers_of(const Tensor& t) {
  std::vector<float> numbers(t.element_count());
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(load_number(t, i));
  return numbers;
}

/// Scales of f16 below its normal numbers have too few bits.
DType scale_dtype(const std::vector<float>& scales, DType weights) {
  const auto is_small = [](float s) { return s != 0 && s < 0x1p-14F; };
  return weights == f16 && std::none_of(scales.begin(), scales.end(), is_small) ? f16 : f32;
}

/// Symmetric codes with a scale for each place of [before, groups, after], of `size` elements along the middle.
struct Codes {
  Tensor codes, scales;
  std::vector<float> numbers;  ///< that they stand for
};
Codes symmetric_codes(const Tensor& t, size_t axis, int64_t size, const Shape& scale_shape, DType dtype, float most) {
  const std::vector<float> x = numbers_of(t);
  const int64_t extent = t.shape()[axis];
  int64_t inner = 1;
  for (size_t d = axis + 1; d < t.rank(); ++d) inner *= t.shape()[d];
  const auto scale_of = [&](size_t i) {
    const auto at = static_cast<int64_t>(i);
    const int64_t outer = at / (inner * extent), place = at / inner % extent;
    // Scales of channels stand for all other axes; those of groups have them.
    return static_cast<size_t>(size == 0 ? place : (outer * (extent / size) + place / size) * inner + at % inner);
  };
  int64_t count = 1;
  for (const int64_t d : scale_shape) count *= d;
  std::vector<float> scales(static_cast<size_t>(count));
  for (size_t i = 0; i < x.size(); ++i) scales[scale_of(i)] = std::max(scales[scale_of(i)], std::abs(x[i]));
  for (float& s : scales) s /= most;
  Codes c{Tensor(dtype, t.shape()), Tensor(scale_dtype(scales, t.dtype()), scale_shape), x};
  for (size_t i = 0; i < scales.size(); ++i) {
    store<double>(c.scales, i, scales[i]);
    scales[i] = static_cast<float>(load_number(c.scales, i));  // as it is stored
  }
  for (size_t i = 0; i < x.size(); ++i) {
    const float s = scales[scale_of(i)], code = s > 0 ? std::nearbyint(x[i] / s) : 0;
    const float clamped = std::clamp(code, -most, most);
    store<int64_t>(c.codes, i, static_cast<int64_t>(clamped));
    c.numbers[i] = clamped * s;
  }
  return c;
}

/// Sums of sorted numbers, by which the squares of a run's distances from its mean are known at once.
class RunSums {
 public:
  explicit RunSums(const std::vector<float>& sorted) : sums_(sorted.size() + 1), squares_(sorted.size() + 1) {
    for (size_t i = 0; i < sorted.size(); ++i) {
      sums_[i + 1] = sums_[i] + sorted[i];
      squares_[i + 1] = squares_[i] + static_cast<double>(sorted[i]) * sorted[i];
    }
  }
  double mean(size_t begin, size_t end) const { return (sums_[end] - sums_[begin]) / static_cast<double>(end - begin); }
  double cost(size_t begin, size_t end) const {
    if (begin == end) return 0;
    const double sum = sums_[end] - sums_[begin];
    return squares_[end] - squares_[begin] - sum * sum / static_cast<double>(end - begin);
  }

 private:
  std::vector<double> sums_, squares_;
};

/// Divides sorted numbers at `cuts` into at most `count` runs with the least squares of distances from their means, and
/// gives these means. Wu, "Optimal quantization by matrix searching", J. Algorithms 12 (1991): the best last run of a
/// longer prefix begins no earlier, so that the middle prefix halves what the others try.
class BestRuns {
 public:
  BestRuns(const RunSums& sums, const std::vector<size_t>& cuts) : sums_(sums), cuts_(cuts) {}

  std::vector<double> means(size_t count) {
    const size_t prefixes = cuts_.size();  // of cells between cuts; the first one is empty
    least_.assign(prefixes, 0);
    for (size_t p = 0; p < prefixes; ++p) least_[p] = sums_.cost(cuts_[0], cuts_[p]);
    for (size_t run = 1; run < count; ++run) {
      before_ = least_;
      begins_.emplace_back(prefixes);
      divide(0, prefixes, 0, prefixes - 1);
    }
    std::vector<double> means;
    size_t end = prefixes - 1;
    for (size_t run = count; run-- > 0 && end > 0;) {
      const size_t begin = run == 0 ? 0 : begins_[run - 1][end];
      if (begin < end) means.push_back(sums_.mean(cuts_[begin], cuts_[end]));
      end = begin;
    }
    std::reverse(means.begin(), means.end());
    return means;
  }

 private:
  /// Finds where the last run of the prefixes [from, to) begins, between `low` and `high`.
  void divide(size_t from, size_t to, size_t low, size_t high) {
    if (from >= to) return;
    const size_t p = (from + to) / 2;
    double least = before_[p];
    size_t best = p;  // an empty run
    for (size_t begin = low; begin <= std::min(high, p); ++begin)
      if (const double cost = before_[begin] + sums_.cost(cuts_[begin], cuts_[p]); cost < least)
        least = cost, best = begin;
    least_[p] = least, begins_.back()[p] = static_cast<uint32_t>(best);
    divide(from, p, low, std::min(best, high));
    divide(p + 1, to, best, high);
  }

  const RunSums& sums_;
  const std::vector<size_t>& cuts_;
  std::vector<double> least_, before_;
  std::vector<std::vector<uint32_t>> begins_;
};

/// Cells that are narrow both in width and in how many numbers they have, as indices of sorted numbers.
std::vector<size_t> cells_of(const std::vector<float>& sorted) {
  constexpr size_t kCells = 2048;
  std::vector<size_t> cuts;
  const double low = sorted.front(), width = (static_cast<double>(sorted.back()) - low) / kCells;
  for (size_t c = 0; c <= kCells; ++c) {
    cuts.push_back(sorted.size() * c / kCells);
    const double at = low + width * static_cast<double>(c);
    cuts.push_back(static_cast<size_t>(std::lower_bound(sorted.begin(), sorted.end(), at) - sorted.begin()));
  }
  std::sort(cuts.begin(), cuts.end());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  return cuts;
}

/// The numbers of a tensor as the nearest of at most `count` numbers, by k-means: the best division of cells, then
/// rounds over the numbers themselves (Lloyd 1982).
Tensor clustered(const Tensor& t, size_t count) {
  constexpr int kMostRounds = 30;
  const std::vector<float> x = numbers_of(t);
  std::vector<float> sorted = x;
  std::sort(sorted.begin(), sorted.end());
  std::vector<float> distinct = sorted;
  distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
  if (distinct.size() <= count) return t;  // a palette as it is
  const RunSums sums(sorted);
  std::vector<double> centres = BestRuns(sums, cells_of(sorted)).means(count);
  count = centres.size();
  const auto end_of = [&](size_t c) {  // of the run that belongs to a centre
    if (c + 1 == count) return sorted.size();
    const double middle = (centres[c] + centres[c + 1]) / 2;
    return static_cast<size_t>(std::upper_bound(sorted.begin(), sorted.end(), middle) - sorted.begin());
  };
  for (int round = 0; round < kMostRounds; ++round) {
    const std::vector<double> before = centres;
    std::vector<size_t> ends(count);
    for (size_t c = 0; c < count; ++c) ends[c] = end_of(c);
    for (size_t c = 0, begin = 0; c < count; begin = ends[c++])
      if (ends[c] > begin) centres[c] = sums.mean(begin, ends[c]);
    if (centres == before) break;
  }
  Tensor y(t.dtype(), t.shape());
  for (size_t i = 0; i < x.size(); ++i) {
    auto right = std::lower_bound(centres.begin(), centres.end(), static_cast<double>(x[i]));
    if (right == centres.end() || (right != centres.begin() && x[i] - right[-1] < *right - x[i])) --right;
    store<double>(y, i, *right);
  }
  return y;
}

/// How large weights were and are, and the square of what they moved by.
struct Account {
  size_t tensors = 0, left = 0, bytes_before = 0, bytes = 0;
  double moved = 0, squares = 0;
};

class Compressor {
 public:
  Compressor(const Graph& g, PackageWeights form) : g_(g), uses_(g), form_(form) {}
  const Account& account() const { return account_; }

  std::optional<std::vector<Value>> operator()(const Site& site) {
    if (site.node.op != &op::constant) return {};
    const Tensor& t = site.node.attrs.as<ConstantAttrs>().value;
    const bool is_palette = form_ >= PackageWeights::palette8;
    if ((t.dtype() != f32 && t.dtype() != f16) || t.rank() < 2) return {};
    if (t.element_count() < (is_palette ? kManyWeights : kFewWeights)) return {};
    const WeightUse use = use_of(g_, uses_, {static_cast<int32_t>(site.index), 0});
    if (!use.is_weight) return {};
    const std::vector<float> numbers = numbers_of(t);
    if (!std::all_of(numbers.begin(), numbers.end(), [](float v) { return std::isfinite(v); })) {
      ++account_.left;
      return {};
    }
    const Value y = form_ == PackageWeights::int8   ? by_channel(site.to, t, use)
                    : form_ == PackageWeights::int4 ? by_group(site.to, t, use)
                                                    : by_palette(site.to, t);
    return std::vector{y};
  }

 private:
  Value by_channel(Graph& to, const Tensor& t, const WeightUse& use) {
    const auto axis = static_cast<size_t>(use.channels.value_or(0));
    const Codes c = symmetric_codes(t, axis, 0, {t.shape()[axis]}, i8, 127);
    count(t, c.numbers, c.codes.byte_count() + c.scales.byte_count());
    return as(dequantize(to.constant(c.codes), to.constant(c.scales), {}, static_cast<int64_t>(axis)), t.dtype());
  }
  Value by_group(Graph& to, const Tensor& t, const WeightUse& use) {
    // Along the input channels: the other axis of a matrix, the second one of a convolution's weights and of a table.
    const size_t axis = use.channels == std::optional<int64_t>(1) ? 0 : 1;
    const int64_t extent = t.shape()[axis], size = extent % kGroup == 0 ? kGroup : extent;
    Shape shape = t.shape();
    shape[axis] = extent / size;
    const Codes c = symmetric_codes(t, axis, size, shape, i4, 7);
    count(t, c.numbers, c.codes.byte_count() + c.scales.byte_count());
    return as(dequantize_blockwise(to.constant(c.codes), {to.constant(c.scales)}, static_cast<int64_t>(axis), size),
              t.dtype());
  }
  Value by_palette(Graph& to, const Tensor& t) {
    const int bits = form_ == PackageWeights::palette8   ? 8
                     : form_ == PackageWeights::palette6 ? 6
                     : form_ == PackageWeights::palette4 ? 4
                                                         : 2;
    const Tensor y = clustered(t, size_t{1} << bits);
    count(t, numbers_of(y), (t.element_count() * static_cast<size_t>(bits) + 7) / 8 + (byte_size(t.dtype()) << bits));
    return to.constant(y);
  }
  static Value as(Value v, DType dtype) { return v.dtype() == dtype ? v : convert(v, dtype); }

  void count(const Tensor& t, const std::vector<float>& after, size_t bytes) {
    ++account_.tensors, account_.bytes_before += t.byte_count(), account_.bytes += bytes;
    for (size_t i = 0; i < after.size(); ++i) {
      const double before = load_number(t, i);
      account_.moved += (after[i] - before) * (after[i] - before);
      account_.squares += before * before;
    }
  }

  const Graph& g_;
  Uses uses_;
  PackageWeights form_;
  Account account_;
};

}  // namespace

Graph compress_weights(const Graph& g, PackageWeights form, std::vector<std::string>& notes) {
  if (form == PackageWeights::as_built) return g;
  Compressor compressor(g, form);
  Graph smaller = rewritten(g, [&](const Site& site) { return compressor(site); });
  const Account& a = compressor.account();
  notes.push_back(text_of(a.tensors, a.tensors == 1 ? " tensor" : " tensors", " of weights in the form ",
                          names_of(form)[static_cast<size_t>(form)], ": ", a.bytes, " bytes in place of ",
                          a.bytes_before, "; the numbers moved by ", a.squares > 0 ? std::sqrt(a.moved / a.squares) : 0,
                          " of their root mean square"));
  if (a.left)
    notes.push_back(text_of(a.left, " tensors of weights have numbers that are not finite, and stay as they are"));
  return smaller;
}

}  // namespace rlx::coreml
