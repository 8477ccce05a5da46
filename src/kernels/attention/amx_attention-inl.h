// Attention on matrix tiles (gemm/amx/tiles.h), compiled for AVX-512 alone; user: attention.cpp. Scores are transposed
// here too: 32 queries lie along two vectors. For each strip of keys, tiles compute the scores K Qᵀ, vectors compute
// the softmax weights P from them and split these into three bf16 terms in registers (two where the operands are
// bf16, whose results are rounded to 2^-9), and tiles multiply Vᵀ Pᵀ. K and V
// are packed once for all queries of a call, in chunks of keys that the second-level cache holds; if there are several
// chunks, each block of queries keeps its results, maxima and sums from chunk to chunk. If a number is out of split
// range, attention.cpp computes the whole call again by vectors, the fp32 fallback.
#if defined(RLX_KERNELS_ATTENTION_AMX_ATTENTION_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RLX_KERNELS_ATTENTION_AMX_ATTENTION_INL_H_
#undef RLX_KERNELS_ATTENTION_AMX_ATTENTION_INL_H_
#else
#define RLX_KERNELS_ATTENTION_AMX_ATTENTION_INL_H_
#endif

#include <algorithm>
#include <type_traits>

#include "hwy/highway.h"
#include "kernels/attention/amx_softmax-inl.h"
#include "kernels/attention/attention.h"
#include "kernels/attention/score_blocks-inl.h"
#include "kernels/gemm/amx/interleaved-inl.h"
#include "kernels/gemm/amx/tiles.h"

#ifndef RLX_KERNELS_ATTENTION_BY_TILES_ONCE
#define RLX_KERNELS_ATTENTION_BY_TILES_ONCE
namespace rlx::kernels {

inline constexpr int64_t kScoreBytes = kStripKeys * kTiledQueries * 4;
inline constexpr int64_t kWeightBytes = kStripKeys / kTileFloats * 3 * 2 * kTileBytes;

/// Offsets in scratch, in bytes; all are multiples of 64.
struct TiledLayout {
  int64_t value_tiles, chunk_keys, group;  ///< as planned; group: queries for which a chunk is packed
  int64_t key_tile_bytes, value_step_bytes;
  int64_t keys, values, queries, rows, scores, weights, state, total;  ///< offsets
  int64_t state_floats;  ///< of a block of queries: transposed results, maxima, sums

  explicit TiledLayout(const AttentionArgs& a) {
    const TileForm form = a.strategy.terms;
    value_tiles = rounded_up_to(a.value_dim, kTileRows) / kTileRows;
    key_tile_bytes = tiled_bytes(a.head_dim, form);
    value_step_bytes = static_cast<int64_t>(form) * kTileBytes;
    chunk_keys = a.strategy.chunk_keys, group = a.strategy.chunk_queries;
    state_floats = value_tiles * kTileRows * kTiledQueries + 2 * kTiledQueries;
    keys = 0;
    values = keys + chunk_keys / kTileRows * key_tile_bytes;
    queries = values + chunk_keys / kTileFloats * value_tiles * value_step_bytes;
    rows = queries + 2 * tiled_bytes(a.head_dim, TileForm::three);
    scores = rows + kTileRows * rounded_up_to(a.head_dim, kTileFloats) * 4;
    weights = scores + 2 * kScoreBytes;
    state = weights + 2 * kWeightBytes;
    total = state + group / kTiledQueries * state_floats * 4;
  }
};

}  // namespace rlx::kernels
#endif  // RLX_KERNELS_ATTENTION_BY_TILES_ONCE

#if HWY_TARGET == HWY_AVX3 && RLX_HAS_TILES
HWY_BEFORE_NAMESPACE();
namespace rlx::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class T>
class TiledAttention {
 public:
  TiledAttention(const AttentionArgs& args, void* scratch)
      : a_(args), at_(args), scratch_(static_cast<char*>(scratch)) {
    strips_[0].s = strips_[1].s = state(0);
  }

