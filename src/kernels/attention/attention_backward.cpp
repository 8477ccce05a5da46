// The gradient of attention, in blocks of queries, with transposed scores as in attention.cpp. For each block the
// weights P of all its keys are computed again. Then, with dY the cotangent of the result: dP = dY Vᵀ, dS = P (dP -
// rowsum(P dP)), dQ += dS K, dK += dSᵀ Q, dV += Pᵀ dY (Dao et al. 2022, but P and dP of a block and all keys are
// stored, so that no second pass over the result is needed).
#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/attention/attention.h"
#include "kernels/vector/highway_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention/attention_backward.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/attention/score_blocks-inl.h"

#ifndef RLX_KERNELS_ATTENTION_BACKWARD_ONCE
#define RLX_KERNELS_ATTENTION_BACKWARD_ONCE
namespace rlx::kernels {
namespace {

/// Offsets in scratch, in floats; all are multiples of 16.
struct BackwardLayout {
  int64_t cts, query_rows, ct_rows, keys, values, dq, weights, gradients, capped, total;
  explicit BackwardLayout(const AttentionArgs& a) {
    const int64_t width = rounded_up_to(a.head_dim, kMaxF32Lanes), v_width = rounded_up_to(a.value_dim, kMaxF32Lanes);
    const int64_t strip = a.k_rows * kMaxBlockQueries;
    cts = width * kMaxBlockQueries;  // after the packed queries
    query_rows = cts + v_width * kMaxBlockQueries;
    ct_rows = query_rows + kMaxBlockQueries * width;
    keys = ct_rows + kMaxBlockQueries * v_width;
    values = keys + kBlockKeys * width;
    dq = values + kBlockKeys * v_width;
    weights = dq + kMaxBlockQueries * width;
    gradients = weights + strip;
    capped = gradients + strip;
    total = capped + (a.soft_cap > 0 ? strip : 0);
  }
};

}  // namespace
}  // namespace rlx::kernels
#endif  // RLX_KERNELS_ATTENTION_BACKWARD_ONCE

