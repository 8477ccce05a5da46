// Attention: q and k from the rows' distribution, v, head by head, from the weights'. Constant operands are k and v.
//
// A score s_j = scale sum q k_j is an exponent, so that its absolute error d_j moves the result y = sum_j p_j v_j, p =
// softmax(s), by sum_j p_j d_j (v_j - y) in first order. In f32 d_j is some 2^-24 (scale sum |q| |k_j| + |s_j - max
// s|): the sum's own rounding, and those of the difference and of the exponential's reduction. To this comes what the
// weights themselves and their sum with v lose. So the unit of an element is
//
//   2^-24 sum_j p_j (|v_j - y| (scale sum |q| |k_j| + |s_j - max s|) + |v_j|) + 2^-150 (1 + sum_j |v_j|)
//
// The last term are roundings near the least subnormal number. First order means small d_j: q is divided by a power of
// two where scale sum |q| |k| would exceed 2^10, so that d_j stays below some 2^-11. That leaves softmaxes that see one
// key alone, and it leaves unlike numbers unlike. With one key the result is v, bit by bit.
//
// The peers' way is NumPy's: scores, softmax with the standard library's exp in f32 and a sum in eight parts, and
// weights times v.
#include <algorithm>
#include <array>
#include <cmath>

#include "bench/product_accuracy/products.h"

namespace rlx::accuracy {
namespace {

struct AttentionSize {
  int64_t heads = 1, kv_heads = 1, queries = 1, keys = 1, width = 64, value_width = 64, batch = 1;
  bool causal = false;

  std::string text() const {
    return text_of(batch, 'x', heads, kv_heads != heads ? text_of(" (", kv_heads, ')') : "", "x", queries, " on ", keys,
                   " of ", width, value_width != width ? text_of(" (", value_width, ')') : "", causal ? " causal" : "");
  }
  /// How many keys a query sees.
  int64_t seen(int64_t query) const { return causal ? keys - queries + query + 1 : keys; }
  /// Where a head of k and v begins, in positions, that a head of q reads.
  int64_t first_key(int64_t head) const { return (head / heads * kv_heads + head % heads * kv_heads / heads) * keys; }
  double scale() const { return 1 / std::sqrt(static_cast<double>(width)); }
};

/// What product(x, w) takes of a head of k, and of v.
template <class T>
std::span<const T> head_of(const std::vector<T>& all, const AttentionSize& s, int64_t head, int64_t width) {
  return std::span<const T>(all).subspan(static_cast<size_t>(s.first_key(head) * width),
                                         static_cast<size_t>(s.keys * width));
}

float sum_in_parts(const float* values, int64_t count) {
  std::array<float, 8> parts{};
  for (int64_t i = 0; i < count; ++i) parts[static_cast<size_t>(i % 8)] += values[i];
  return ((parts[0] + parts[1]) + (parts[2] + parts[3])) + ((parts[4] + parts[5]) + (parts[6] + parts[7]));
}

struct AttentionCase final : Case {
  AttentionSize size;

  AttentionCase(const AttentionSize& s, const Filling& filling, Random& random) : size(s) {
    Matrix q(s.batch * s.heads * s.queries, s.width), k(s.batch * s.kv_heads * s.keys, s.width);
    filling.rows(q, random), filling.rows(k, random);
    std::vector<float> v;
    for (int64_t head = 0; head < s.batch * s.kv_heads; ++head) {
      Matrix values(s.keys, s.value_width);
      filling.weights(values, random);
      v.insert(v.end(), values.values.begin(), values.values.end());
    }
    terms = std::max(s.width, s.keys), is_exact = s.keys == 1;
    operands = {{"q", {s.batch, s.heads, s.queries, s.width}, std::move(q.values)},
                {"k", {s.batch, s.kv_heads, s.keys, s.width}, std::move(k.values), true},
                {"v", {s.batch, s.kv_heads, s.keys, s.value_width}, std::move(v), true}};
    limit_scores();
    const std::vector<double> left = widened(operands[0].values), right = widened(operands[1].values),
                              values = widened(operands[2].values);
    for (int64_t head = 0; head < s.batch * s.heads; ++head) add_exact(left, right, values, head);
  }

  std::vector<Value> build(const std::vector<Value>& v) const override {
    AttentionAttrs attrs;
    attrs.heads = size.heads, attrs.kv_heads = size.kv_heads, attrs.causal = size.causal;
    return {attention(v[0], v[1], v[2], attrs)};
  }

  std::vector<float> by_peer(Peer peer) const override {
    const AttentionSize& s = size;
    std::vector<float> y;
    for (int64_t head = 0; head < s.batch * s.heads; ++head) {
      std::vector<float> p = product(peer, queries_of(operands[0].values, head),
                                     head_of(operands[1].values, s, head, s.width), {s.queries, s.width, s.keys, true});
      for (int64_t i = 0; i < s.queries; ++i) {
        float* row = p.data() + i * s.keys;
        const int64_t seen = s.seen(i);
        for (int64_t j = 0; j < seen; ++j) row[j] *= static_cast<float>(s.scale());
        const float most = *std::max_element(row, row + seen);
        for (int64_t j = 0; j < seen; ++j) row[j] = std::exp(row[j] - most);
        const float sum = sum_in_parts(row, seen);
        for (int64_t j = 0; j < s.keys; ++j) row[j] = j < seen ? row[j] / sum : 0;
      }
      const std::vector<float> part =
          product(peer, p, head_of(operands[2].values, s, head, s.value_width), {s.queries, s.keys, s.value_width});
      y.insert(y.end(), part.begin(), part.end());
    }
    return y;
  }

