// The vector code of attention on matrix tiles: the softmax of a strip of scores, whose weights are split into three
// bf16 terms (split-bf16) while they are in registers, or into two where queries, keys and values are bf16.
// Compiled for AVX-512 alone; user: amx_attention-inl.h.
#if defined(RLX_KERNELS_ATTENTION_AMX_SOFTMAX_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RLX_KERNELS_ATTENTION_AMX_SOFTMAX_INL_H_
#undef RLX_KERNELS_ATTENTION_AMX_SOFTMAX_INL_H_
#else
#define RLX_KERNELS_ATTENTION_AMX_SOFTMAX_INL_H_
#endif

#include "hwy/highway.h"
#include "kernels/attention/attention.h"
#include "kernels/attention/score_blocks-inl.h"
#include "kernels/gemm/amx/tiles.h"

#if HWY_TARGET == HWY_AVX3 && RLX_HAS_TILES
HWY_BEFORE_NAMESPACE();
namespace rlx::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// A running maximum is only raised if scores exceed it by more than this (divided by ln 2, as scores are): weights of
/// up to 2^8 do no harm, and so earlier results are hardly ever rescaled.
inline constexpr float kMaxGrowth = 8;

/// The running results of a block of queries.
struct TiledState {
  float *out, *maximum, *sum;  ///< out: [value_dim][32]
};

/// A block of queries and a strip of keys, in one of the stages of TiledAttention::advance().
struct TiledStrip {
  QueryBlock b;
  TiledState s;
  const char *keys, *values;  ///< packed
  char* weights;
  int64_t key, count;
  bool is_first, is_last, is_scaled;
  HWY_ALIGN float factor[kTiledQueries];
};

/// Splits two rows (elements 2 j and 2 j + 1 along k) of 16 columns into kTerms bf16 terms, and stores these as pairs
/// in the tiles of a right operand. Terms are truncated, not rounded: those of the left operand are rounded, so the
/// products that are left out have either sign all the same.
template <int kTerms>
HWY_INLINE void store_terms(F32Vec even, F32Vec odd, uint32_t* HWY_RESTRICT at) {
  const F32Tag d;
  const hn::RebindToUnsigned<F32Tag> du;
  const hn::Repartition<uint16_t, F32Tag> du16;
  constexpr int64_t kTermWords = 2 * kTileBytes / 4;
  const auto upper_half = hn::Set(du, 0xffff0000u);
  const auto high = [&](F32Vec v) HWY_ATTR { return hn::BitCast(d, hn::And(hn::BitCast(du, v), upper_half)); };
  RLX_UNROLL for (int p = 0; p < kTerms; ++p) {
    const auto shifted = hn::BitCast(du16, hn::ShiftRight<16>(hn::BitCast(du, even)));
    hn::Store(hn::BitCast(du, hn::OddEven(hn::BitCast(du16, odd), shifted)), du, at + p * kTermWords);
    if (p + 1 < kTerms) even = hn::Sub(even, high(even)), odd = hn::Sub(odd, high(odd));
  }
}
/// Where store_terms() stores them: `row` is 2 j, `tile` is 0 or 1 for the first or second 16 columns.
template <int kTerms>
inline uint32_t* terms_at(char* tiles, int64_t row, int64_t tile) {
  constexpr int64_t kTermWords = 2 * kTileBytes / 4, kStep = kTerms * kTermWords;
  return reinterpret_cast<uint32_t*>(tiles) + row / kTileFloats * kStep + tile * (kTileBytes / 4) +
         row % kTileFloats / 2 * kTileRows;
}

