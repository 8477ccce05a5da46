// Attention with transposed scores: a score block has a row for each key, and its queries lie along the vector lanes.
// So keys and values are read in their own memory (single elements of k and of the weights are broadcast), only the
// block of queries is packed, the softmax needs no reduction across lanes, and splitting the queries over threads
// repeats no work. Score blocks follow each other along the keys, with a running maximum and sum (Milakov and
// Gimelshein 2018; Dao et al. 2022). Weights are powers of 2: 1 / ln 2 is multiplied into the scale, which scores have
// anyway.
#include "kernels/attention/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/quant/blocks.h"
#include "kernels/vector/highway_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention/attention.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/attention/amx_attention-inl.h"
#include "kernels/attention/bf16_scores-inl.h"
#include "kernels/attention/score_blocks-inl.h"

#ifndef RLX_KERNELS_ATTENTION_ONCE
#define RLX_KERNELS_ATTENTION_ONCE
namespace rlx::kernels {
namespace {

/// Offsets in scratch, in floats; all are multiples of 16.
struct Layout {
  int64_t queries, scores, out, keys, values, total;
  Layout(int64_t head_dim, int64_t value_dim) {
    queries = 3 * kMaxBlockQueries;  // after the running maxima, sums and factors
    scores = queries + rounded_up_to(head_dim, 16) * kMaxBlockQueries;
    out = scores + kBlockKeys * kMaxBlockQueries;
    keys = out + kMaxBlockQueries * rounded_up_to(value_dim, kMaxF32Lanes);
    values = keys + kBlockKeys * rounded_up_to(head_dim, 16);
    total = values + kBlockKeys * rounded_up_to(value_dim, kMaxF32Lanes);
  }
};

}  // namespace
}  // namespace rlx::kernels
#endif  // RLX_KERNELS_ATTENTION_ONCE