  /// Computes the queries [begin, end). False if a number is out of split range: some rows of `out` may be written
  /// then, and the caller must compute all of them again.
  bool attend(int64_t begin, int64_t end);

 private:
  static constexpr TileForm kForm = std::is_same_v<T, BF16>  ? TileForm::one
                                    : std::is_same_v<T, F16> ? TileForm::two
                                                             : TileForm::three;
  /// Queries of bf16 are one term as they are, and their scores are scaled instead. Their weights are two terms, 2^-16:
  /// results are rounded to 2^-9 of themselves.
  static constexpr bool kIsNarrow = kForm == TileForm::one;
  static constexpr TileForm kQueries = kIsNarrow ? TileForm::one : TileForm::three;
  static constexpr TileForm kWeights = kIsNarrow ? TileForm::two : TileForm::three;
  static constexpr int kQueryTerms = static_cast<int>(kQueries), kWeightTerms = static_cast<int>(kWeights);

  /// Pack keys and values, and queries. False if a number is out of split range, or a product of a query and a key is.
  bool pack_chunk(int64_t key, int64_t keys);
  bool pack_block(const QueryBlock& b);
  bool add_chunk(int64_t query, int64_t count, int64_t block, int64_t chunk);
  /// A step of the software pipeline: computes the scores of `next` (if not null), the weights of the strip before it,
  /// and adds the values of the strip before that. Tiles and vectors work at the same time.
  void advance(const TiledStrip* next);
  void scale_results(const TiledStrip& t) const;
  void write_block(const QueryBlock& b, TiledState s) const;

  TiledState state(int64_t block) const {
    float* at = floats(at_.state) + block * at_.state_floats;
    const int64_t out = at_.value_tiles * kTileRows * kTiledQueries;
    return {at, at + out, at + out + kTiledQueries};
  }
  float* floats(int64_t offset) const { return reinterpret_cast<float*>(scratch_ + offset); }

  const AttentionArgs& a_;
  TiledLayout at_;
  char* scratch_;
  /// The smallest magnitude of a value, but for 0. A weight is 1 for the largest score and e^-44 for one that is 44
  /// less: down to there products with such values are exact enough (kMinProductMagnitude in tiles.h); smaller weights
  /// may lose digits.
  static constexpr float kMinValue = 0x1p-28f;

  float min_key_ = 0;  ///< smallest magnitude in the current chunk
  TiledStrip strips_[2]{};
  bool is_scored_ = false, is_weighed_ = false;  ///< whether a strip is in that stage
  int64_t number_ = 0;                           ///< of the strip that is scored next; its parity selects the buffers
};

/// Whether packed bf16 are finite: an infinity times the three terms of a number can be NaN (inf * 0), where the
/// product is infinite.
inline bool are_finite(const char* tiles, int64_t bytes) {
  const hn::ScalableTag<uint16_t> d;
  const auto magnitude = hn::Set(d, uint16_t{0x7fff});
  auto max = hn::Zero(d);
  for (int64_t i = 0; i < bytes; i += 64)
    max = hn::Max(max, hn::And(hn::Load(d, reinterpret_cast<const uint16_t*>(tiles + i)), magnitude));
  return hn::AllTrue(d, hn::Lt(max, hn::Set(d, uint16_t{0x7f80})));
}