HWY_BEFORE_NAMESPACE();
namespace rlx::kernels {
namespace HWY_NAMESPACE {
namespace {

/// Replaces the scores of all keys by weights base^score that are divided by their sum, or by 0 for a query that sees
/// no key.
void normalize_scores(float* scores, int64_t stride, int64_t keys, const Base& base) {
  const F32Tag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t i = 0; i < stride; i += lanes) {
    float* column = scores + i;
    F32Vec m0 = hn::Set(d, kNoScore), m1 = m0;
    int64_t j = 0;
    for (; j + 2 <= keys; j += 2) {
      m0 = hn::Max(m0, hn::Load(d, column + j * stride));
      m1 = hn::Max(m1, hn::Load(d, column + (j + 1) * stride));
    }
    if (j < keys) m0 = hn::Max(m0, hn::Load(d, column + j * stride));
    const F32Vec m = hn::Max(m0, m1);
    const auto weigh = [&](int64_t row) HWY_ATTR {
      float* at = column + row * stride;
      const F32Vec w = PowerNonpositive(d, base, hn::Sub(hn::Load(d, at), m));
      hn::Store(w, d, at);
      return w;
    };
    F32Vec sum = hn::Zero(d);
    for (j = 0; j < keys;) {  // partial sums: see partial_sums.h
      const int64_t stop = std::min(keys, j + kPartialSumTerms);
      F32Vec s0 = hn::Zero(d), s1 = s0;
      for (; j + 2 <= stop; j += 2) {
        s0 = hn::Add(s0, weigh(j));
        s1 = hn::Add(s1, weigh(j + 1));
      }
      if (j < stop) s0 = hn::Add(s0, weigh(j++));
      sum = hn::Add(sum, hn::Add(s0, s1));
    }
    const F32Vec inverse = hn::IfThenZeroElse(hn::Eq(sum, hn::Zero(d)), hn::Div(hn::Set(d, 1.0f), sum));
    for (j = 0; j < keys; ++j) hn::Store(hn::Mul(hn::Load(d, column + j * stride), inverse), d, column + j * stride);
  }
}

/// Replaces the cotangents of the weights (in `gradients`) by those of the scores.
void score_gradients(const float* weights, float* gradients, int64_t stride, int64_t keys) {
  const F32Tag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t i = 0; i < stride; i += lanes) {
    F32Vec mean = hn::Zero(d);
    for (int64_t key = 0; key < keys; key += kPartialSumTerms) {
      const int64_t stop = i + std::min(keys, key + kPartialSumTerms) * stride;
      F32Vec s0 = hn::Zero(d), s1 = s0;
      int64_t j = i + key * stride;
      for (; j + stride < stop; j += 2 * stride) {
        s0 = hn::MulAdd(hn::Load(d, weights + j), hn::Load(d, gradients + j), s0);
        s1 = hn::MulAdd(hn::Load(d, weights + j + stride), hn::Load(d, gradients + j + stride), s1);
      }
      if (j < stop) s0 = hn::MulAdd(hn::Load(d, weights + j), hn::Load(d, gradients + j), s0);
      mean = hn::Add(mean, hn::Add(s0, s1));
    }
    for (int64_t j = i; j < keys * stride; j += stride)
      hn::Store(hn::Mul(hn::Load(d, weights + j), hn::Sub(hn::Load(d, gradients + j), mean)), d, gradients + j);
  }
}

/// Multiplies by `scale` and, if `capped` (the capped scores) is not null, by the slope of the soft cap, 1 - (s /
/// cap)^2.
void scale_gradients(float* gradients, int64_t count, float scale, const float* capped, float cap) {
  const F32Tag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const F32Vec by = hn::Set(d, scale), inward = hn::Set(d, capped ? kLn2 / cap : 0.0f), one = hn::Set(d, 1.0f);
  for (int64_t i = 0; i < count; i += lanes) {
    F32Vec g = hn::Mul(hn::Load(d, gradients + i), by);
    if (capped) {
      const F32Vec t = hn::Mul(hn::Load(d, capped + i), inward);
      g = hn::Mul(g, hn::Mul(hn::Sub(one, t), hn::Add(one, t)));
    }
    hn::Store(g, d, gradients + i);
  }
}

template <class T>
void backward_block(const AttentionBackwardArgs& g, QueryBlock b, float* scratch, const BackwardLayout& at) {
  const AttentionArgs& a = g.forward;
  const auto lanes = static_cast<int64_t>(hn::Lanes(F32Tag()));
  const int64_t columns = rounded_up_to(a.head_dim, lanes), v_columns = rounded_up_to(a.value_dim, lanes);
  const int64_t sum_stride = rounded_up_to(a.head_dim, kMaxF32Lanes),
                v_sum_stride = rounded_up_to(a.value_dim, kMaxF32Lanes);
  const int64_t key_begin = visible_keys(a, b.first).begin, key_end = visible_keys(a, b.first + b.count - 1).end;
  const int64_t keys = std::max<int64_t>(0, key_end - key_begin);
  const T *q = static_cast<const T*>(a.q) + b.first * a.q_stride,
          *ct = static_cast<const T*>(g.ct) + b.first * g.ct_stride;
  float *weights = scratch + at.weights, *gradients = scratch + at.gradients, *cts = scratch + at.cts;
  float *capped = a.soft_cap > 0 ? scratch + at.capped : nullptr, *dq = scratch + at.dq;
  pack_queries(b, q, a.q_stride, a.head_dim, query_factor(a), b.queries);
  pack_queries(b, ct, g.ct_stride, a.value_dim, 1.0f, cts);
  const F32Rows q_rows = f32_rows(q, a.q_stride, b.count, a.head_dim, true, scratch + at.query_rows);
  const F32Rows ct_rows = f32_rows(ct, g.ct_stride, b.count, a.value_dim, true, scratch + at.ct_rows);
  const auto for_key_blocks = [&](auto body) {
    for (int64_t j = 0; j < keys; j += kBlockKeys) body(j, std::min(kBlockKeys, keys - j));
  };
  const auto rows_of = [&](const void* rows, int64_t stride, int64_t j, int64_t count, int64_t width, bool pad,
                           int64_t offset) {
    return f32_rows(static_cast<const T*>(rows) + (key_begin + j) * stride, stride, count, width, pad,
                    scratch + offset);
  };

  for_key_blocks([&](int64_t j, int64_t count) {
    const F32Rows k = rows_of(a.k, a.k_stride, j, count, a.head_dim, false, at.keys);
    b.scores = weights + j * b.stride;
    score_keys(b.queries, b.stride, k.data, k.stride, count, a.head_dim, b.scores);
    if (capped) {
      cap_scores(b, count, static_cast<float>(a.soft_cap));
      std::copy_n(b.scores, count * b.stride, capped + j * b.stride);
    }
    if (a.bias) add_bias(a, b, key_begin + j, count);
    if (a.key_mask || a.left >= 0 || a.right >= 0) mask_scores(a, b, key_begin + j, count);
    const F32Rows v = rows_of(a.v, a.v_stride, j, count, a.value_dim, false, at.values);
    score_keys(cts, b.stride, v.data, v.stride, count, a.value_dim, gradients + j * b.stride);
  });
  normalize_scores(weights, b.stride, keys, score_base(a));
  score_gradients(weights, gradients, b.stride, keys);
  if (g.d_bias)
    for (int64_t i = 0; i < b.count; ++i)
      for (int64_t j = 0; j < keys; ++j)
        g.d_bias[(b.first + i) * a.bias_row_stride + (key_begin + j) * a.bias_col_stride] +=
            gradients[j * b.stride + i];
  scale_gradients(gradients, keys * b.stride, static_cast<float>(a.scale), capped, static_cast<float>(a.soft_cap));

  if (keys == 0) std::fill(dq, dq + b.count * sum_stride, 0.0f);
  for_key_blocks([&](int64_t j, int64_t count) {
    const F32Rows k = rows_of(a.k, a.k_stride, j, count, a.head_dim, true, at.keys);
    weighted_sums<false>(gradients + j * b.stride, b.stride, k.data, k.stride, count,
                         j == 0 ? SumStart::zero : SumStart::before, nullptr, dq, sum_stride, b.count, columns);
    weighted_sums<true>(gradients + j * b.stride, b.stride, q_rows.data, q_rows.stride, b.count, SumStart::before,
                        nullptr, g.dk + (key_begin + j) * sum_stride, sum_stride, count, columns);
    weighted_sums<true>(weights + j * b.stride, b.stride, ct_rows.data, ct_rows.stride, b.count, SumStart::before,
                        nullptr, g.dv + (key_begin + j) * v_sum_stride, v_sum_stride, count, v_columns);
  });
  attention_round_sums(dq, b.count, a.head_dim, a.dtype, static_cast<T*>(g.dq) + b.first * g.dq_stride, g.dq_stride);
}

template <class T>
void backward(const AttentionBackwardArgs& g, int64_t row_begin, int64_t row_end, float* scratch) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(F32Tag()));
  const BackwardLayout at(g.forward);
  for (int64_t row = row_begin; row < row_end;) {
    QueryBlock b{};
    b.queries = scratch;
    b.first = row;
    b.count = std::min(kQueryVectors * lanes, row_end - row);
    b.stride = rounded_up_to(b.count, lanes);
    backward_block<T>(g, b, scratch, at);
    row += b.count;
  }
}