HWY_BEFORE_NAMESPACE();
namespace rlx::kernels {
namespace HWY_NAMESPACE {
namespace {

/// Replaces the scores by weights score_base^(score - maximum) and updates maximum, sum and factor.
void weigh_scores(const QueryBlock& b, int64_t keys, bool is_first) {
  const F32Tag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t i = 0; i < b.stride; i += lanes) {
    float* column = b.scores + i;
    const F32Vec before = is_first ? hn::Set(d, kNoScore) : hn::Load(d, b.maximum + i);
    F32Vec m0 = before, m1 = before, m2 = before, m3 = before;
    int64_t j = 0;
    for (; j + 4 <= keys; j += 4) {
      m0 = hn::Max(m0, hn::Load(d, column + j * b.stride));
      m1 = hn::Max(m1, hn::Load(d, column + (j + 1) * b.stride));
      m2 = hn::Max(m2, hn::Load(d, column + (j + 2) * b.stride));
      m3 = hn::Max(m3, hn::Load(d, column + (j + 3) * b.stride));
    }
    for (; j < keys; ++j) m0 = hn::Max(m0, hn::Load(d, column + j * b.stride));
    const F32Vec m = hn::Max(hn::Max(m0, m1), hn::Max(m2, m3));
    F32Vec s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
    const auto weigh = [&](int64_t row) HWY_ATTR {
      float* at = column + row * b.stride;
      const F32Vec w = PowerNonpositive(d, b.score_base, hn::Sub(hn::Load(d, at), m));
      hn::Store(w, d, at);
      return w;
    };
    for (j = 0; j + 4 <= keys; j += 4) {
      s0 = hn::Add(s0, weigh(j));
      s1 = hn::Add(s1, weigh(j + 1));
      s2 = hn::Add(s2, weigh(j + 2));
      s3 = hn::Add(s3, weigh(j + 3));
    }
    for (; j < keys; ++j) s0 = hn::Add(s0, weigh(j));
    F32Vec sum = hn::Add(hn::Add(s0, s1), hn::Add(s2, s3));
    if (!is_first) {
      const F32Vec factor = PowerNonpositive(d, b.score_base, hn::Sub(before, m));
      sum = hn::MulAdd(hn::Load(d, b.sum + i), factor, sum);
      hn::Store(factor, d, b.factor + i);
    }
    hn::Store(m, d, b.maximum + i);
    hn::Store(sum, d, b.sum + i);
  }
}

/// Keys of a block format that are decoded at a time: with heads of 128 elements, half of the first-level cache.
constexpr int64_t kDecodedKeys = 32;

/// The scores of `keys` keys in blocks, from `key` on: those of the same keys as f32, bit by bit.
void score_key_blocks(const AttentionArgs& a, const QueryBlock& b, int64_t key, int64_t keys, float* decoded) {
  const DTypeInfo& format = info(*a.k_format);
  const int64_t row_bytes = a.k_stride / format.block_elements * format.block_bytes;
  const auto* from = static_cast<const std::byte*>(a.k) + key * row_bytes;
  for (int64_t j = 0; j < keys; j += kDecodedKeys) {
    const int64_t count = std::min(kDecodedKeys, keys - j);
    decode_block_rows(*a.k_format, from + j * row_bytes, row_bytes, count, a.head_dim / format.block_elements, decoded,
                      a.head_dim);
    float* scores = b.scores + j * b.stride;
    if (b.query_stride > 0)
      score_few_keys(b.queries, b.query_stride, b.count, decoded, a.head_dim, count, a.head_dim, scores, b.stride);
    else score_keys(b.queries, b.stride, decoded, a.head_dim, count, a.head_dim, scores);
  }
}

/// The weighted sums of `keys` values in blocks, from `key` on, a column of blocks at a time: bit by bit as above.
void add_value_blocks(const AttentionArgs& a, const QueryBlock& b, int64_t key, int64_t keys, SumStart start,
                      float* decoded) {
  const DTypeInfo& format = info(*a.v_format);
  const int64_t row_bytes = a.v_stride / format.block_elements * format.block_bytes, width = format.block_elements;
  const auto* from = static_cast<const std::byte*>(a.v) + key * row_bytes;
  for (int64_t c = 0; c < a.value_dim; c += width, from += format.block_bytes) {
    decode_block_rows(*a.v_format, from, row_bytes, keys, 1, decoded, width);
    weighted_sums<false>(b.scores, b.stride, decoded, width, keys, start, b.factor, b.out + c, b.out_stride, b.count,
                         width);
  }
}

/// Packs the block's queries.
template <class T>
void pack_block(const AttentionArgs& a, const QueryBlock& b, float* scratch) {
  const T* q = static_cast<const T*>(a.q) + b.first * a.q_stride;
#if HWY_TARGET == HWY_AVX3 && RLX_HAS_TILES
  if constexpr (std::is_same_v<T, BF16>) {
    if (b.is_in_pairs) return pack_query_pairs(b, q, a.q_stride, a.head_dim);
  }
#endif
  if (b.query_stride > 0) return pack_few_queries(b, q, a.q_stride, a.head_dim, query_factor(a));
  const F32Rows rows = f32_rows(q, a.q_stride, b.count, a.head_dim, false, scratch);
  pack_queries(b, rows.data, rows.stride, a.head_dim, query_factor(a), b.queries);
}

/// The scores of `keys` keys from `key` on.
template <class T>
void score_block_of(const AttentionArgs& a, const QueryBlock& b, int64_t key, int64_t keys, float* scratch) {
  if (a.k_format) return score_key_blocks(a, b, key, keys, scratch);
  const T* rows = static_cast<const T*>(a.k) + key * a.k_stride;
#if HWY_TARGET == HWY_AVX3 && RLX_HAS_TILES
  if constexpr (std::is_same_v<T, BF16>) {
    if (b.is_in_pairs) return score_key_pairs(b, rows, a.k_stride, keys, a.head_dim, query_factor(a));
  }
#endif
  if (b.query_stride > 0)
    return score_few_keys(b.queries, b.query_stride, b.count, rows, a.k_stride, keys, a.head_dim, b.scores, b.stride);
  const F32Rows k = f32_rows(rows, a.k_stride, keys, a.head_dim, false, scratch);
  score_keys(b.queries, b.stride, k.data, k.stride, keys, a.head_dim, b.scores);
}

template <class T>
void attend_block(const AttentionArgs& a, QueryBlock b, float* key_scratch, float* value_scratch) {
  const F32Tag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t columns = rounded_up_to(a.value_dim, lanes);
  b.score_base = score_base(a);
  const bool is_few = b.query_stride > 0;
  pack_block<T>(a, b, key_scratch);
  // All keys that a query of the block may see: from one query to the next, begin and end of its keys never decrease.
  const int64_t key_begin = visible_keys(a, b.first).begin, key_end = visible_keys(a, b.first + b.count - 1).end;
  const bool is_masked = a.key_mask || a.left >= 0 || a.right >= 0;
  bool is_first = true;
  for (int64_t key = key_begin; key < key_end; key += kBlockKeys) {
    const int64_t keys = std::min(kBlockKeys, key_end - key);
    score_block_of<T>(a, b, key, keys, key_scratch);
    if (a.soft_cap > 0) cap_scores(b, keys, static_cast<float>(a.soft_cap));
    if (a.bias) add_bias(a, b, key, keys);
    if (is_masked) mask_scores(a, b, key, keys);
    weigh_scores(b, keys, is_first);
    const T* v_rows = static_cast<const T*>(a.v) + key * a.v_stride;
    const SumStart start = is_first ? SumStart::zero : SumStart::scaled;
    const auto add = [&](const auto* rows, int64_t stride) {
      weighted_sums<false>(b.scores, b.stride, rows, stride, keys, start, b.factor, b.out, b.out_stride, b.count,
                           columns);
    };
    // Few queries read each element as often as it would be converted; whole vectors need no padding.
    if (a.v_format) {
      add_value_blocks(a, b, key, keys, start, value_scratch);
    } else if (is_few && columns == a.value_dim) {
      add(v_rows, a.v_stride);
    } else {
      const F32Rows v = f32_rows(v_rows, a.v_stride, keys, a.value_dim, true, value_scratch);
      add(v.data, v.stride);
    }
    is_first = false;
  }
  for (int64_t i = 0; i < b.count; ++i) {
    T* out = static_cast<T*>(a.out) + (b.first + i) * a.out_stride;
    // No key at all, or none that a mask let through: the sum is 0.
    const bool is_empty = is_first || b.sum[i] == 0;
    const F32Vec inverse = hn::Set(d, is_empty ? 0.0f : 1.0f / b.sum[i]);
    const float* row = b.out + i * b.out_stride;
    for (int64_t c = 0; c < a.value_dim; c += lanes) {
      const F32Vec y = is_empty ? hn::Zero(d) : hn::Mul(hn::Load(d, row + c), inverse);
      if (c + lanes <= a.value_dim) store_f32(y, d, out + c);
      else store_f32_some(y, d, out + c, static_cast<size_t>(a.value_dim - c));
    }
  }
}

template <class T>
void attend(const AttentionArgs& a, int64_t row_begin, int64_t row_end, float* scratch) {
  const F32Tag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
#if HWY_TARGET == HWY_AVX3 && RLX_HAS_TILES
  if (a.strategy.kernel == AttentionKernel::matrix_tiles && TiledAttention<T>(a, scratch).attend(row_begin, row_end))
    return;
#endif
  bool is_in_pairs = false;
#if HWY_TARGET == HWY_AVX3 && RLX_HAS_TILES
  if constexpr (std::is_same_v<T, BF16>) is_in_pairs = bf16_dots_give_scores(a);
#endif
  const Layout layout(a.head_dim, a.value_dim);
  for (int64_t row = row_begin; row < row_end;) {
    QueryBlock b{};
    b.is_in_pairs = is_in_pairs;
    b.maximum = scratch, b.sum = scratch + kMaxBlockQueries, b.factor = scratch + 2 * kMaxBlockQueries;
    b.queries = scratch + layout.queries, b.scores = scratch + layout.scores, b.out = scratch + layout.out;
    b.first = row;
    b.count = std::min(kQueryVectors * lanes, row_end - row);
    b.stride = rounded_up_to(b.count, lanes);
    b.out_stride = rounded_up_to(a.value_dim, kMaxF32Lanes);
    if (a.strategy.kernel == AttentionKernel::few_queries) b.query_stride = rounded_up_to(a.head_dim, lanes);
    attend_block<T>(a, b, scratch + layout.keys, scratch + layout.values);
    row += b.count;
  }
}

void attention_f32(const AttentionArgs& a, int64_t row_begin, int64_t row_end, float* scratch) {
  if (a.dtype == f16) attend<F16>(a, row_begin, row_end, scratch);
  else if (a.dtype == bf16) attend<BF16>(a, row_begin, row_end, scratch);
  else attend<float>(a, row_begin, row_end, scratch);
}
int64_t query_block() { return kQueryVectors * static_cast<int64_t>(hn::Lanes(F32Tag())); }

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace rlx::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rlx::kernels {
namespace {
HWY_EXPORT(attention_f32);
HWY_EXPORT(query_block);

/// The scalar reference, one query at a time. It computes f64.
void attention_f64(const AttentionArgs& a, int64_t row_begin, int64_t row_end, double* totals) {
  for (int64_t row = row_begin; row < row_end; ++row) {
    const double* q = static_cast<const double*>(a.q) + row * a.q_stride;
    double* out = static_cast<double*>(a.out) + row * a.out_stride;
    std::fill(out, out + a.value_dim, 0.0);
    const KeyRange range = visible_keys(a, row);
    double maximum = -std::numeric_limits<double>::infinity(), sum = 0;
    // A running maximum here too, key by key, so that scratch does not depend on the number of keys.
    std::fill(totals, totals + a.value_dim, 0.0);
    for (int64_t key = range.begin; key < range.end; ++key) {
      if (a.key_mask && !keeps_key(a, key)) continue;
      const double* k = static_cast<const double*>(a.k) + key * a.k_stride;
      double score = 0;
      for (int64_t c = 0; c < a.head_dim; ++c) score += q[c] * k[c];
      score *= a.scale;
      if (a.soft_cap > 0) score = a.soft_cap * std::tanh(score / a.soft_cap);
      if (a.bias) {
        const int64_t at = row * a.bias_row_stride + key * a.bias_col_stride;
        score += a.bias_dtype == f64 ? static_cast<const double*>(a.bias)[at] : static_cast<double>(bias_at(a, at));
      }
      if (score == -std::numeric_limits<double>::infinity()) continue;
      const double* v = static_cast<const double*>(a.v) + key * a.v_stride;
      const double larger = std::max(maximum, score);
      const double before = std::exp(maximum - larger), weight = std::exp(score - larger);
      sum = sum * before + weight;
      for (int64_t c = 0; c < a.value_dim; ++c) totals[c] = totals[c] * before + weight * v[c];
      maximum = larger;
    }
    for (int64_t c = 0; c < a.value_dim; ++c) out[c] = sum == 0 ? 0 : totals[c] / sum;
  }
}

}  // namespace

AttentionProblem problem_of(const AttentionArgs& args) {
  AttentionProblem p;
  p.dtype = args.dtype;
  p.q_rows = args.q_rows, p.k_rows = args.k_rows, p.head_dim = args.head_dim, p.value_dim = args.value_dim;
  p.scale = args.scale, p.has_soft_cap = args.soft_cap > 0, p.has_bias = args.bias != nullptr;
  p.has_blocks = args.k_format || args.v_format;
  return p;
}

size_t attention_scratch_bytes(const AttentionArgs& args) {
  if (args.strategy.kernel == AttentionKernel::rows) return static_cast<size_t>(args.value_dim) * sizeof(double);
  const auto by_vectors = static_cast<size_t>(Layout(args.head_dim, args.value_dim).total) * sizeof(float);
  if (args.strategy.kernel != AttentionKernel::matrix_tiles) return by_vectors;
  return std::max(by_vectors, static_cast<size_t>(TiledLayout(args).total));
}
int64_t attention_row_block() { return HWY_DYNAMIC_DISPATCH(query_block)(); }

void attention(const AttentionArgs& args, int64_t row_begin, int64_t row_end, void* scratch) noexcept {
  if (args.strategy.kernel == AttentionKernel::rows)
    attention_f64(args, row_begin, row_end, static_cast<double*>(scratch));
  else HWY_DYNAMIC_DISPATCH(attention_f32)(args, row_begin, row_end, static_cast<float*>(scratch));
}

}  // namespace rlx::kernels
#endif  // HWY_ONCE
