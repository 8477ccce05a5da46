// See the header.
#include "kernels/conv/narrow_tiles.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/rounded_up.h"
#include "kernels/gemm/amx/paced_prefetch.h"
#include "kernels/gemm/fma/dot_tiles.h"
#include "kernels/vector/highway_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/conv/narrow_tiles.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/gemm/amx/interleaved-inl.h"
#include "kernels/vector/activation-inl.h"
#include "kernels/vector/bf16_pairs-inl.h"

#ifndef RLX_KERNELS_CONV_NARROW_TILES_ONCE
#define RLX_KERNELS_CONV_NARROW_TILES_ONCE
namespace rlx::kernels {
namespace {

/// Sums of up to two tiles and 32 channels, and their epilogue.
struct NarrowBlock {
  const float* sums;
  const TileImage::Tile *upper, *lower;  ///< lower may be null
  const float* bias;                     ///< of the first channel; may be null
  const BF16* residual;                  ///< of the first channel; may be null
  BF16* y;
  int64_t channels;  ///< of y: from pixel to pixel
  int64_t columns;   ///< how many of the 32 channels exist
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

/// Applies the epilogue to rows [begin, end) of the sums, and writes y.
template <bool kRounds, bool kWhole, class Act>
void epilogue_rows(const NarrowBlock& b, int64_t begin, int64_t end) {
  const Act act{};
  const DWide d;
  const DNarrow d16;
  const auto mask = hn::FirstN(d16, static_cast<size_t>(b.columns));
  const auto bias0 = b.bias ? hn::LoadU(d, b.bias) : hn::Zero(d);
  const auto bias1 = b.bias ? hn::LoadU(d, b.bias + 16) : hn::Zero(d);
  const int64_t next = 2 * kTileRows * b.channels;  // the same channels of the pixels of the next two tiles
  for (int64_t i = begin; i < end; ++i) {
    const int64_t pixel = i < kTileRows ? b.upper->outputs[i] : b.lower->outputs[i - kTileRows];
    if (pixel < 0) continue;
    const float* const sums = b.sums + i * kTiledColumns;
    auto v0 = hn::Add(hn::Load(d, sums), bias0), v1 = hn::Add(hn::Load(d, sums + 16), bias1);
    if (b.residual) {
      const auto* from = reinterpret_cast<const uint16_t*>(b.residual) + pixel * b.channels;
      const auto r = kWhole ? hn::LoadU(d16, from) : hn::MaskedLoad(mask, d16, from);
      __builtin_prefetch(from + next, 0, 2);
      v0 = hn::Add(v0, widened(hn::LowerHalf(DNarrowHalf(), r)));
      v1 = hn::Add(v1, widened(hn::UpperHalf(DNarrowHalf(), r)));
    }
    const auto out = rounded_to_bf16<kRounds>(act(d, v0), act(d, v1));
    auto* to = reinterpret_cast<uint16_t*>(b.y) + pixel * b.channels;
    __builtin_prefetch(to + next, 0, 2);
    if constexpr (kWhole) hn::StoreU(out, d16, to);
    else hn::BlendedStore(out, mask, d16, to);
  }
}
using NarrowEpilogue = void (*)(const NarrowBlock& b, int64_t begin, int64_t end);
template <bool kRounds, bool kWhole>
NarrowEpilogue epilogue_with(Activation activation) {
  NarrowEpilogue epilogue = nullptr;
  with_activation(activation, [&](auto act) { epilogue = epilogue_rows<kRounds, kWhole, decltype(act)>; });
  return epilogue;
}
NarrowEpilogue epilogue_of(const NarrowBlock& b, Activation activation) {
  const bool is_whole = b.columns == kTiledColumns;
  if (b.rounds) return is_whole ? epilogue_with<true, true>(activation) : epilogue_with<true, false>(activation);
  return is_whole ? epilogue_with<false, true>(activation) : epilogue_with<false, false>(activation);
}

#endif

}  // namespace

/// Computes an epilogue alone.
void finish_block([[maybe_unused]] const NarrowBlock& block, [[maybe_unused]] Activation activation) {
#if HWY_TARGET == HWY_AVX3 && RLX_HAS_TILES
  epilogue_of(block, activation)(block, 0, (block.lower ? 2 : 1) * kTileRows);
#endif
}

/// Multiplies `tiles`, if there are any, beside the epilogue of the block before, if there is one.
void multiply_beside([[maybe_unused]] const TilesAt* tiles, [[maybe_unused]] void* sums,
                     [[maybe_unused]] const NarrowBlock* before, [[maybe_unused]] Activation activation) {
#if HWY_TARGET == HWY_AVX3 && RLX_HAS_TILES
  if (!before) return multiply_tiles_at(*tiles, sums);
  const NarrowEpilogue epilogue = epilogue_of(*before, activation);
  const int64_t rows = (before->lower ? 2 : 1) * kTileRows;
  if (!tiles) return epilogue(*before, 0, rows);
  multiply_tiles_beside_rows<TileValues::bf16>(
      *tiles, sums, rows, [&](int64_t begin, int64_t end) HWY_ATTR { epilogue(*before, begin, end); });
#endif
}

}  // namespace HWY_NAMESPACE
}  // namespace rlx::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rlx::kernels {