 private:
  template <class T>
  std::span<const T> queries_of(const std::vector<T>& q, int64_t head) const {
    const int64_t count = size.queries * size.width;
    return std::span<const T>(q).subspan(static_cast<size_t>(head * count), static_cast<size_t>(count));
  }

  void limit_scores() {
    constexpr double kMost = 1024;
    const std::vector<double> left = magnitudes(widened(operands[0].values)),
                              right = magnitudes(widened(operands[1].values));
    double most = 0;
    for (int64_t head = 0; head < size.batch * size.heads; ++head)
      for (const double sum : product(queries_of(left, head), head_of(right, size, head, size.width),
                                      {size.queries, size.width, size.keys, true}))
        most = std::max(most, sum * size.scale());
    scale_below(operands[0].values, most, kMost);
  }

  void add_exact(const std::vector<double>& q, const std::vector<double>& k, const std::vector<double>& v,
                 int64_t head) {
    const AttentionSize& s = size;
    const std::span<const double> left = queries_of(q, head), right = head_of(k, s, head, s.width),
                                  values = head_of(v, s, head, s.value_width);
    const ProductSize scores{s.queries, s.width, s.keys, true};
    const std::vector<double> sums = product(left, right, scores),
                              largest = product(magnitudes(left), magnitudes(right), scores);
    std::vector<double> p(static_cast<size_t>(s.keys)), moves(p.size());
    for (int64_t i = 0; i < s.queries; ++i) {
      const double *row = sums.data() + i * s.keys, *magnitude = largest.data() + i * s.keys;
      const size_t seen = static_cast<size_t>(s.seen(i));
      const double most = *std::max_element(row, row + seen);
      double sum = 0;
      for (size_t j = 0; j < seen; ++j) p[j] = std::exp((row[j] - most) * s.scale()), sum += p[j];
      for (size_t j = 0; j < seen; ++j) p[j] /= sum, moves[j] = s.scale() * (magnitude[j] + most - row[j]);
      for (int64_t d = 0; d < s.value_width; ++d) {
        const auto value = [&](size_t j) {
          return values[j * static_cast<size_t>(s.value_width) + static_cast<size_t>(d)];
        };
        double y = 0, one = 0, all = 0;
        for (size_t j = 0; j < seen; ++j) y += p[j] * value(j);
        for (size_t j = 0; j < seen; ++j)
          one += p[j] * (std::fabs(value(j) - y) * moves[j] + std::fabs(value(j))), all += std::fabs(value(j));
        exact.push_back(y), unit.push_back(0x1p-24 * one + 0x1p-150 * (1 + all));
      }
    }
  }
};

Problem attention_problem(const AttentionSize& s, unsigned seed) {
  return {s.text(), seed, [s](const Filling& f, Random& r) { return std::make_unique<AttentionCase>(s, f, r); }};
}

std::vector<Problem> attentions() {
  std::vector<Problem> all;
  for (const AttentionSize& s :
       {AttentionSize{2, 2, 1, 64, 64, 64}, AttentionSize{2, 1, 1, 500, 64, 64}, AttentionSize{2, 2, 17, 33, 32, 32},
        AttentionSize{2, 1, 40, 40, 64, 64, 1, true}, AttentionSize{1, 1, 64, 200, 64, 64},
        AttentionSize{1, 1, 24, 100, 80, 48, 2}, AttentionSize{1, 1, 5, 2500, 128, 128},
        AttentionSize{3, 3, 20, 1, 48, 48}, AttentionSize{4, 1, 3, 7, 20, 12},
        AttentionSize{1, 1, 130, 130, 32, 32, 1, true}, AttentionSize{2, 2, 9, 260, 96, 96}})
    all.push_back(attention_problem(s, static_cast<unsigned>(all.size()) + 1));
  return all;
}

Problem random_attention(Random& r) {
  AttentionSize s;
  s.kv_heads = between(r, 1, 2), s.heads = s.kv_heads * between(r, 1, 2), s.batch = r() % 4 == 0 ? 2 : 1;
  s.queries = mostly_small(r, 1, 96), s.keys = mostly_small(r, 1, 400), s.causal = r() % 3 == 0;
  if (s.causal) s.keys = std::max(s.keys, s.queries);
  s.width = mostly_small(r, 1, 128), s.value_width = r() % 2 == 0 ? s.width : mostly_small(r, 1, 128);
  return attention_problem(s, 0);
}

}  // namespace

const Op kAttention{"attention", attentions, random_attention};

}  // namespace rlx::accuracy