/// Prepares a strip for the weights: scale (unless it is 1, as where queries were scaled), soft cap, bias, masks, the
/// maximum, and the factor by which that rescales earlier results.
inline void begin_weights(const AttentionArgs& a, TiledStrip& t, float scale) {
  if (scale != 1) {
    const F32Tag d;
    const F32Vec by = hn::Set(d, scale);
    for (float* at = t.b.scores; at < t.b.scores + t.count * kTiledQueries; at += kTileRows)
      hn::Store(hn::Mul(hn::Load(d, at), by), d, at);
  }
  if (a.soft_cap > 0) cap_scores(t.b, t.count, static_cast<float>(a.soft_cap));
  if (a.bias) add_bias(a, t.b, t.key, t.count);
  if (a.key_mask || a.left >= 0 || a.right >= 0) mask_scores(a, t.b, t.key, t.count);
  const F32Tag d;
  constexpr int64_t lanes = kTileRows;
  F32Vec max[2], before[2];
  RLX_UNROLL for (int i = 0; i < 2; ++i) {
    const float* column = t.b.scores + i * lanes;
    F32Vec m0 = hn::Set(d, kNoScore), m1 = m0, m2 = m0, m3 = m0;
    int64_t j = 0;
    for (; j + 4 <= t.count; j += 4) {
      m0 = hn::Max(m0, hn::Load(d, column + j * kTiledQueries));
      m1 = hn::Max(m1, hn::Load(d, column + (j + 1) * kTiledQueries));
      m2 = hn::Max(m2, hn::Load(d, column + (j + 2) * kTiledQueries));
      m3 = hn::Max(m3, hn::Load(d, column + (j + 3) * kTiledQueries));
    }
    for (; j < t.count; ++j) m0 = hn::Max(m0, hn::Load(d, column + j * kTiledQueries));
    max[i] = hn::Max(hn::Max(m0, m1), hn::Max(m2, m3));
    before[i] = t.is_first ? max[i] : hn::Load(d, t.s.maximum + i * lanes);
    if (t.is_first) hn::Store(hn::Zero(d), d, t.s.sum + i * lanes);
  }
  // Lanes decide one by one: the result of a query must not depend on its neighbours.
  const F32Vec growth = hn::Set(d, kMaxGrowth), one = hn::Set(d, 1.0f);
  t.is_scaled = false;
  RLX_UNROLL for (int i = 0; i < 2; ++i) {
    const auto stays = hn::Le(max[i], hn::Add(before[i], growth));  // false for NaN
    const bool all_stay = t.is_first || hn::AllTrue(d, stays);
    t.is_scaled = t.is_scaled || !all_stay;
    const F32Vec maximum = all_stay ? before[i] : hn::IfThenElse(stays, before[i], hn::Max(before[i], max[i]));
    const F32Vec factor = all_stay ? one : hn::IfThenElse(stays, one, Exp2Nonpositive(d, hn::Sub(before[i], maximum)));
    if (!all_stay) hn::Store(hn::Mul(hn::Load(d, t.s.sum + i * lanes), factor), d, t.s.sum + i * lanes);
    hn::Store(factor, d, t.factor + i * lanes);
    hn::Store(maximum, d, t.s.maximum + i * lanes);
  }
}

/// Weights in three terms are stored times 2^32, and so are their sums and the results until those divide them. Tiles
/// flush subnormal terms: the third one of a weight of 2^-142 is just normal then, and what is lost of smaller ones is
/// below 2^-150, as of subnormal weights in vectors. Without it a weight of 2^-118 had 8 digits, all that there is of a
/// result where the values of larger weights are 0. Values are below 2^62, so that sums of 2^26 keys stay finite.
template <int kTerms>
inline constexpr int kWeightShift = kTerms == 3 ? 32 : 0;

/// Computes the weights of a strip, as bf16 terms, and their sums, two keys at a time. The strip's sums start at 0 and
/// take turns: a single running sum over all keys would be rounded the same way at each of many equal small weights.
template <int kTerms>
struct TiledWeigher {
  const float* scores;
  char* weights;
  int64_t key = 0, keys;
  F32Vec max[2], sum[2], other_sum[2];

  explicit TiledWeigher(const TiledStrip& t) : scores(t.b.scores), weights(t.weights), keys(t.count) {
    const F32Tag d;
    RLX_UNROLL for (int i = 0; i < 2; ++i) max[i] = hn::Load(d, t.s.maximum + i * kTileRows);
    RLX_UNROLL for (int i = 0; i < 2; ++i) sum[i] = other_sum[i] = hn::Zero(d);
  }
  HWY_INLINE F32Vec weight(int64_t row, int i) const {
    const F32Tag d;
    return Exp2Nonpositive<kWeightShift<kTerms>>(
        d, hn::Sub(hn::Load(d, scores + row * kTiledQueries + i * kTileRows), max[i]));
  }
  HWY_INLINE void add_pair() {
    RLX_UNROLL for (int i = 0; i < 2; ++i) {
      const F32Vec even = weight(key, i), odd = weight(key + 1, i);
      const F32Vec next = hn::Add(other_sum[i], hn::Add(even, odd));
      other_sum[i] = sum[i], sum[i] = next;
      store_terms<kTerms>(even, odd, terms_at<kTerms>(weights, key, i));
    }
    key += 2;
  }
  /// The last key of an odd number, then zeros up to a whole tile step.
  HWY_INLINE void add_rest() {
    const F32Tag d;
    for (; key < rounded_up_to(keys, kTileFloats); key += 2) RLX_UNROLL for (int i = 0; i < 2; ++i) {
        const F32Vec even = key < keys ? weight(key, i) : hn::Zero(d);
        sum[i] = hn::Add(sum[i], even);
        store_terms<kTerms>(even, hn::Zero(d), terms_at<kTerms>(weights, key, i));
      }
  }
  HWY_INLINE void add_sums(float* to) const {
    const F32Tag d;
    RLX_UNROLL for (int i = 0; i < 2; ++i) {
      float* const at = to + i * kTileRows;
      hn::Store(hn::Add(hn::Load(d, at), hn::Add(sum[i], other_sum[i])), d, at);
    }
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace rlx::kernels
HWY_AFTER_NAMESPACE();
#endif

#endif  // RLX_KERNELS_ATTENTION_AMX_SOFTMAX_INL_H_
