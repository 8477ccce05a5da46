// What attention and its gradient share: blocks of transposed scores (a row for each key, queries along the vector
// lanes), and soft cap, bias and masks, which come before the softmax. Compiled per target. Users: attention.cpp,
// attention_backward.cpp, and amx_attention-inl.h for soft cap, bias and masks alone. The file is longer than others
// because attention and its gradient have to mask and score alike, in one place.
#if defined(RLX_KERNELS_ATTENTION_SCORE_BLOCKS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RLX_KERNELS_ATTENTION_SCORE_BLOCKS_INL_H_
#undef RLX_KERNELS_ATTENTION_SCORE_BLOCKS_INL_H_
#else
#define RLX_KERNELS_ATTENTION_SCORE_BLOCKS_INL_H_
#endif

#include <algorithm>
#include <limits>
#include <type_traits>

#include "hwy/cache_control.h"
#include "hwy/highway.h"
#include "kernels/attention/attention.h"
#include "kernels/gemm/amx/tiles.h"
#include "kernels/partial_sums.h"
#include "kernels/vector/elementary-inl.h"
#include "kernels/vector/narrow_float-inl.h"
#include "kernels/vector/narrow_float.h"

#ifndef RLX_KERNELS_ATTENTION_SCORE_BLOCKS_ONCE
#define RLX_KERNELS_ATTENTION_SCORE_BLOCKS_ONCE
namespace rlx::kernels {

// The running maximum before any key: with -inf the weight of a masked key would be exp(-inf - -inf), a NaN.
inline constexpr float kNoScore = std::numeric_limits<float>::lowest();
// A finite bias excludes no key, also one that is near the lowest f32, as models write their masks: a row all of whose
// biases are so is uniform. Scores are divided by ln 2, which would make such a number -inf.
inline constexpr float kLowestBias = 0.69314f * std::numeric_limits<float>::lowest();

inline int64_t rounded_up_to(int64_t n, int64_t step) { return (n + step - 1) / step * step; }

/// The keys [begin, end) that `left` and `right` let a query see.
struct KeyRange {
  int64_t begin, end;
};
inline KeyRange visible_keys(const AttentionArgs& a, int64_t query) {
  const int64_t p = a.k_rows - a.q_rows + query;
  const int64_t begin = a.left < 0 ? 0 : std::max<int64_t>(0, p - a.left);
  const int64_t end = a.right < 0 ? a.k_rows : std::min(a.k_rows, p + a.right + 1);
  return {std::min(begin, a.k_rows), std::max(begin, end)};
}

inline bool keeps_key(const AttentionArgs& a, int64_t key) {
  switch (a.key_mask_dtype) {
    case DType::boolean: return static_cast<const uint8_t*>(a.key_mask)[key] != 0;
    case DType::f16: return to_f32(static_cast<const F16*>(a.key_mask)[key]) >= 0.5f;
    case DType::bf16: return to_f32(static_cast<const BF16*>(a.key_mask)[key]) >= 0.5f;
    case DType::f64: return static_cast<const double*>(a.key_mask)[key] >= 0.5;
    default: return static_cast<const float*>(a.key_mask)[key] >= 0.5f;
  }
}
inline float bias_at(const AttentionArgs& a, int64_t at) {
  switch (a.bias_dtype) {
    case DType::f16: return to_f32(static_cast<const F16*>(a.bias)[at]);
    case DType::bf16: return to_f32(static_cast<const BF16*>(a.bias)[at]);
    case DType::f64: return static_cast<float>(static_cast<const double*>(a.bias)[at]);
    default: return static_cast<const float*>(a.bias)[at];
  }
}

}  // namespace rlx::kernels
#endif  // RLX_KERNELS_ATTENTION_SCORE_BLOCKS_ONCE

HWY_BEFORE_NAMESPACE();
namespace rlx::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Register blocks: 24 accumulators of 32 vector registers, 12 of 16.
#if HWY_TARGET == HWY_AVX3
inline constexpr int64_t kKeyRows = 8;     // keys by 3 vectors of queries
inline constexpr int64_t kQueryRows = 12;  // queries by 2 vectors of values
#else
inline constexpr int64_t kKeyRows = 4;
inline constexpr int64_t kQueryRows = 6;
#endif