template <class T>
bool TiledAttention<T>::pack_chunk(int64_t key, int64_t keys) {
  bool in_split_range = true;
  const auto pack = [&](const TileSource& from, int64_t rows, int64_t k, char* out, float& min) HWY_ATTR {
    min = std::min(min, pack_left_tiles(from, rows, k, kForm, out));
    if constexpr (kForm == TileForm::one) in_split_range = in_split_range && are_finite(out, tiled_bytes(k, kForm));
  };
  float min_value = kMinValue;
  min_key_ = std::numeric_limits<float>::infinity();
  for (int64_t j = 0; j < rounded_up_to(keys, kTileFloats); j += kTileRows) {
    const T* from = static_cast<const T*>(a_.k) + (key + std::min(j, keys - 1)) * a_.k_stride;
    pack({from, a_.k_stride, 1, a_.dtype}, std::clamp<int64_t>(keys - j, 0, kTileRows), a_.head_dim,
         scratch_ + at_.keys + j / kTileRows * at_.key_tile_bytes, min_key_);
  }
  for (int64_t i = 0; i < at_.value_tiles; ++i) {
    const int64_t column = i * kTileRows;
    const T* from = static_cast<const T*>(a_.v) + key * a_.v_stride + column;
    pack({from, 1, a_.v_stride, a_.dtype}, std::min(kTileRows, a_.value_dim - column), keys,
         scratch_ + at_.values + i * (at_.chunk_keys / kTileFloats) * at_.value_step_bytes, min_value);
  }
  return in_split_range && min_key_ > 0 && min_value >= kMinValue;
}

template <class T>
bool TiledAttention<T>::pack_block(const QueryBlock& b) {
  const F32Tag d;
  const hn::RebindToUnsigned<F32Tag> du;
  constexpr int64_t lanes = kTileRows;
  const int64_t width = rounded_up_to(a_.head_dim, kTileFloats);
  const F32Vec scale = hn::Set(d, kIsNarrow ? 1.0f : static_cast<float>(a_.scale) / kLn2);
  float* const rows = floats(at_.rows);
  HWY_ALIGN float transposed[2 * kTileRows * kTileRows];
  // The minimum is over bits less one, unsigned: so 0 becomes the largest of all and is ignored.
  auto max = hn::Zero(du), min = hn::Set(du, ~0u);
  const auto magnitude = hn::Set(du, 0x7fffffffu), one = hn::Set(du, 1u);
  const auto update = [&](F32Vec v) HWY_ATTR {
    const auto bits = hn::And(hn::BitCast(du, v), magnitude);
    max = hn::Max(max, bits), min = hn::Min(min, hn::Sub(bits, one));
  };
  for (int64_t i = 0; i < kTiledQueries; i += kTileRows) {
    const int64_t row_count = std::clamp<int64_t>(b.count - i, 0, kTileRows);
    for (int64_t j = 0; j < row_count; ++j) {
      const T* from = static_cast<const T*>(a_.q) + (b.first + i + j) * a_.q_stride;
      float* to = rows + j * width;
      int64_t c = 0;
      for (; c + lanes <= a_.head_dim; c += lanes) hn::Store(hn::Mul(load_f32(d, from + c), scale), d, to + c);
      if (c < a_.head_dim) {
        hn::Store(hn::Mul(load_f32_some(d, from + c, static_cast<size_t>(a_.head_dim - c)), scale), d, to + c);
        c += lanes;
      }
      for (; c < width; c += lanes) hn::Store(hn::Zero(d), d, to + c);
    }
    if (row_count < kTileRows) std::fill(rows + row_count * width, rows + kTileRows * width, 0.0f);
    for (int64_t c = 0; c < width; c += kTileFloats) {
      transpose_tile(rows + c, width, transposed);
      transpose_tile(rows + c + lanes, width, transposed + lanes * lanes);
      for (int64_t p = 0; p < kTileFloats; p += 2) {
        const F32Vec even = hn::Load(d, transposed + p * lanes), odd = hn::Load(d, transposed + (p + 1) * lanes);
        update(even), update(odd);
        store_terms<kQueryTerms>(even, odd, terms_at<kQueryTerms>(scratch_ + at_.queries, c + p, i / kTileRows));
      }
    }
  }
  const float min_query =
      min_of_three_terms(hn::GetLane(hn::MaxOfLanes(du, max)), hn::GetLane(hn::MinOfLanes(du, min)));
  return split_bf16_suffices(min_key_, min_query);
}

