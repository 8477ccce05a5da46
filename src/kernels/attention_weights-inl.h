// Of attention by matrix tiles, what the vectors do: the softmax of a strip of scores, whose weights leave the
// registers as three parts of bf16. Compiled for AVX-512 alone; users: attention_by_tiles-inl.h.
#if defined(RLX_KERNELS_ATTENTION_WEIGHTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RLX_KERNELS_ATTENTION_WEIGHTS_INL_H_
#undef RLX_KERNELS_ATTENTION_WEIGHTS_INL_H_
#else
#define RLX_KERNELS_ATTENTION_WEIGHTS_INL_H_
#endif

#include "hwy/highway.h"
#include "kernels/attention.h"
#include "kernels/attention_tiles-inl.h"
#include "kernels/matrix_tiles.h"

#ifndef RLX_KERNELS_ATTENTION_WEIGHTS_ONCE
#define RLX_KERNELS_ATTENTION_WEIGHTS_ONCE
namespace rlx::kernels {

inline constexpr int64_t kTiledQueries = kTiledColumns;  ///< of a block
inline constexpr int64_t kStripKeys = 64;  ///< scores and weights of two strips stay in the first-level cache

}  // namespace rlx::kernels
#endif  // RLX_KERNELS_ATTENTION_WEIGHTS_ONCE

#if HWY_TARGET == HWY_AVX3 && RLX_HAS_TILES
HWY_BEFORE_NAMESPACE();
namespace rlx::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Sums of earlier strips stay as they are until a maximum grows by more than this, in units of ln 2: weights of up to
/// 2^8 do no harm, and results are hardly ever multiplied again.
inline constexpr float kMostGrowth = 8;

/// What is kept of a block of queries.
struct TiledState {
  float *out, *maximum, *sum;  ///< out: [value_dim][32]
};

/// A block of queries and a strip of keys, on their way.
struct TiledStrip {
  QueryBlock b;
  TiledState s;
  const char *keys, *values;  ///< packed
  char* weights;
  int64_t key, count;
  bool is_first, is_last, is_scaled;
  HWY_ALIGN float factor[kTiledQueries];
};

/// Two rows of numbers, elements 2 j and 2 j + 1 along k of 16 columns, in three parts at their places in the tiles of
/// a right operand. By cutting, not by rounding: the left operand's parts are rounded, so that what is left out of the
/// products has either sign all the same.
HWY_INLINE void store_parts(F32Vec even, F32Vec odd, uint32_t* HWY_RESTRICT at) {
  const F32Tag d;
  const hn::RebindToUnsigned<F32Tag> du;
  const hn::Repartition<uint16_t, F32Tag> du16;
  constexpr int64_t kPart = 2 * kTileBytes / 4;
  const auto upper_half = hn::Set(du, 0xffff0000u);
  const auto high = [&](F32Vec v) HWY_ATTR { return hn::BitCast(d, hn::And(hn::BitCast(du, v), upper_half)); };
  RLX_UNROLL for (int p = 0; p < 3; ++p) {
    const auto shifted = hn::BitCast(du16, hn::ShiftRight<16>(hn::BitCast(du, even)));
    hn::Store(hn::BitCast(du, hn::OddEven(hn::BitCast(du16, odd), shifted)), du, at + p * kPart);
    if (p < 2) even = hn::Sub(even, high(even)), odd = hn::Sub(odd, high(odd));
  }
}
/// Where they stand: `row` is 2 j, `tile` the first or second 16 columns.
inline uint32_t* parts_at(char* tiles, int64_t row, int64_t tile) {
  constexpr int64_t kPart = 2 * kTileBytes / 4, kStep = 3 * kPart;
  return reinterpret_cast<uint32_t*>(tiles) + row / kTileFloats * kStep + tile * (kTileBytes / 4) +
         row % kTileFloats / 2 * kTileLines;
}