/// scores[j][lanes] = sum over c of k[j][c] * queries[c][lanes], for kRows keys and kWidth vectors of queries.
template <int64_t kRows, int64_t kWidth>
HWY_INLINE void score_micro_kernel(const float* HWY_RESTRICT queries, int64_t query_stride, const float* HWY_RESTRICT k,
                                   int64_t k_stride, int64_t head_dim, float* HWY_RESTRICT scores) {
  const F32Tag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t c = 0;
  bool adds = false;  // to a partial sum that is stored already
  do {
    const int64_t stop = std::min(head_dim, c + kPartialSumTerms);
    F32Vec sum[kRows][kWidth];
    RLX_UNROLL for (int64_t j = 0; j < kRows; ++j) RLX_UNROLL for (int64_t w = 0; w < kWidth; ++w) sum[j][w] =
        hn::Zero(d);
    for (; c < stop; ++c) {
      F32Vec q[kWidth];
      RLX_UNROLL for (int64_t w = 0; w < kWidth; ++w) q[w] = hn::Load(d, queries + c * query_stride + w * lanes);
      RLX_UNROLL for (int64_t j = 0; j < kRows; ++j) {
        const F32Vec key = hn::Set(d, k[j * k_stride + c]);
        RLX_UNROLL for (int64_t w = 0; w < kWidth; ++w) sum[j][w] = hn::MulAdd(key, q[w], sum[j][w]);
      }
    }
    if (HWY_UNLIKELY(adds)) {
      RLX_UNROLL for (int64_t j = 0; j < kRows; ++j) RLX_UNROLL for (int64_t w = 0; w < kWidth; ++w) sum[j][w] =
          hn::Add(hn::Load(d, scores + j * query_stride + w * lanes), sum[j][w]);
    }
    RLX_UNROLL for (int64_t j = 0; j < kRows; ++j) RLX_UNROLL for (int64_t w = 0; w < kWidth; ++w)
        hn::Store(sum[j][w], d, scores + j * query_stride + w * lanes);
    adds = true;
  } while (c < head_dim);
}

/// Computes the scores of `keys` keys and kWidth vectors of queries.
template <int64_t kWidth>
void score_block(const float* queries, int64_t query_stride, const float* k, int64_t k_stride, int64_t keys,
                 int64_t head_dim, float* scores) {
  int64_t j = 0;
  for (; j + kKeyRows <= keys; j += kKeyRows)
    score_micro_kernel<kKeyRows, kWidth>(queries, query_stride, k + j * k_stride, k_stride, head_dim,
                                         scores + j * query_stride);
  for (; j < keys; ++j)
    score_micro_kernel<1, kWidth>(queries, query_stride, k + j * k_stride, k_stride, head_dim,
                                  scores + j * query_stride);
}

/// The same for all queries of a block: `query_stride` is a multiple of the vector's lanes.
inline void score_keys(const float* queries, int64_t query_stride, const float* k, int64_t k_stride, int64_t keys,
                       int64_t head_dim, float* scores) {
  switch (query_stride / static_cast<int64_t>(hn::Lanes(F32Tag()))) {
    case 1: return score_block<1>(queries, query_stride, k, k_stride, keys, head_dim, scores);
    case 2: return score_block<2>(queries, query_stride, k, k_stride, keys, head_dim, scores);
    default: return score_block<3>(queries, query_stride, k, k_stride, keys, head_dim, scores);
  }
}

