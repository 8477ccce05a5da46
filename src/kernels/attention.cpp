// Attention with the scores transposed: a block of queries lies along the vector lanes, keys go down. So keys and
// values are read where they are (single elements of k and of the weights are broadcast from memory), only the block
// of queries is packed, the softmax needs no reduction across lanes, and splitting the queries over threads repeats
// no work. Keys are taken in tiles with a running maximum and sum (Milakov and Gimelshein 2018; Dao et al. 2022).
// Scores are kept in units of ln 2, which saves a product per weight.
#include "kernels/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/highway_targets.h"
#include "kernels/narrow_float.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/elementary-inl.h"
#include "kernels/narrow_float-inl.h"

#ifndef RLX_KERNELS_ATTENTION_ONCE
#define RLX_KERNELS_ATTENTION_ONCE
namespace rlx::kernels {
namespace {

constexpr int64_t kMaxQueries = 48;  ///< queries of a block on the widest target: three vectors of 16
constexpr int64_t kKeys = 128;       ///< keys of a tile
constexpr int64_t kMaxLanes = 16;
// -inf as a running maximum would make -inf - -inf; every score above it is a key that counts.
constexpr float kNoMaximum = std::numeric_limits<float>::lowest();

int64_t rounded_up(int64_t n, int64_t step) { return (n + step - 1) / step * step; }

/// Floats of scratch; each part is a multiple of 16 floats.
struct Layout {
  int64_t queries, scores, out, keys, values, total;
  Layout(int64_t head_dim, int64_t value_dim) {
    queries = 3 * kMaxQueries;  // after the running maxima, sums and factors
    scores = queries + rounded_up(head_dim, 16) * kMaxQueries;
    out = scores + kKeys * kMaxQueries;
    keys = out + kMaxQueries * rounded_up(value_dim, kMaxLanes);
    values = keys + kKeys * rounded_up(head_dim, 16);
    total = values + kKeys * rounded_up(value_dim, kMaxLanes);
  }
};

/// The keys that a query at position `p` of all keys may see.
struct KeyRange {
  int64_t begin, end;
};
KeyRange keys_of(const AttentionArgs& a, int64_t query) {
  const int64_t p = a.k_rows - a.q_rows + query;
  const int64_t begin = a.left < 0 ? 0 : std::max<int64_t>(0, p - a.left);
  const int64_t end = a.right < 0 ? a.k_rows : std::min(a.k_rows, p + a.right + 1);
  return {std::min(begin, a.k_rows), std::max(begin, end)};
}

bool keeps_key(const AttentionArgs& a, int64_t key) {
  switch (a.key_mask_dtype) {
    case DType::boolean: return static_cast<const uint8_t*>(a.key_mask)[key] != 0;
    case DType::f16: return to_f32(static_cast<const F16*>(a.key_mask)[key]) >= 0.5f;
    case DType::bf16: return to_f32(static_cast<const BF16*>(a.key_mask)[key]) >= 0.5f;
    case DType::f64: return static_cast<const double*>(a.key_mask)[key] >= 0.5;
    default: return static_cast<const float*>(a.key_mask)[key] >= 0.5f;
  }
}
float bias_at(const AttentionArgs& a, int64_t at) {
  switch (a.bias_dtype) {
    case DType::f16: return to_f32(static_cast<const F16*>(a.bias)[at]);
    case DType::bf16: return to_f32(static_cast<const BF16*>(a.bias)[at]);
    case DType::f64: return static_cast<float>(static_cast<const double*>(a.bias)[at]);
    default: return static_cast<const float*>(a.bias)[at];
  }
}

}  // namespace
}  // namespace rlx::kernels
#endif  // RLX_KERNELS_ATTENTION_ONCE