/// Rescales results to the new maximum.
template <class T>
void TiledAttention<T>::scale_results(const TiledStrip& t) const {
  const F32Tag d;
  const F32Vec first = hn::Load(d, t.factor), second = hn::Load(d, t.factor + kTileRows);
  for (float* at = t.s.out; at < t.s.out + at_.value_tiles * kTileRows * kTiledQueries; at += kTiledQueries) {
    hn::Store(hn::Mul(hn::Load(d, at), first), d, at);
    hn::Store(hn::Mul(hn::Load(d, at + kTileRows), second), d, at + kTileRows);
  }
}

template <class T>
void TiledAttention<T>::advance(const TiledStrip* next) {
  TiledStrip& scored = strips_[(number_ + 1) % 2];
  TiledStrip& weighed = strips_[number_ % 2];
  if (is_scored_) begin_weights(a_, scored, kIsNarrow ? static_cast<float>(a_.scale) / kLn2 : 1.0f);
  if (is_weighed_ && weighed.is_scaled) scale_results(weighed);
  TiledWeigher<kWeightTerms> w(is_scored_ ? scored : strips_[0]);
  // The weights of a pair of keys are computed after every products / pairs tile products.
  const int64_t steps = tile_steps(a_.head_dim), value_steps = is_weighed_ ? tile_steps(weighed.count) : 0;
  const int64_t score_blocks = next ? tile_steps(next->count) : 0,
                value_blocks = is_weighed_ ? (at_.value_tiles + 1) / 2 : 0;
  const int64_t products = score_blocks * steps * products_of_terms(kForm, kQueries) +
                           value_blocks * value_steps * products_of_terms(kForm, kWeights);
  const int64_t pairs = is_scored_ ? scored.count / 2 : 0;
  int64_t due = 0;
  const auto between = [&](int64_t) HWY_ATTR {
    for (due += pairs; due >= products; due -= products) w.add_pair();
  };
  const auto right_of = [](const char* first, int terms) HWY_ATTR {
    return [first, terms](int64_t step) HWY_ATTR { return first + step * 2 * terms * kTileBytes; };
  };
  for (int64_t i = 0; i < score_blocks; ++i) {
    const char* k = next->keys + 2 * i * at_.key_tile_bytes;
    multiply_terms<kForm, kQueries, true>(
        steps, k, k + at_.key_tile_bytes, right_of(scratch_ + at_.queries, kQueryTerms),
        next->b.scores + i * kTileFloats * kTiledQueries, kTiledQueries, false, between);
  }
  const int64_t tile_bytes = at_.chunk_keys / kTileFloats * at_.value_step_bytes;
  for (int64_t i = 0; i < value_blocks; ++i) {
    const char* v = weighed.values + 2 * i * tile_bytes;
    float* const out = weighed.s.out + 2 * i * kTileRows * kTiledQueries;
    if (2 * i + 1 < at_.value_tiles)
      multiply_terms<kForm, kWeights, true>(value_steps, v, v + tile_bytes, right_of(weighed.weights, kWeightTerms),
                                            out, kTiledQueries, !weighed.is_first, between);
    else
      multiply_terms<kForm, kWeights, false>(value_steps, v, nullptr, right_of(weighed.weights, kWeightTerms), out,
                                             kTiledQueries, !weighed.is_first, between);
  }
  if (is_scored_) {
    while (w.key + 2 <= w.keys) w.add_pair();
    w.add_rest(), w.add_sums(scored.s.sum);
  }
  if (is_weighed_ && weighed.is_last) write_block(weighed.b, weighed.s);
  is_weighed_ = is_scored_;
  is_scored_ = next != nullptr;
  if (next) weighed = *next;
  ++number_;
}