/// scores[j][i] = sum over c of k[j][c] * queries[i][c] for kRows queries, which are rows of whole vectors; the other
/// lanes of a row of scores are 0.
template <int64_t kRows, class T>
void score_few(const float* HWY_RESTRICT queries, int64_t query_stride, const T* HWY_RESTRICT k, int64_t k_stride,
               int64_t keys, int64_t head_dim, float* HWY_RESTRICT scores, int64_t score_stride) {
  constexpr int64_t kKeys = kRows == 1 ? 4 : kRows == 2 ? 2 : 1;  // sums enough that none waits for the one before
  constexpr int64_t kPrefetchedKeys =
      16;  // a stream of its own for each head and block: the processor alone begins late
  const F32Tag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto score = [&]<int64_t kCount>(int64_t j) HWY_ATTR {
    F32Vec sum[kCount][kRows];
    RLX_UNROLL for (int64_t n = 0; n < kCount; ++n) RLX_UNROLL for (int64_t i = 0; i < kRows; ++i) sum[n][i] =
        hn::Zero(d);
    const auto add = [&](int64_t c, auto load) HWY_ATTR {
      RLX_UNROLL for (int64_t n = 0; n < kCount; ++n) {
        const F32Vec key = load(k + (j + n) * k_stride + c);
        hwy::Prefetch(k + (j + n + kPrefetchedKeys) * k_stride + c);
        RLX_UNROLL for (int64_t i = 0; i < kRows; ++i) sum[n][i] =
            hn::MulAdd(key, hn::Load(d, queries + i * query_stride + c), sum[n][i]);
      }
    };
    int64_t c = 0;
    for (; c + lanes <= head_dim; c += lanes) add(c, [d](const T* at) HWY_ATTR { return load_f32(d, at); });
    if (const auto rest = static_cast<size_t>(head_dim - c); rest > 0)
      add(c, [d, rest](const T* at) HWY_ATTR { return load_f32_some(d, at, rest); });
    RLX_UNROLL for (int64_t n = 0; n < kCount; ++n) {
      float* to = scores + (j + n) * score_stride;
      hn::Store(hn::Zero(d), d, to);
      RLX_UNROLL for (int64_t i = 0; i < kRows; ++i) to[i] = hn::GetLane(hn::SumOfLanes(d, sum[n][i]));
    }
  };
  int64_t j = 0;
  for (; j + kKeys <= keys; j += kKeys) score.template operator()<kKeys>(j);
  for (; j < keys; ++j) score.template operator()<1>(j);
}
/// The same for `count` queries, at most kFewQueries; a row of scores is one vector.
template <class T>
void score_few_keys(const float* queries, int64_t query_stride, int64_t count, const T* k, int64_t k_stride,
                    int64_t keys, int64_t head_dim, float* scores, int64_t score_stride) {
  const auto some = [&]<int64_t kRows>() {
    score_few<kRows>(queries, query_stride, k, k_stride, keys, head_dim, scores, score_stride);
  };
  static_assert(kFewQueries == 8);
  switch (count) {
    case 1: return some.template operator()<1>();
    case 2: return some.template operator()<2>();
    case 3: return some.template operator()<3>();
    case 4: return some.template operator()<4>();
    case 5: return some.template operator()<5>();
    case 6: return some.template operator()<6>();
    case 7: return some.template operator()<7>();
    default: return some.template operator()<8>();
  }
}

/// What sums are added to: zero, the values in `out`, or these times a factor for each row.
enum class SumStart { zero, before, scaled };

/// out[i][columns] = start + sum over j of weight(i, j) * v[j][columns], for kRows rows i and kWidth vectors of
/// columns, where weight(i, j) is weights[j * stride + i], or if kRowMajor weights[i * stride + j]. The sum is formed
/// first and then added: so the sum over all keys is one of partial sums over a block's keys (see partial_sums.h).
template <int64_t kRows, int64_t kWidth, bool kRowMajor, class T>
HWY_INLINE void weighted_block(const float* HWY_RESTRICT weights, int64_t stride, const T* HWY_RESTRICT v,
                               int64_t v_stride, int64_t count, SumStart start, const float* HWY_RESTRICT factor,
                               float* HWY_RESTRICT out, int64_t out_stride) {
  const F32Tag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  F32Vec sum[kRows][kWidth];
  RLX_UNROLL for (int64_t i = 0; i < kRows; ++i) RLX_UNROLL for (int64_t w = 0; w < kWidth; ++w) sum[i][w] =
      hn::Zero(d);
  for (int64_t j = 0; j < count; ++j) {
    F32Vec value[kWidth];
    RLX_UNROLL for (int64_t w = 0; w < kWidth; ++w) value[w] = load_f32(d, v + j * v_stride + w * lanes);
    RLX_UNROLL for (int64_t i = 0; i < kRows; ++i) {
      const F32Vec weight = hn::Set(d, kRowMajor ? weights[i * stride + j] : weights[j * stride + i]);
      RLX_UNROLL for (int64_t w = 0; w < kWidth; ++w) sum[i][w] = hn::MulAdd(weight, value[w], sum[i][w]);
    }
  }
  if (start == SumStart::before) {
    RLX_UNROLL for (int64_t i = 0; i < kRows; ++i) RLX_UNROLL for (int64_t w = 0; w < kWidth; ++w) sum[i][w] =
        hn::Add(hn::Load(d, out + i * out_stride + w * lanes), sum[i][w]);
  } else if (start == SumStart::scaled) {
    RLX_UNROLL for (int64_t i = 0; i < kRows; ++i) RLX_UNROLL for (int64_t w = 0; w < kWidth; ++w) sum[i][w] =
        hn::MulAdd(hn::Load(d, out + i * out_stride + w * lanes), hn::Set(d, factor[i]), sum[i][w]);
  }
  RLX_UNROLL for (int64_t i = 0; i < kRows; ++i) RLX_UNROLL for (int64_t w = 0; w < kWidth; ++w)
      hn::Store(sum[i][w], d, out + i * out_stride + w * lanes);
}