/// All that comes before the weights: masks, the maximum, and what earlier results must be multiplied with for it.
inline void begin_weights(const AttentionArgs& a, TiledStrip& t) {
  if (a.soft_cap > 0) cap_scores(t.b, t.count, static_cast<float>(a.soft_cap));
  if (a.bias) add_bias(a, t.b, t.key, t.count);
  if (a.key_mask || a.left >= 0 || a.right >= 0) mask_scores(a, t.b, t.key, t.count);
  const F32Tag d;
  constexpr int64_t lanes = kTileLines;
  F32Vec most[2], before[2];
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
    most[i] = hn::Max(hn::Max(m0, m1), hn::Max(m2, m3));
    before[i] = t.is_first ? most[i] : hn::Load(d, t.s.maximum + i * lanes);
    if (t.is_first) hn::Store(hn::Zero(d), d, t.s.sum + i * lanes);
  }
  // Lane by lane: what becomes of a query does not depend on its neighbours.
  const F32Vec growth = hn::Set(d, kMostGrowth), one = hn::Set(d, 1.0f);
  t.is_scaled = false;
  RLX_UNROLL for (int i = 0; i < 2; ++i) {
    const auto stays = hn::Le(most[i], hn::Add(before[i], growth));  // not so of NaN
    const bool all_stay = t.is_first || hn::AllTrue(d, stays);
    t.is_scaled = t.is_scaled || !all_stay;
    const F32Vec maximum = all_stay ? before[i] : hn::IfThenElse(stays, before[i], hn::Max(before[i], most[i]));
    const F32Vec factor = all_stay ? one : hn::IfThenElse(stays, one, Exp2Nonpositive(d, hn::Sub(before[i], maximum)));
    if (!all_stay) hn::Store(hn::Mul(hn::Load(d, t.s.sum + i * lanes), factor), d, t.s.sum + i * lanes);
    hn::Store(factor, d, t.factor + i * lanes);
    hn::Store(maximum, d, t.s.maximum + i * lanes);
  }
}

/// Makes weights of a strip, in parts, and their sums: two keys at a time.
struct TiledWeigher {
  const float* scores;
  char* weights;
  int64_t key = 0, keys;
  F32Vec most[2], sum[2];

  explicit TiledWeigher(const TiledStrip& t) : scores(t.b.scores), weights(t.weights), keys(t.count) {
    const F32Tag d;
    RLX_UNROLL for (int i = 0; i < 2; ++i) most[i] = hn::Load(d, t.s.maximum + i * kTileLines);
    RLX_UNROLL for (int i = 0; i < 2; ++i) sum[i] = hn::Load(d, t.s.sum + i * kTileLines);
  }
  HWY_INLINE F32Vec weight(int64_t row, int i) const {
    const F32Tag d;
    return Exp2Nonpositive(d, hn::Sub(hn::Load(d, scores + row * kTiledQueries + i * kTileLines), most[i]));
  }
  HWY_INLINE void two() {
    RLX_UNROLL for (int i = 0; i < 2; ++i) {
      const F32Vec even = weight(key, i), odd = weight(key + 1, i);
      sum[i] = hn::Add(sum[i], hn::Add(even, odd));
      store_parts(even, odd, parts_at(weights, key, i));
    }
    key += 2;
  }
  /// The last of an odd number, and none up to whole steps.
  HWY_INLINE void rest() {
    const F32Tag d;
    for (; key < rounded_up_to(keys, kTileFloats); key += 2) RLX_UNROLL for (int i = 0; i < 2; ++i) {
        const F32Vec even = key < keys ? weight(key, i) : hn::Zero(d);
        sum[i] = hn::Add(sum[i], even);
        store_parts(even, hn::Zero(d), parts_at(weights, key, i));
      }
  }
  HWY_INLINE void store_sums(float* to) const {
    RLX_UNROLL for (int i = 0; i < 2; ++i) hn::Store(sum[i], F32Tag(), to + i * kTileLines);
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace rlx::kernels
HWY_AFTER_NAMESPACE();
#endif

#endif  // RLX_KERNELS_ATTENTION_WEIGHTS_INL_H_
