// See the header.
#include "kernels/quant/int8_tiles.h"

#include <algorithm>
#include <cstring>

#include "base/rounded_up.h"
#include "kernels/gemm/amx/paced_prefetch.h"
#include "kernels/vector/highway_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/quant/int8_tiles.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/vector/activation-inl.h"
#include "kernels/vector/bf16_pairs-inl.h"

#ifndef RLX_KERNELS_QUANT_INT8_TILES_ONCE
#define RLX_KERNELS_QUANT_INT8_TILES_ONCE
namespace rlx::kernels {
namespace {

/// Sums of up to two tiles and 32 channels, and where they end. Scales and bias are those of the 32 channels.
struct Int8Block {
  const int32_t* sums;
  const TileImage::Tile *upper,
      *lower;       ///< lower is null if there is one, or if the second sums are those of low bytes
  bool has_planes;  ///< the second sums are those of low bytes
  const float *lesser, *greater, *bias;
  const void* residual;  ///< of the first pixel, of all channels; may be null
  void* y;
  int64_t column;    ///< the first channel
  bool rounds;       ///< the processor has an instruction that rounds to bf16
  int64_t channels;  ///< of y: from pixel to pixel
  int64_t columns;   ///< of these 32 that there are
};

}  // namespace
}  // namespace rlx::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace rlx::kernels {
namespace HWY_NAMESPACE {
namespace {

#if HWY_TARGET == HWY_AVX3 && RLX_HAS_TILES

// Y is the dtype of y and residual: float or BF16.

template <class Y, bool kPlanes, bool kWhole, class Act>
HWY_INLINE void finish_int8_rows(const Int8Block& b, const TileImage::Tile& tile, const int32_t* sums, Act act) {
  const DWide d;
  const DNarrow d16;
  const hn::ScalableTag<int32_t> di;
  const auto lesser0 = hn::LoadU(d, b.lesser), lesser1 = hn::LoadU(d, b.lesser + 16);
  const auto greater0 = hn::LoadU(d, b.greater), greater1 = hn::LoadU(d, b.greater + 16);
  const auto bias0 = hn::LoadU(d, b.bias), bias1 = hn::LoadU(d, b.bias + 16);
  const auto first = static_cast<size_t>(std::min<int64_t>(b.columns, 16));
  const auto mask0 = hn::FirstN(d, first), mask1 = hn::FirstN(d, static_cast<size_t>(b.columns) - first);
  const auto mask16 = hn::FirstN(d16, static_cast<size_t>(b.columns));
  for (int64_t i = 0; i < kTileRows; ++i, sums += kTiledColumns) {
    const int64_t pixel = tile.outputs[i];
    if (pixel < 0) continue;
    const int64_t at = pixel * b.channels + b.column;
    auto sum0 = hn::Load(di, sums), sum1 = hn::Load(di, sums + 16);
    if constexpr (kPlanes) {
      const int32_t* low = sums + kTileRows * kTiledColumns;
      sum0 = hn::Add(hn::ShiftLeft<7>(sum0), hn::Load(di, low));
      sum1 = hn::Add(hn::ShiftLeft<7>(sum1), hn::Load(di, low + 16));
    }
    auto v0 = hn::Add(hn::Mul(hn::Mul(hn::ConvertTo(d, sum0), lesser0), greater0), bias0);
    auto v1 = hn::Add(hn::Mul(hn::Mul(hn::ConvertTo(d, sum1), lesser1), greater1), bias1);
    if constexpr (sizeof(Y) == 4) {
      if (const auto* r = static_cast<const float*>(b.residual)) {
        v0 = hn::Add(v0, kWhole ? hn::LoadU(d, r + at) : hn::MaskedLoad(mask0, d, r + at));
        v1 = hn::Add(v1, kWhole ? hn::LoadU(d, r + at + 16) : hn::MaskedLoad(mask1, d, r + at + 16));
      }
      v0 = act(d, v0), v1 = act(d, v1);
      auto* const y = static_cast<float*>(b.y) + at;
      if constexpr (kWhole) hn::StoreU(v0, d, y), hn::StoreU(v1, d, y + 16);
      else hn::BlendedStore(v0, mask0, d, y), hn::BlendedStore(v1, mask1, d, y + 16);
    } else {
      if (b.residual) {
        const auto* from = static_cast<const uint16_t*>(b.residual) + at;
        const auto r = kWhole ? hn::LoadU(d16, from) : hn::MaskedLoad(mask16, d16, from);
        v0 = hn::Add(v0, widened(hn::LowerHalf(DNarrowHalf(), r)));
        v1 = hn::Add(v1, widened(hn::UpperHalf(DNarrowHalf(), r)));
      }
      v0 = act(d, v0), v1 = act(d, v1);
      const auto out = b.rounds ? rounded_to_bf16<true>(v0, v1) : rounded_to_bf16<false>(v0, v1);
      auto* const y = static_cast<uint16_t*>(b.y) + at;
      if constexpr (kWhole) hn::StoreU(out, d16, y);
      else hn::BlendedStore(out, mask16, d16, y);
    }
  }
}
template <class Y, bool kPlanes, bool kWhole>
void finish_int8(const Int8Block& b, Activation activation) {
  with_activation(activation, [&](auto act) HWY_ATTR {
    finish_int8_rows<Y, kPlanes, kWhole>(b, *b.upper, b.sums, act);
    if (b.lower) finish_int8_rows<Y, false, kWhole>(b, *b.lower, b.sums + kTileRows * kTiledColumns, act);
  });
}
template <class Y>
void finish_int8_of(const Int8Block& b, Activation activation) {
  const bool is_whole = b.columns == kTiledColumns;
  if (b.has_planes && is_whole) finish_int8<Y, true, true>(b, activation);
  else if (b.has_planes) finish_int8<Y, true, false>(b, activation);
  else if (is_whole) finish_int8<Y, false, true>(b, activation);
  else finish_int8<Y, false, false>(b, activation);
}

HWY_INLINE hn::Vec<DWide> sixteen_at(const float* x) { return hn::LoadU(DWide(), x); }
HWY_INLINE hn::Vec<DWide> sixteen_at(const BF16* x) {
  return widened(hn::LoadU(DNarrowHalf(), reinterpret_cast<const uint16_t*>(x)));
}
/// 16 values, as bytes, of each plane.
template <bool kPlanes, bool kUnsigned>
HWY_INLINE void quantize_sixteen(hn::Vec<DWide> x, hn::Vec<DWide> factor, char* values, char* low) {
  const hn::Rebind<int8_t, DWide> dc;
  const hn::Rebind<uint8_t, DWide> du;
  const hn::RebindToSigned<DWide> di;
  const auto value = hn::NearestInt(hn::Mul(x, factor));  // ties to even
  if constexpr (kPlanes) {
    hn::StoreU(hn::DemoteTo(dc, hn::ShiftRight<7>(value)), dc, reinterpret_cast<int8_t*>(values));
    hn::StoreU(hn::DemoteTo(dc, hn::And(value, hn::Set(di, 127))), dc, reinterpret_cast<int8_t*>(low));
  } else if constexpr (kUnsigned) {
    hn::StoreU(hn::DemoteTo(du, value), du, reinterpret_cast<uint8_t*>(values));
  } else {
    hn::StoreU(hn::DemoteTo(dc, value), dc, reinterpret_cast<int8_t*>(values));
  }
}
template <bool kPlanes, bool kUnsigned, class X>
void quantize_some(const X* x, int64_t count, float scale, char* values, char* low) {
  const auto factor = hn::Set(DWide(), 1 / scale);
  const auto low_at = [&](int64_t i) { return kPlanes ? low + i : low; };
  int64_t i = 0;
  for (; i + 16 <= count; i += 16)
    quantize_sixteen<kPlanes, kUnsigned>(sixteen_at(x + i), factor, values + i, low_at(i));
  if (i == count) return;
  const auto rest = static_cast<size_t>(count - i);
  alignas(64) X some[16] = {};
  char some_values[16], some_low[16];
  std::memcpy(some, x + i, rest * sizeof(X));
  quantize_sixteen<kPlanes, kUnsigned>(sixteen_at(some), factor, some_values, some_low);
  std::memcpy(values + i, some_values, rest);
  if constexpr (kPlanes) std::memcpy(low + i, some_low, rest);
}

#endif

}  // namespace

void finish_int8_block([[maybe_unused]] const Int8Block& b, [[maybe_unused]] Activation activation,
                       [[maybe_unused]] DType dtype) {
#if HWY_TARGET == HWY_AVX3 && RLX_HAS_TILES
  if (dtype == bf16) finish_int8_of<BF16>(b, activation);
  else finish_int8_of<float>(b, activation);
#endif
}

uint32_t bf16_range_bits([[maybe_unused]] const BF16* x, [[maybe_unused]] int64_t count) {
#if HWY_TARGET == HWY_AVX3 && RLX_HAS_TILES
  const DNarrow d;
  const auto* from = reinterpret_cast<const uint16_t*>(x);
  const auto magnitude = hn::Set(d, uint16_t{0x7fff});
  const auto step = static_cast<int64_t>(hn::Lanes(d));
  auto most = hn::Zero(d), most2 = most, signs = most;
  int64_t i = 0;
  for (; i + 2 * step <= count; i += 2 * step) {
    const auto first = hn::LoadU(d, from + i), second = hn::LoadU(d, from + i + step);
    most = hn::Max(most, hn::And(magnitude, first)), most2 = hn::Max(most2, hn::And(magnitude, second));
    signs = hn::Or(signs, hn::Or(first, second));
  }
  for (; i < count; i += step) {
    const auto mask = hn::FirstN(d, static_cast<size_t>(std::min(step, count - i)));
    const auto v = hn::MaskedLoad(mask, d, from + i);
    most = hn::Max(most, hn::And(magnitude, v)), signs = hn::Or(signs, v);
  }
  HWY_ALIGN uint16_t each[hn::MaxLanes(d)];
  hn::Store(hn::Max(most, most2), d, each);
  const bool has_sign = !hn::AllTrue(d, hn::Eq(hn::AndNot(magnitude, signs), hn::Zero(d)));
  return uint32_t{*std::max_element(each, each + step)} << 16 | (has_sign ? 1u : 0u);
#else
  return 0;
#endif
}

template <class X>
void quantize_some_of([[maybe_unused]] const X* x, [[maybe_unused]] int64_t count, [[maybe_unused]] float scale,
                      [[maybe_unused]] bool is_unsigned, [[maybe_unused]] char* values, [[maybe_unused]] char* low) {
#if HWY_TARGET == HWY_AVX3 && RLX_HAS_TILES
  if (low) quantize_some<true, false>(x, count, scale, values, low);
  else if (is_unsigned) quantize_some<false, true>(x, count, scale, values, nullptr);
  else quantize_some<false, false>(x, count, scale, values, nullptr);
#endif
}
void quantize_some_f32(const float* x, int64_t count, float scale, bool is_unsigned, char* values, char* low) {
  quantize_some_of(x, count, scale, is_unsigned, values, low);
}
void quantize_some_bf16(const BF16* x, int64_t count, float scale, bool is_unsigned, char* values, char* low) {
  quantize_some_of(x, count, scale, is_unsigned, values, low);
}

}  // namespace HWY_NAMESPACE
}  // namespace rlx::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rlx::kernels {