HWY_EXPORT(finish_block);
HWY_EXPORT(multiply_beside);

bool has_narrow_tiles(const ConvolutionArgs& a) {
  return a.dtype == bf16 && a.out_dtype == bf16 && (has_matrix_tiles() || has_bf16_tile_dots()) &&
         TileImage::supports(a);
}

void convolve_narrow_tiles(const TileImage& image, const NarrowTilesCall& call, int64_t begin, int64_t end,
                           int64_t first, int64_t last) noexcept {
  // Where all weights stay in the second-level cache, two tiles are multiplied with each of them before the next two
  // are, so that results and residuals are written and read in their order. Else so many tiles are as stay there with
  // what they give.
  constexpr int64_t kWeightBytesInCache = 512 << 10, kBytesInCache = 512 << 10;
  const int64_t panel_bytes = image.panel_bytes(), of_pair = 2 * kTileRows * (image.stride() + call.channels * 2);
  const bool stay = (last - first) * panel_bytes <= kWeightBytesInCache;
  const int64_t at_once = stay ? 2 : 2 * std::max<int64_t>(1, kBytesInCache / of_pair);
  // While tiles multiply, the epilogue of the block before is computed.
  alignas(64) float sums[2][2 * kTileRows * kTiledColumns];
  int turn = 0;
  const bool by_tiles = has_matrix_tiles();
  std::optional<TileScope> scope;
  if (by_tiles) scope.emplace(image.k_bytes());
  TilesAt tiles;
  tiles.stride = image.stride(), tiles.offsets = image.offsets().data();
  tiles.steps = static_cast<int64_t>(image.offsets().size()), tiles.k_bytes = image.k_bytes();
  DotTiles dots;
  dots.offsets = tiles.offsets, dots.steps = tiles.steps, dots.k_bytes = tiles.k_bytes, dots.sums = sums[turn];
  int64_t rows_of = -1;  // the tile whose rows `dots` has, and those of the one behind it
  NarrowBlock block{};
  block.channels = call.channels, block.rounds = tiles_round_to_bf16();
  NarrowBlock before{};
  const auto multiply = [&](const TilesAt* next, void* to) {
    HWY_DYNAMIC_DISPATCH(multiply_beside)(next, to, before.sums ? &before : nullptr, call.activation);
  };
  // Prefetched is what is read next: another panel, then in turn the next two tiles, unless a copy has just written
  // them, and what the caller names.
  const int64_t panels = last - first, pairs = divided_up(end - begin, int64_t{2});
  PacedPrefetch afterwards(
      reinterpret_cast<const char*>(call.next.data()), static_cast<int64_t>(call.next.size()),
      stay ? divided_up(pairs * panels, int64_t{2}) : divided_up((end - begin - 1) % at_once + 1, int64_t{2}),
      tiles.steps);
  for (int64_t from = begin; from < end; from += at_once) {
    const int64_t to = std::min(end, from + at_once);
    const bool reads_on = stay && image.reads_x() && to < end;
    PacedPrefetch next_tiles(reads_on ? call.image + image.tiles()[static_cast<size_t>(to)].at : nullptr,
                             2 * kTileRows * image.stride(), divided_up(panels, int64_t{2}), tiles.steps);
    for (int64_t panel = first; panel < last; ++panel) {
      tiles.right = call.weights + panel * panel_bytes;
      const bool is_another = panel + 1 < last && (from == begin || !stay);
      PacedPrefetch next_panel(is_another ? tiles.right + panel_bytes : nullptr, panel_bytes,
                               divided_up(to - from, int64_t{2}), tiles.steps);
      const bool is_next_tiles = reads_on && (panel - first) % 2 == 0, is_afterwards = stay || to == end;
      PacedPrefetch& paced = is_another      ? next_panel
                             : is_next_tiles ? next_tiles
                             : is_afterwards ? afterwards
                                             : next_panel;
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
        if (!by_tiles) {
          if (std::exchange(rows_of, t) != t) set_dot_rows(dots, tiles, *block.upper, block.lower);
          dots.right = tiles.right, dots.prefetch = tiles.prefetch, dots.prefetch_bytes = tiles.prefetch_bytes;
          multiply_dot_tiles(dots, 2);
          HWY_DYNAMIC_DISPATCH(finish_block)(block, call.activation);
          continue;
        }
        multiply(&tiles, sums[turn]);
        before = block, turn ^= 1;
      }
    }
  }
  if (before.sums) multiply(nullptr, nullptr);
}

}  // namespace rlx::kernels
#endif
