// See the header.
#include "kernels/conv/narrow_tiles.h"

#include <algorithm>

#include "base/rounded_up.h"
#include "kernels/gemm/amx/paced_prefetch.h"
#include "kernels/vector/highway_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/conv/narrow_tiles.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/vector/activation-inl.h"
#include "kernels/vector/bf16_pairs-inl.h"

#ifndef RLX_KERNELS_CONV_NARROW_TILES_ONCE
#define RLX_KERNELS_CONV_NARROW_TILES_ONCE
namespace rlx::kernels {
namespace {

/// Sums of up to two tiles and 32 channels, and where they end.
struct NarrowBlock {
  const float* sums;
  const TileImage::Tile *upper, *lower;  ///< lower may be null
  const float* bias;                     ///< of the first channel; may be null
  const BF16* residual;                  ///< of the first channel; may be null
  BF16* y;
  int64_t channels;  ///< of y: from pixel to pixel
  int64_t columns;   ///< of these 32 that there are
  bool rounds;       ///< the processor has an instruction that rounds to bf16
};

}  // namespace
}  // namespace rlx::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace rlx::kernels {
namespace HWY_NAMESPACE {
namespace {

#if HWY_TARGET == HWY_AVX3 && RLX_HAS_TILES

template <bool kRounds, bool kWhole, class Act>
HWY_INLINE void finish_rows(const NarrowBlock& b, const TileImage::Tile& tile, const float* sums, Act act) {
  const DWide d;
  const DNarrow d16;
  const auto mask = hn::FirstN(d16, static_cast<size_t>(b.columns));
  const auto bias0 = b.bias ? hn::LoadU(d, b.bias) : hn::Zero(d);
  const auto bias1 = b.bias ? hn::LoadU(d, b.bias + 16) : hn::Zero(d);
  for (int64_t i = 0; i < kTileRows; ++i, sums += kTiledColumns) {
    const int64_t pixel = tile.outputs[i];
    if (pixel < 0) continue;
    auto v0 = hn::Add(hn::Load(d, sums), bias0), v1 = hn::Add(hn::Load(d, sums + 16), bias1);
    if (b.residual) {
      const auto* from = reinterpret_cast<const uint16_t*>(b.residual) + pixel * b.channels;
      const auto r = kWhole ? hn::LoadU(d16, from) : hn::MaskedLoad(mask, d16, from);
      v0 = hn::Add(v0, widened(hn::LowerHalf(DNarrowHalf(), r)));
      v1 = hn::Add(v1, widened(hn::UpperHalf(DNarrowHalf(), r)));
    }
    const auto out = rounded_to_bf16<kRounds>(act(d, v0), act(d, v1));
    auto* to = reinterpret_cast<uint16_t*>(b.y) + pixel * b.channels;
    if constexpr (kWhole) hn::StoreU(out, d16, to);
    else hn::BlendedStore(out, mask, d16, to);
  }
}
template <bool kRounds, bool kWhole>
void finish(const NarrowBlock& b, Activation activation) {
  with_activation(activation, [&](auto act) HWY_ATTR {
    finish_rows<kRounds, kWhole>(b, *b.upper, b.sums, act);
    if (b.lower) finish_rows<kRounds, kWhole>(b, *b.lower, b.sums + kTileRows * kTiledColumns, act);
  });
}

#endif

}  // namespace

void finish_narrow_block([[maybe_unused]] const NarrowBlock& b, [[maybe_unused]] Activation activation) {
#if HWY_TARGET == HWY_AVX3 && RLX_HAS_TILES
  const bool is_whole = b.columns == kTiledColumns;
  if (b.rounds && is_whole) finish<true, true>(b, activation);
  else if (b.rounds) finish<true, false>(b, activation);
  else if (is_whole) finish<false, true>(b, activation);
  else finish<false, false>(b, activation);
#endif
}

}  // namespace HWY_NAMESPACE
}  // namespace rlx::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rlx::kernels {

HWY_EXPORT(finish_narrow_block);

bool has_narrow_tiles(const ConvolutionArgs& a) {
  return a.dtype == bf16 && a.out_dtype == bf16 && has_matrix_tiles() && TileImage::supports(a);
}

void convolve_narrow_tiles(const TileImage& image, const NarrowTilesCall& call, int64_t begin, int64_t end,
                           int64_t first, int64_t last) noexcept {
  // Pixels that are read and written in this many bytes stay in the second-level cache while all panels are computed.
  constexpr int64_t kBytesInCache = 512 << 10;
  const int64_t of_pair = 2 * kTileRows * (image.stride() + call.channels * 2);
  const int64_t at_once = 2 * std::max<int64_t>(1, kBytesInCache / of_pair);
  const int64_t panel_bytes = image.panel_bytes();
  // While tiles multiply, the epilogue of the block before is computed.
  alignas(64) float sums[2][2 * kTileRows * kTiledColumns];
  int turn = 0;
  const TileScope scope(image.k_bytes());
  TilesAt tiles;
  tiles.stride = image.stride(), tiles.offsets = image.offsets().data();
  tiles.steps = static_cast<int64_t>(image.offsets().size()), tiles.k_bytes = image.k_bytes();
  NarrowBlock block{};
  block.channels = call.channels, block.rounds = tiles_round_to_bf16();
  NarrowBlock before{};
  const auto finish_before = [&] {
    if (before.sums) HWY_DYNAMIC_DISPATCH(finish_narrow_block)(before, call.activation);
  };
  for (int64_t from = begin; from < end; from += at_once) {
    const int64_t to = std::min(end, from + at_once);
    for (int64_t panel = first; panel < last; ++panel) {
      tiles.right = call.weights + panel * panel_bytes;
      // What is read after this panel: the next one, which follows it, or what the caller names.
      const bool has_next = panel + 1 < last;
      const char* prefetch = has_next    ? tiles.right + panel_bytes
                             : to == end ? reinterpret_cast<const char*>(call.next.data())
                                         : nullptr;
      PacedPrefetch paced(prefetch, has_next ? panel_bytes : static_cast<int64_t>(call.next.size()),
                          divided_up(to - from, int64_t{2}), tiles.steps);
      const int64_t column = panel * kTiledColumns;
      block.columns = std::min(kTiledColumns, call.channels - column);
      block.bias = call.bias ? call.bias + column : nullptr;
      block.residual = call.residual ? call.residual + column : nullptr, block.y = call.y + column;
      for (int64_t t = from; t < to; t += 2) {
        block.upper = &image.tiles()[static_cast<size_t>(t)];
        block.lower = t + 1 < to ? block.upper + 1 : nullptr;
        tiles.upper = call.image + block.upper->at;
        tiles.lower = block.lower ? call.image + block.lower->at : nullptr;
        paced.give(tiles);
        block.sums = sums[turn];
        multiply_tiles_at(tiles, sums[turn]);
        finish_before();
        before = block, turn ^= 1;
      }
    }
  }
  finish_before();
}

}  // namespace rlx::kernels
#endif