HWY_EXPORT(finish_int8_block);
HWY_EXPORT(bf16_range_bits);
HWY_EXPORT(quantize_some_bf16);
HWY_EXPORT(quantize_some_f32);

uint32_t bf16_range(const BF16* x, int64_t count) noexcept { return HWY_DYNAMIC_DISPATCH(bf16_range_bits)(x, count); }
void quantize_bytes(DType dtype, const void* x, int64_t count, float scale, bool is_unsigned, char* values,
                    char* low) noexcept {
  if (!(scale == scale)) {
    std::memset(values, 0, static_cast<size_t>(count));
    if (low) std::memset(low, 0, static_cast<size_t>(count));
  } else if (dtype == bf16) {
    HWY_DYNAMIC_DISPATCH(quantize_some_bf16)(static_cast<const BF16*>(x), count, scale, is_unsigned, values, low);
  } else {
    HWY_DYNAMIC_DISPATCH(quantize_some_f32)(static_cast<const float*>(x), count, scale, is_unsigned, values, low);
  }
}

void convolve_int8_tiles(const TileImage& image, const Int8TilesCall& call, int64_t begin, int64_t end, int64_t first,
                         int64_t last) noexcept {
  // While tiles multiply, the epilogue of the block before is computed.
  alignas(64) int32_t sums[2][2 * kTileRows * kTiledColumns];
  float lesser[2][kTiledColumns], greater[2][kTiledColumns], bias[2][kTiledColumns];
  int turn = 0;
  const TileScope scope(image.k_bytes());
  TilesAt tiles;
  tiles.stride = image.stride(), tiles.offsets = image.offsets().data();
  tiles.steps = static_cast<int64_t>(image.offsets().size()), tiles.k_bytes = image.k_bytes();
  tiles.values = call.is_unsigned && !call.low ? TileValues::u8 : TileValues::i8;
  Int8Block block{};
  block.rounds = tiles_round_to_bf16();
  block.channels = call.channels, block.has_planes = call.low != nullptr;
  Int8Block before{};
  const auto finish_before = [&] {
    if (before.sums) HWY_DYNAMIC_DISPATCH(finish_int8_block)(before, call.activation, call.dtype);
  };
  const int64_t together = call.low ? 1 : 2, panel_bytes = image.panel_bytes();
  for (int64_t panel = first; panel < last; ++panel) {
    tiles.right = call.weights + panel * panel_bytes;
    const int64_t column = panel * kTiledColumns;
    block.columns = std::min(kTiledColumns, call.channels - column);
    const int64_t of_panel = panel % 2;
    for (int64_t j = 0; j < kTiledColumns; ++j) {
      const bool is_there = j < block.columns;
      const float w_scale = is_there ? call.w_scale[column + j] : 0;
      lesser[of_panel][j] = w_scale < call.scale ? w_scale : call.scale;
      greater[of_panel][j] = w_scale < call.scale ? call.scale : w_scale;
      bias[of_panel][j] = is_there && call.bias ? call.bias[column + j] : -0.0f;  // adding -0 changes nothing
    }
    block.lesser = lesser[of_panel], block.greater = greater[of_panel], block.bias = bias[of_panel];
    block.residual = call.residual, block.y = call.y, block.column = column;
    PacedPrefetch paced(panel + 1 < last ? tiles.right + panel_bytes : nullptr, panel_bytes,
                        divided_up(end - begin, together), tiles.steps);
    for (int64_t t = begin; t < end; t += together) {
      block.upper = &image.tiles()[static_cast<size_t>(t)];
      block.lower = !call.low && t + 1 < end ? block.upper + 1 : nullptr;
      tiles.upper = call.values + block.upper->at;
      tiles.lower = call.low ? call.low + block.upper->at : block.lower ? call.values + block.lower->at : nullptr;
      paced.give(tiles);
      block.sums = sums[turn];
      multiply_tiles_at(tiles, sums[turn]);
      finish_before();
      before = block, turn ^= 1;
    }
  }
  finish_before();
}

}  // namespace rlx::kernels
#endif