HWY_BEFORE_NAMESPACE();
namespace rlx::kernels {
namespace HWY_NAMESPACE {
namespace {

// Register blocks: 32 vector registers hold 24 accumulators, 16 hold 12.
#if HWY_TARGET == HWY_AVX3
constexpr int64_t kKeyRows = 8;     // keys x 3 vectors of queries
constexpr int64_t kQueryRows = 12;  // queries x 2 vectors of values
#else
constexpr int64_t kKeyRows = 4;
constexpr int64_t kQueryRows = 6;
#endif
constexpr int64_t kVectors = 3;

/// scores[j][lanes] = sum over c of k[j][c] * queries[c][lanes], for kRows keys and kWidth vectors of queries.
template <int64_t kRows, int64_t kWidth>
HWY_INLINE void score_block(const float* HWY_RESTRICT queries, int64_t query_stride, const float* HWY_RESTRICT k,
                            int64_t k_stride, int64_t head_dim, float* HWY_RESTRICT scores) {
  const F32Tag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  F32Vec sum[kRows][kWidth];
  RLX_UNROLL for (int64_t j = 0; j < kRows; ++j) RLX_UNROLL for (int64_t w = 0; w < kWidth; ++w) sum[j][w] =
      hn::Zero(d);
  for (int64_t c = 0; c < head_dim; ++c) {
    F32Vec q[kWidth];
    RLX_UNROLL for (int64_t w = 0; w < kWidth; ++w) q[w] = hn::Load(d, queries + c * query_stride + w * lanes);
    RLX_UNROLL for (int64_t j = 0; j < kRows; ++j) {
      const F32Vec key = hn::Set(d, k[j * k_stride + c]);
      RLX_UNROLL for (int64_t w = 0; w < kWidth; ++w) sum[j][w] = hn::MulAdd(key, q[w], sum[j][w]);
    }
  }
  RLX_UNROLL for (int64_t j = 0; j < kRows; ++j) RLX_UNROLL for (int64_t w = 0; w < kWidth; ++w)
      hn::Store(sum[j][w], d, scores + j * query_stride + w * lanes);
}

/// Scores of `keys` keys and all queries of the block.
template <int64_t kWidth>
void score_tile(const float* queries, int64_t query_stride, const float* k, int64_t k_stride, int64_t keys,
                int64_t head_dim, float* scores) {
  int64_t j = 0;
  for (; j + kKeyRows <= keys; j += kKeyRows)
    score_block<kKeyRows, kWidth>(queries, query_stride, k + j * k_stride, k_stride, head_dim,
                                  scores + j * query_stride);
  for (; j < keys; ++j)
    score_block<1, kWidth>(queries, query_stride, k + j * k_stride, k_stride, head_dim, scores + j * query_stride);
}

/// out[i][columns] = out[i][columns] * factor[i] + sum over j of weights[j][i] * v[j][columns], for kRows queries and
/// kWidth vectors of columns.
template <int64_t kRows, int64_t kWidth>
HWY_INLINE void value_block(const float* HWY_RESTRICT weights, int64_t query_stride, const float* HWY_RESTRICT v,
                            int64_t v_stride, int64_t keys, const float* HWY_RESTRICT factor, bool is_first,
                            float* HWY_RESTRICT out, int64_t out_stride) {
  const F32Tag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  F32Vec sum[kRows][kWidth];
  RLX_UNROLL for (int64_t i = 0; i < kRows; ++i) RLX_UNROLL for (int64_t w = 0; w < kWidth; ++w) sum[i][w] =
      is_first ? hn::Zero(d) : hn::Mul(hn::Load(d, out + i * out_stride + w * lanes), hn::Set(d, factor[i]));
  for (int64_t j = 0; j < keys; ++j) {
    F32Vec value[kWidth];
    RLX_UNROLL for (int64_t w = 0; w < kWidth; ++w) value[w] = hn::LoadU(d, v + j * v_stride + w * lanes);
    RLX_UNROLL for (int64_t i = 0; i < kRows; ++i) {
      const F32Vec weight = hn::Set(d, weights[j * query_stride + i]);
      RLX_UNROLL for (int64_t w = 0; w < kWidth; ++w) sum[i][w] = hn::MulAdd(weight, value[w], sum[i][w]);
    }
  }
  RLX_UNROLL for (int64_t i = 0; i < kRows; ++i) RLX_UNROLL for (int64_t w = 0; w < kWidth; ++w)
      hn::Store(sum[i][w], d, out + i * out_stride + w * lanes);
}

template <int64_t kWidth>
void value_columns(const float* weights, int64_t query_stride, const float* v, int64_t v_stride, int64_t keys,
                   const float* factor, bool is_first, float* out, int64_t out_stride, int64_t queries) {
  int64_t i = 0;
  for (; i + kQueryRows <= queries; i += kQueryRows)
    value_block<kQueryRows, kWidth>(weights + i, query_stride, v, v_stride, keys, factor + i, is_first,
                                    out + i * out_stride, out_stride);
  for (; i + 4 <= queries; i += 4)
    value_block<4, kWidth>(weights + i, query_stride, v, v_stride, keys, factor + i, is_first, out + i * out_stride,
                           out_stride);
  for (; i < queries; ++i)
    value_block<1, kWidth>(weights + i, query_stride, v, v_stride, keys, factor + i, is_first, out + i * out_stride,
                           out_stride);
}

/// What a block of queries works with: pointers into scratch.
struct Block {
  float* maximum;  ///< of each query, in units of ln 2
  float* sum;
  float* factor;         ///< what to multiply earlier results with
  float* queries;        ///< packed: [head_dim][stride], scaled
  float* scores;         ///< [keys][stride]
  float* out;            ///< [queries][out_stride]
  int64_t first, count;  ///< rows of q
  int64_t stride, out_stride;
};

/// queries[c][i] = q[first + i][c] * scale; lanes behind the last query are 0.
template <class T>
void pack_queries(const AttentionArgs& a, const Block& b, float scale) {
  const T* q = static_cast<const T*>(a.q) + b.first * a.q_stride;
  const hn::Full128<float> d;
  int64_t i = 0;
  if constexpr (std::is_same_v<T, float>) {
    // 4 x 4 at a time through registers.
    const auto s = hn::Set(d, scale);
    for (; i + 4 <= b.count; i += 4) {
      int64_t c = 0;
      for (; c + 4 <= a.head_dim; c += 4) {
        const float* from = q + i * a.q_stride + c;
        const auto r0 = hn::LoadU(d, from), r1 = hn::LoadU(d, from + a.q_stride);
        const auto r2 = hn::LoadU(d, from + 2 * a.q_stride), r3 = hn::LoadU(d, from + 3 * a.q_stride);
        const auto low = hn::InterleaveLower(d, r0, r2), low2 = hn::InterleaveLower(d, r1, r3);
        const auto high = hn::InterleaveUpper(d, r0, r2), high2 = hn::InterleaveUpper(d, r1, r3);
        float* to = b.queries + c * b.stride + i;
        hn::Store(hn::Mul(hn::InterleaveLower(d, low, low2), s), d, to);
        hn::Store(hn::Mul(hn::InterleaveUpper(d, low, low2), s), d, to + b.stride);
        hn::Store(hn::Mul(hn::InterleaveLower(d, high, high2), s), d, to + 2 * b.stride);
        hn::Store(hn::Mul(hn::InterleaveUpper(d, high, high2), s), d, to + 3 * b.stride);
      }
      for (; c < a.head_dim; ++c)
        for (int64_t k = 0; k < 4; ++k) b.queries[c * b.stride + i + k] = q[(i + k) * a.q_stride + c] * scale;
    }
  }
  for (; i < b.stride; ++i)
    for (int64_t c = 0; c < a.head_dim; ++c)
      b.queries[c * b.stride + i] = i < b.count ? to_f32(q[i * a.q_stride + c]) * scale : 0.0f;
}

/// Rows of k or v as f32: where they are, or converted into scratch (then padded to whole vectors).
struct Rows {
  const float* data;
  int64_t stride;
};
template <class T>
Rows f32_rows(const T* rows, int64_t stride, int64_t count, int64_t width, bool pad, float* scratch) {
  const F32Tag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const bool is_whole = width % lanes == 0;
  if constexpr (std::is_same_v<T, float>) {
    if (is_whole || !pad) return {rows, stride};
  }
  const int64_t to_stride = rounded_up(width, kMaxLanes);
  for (int64_t j = 0; j < count; ++j) {
    const T* from = rows + j * stride;
    float* to = scratch + j * to_stride;
    int64_t c = 0;
    for (; c + lanes <= width; c += lanes) hn::Store(load_f32(d, from + c), d, to + c);
    if (c < width) hn::Store(load_f32_some(d, from + c, static_cast<size_t>(width - c)), d, to + c);
  }
  return {scratch, to_stride};
}

constexpr float kLn2 = 0.693147181f;

/// s = c tanh(s / c)
void cap_scores(const Block& b, int64_t keys, float cap) {
  const F32Tag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const F32Vec inward = hn::Set(d, kLn2 / cap), outward = hn::Set(d, cap / kLn2);
  for (int64_t i = 0; i < keys * b.stride; i += lanes)
    hn::Store(hn::Mul(TanhFast(d, hn::Mul(hn::Load(d, b.scores + i), inward)), outward), d, b.scores + i);
}

/// Adds bias[query][key]; the scores are transposed, so 4 x 4 at a time through registers where it is f32.
void add_bias(const AttentionArgs& a, const Block& b, int64_t key, int64_t keys) {
  const int64_t origin = b.first * a.bias_row_stride + key * a.bias_col_stride;
  int64_t i = 0;
  if (a.bias_dtype == f32 && a.bias_col_stride == 1) {
    const hn::Full128<float> d;
    const auto unit = hn::Set(d, 1 / kLn2);
    for (; i + 4 <= b.count; i += 4) {
      int64_t j = 0;
      for (; j + 4 <= keys; j += 4) {
        const float* from = static_cast<const float*>(a.bias) + origin + i * a.bias_row_stride + j;
        const auto r0 = hn::LoadU(d, from), r1 = hn::LoadU(d, from + a.bias_row_stride);
        const auto r2 = hn::LoadU(d, from + 2 * a.bias_row_stride), r3 = hn::LoadU(d, from + 3 * a.bias_row_stride);
        const auto low = hn::InterleaveLower(d, r0, r2), low2 = hn::InterleaveLower(d, r1, r3);
        const auto high = hn::InterleaveUpper(d, r0, r2), high2 = hn::InterleaveUpper(d, r1, r3);
        float* to = b.scores + j * b.stride + i;
        const auto add = [&](auto v, float* at) HWY_ATTR { hn::StoreU(hn::MulAdd(v, unit, hn::LoadU(d, at)), d, at); };
        add(hn::InterleaveLower(d, low, low2), to);
        add(hn::InterleaveUpper(d, low, low2), to + b.stride);
        add(hn::InterleaveLower(d, high, high2), to + 2 * b.stride);
        add(hn::InterleaveUpper(d, high, high2), to + 3 * b.stride);
      }
      for (; j < keys; ++j)
        for (int64_t k = i; k < i + 4; ++k)
          b.scores[j * b.stride + k] += bias_at(a, origin + k * a.bias_row_stride + j) / kLn2;
    }
  }
  for (; i < b.count; ++i)
    for (int64_t j = 0; j < keys; ++j)
      b.scores[j * b.stride + i] += bias_at(a, origin + i * a.bias_row_stride + j * a.bias_col_stride) / kLn2;
}

/// Sets what the masks exclude to -inf.
void mask_scores(const AttentionArgs& a, const Block& b, int64_t key, int64_t keys) {
  constexpr float excluded = -std::numeric_limits<float>::infinity();
  for (int64_t j = 0; j < keys; ++j) {
    float* row = b.scores + j * b.stride;
    if (a.key_mask && !keeps_key(a, key + j)) {
      std::fill(row, row + b.stride, excluded);
      continue;
    }
    // The queries i of this block that see the key have key - right <= position + i <= key + left.
    const int64_t position = a.k_rows - a.q_rows + b.first;
    const int64_t first = a.right < 0 ? 0 : std::clamp<int64_t>(key + j - a.right - position, 0, b.count);
    const int64_t last = a.left < 0 ? b.count : std::clamp<int64_t>(key + j + a.left - position + 1, 0, b.count);
    std::fill(row, row + first, excluded);
    std::fill(row + last, row + b.count, excluded);
  }
}

/// Replaces the scores by weights exp(score - maximum) and brings maximum, sum and factor up to date.
void weigh_scores(const Block& b, int64_t keys, bool is_first) {
  const F32Tag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t i = 0; i < b.stride; i += lanes) {
    float* column = b.scores + i;
    const F32Vec before = is_first ? hn::Set(d, kNoMaximum) : hn::Load(d, b.maximum + i);
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
      const F32Vec w = Exp2Nonpositive(d, hn::Sub(hn::Load(d, at), m));
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
      const F32Vec factor = Exp2Nonpositive(d, hn::Sub(before, m));
      sum = hn::MulAdd(hn::Load(d, b.sum + i), factor, sum);
      hn::Store(factor, d, b.factor + i);
    }
    hn::Store(m, d, b.maximum + i);
    hn::Store(sum, d, b.sum + i);
  }
}

template <class T>
void attend_block(const AttentionArgs& a, const Block& b, float* key_scratch, float* value_scratch) {
  const F32Tag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t columns = rounded_up(a.value_dim, lanes);
  pack_queries<T>(a, b, static_cast<float>(a.scale) / kLn2);
  // What any query of the block may see; ranges only move forward from one query to the next.
  const int64_t key_begin = keys_of(a, b.first).begin, key_end = keys_of(a, b.first + b.count - 1).end;
  const bool is_masked = a.key_mask || a.left >= 0 || a.right >= 0;
  bool is_first = true;
  for (int64_t key = key_begin; key < key_end; key += kKeys) {
    const int64_t keys = std::min(kKeys, key_end - key);
    const Rows k =
        f32_rows(static_cast<const T*>(a.k) + key * a.k_stride, a.k_stride, keys, a.head_dim, false, key_scratch);
    switch (b.stride / lanes) {
      case 1: score_tile<1>(b.queries, b.stride, k.data, k.stride, keys, a.head_dim, b.scores); break;
      case 2: score_tile<2>(b.queries, b.stride, k.data, k.stride, keys, a.head_dim, b.scores); break;
      default: score_tile<3>(b.queries, b.stride, k.data, k.stride, keys, a.head_dim, b.scores); break;
    }
    if (a.soft_cap > 0) cap_scores(b, keys, static_cast<float>(a.soft_cap));
    if (a.bias) add_bias(a, b, key, keys);
    if (is_masked) mask_scores(a, b, key, keys);
    weigh_scores(b, keys, is_first);
    const Rows v =
        f32_rows(static_cast<const T*>(a.v) + key * a.v_stride, a.v_stride, keys, a.value_dim, true, value_scratch);
    int64_t c = 0;
    for (; c + 2 * lanes <= columns; c += 2 * lanes)
      value_columns<2>(b.scores, b.stride, v.data + c, v.stride, keys, b.factor, is_first, b.out + c, b.out_stride,
                       b.count);
    if (c < columns)
      value_columns<1>(b.scores, b.stride, v.data + c, v.stride, keys, b.factor, is_first, b.out + c, b.out_stride,
                       b.count);
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
  const Layout layout(a.head_dim, a.value_dim);
  for (int64_t row = row_begin; row < row_end;) {
    Block b{};
    b.maximum = scratch, b.sum = scratch + kMaxQueries, b.factor = scratch + 2 * kMaxQueries;
    b.queries = scratch + layout.queries, b.scores = scratch + layout.scores, b.out = scratch + layout.out;
    b.first = row;
    b.count = std::min(kVectors * lanes, row_end - row);
    b.stride = rounded_up(b.count, lanes);
    b.out_stride = rounded_up(a.value_dim, kMaxLanes);
    attend_block<T>(a, b, scratch + layout.keys, scratch + layout.values);
    row += b.count;
  }
}

void attention_f32(const AttentionArgs& a, int64_t row_begin, int64_t row_end, float* scratch) {
  if (a.dtype == f16) attend<F16>(a, row_begin, row_end, scratch);
  else if (a.dtype == bf16) attend<BF16>(a, row_begin, row_end, scratch);
  else attend<float>(a, row_begin, row_end, scratch);
}
int64_t query_block() { return kVectors * static_cast<int64_t>(hn::Lanes(F32Tag())); }

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace rlx::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rlx::kernels {
namespace {
HWY_EXPORT(attention_f32);
HWY_EXPORT(query_block);

/// The plain form, one query at a time: for f64, and to measure the other against.
void attention_f64(const AttentionArgs& a, int64_t row_begin, int64_t row_end, double* weights) {
  for (int64_t row = row_begin; row < row_end; ++row) {
    const double* q = static_cast<const double*>(a.q) + row * a.q_stride;
    double* out = static_cast<double*>(a.out) + row * a.out_stride;
    std::fill(out, out + a.value_dim, 0.0);
    const KeyRange range = keys_of(a, row);
    double maximum = -std::numeric_limits<double>::infinity(), sum = 0;
    // Online as well, key by key: scratch does not depend on the number of keys.
    std::fill(weights, weights + a.value_dim, 0.0);
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
      for (int64_t c = 0; c < a.value_dim; ++c) weights[c] = weights[c] * before + weight * v[c];
      maximum = larger;
    }
    for (int64_t c = 0; c < a.value_dim; ++c) out[c] = sum == 0 ? 0 : weights[c] / sum;
  }
}

}  // namespace

size_t attention_scratch_bytes(const AttentionArgs& args) {
  if (args.dtype == f64) return static_cast<size_t>(args.value_dim) * sizeof(double);
  return static_cast<size_t>(Layout(args.head_dim, args.value_dim).total) * sizeof(float);
}
int64_t attention_row_block() { return HWY_DYNAMIC_DISPATCH(query_block)(); }

void attention(const AttentionArgs& args, int64_t row_begin, int64_t row_end, void* scratch) noexcept {
  if (args.dtype == f64) attention_f64(args, row_begin, row_end, static_cast<double*>(scratch));
  else HWY_DYNAMIC_DISPATCH(attention_f32)(args, row_begin, row_end, static_cast<float*>(scratch));
}

}  // namespace rlx::kernels
#endif  // HWY_ONCE