template <int64_t kWidth, bool kRowMajor, class T>
void weighted_columns(const float* weights, int64_t stride, const T* v, int64_t v_stride, int64_t count, SumStart start,
                      const float* factor, float* out, int64_t out_stride, int64_t rows) {
  int64_t i = 0;
  const auto block = [&]<int64_t kRows>() {
    weighted_block<kRows, kWidth, kRowMajor>(weights + i * (kRowMajor ? stride : 1), stride, v, v_stride, count, start,
                                             start == SumStart::scaled ? factor + i : nullptr, out + i * out_stride,
                                             out_stride);
    i += kRows;
  };
  while (i + kQueryRows <= rows) block.template operator()<kQueryRows>();
  while (i + 4 <= rows) block.template operator()<4>();
  while (i < rows) block.template operator()<1>();
}

/// The same for out[rows][columns]; columns are whole vectors. `factor` is read for SumStart::scaled alone.
template <bool kRowMajor, class T>
void weighted_sums(const float* weights, int64_t stride, const T* v, int64_t v_stride, int64_t count, SumStart start,
                   const float* factor, float* out, int64_t out_stride, int64_t rows, int64_t columns) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(F32Tag()));
  int64_t c = 0;
  // A row or two: as many columns at a time as there are registers, so that values are read as they lie in memory.
  constexpr int64_t kWide = kKeyRows;
  for (; rows <= 2 && c + kWide * lanes <= columns; c += kWide * lanes) {
    const float* from = start == SumStart::scaled ? factor : nullptr;
    if (rows == 2)
      weighted_block<2, kWide, kRowMajor>(weights, stride, v + c, v_stride, count, start, from, out + c, out_stride);
    else if (rows == 1)
      weighted_block<1, kWide, kRowMajor>(weights, stride, v + c, v_stride, count, start, from, out + c, out_stride);
  }
  for (; c + 2 * lanes <= columns; c += 2 * lanes)
    weighted_columns<2, kRowMajor>(weights, stride, v + c, v_stride, count, start, factor, out + c, out_stride, rows);
  if (c < columns)
    weighted_columns<1, kRowMajor>(weights, stride, v + c, v_stride, count, start, factor, out + c, out_stride, rows);
}

/// A block of queries, and its arrays in scratch.
struct QueryBlock {
  float* maximum;        ///< running maximum of each query's scores
  float* sum;            ///< of each query's weights
  float* factor;         ///< by which earlier results must be multiplied
  float* queries;        ///< packed, scaled: [head_dim][stride], or of few queries [queries][query_stride]
  float* scores;         ///< [keys][stride]
  float* out;            ///< [queries][out_stride]
  Base score_base;       ///< of which scores are exponents
  int64_t first, count;  ///< rows of q
  int64_t stride, out_stride;
  int64_t query_stride;  ///< of few queries, whole vectors; else 0
  bool is_in_pairs;      ///< queries are bf16 as they are, in pairs, and scores multiplied by the scale instead
};

/// queries[i][c] = q[i][c] * scale, padded with zeros to b.query_stride.
template <class T>
void pack_few_queries(const QueryBlock& b, const T* q, int64_t q_stride, int64_t width, float scale) {
  for (int64_t i = 0; i < b.count; ++i)
    for (int64_t c = 0; c < b.query_stride; ++c)
      b.queries[i * b.query_stride + c] = c < width ? to_f32(q[i * q_stride + c]) * scale : 0.0f;
}

