// Scores of bf16 attention by dot products of pairs (gemm/fma/dot_tiles.h), which do twice the multiply-adds of an
// instruction of f32. Queries are packed in pairs along the width of a head; keys are read where they lie. Scores are
// stored transposed, as in score_blocks-inl.h. Compiled for AVX-512 alone, in builds that may have matrix tiles, which
// are not used here; user: attention.cpp.
#if defined(RLX_KERNELS_ATTENTION_BF16_SCORES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RLX_KERNELS_ATTENTION_BF16_SCORES_INL_H_
#undef RLX_KERNELS_ATTENTION_BF16_SCORES_INL_H_
#else
#define RLX_KERNELS_ATTENTION_BF16_SCORES_INL_H_
#endif

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "hwy/highway.h"
#include "kernels/attention/score_blocks-inl.h"
#include "kernels/gemm/fma/dot_tiles.h"
#include "kernels/vector/bf16_pairs-inl.h"

#if HWY_TARGET == HWY_AVX3 && RLX_HAS_TILES
HWY_BEFORE_NAMESPACE();
namespace rlx::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// The smallest magnitude in some rows, but for 0; infinity where there is none.
inline float min_magnitude_of_rows(const BF16* rows, int64_t stride, int64_t count, int64_t width) {
  const DNarrow d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto magnitude = hn::Set(d, uint16_t{0x7fff}), one = hn::Set(d, uint16_t{1});
  auto min = hn::Set(d, uint16_t{0xffff});  // of the bits less one, so that 0 is the largest of all
  for (int64_t i = 0; i < count; ++i) {
    const auto* row = reinterpret_cast<const uint16_t*>(rows + i * stride);
    int64_t c = 0;
    for (; c + lanes <= width; c += lanes) min = hn::Min(min, hn::Sub(hn::And(hn::LoadU(d, row + c), magnitude), one));
    if (c == width) continue;
    const auto rest = hn::MaskedLoad(hn::FirstN(d, static_cast<size_t>(width - c)), d, row + c);
    min = hn::Min(min, hn::Sub(hn::And(rest, magnitude), one));
  }
  HWY_ALIGN uint16_t each[hn::MaxLanes(d)];
  hn::Store(min, d, each);
  const uint16_t least = *std::min_element(each, each + lanes);
  if (least == 0xffff) return std::numeric_limits<float>::infinity();
  return std::bit_cast<float>((uint32_t{least} + 1) << 16);
}

/// Whether dot products of pairs give the scores. The instruction takes subnormal
/// numbers for 0 and makes zeros of subnormal sums, so that small numbers among a head's queries and keys need f32. All
/// queries of the head are looked at, not those of a call, so that results do not depend on threads. A product of two
/// numbers of bf16, of 8 bits each, that is 2^-92 or more is a multiple of 2^-107. So a sum of such products is 0, or
/// at least 2^-107, which is normal.
inline bool bf16_dots_give_scores(const AttentionArgs& a) {
  if (a.q_rows < 1 || !has_bf16_tile_dots() || a.dtype != bf16 || a.k_format ||
      a.strategy.kernel != AttentionKernel::score_blocks || a.head_dim < 2 || a.head_dim % 2 != 0 ||
      a.head_dim > kPartialSumTerms || !(a.scale >= 0x1p-20 && a.scale <= 0x1p20))
    return false;
  const float query = min_magnitude_of_rows(static_cast<const BF16*>(a.q), a.q_stride, a.q_rows, a.head_dim);
  const int64_t first = visible_keys(a, 0).begin, last = std::max(first, visible_keys(a, a.q_rows - 1).end);
  const float key =
      min_magnitude_of_rows(static_cast<const BF16*>(a.k) + first * a.k_stride, a.k_stride, last - first, a.head_dim);
  return query >= 0x1p-126f && key >= 0x1p-126f && query * key >= 0x1p-92f;
}

/// Queries as columns of DotTiles: pairs[t][c][i] = q[16 t + i][2 c] and q[16 t + i][2 c + 1], for the block's queries,
/// of which `q` is the first; those behind the last are 0. There are two tiles at least.
inline void pack_query_pairs(const QueryBlock& b, const BF16* q, int64_t q_stride, int64_t width) {
  const int64_t pairs = width / 2;
  for (int64_t i = 0; i < std::max(b.stride, 2 * kTileRows); i += kTileRows) {
    float* const tile = b.queries + i * pairs;
    const int64_t count = std::clamp<int64_t>(b.count - i, 0, kTileRows);
    int64_t c = 0;
    if (count == kTileRows && q_stride % 2 == 0) {
      const auto* rows = reinterpret_cast<const float*>(q + i * q_stride);  // moved, never computed with
      for (; c + kTileRows <= pairs; c += kTileRows) transpose_tile(rows + c, q_stride / 2, tile + c * kTileRows);
    }
    for (; c < pairs; ++c)
      for (int64_t r = 0; r < kTileRows; ++r) {
        uint32_t pair = 0;
        if (r < count) std::memcpy(&pair, q + (i + r) * q_stride + 2 * c, sizeof pair);
        std::memcpy(tile + c * kTileRows + r, &pair, sizeof pair);
      }
  }
}

/// The scores of `keys` keys and all queries of a block, times `factor`.
inline void score_key_pairs(const QueryBlock& b, const BF16* k, int64_t k_stride, int64_t keys, int64_t head_dim,
                            float factor) {
  DotTiles dots;
  dots.steps = 1, dots.k_bytes = head_dim * 2;
  if (b.stride == kTileRows) dots.tile_stride = kBlockKeys * kTileRows;  // a second tile, whose scores nobody reads
  dots.right = reinterpret_cast<const char*>(b.queries), dots.sums = b.scores;
  for (int64_t j = 0; j < keys; j += DotTiles::kMaxRows) {
    dots.count = 0;
    for (int64_t i = j; i < std::min(keys, j + DotTiles::kMaxRows); ++i)
      dots.add_row(reinterpret_cast<const char*>(k + i * k_stride), i * b.stride);
    multiply_dot_tiles(dots, std::max<int64_t>(2, b.stride / kTileRows));
  }
  if (factor == 1) return;
  const F32Tag d;
  const F32Vec by = hn::Set(d, factor);
  for (float* at = b.scores; at < b.scores + keys * b.stride; at += kTileRows)
    hn::Store(hn::Mul(hn::Load(d, at), by), d, at);
}

}  // namespace HWY_NAMESPACE
}  // namespace rlx::kernels
HWY_AFTER_NAMESPACE();
#endif

#endif  // RLX_KERNELS_ATTENTION_BF16_SCORES_INL_H_