void backward_any(const AttentionBackwardArgs& g, int64_t row_begin, int64_t row_end, float* scratch) {
  if (g.forward.dtype == f16) backward<F16>(g, row_begin, row_end, scratch);
  else if (g.forward.dtype == bf16) backward<BF16>(g, row_begin, row_end, scratch);
  else backward<float>(g, row_begin, row_end, scratch);
}

template <class T>
void round_rows(const float* sums, int64_t rows, int64_t width, T* to, int64_t to_stride) {
  const F32Tag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t r = 0; r < rows; ++r, sums += rounded_up_to(width, kMaxF32Lanes), to += to_stride) {
    int64_t c = 0;
    for (; c + lanes <= width; c += lanes) store_f32(hn::LoadU(d, sums + c), d, to + c);
    if (c < width) store_f32_some(hn::LoadU(d, sums + c), d, to + c, static_cast<size_t>(width - c));
  }
}
void round_any(const float* sums, int64_t rows, int64_t width, DType dtype, void* to, int64_t to_stride) {
  if (dtype == f16) round_rows(sums, rows, width, static_cast<F16*>(to), to_stride);
  else if (dtype == bf16) round_rows(sums, rows, width, static_cast<BF16*>(to), to_stride);
  else round_rows(sums, rows, width, static_cast<float*>(to), to_stride);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace rlx::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rlx::kernels {
namespace {
HWY_EXPORT(backward_any);
HWY_EXPORT(round_any);
}  // namespace

int64_t attention_sum_stride(int64_t width) { return rounded_up_to(width, kMaxF32Lanes); }
size_t attention_backward_scratch_bytes(const AttentionArgs& forward) {
  return static_cast<size_t>(BackwardLayout(forward).total) * sizeof(float);
}
void attention_backward(const AttentionBackwardArgs& args, int64_t row_begin, int64_t row_end, void* scratch) noexcept {
  HWY_DYNAMIC_DISPATCH(backward_any)(args, row_begin, row_end, static_cast<float*>(scratch));
}
void attention_round_sums(const float* sums, int64_t rows, int64_t width, DType dtype, void* to,
                          int64_t to_stride) noexcept {
  HWY_DYNAMIC_DISPATCH(round_any)(sums, rows, width, dtype, to, to_stride);
}

}  // namespace rlx::kernels
#endif  // HWY_ONCE