template <class T>
void TiledAttention<T>::write_block(const QueryBlock& b, TiledState s) const {
  const F32Tag d;
  HWY_ALIGN float transposed[kTileRows * kTileRows];
  for (int64_t i = 0; i < b.count; i += kTileRows) {
    const int64_t count = std::min(kTileRows, b.count - i);
    const F32Vec sum = hn::Load(d, s.sum + i);
    const auto none = hn::Eq(sum, hn::Zero(d));  // no key, or all keys masked
    const F32Vec inverse = hn::Div(hn::Set(d, 1.0f), sum);
    for (int64_t c = 0; c < a_.value_dim; c += kTileRows) {
      float* const column = s.out + c * kTiledQueries + i;
      for (int64_t j = 0; j < kTileRows; ++j) {
        float* const at = column + j * kTiledQueries;
        hn::Store(hn::IfThenZeroElse(none, hn::Mul(hn::Load(d, at), inverse)), d, at);
      }
      transpose_tile(column, kTiledQueries, transposed);
      for (int64_t j = 0; j < count; ++j) {
        T* out = static_cast<T*>(a_.out) + (b.first + i + j) * a_.out_stride + c;
        const F32Vec y = hn::Load(d, transposed + j * kTileRows);
        if (c + kTileRows <= a_.value_dim) store_f32(y, d, out);
        else store_f32_some(y, d, out, static_cast<size_t>(a_.value_dim - c));
      }
    }
  }
}

template <class T>
bool TiledAttention<T>::attend(int64_t begin, int64_t end) {
  const TileScope scope;
  const bool is_whole = at_.chunk_keys >= a_.k_rows;
  const int64_t group = is_whole ? end - begin : at_.group;
  for (int64_t first = begin; first < end; first += group) {
    const int64_t last = std::min(first + group, end);
    const int64_t key_begin = visible_keys(a_, first).begin / kTileFloats * kTileFloats;
    const int64_t key_end = visible_keys(a_, last - 1).end;
    for (int64_t chunk = key_begin; chunk == key_begin || chunk < key_end; chunk += at_.chunk_keys) {
      if (chunk < key_end && !pack_chunk(chunk, std::min(at_.chunk_keys, key_end - chunk))) return false;
      for (int64_t query = first; query < last; query += kTiledQueries) {
        const int64_t block = (query - first) / kTiledQueries;
        if (!add_chunk(query, std::min(kTiledQueries, last - query), is_whole ? block % 2 : block, chunk)) return false;
      }
      advance(nullptr), advance(nullptr);
    }
  }
  return true;
}

/// Adds the keys of a chunk to the results of a block of queries.
template <class T>
bool TiledAttention<T>::add_chunk(int64_t query, int64_t count, int64_t block, int64_t chunk) {
  TiledStrip t;
  t.b.first = query, t.b.count = count, t.b.stride = kTiledQueries;
  t.s = state(block);
  // All keys that a query of the block may see, from a whole tile step on: masks exclude the others.
  const int64_t own_begin = visible_keys(a_, query).begin / kTileFloats * kTileFloats;
  const int64_t own_end = visible_keys(a_, query + count - 1).end;
  const int64_t from = std::max(chunk, own_begin), to = std::min(chunk + at_.chunk_keys, own_end);
  if (own_begin >= own_end) {  // no key at all
    for (int64_t i = 0; i < count; ++i)
      std::fill_n(static_cast<T*>(a_.out) + (query + i) * a_.out_stride, a_.value_dim, T{});
  }
  if (from < to && !pack_block(t.b)) return false;
  for (int64_t key = from; key < to; key += kStripKeys) {
    t.key = key, t.count = std::min(kStripKeys, to - key);
    t.is_first = key == own_begin, t.is_last = key + t.count == own_end;
    t.keys = scratch_ + at_.keys + (key - chunk) / kTileRows * at_.key_tile_bytes;
    t.values = scratch_ + at_.values + (key - chunk) / kTileFloats * at_.value_step_bytes;
    t.b.scores = floats(at_.scores + number_ % 2 * kScoreBytes);
    t.weights = scratch_ + at_.weights + number_ % 2 * kWeightBytes;
    advance(&t);
  }
  return true;
}

}  // namespace HWY_NAMESPACE
}  // namespace rlx::kernels
HWY_AFTER_NAMESPACE();
#endif  // HWY_AVX3

#endif  // RLX_KERNELS_ATTENTION_AMX_ATTENTION_INL_H_