/// queries[c][i] = q[i][c] * scale for the block's queries, of which `q` is the first; lanes behind the last are 0.
template <class T>
void pack_queries(const QueryBlock& b, const T* q, int64_t q_stride, int64_t width, float scale, float* queries) {
  const hn::Full128<float> d;
  int64_t i = 0;
#if HWY_TARGET == HWY_AVX3 && RLX_HAS_TILES
  if constexpr (std::is_same_v<T, float>) {
    const F32Tag wide;
    const F32Vec s = hn::Set(wide, scale);
    for (; i + kTileRows <= b.count; i += kTileRows) {
      int64_t c = 0;
      for (; c + kTileRows <= width; c += kTileRows) {
        float* to = queries + c * b.stride + i;
        transpose_tile(q + i * q_stride + c, q_stride, to, b.stride);
        for (float* at = to; at < to + kTileRows * b.stride; at += b.stride)
          hn::Store(hn::Mul(hn::Load(wide, at), s), wide, at);
      }
      for (; c < width; ++c)
        for (int64_t k = 0; k < kTileRows; ++k) queries[c * b.stride + i + k] = q[(i + k) * q_stride + c] * scale;
    }
  }
#endif
  if constexpr (std::is_same_v<T, float>) {
    // Transpose 4 x 4 elements at a time in registers.
    const auto s = hn::Set(d, scale);
    for (; i + 4 <= b.count; i += 4) {
      int64_t c = 0;
      for (; c + 4 <= width; c += 4) {
        const float* from = q + i * q_stride + c;
        const auto r0 = hn::LoadU(d, from), r1 = hn::LoadU(d, from + q_stride);
        const auto r2 = hn::LoadU(d, from + 2 * q_stride), r3 = hn::LoadU(d, from + 3 * q_stride);
        const auto low = hn::InterleaveLower(d, r0, r2), low2 = hn::InterleaveLower(d, r1, r3);
        const auto high = hn::InterleaveUpper(d, r0, r2), high2 = hn::InterleaveUpper(d, r1, r3);
        float* to = queries + c * b.stride + i;
        hn::Store(hn::Mul(hn::InterleaveLower(d, low, low2), s), d, to);
        hn::Store(hn::Mul(hn::InterleaveUpper(d, low, low2), s), d, to + b.stride);
        hn::Store(hn::Mul(hn::InterleaveLower(d, high, high2), s), d, to + 2 * b.stride);
        hn::Store(hn::Mul(hn::InterleaveUpper(d, high, high2), s), d, to + 3 * b.stride);
      }
      for (; c < width; ++c)
        for (int64_t k = 0; k < 4; ++k) queries[c * b.stride + i + k] = q[(i + k) * q_stride + c] * scale;
    }
  }
  for (; i < b.stride; ++i)
    for (int64_t c = 0; c < width; ++c)
      queries[c * b.stride + i] = i < b.count ? to_f32(q[i * q_stride + c]) * scale : 0.0f;
}

/// Rows of k or v as f32: in their own memory, or converted to scratch and padded to whole vectors.
struct F32Rows {
  const float* data;
  int64_t stride;
};
/// `pad`: whether the caller reads whole vectors.
template <class T>
F32Rows f32_rows(const T* rows, int64_t stride, int64_t count, int64_t width, bool pad, float* scratch) {
  const F32Tag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const bool is_whole = width % lanes == 0;
  if constexpr (std::is_same_v<T, float>) {
    if (is_whole || !pad) return {rows, stride};
  }
  const int64_t to_stride = rounded_up_to(width, kMaxF32Lanes);
  for (int64_t j = 0; j < count; ++j) {
    const T* from = rows + j * stride;
    float* to = scratch + j * to_stride;
    int64_t c = 0;
    for (; c + lanes <= width; c += lanes) hn::Store(load_f32(d, from + c), d, to + c);
    if (c < width) hn::Store(load_f32_some(d, from + c, static_cast<size_t>(width - c)), d, to + c);
  }
  return {scratch, to_stride};
}

inline constexpr float kLn2 = 0.693147181f;

/// What queries are multiplied by, and the base of which scores are then exponents: see AttentionStrategy::raw_scores.
inline float query_factor(const AttentionArgs& a) {
  return a.strategy.raw_scores ? 1.0f : static_cast<float>(a.scale) / kLn2;
}
inline Base score_base(const AttentionArgs& a) {
  return Base::of_log2(a.strategy.raw_scores ? a.scale / 0.693147180559945309 : 1.0);
}

/// s = cap * tanh(s / cap)
inline void cap_scores(const QueryBlock& b, int64_t keys, float cap) {
  const F32Tag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const F32Vec inward = hn::Set(d, kLn2 / cap), outward = hn::Set(d, cap / kLn2);
  for (int64_t i = 0; i < keys * b.stride; i += lanes)
    hn::Store(hn::Mul(TanhFast(d, hn::Mul(hn::Load(d, b.scores + i), inward)), outward), d, b.scores + i);
}

/// A bias divided by ln 2, as scores are.
inline float scaled_bias(float bias) {
  const bool excludes = bias == -std::numeric_limits<float>::infinity();
  return (excludes ? bias : std::max(bias, kLowestBias)) / kLn2;
}

/// Adds bias[query][key], keys from `key` on. f32 rows are transposed in registers, 4 x 4 elements at a time.
inline void add_bias(const AttentionArgs& a, const QueryBlock& b, int64_t key, int64_t keys) {
  const int64_t origin = b.first * a.bias_row_stride + key * a.bias_col_stride;
  int64_t i = 0;
  if (a.bias_dtype == f32 && a.bias_col_stride == 1) {
    const hn::Full128<float> d;
    const auto inverse_ln2 = hn::Set(d, 1 / kLn2), lowest = hn::Set(d, kLowestBias);
    const auto excluded = hn::Set(d, -std::numeric_limits<float>::infinity());
    for (; i + 4 <= b.count; i += 4) {
      int64_t j = 0;
      for (; j + 4 <= keys; j += 4) {
        const float* from = static_cast<const float*>(a.bias) + origin + i * a.bias_row_stride + j;
        const auto r0 = hn::LoadU(d, from), r1 = hn::LoadU(d, from + a.bias_row_stride);
        const auto r2 = hn::LoadU(d, from + 2 * a.bias_row_stride), r3 = hn::LoadU(d, from + 3 * a.bias_row_stride);
        const auto low = hn::InterleaveLower(d, r0, r2), low2 = hn::InterleaveLower(d, r1, r3);
        const auto high = hn::InterleaveUpper(d, r0, r2), high2 = hn::InterleaveUpper(d, r1, r3);
        float* to = b.scores + j * b.stride + i;
        const auto add = [&](auto v, float* at) HWY_ATTR {
          const auto bias = hn::IfThenElse(hn::And(hn::Lt(v, lowest), hn::Ne(v, excluded)), lowest, v);  // NaN stays
          hn::StoreU(hn::MulAdd(bias, inverse_ln2, hn::LoadU(d, at)), d, at);
        };
        add(hn::InterleaveLower(d, low, low2), to);
        add(hn::InterleaveUpper(d, low, low2), to + b.stride);
        add(hn::InterleaveLower(d, high, high2), to + 2 * b.stride);
        add(hn::InterleaveUpper(d, high, high2), to + 3 * b.stride);
      }
      for (; j < keys; ++j)
        for (int64_t k = i; k < i + 4; ++k)
          b.scores[j * b.stride + k] += scaled_bias(bias_at(a, origin + k * a.bias_row_stride + j));
    }
  }
  for (; i < b.count; ++i)
    for (int64_t j = 0; j < keys; ++j)
      b.scores[j * b.stride + i] += scaled_bias(bias_at(a, origin + i * a.bias_row_stride + j * a.bias_col_stride));
}

/// Sets the scores that the masks exclude to -inf, keys from `key` on.
inline void mask_scores(const AttentionArgs& a, const QueryBlock& b, int64_t key, int64_t keys) {
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

}  // namespace HWY_NAMESPACE
}  // namespace rlx::kernels
HWY_AFTER_NAMESPACE();

#endif  // RLX_KERNELS_ATTENTION_SCORE_BLOCKS_INL_H_
