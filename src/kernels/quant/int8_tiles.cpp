// See the header.
#include "kernels/quant/int8_tiles.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "base/rounded_up.h"
#include "kernels/gemm/amx/paced_prefetch.h"
#include "kernels/gemm/fma/dot_tiles.h"
#include "kernels/vector/highway_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/quant/int8_tiles.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/gemm/amx/interleaved-inl.h"
#include "kernels/vector/activation-inl.h"
#include "kernels/vector/bf16_pairs-inl.h"

#ifndef RLX_KERNELS_QUANT_INT8_TILES_ONCE
#define RLX_KERNELS_QUANT_INT8_TILES_ONCE
namespace rlx::kernels {
namespace {

/// Sums of up to two tiles and 32 channels, and their epilogue. Scales and bias begin with those of the first channel.
struct Int8Block {
  const int32_t* sums;
  const TileImage::Tile *upper,
      *lower;                   ///< lower is null if there is one, or if the second sums are those of low bytes
  bool has_planes;              ///< the second sums are those of low bytes
  float scale;                  ///< of the values
  const float *w_scale, *bias;  ///< the bias may be null
  const int32_t* column_sums;   ///< of the first channel, subtracted from the first sums; may be null
  const void* residual;         ///< of the first pixel, of all channels; may be null
  void* y;
  int64_t column;    ///< the first channel
  bool rounds;       ///< the processor has an instruction that rounds to bf16
  int64_t channels;  ///< of y: from pixel to pixel
  int64_t columns;   ///< how many of the 32 channels exist
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

/// Applies the epilogue to rows [begin, end) of the sums, and writes y.
template <class Y, bool kPlanes, bool kWhole, class Act>
void int8_epilogue_rows(const Int8Block& b, int64_t begin, int64_t end) {
  const Act act{};
  const DWide d;
  const DNarrow d16;
  const hn::ScalableTag<int32_t> di;
  const auto first = static_cast<size_t>(std::min<int64_t>(b.columns, 16));
  const auto mask0 = hn::FirstN(d, first), mask1 = hn::FirstN(d, static_cast<size_t>(b.columns) - first);
  const auto mask16 = hn::FirstN(d16, static_cast<size_t>(b.columns));
  const auto load = [&](auto mask, const float* from)
                        HWY_ATTR { return kWhole ? hn::LoadU(d, from) : hn::MaskedLoad(mask, d, from); };
  const auto x_scale = hn::Set(d, b.scale), w0 = load(mask0, b.w_scale), w1 = load(mask1, b.w_scale + 16);
  const auto is_less0 = hn::Lt(w0, x_scale), is_less1 = hn::Lt(w1, x_scale);
  const auto lesser0 = hn::IfThenElse(is_less0, w0, x_scale), greater0 = hn::IfThenElse(is_less0, x_scale, w0);
  const auto lesser1 = hn::IfThenElse(is_less1, w1, x_scale), greater1 = hn::IfThenElse(is_less1, x_scale, w1);
  const auto none = hn::Set(d, -0.0f);  // adding it changes nothing
  const auto bias0 = b.bias ? load(mask0, b.bias) : none, bias1 = b.bias ? load(mask1, b.bias + 16) : none;
  const auto shift0 = b.column_sums ? hn::LoadU(di, b.column_sums) : hn::Zero(di);
  const auto shift1 = b.column_sums ? hn::LoadU(di, b.column_sums + 16) : hn::Zero(di);
  const int64_t next = 2 * kTileRows * b.channels;  // the same channels of the pixels of the next two tiles
  for (int64_t i = begin; i < end; ++i) {
    const int64_t pixel = i < kTileRows ? b.upper->outputs[i] : b.lower->outputs[i - kTileRows];
    if (pixel < 0) continue;
    const int64_t at = pixel * b.channels + b.column;
    const int32_t* const sums = b.sums + i * kTiledColumns;
    auto sum0 = hn::Sub(hn::Load(di, sums), shift0), sum1 = hn::Sub(hn::Load(di, sums + 16), shift1);
    if constexpr (kPlanes) {
      const int32_t* low = sums + kTileRows * kTiledColumns;
      sum0 = hn::Add(hn::ShiftLeft<7>(sum0), hn::Load(di, low));
      sum1 = hn::Add(hn::ShiftLeft<7>(sum1), hn::Load(di, low + 16));
    }
    auto v0 = hn::Add(hn::Mul(hn::Mul(hn::ConvertTo(d, sum0), lesser0), greater0), bias0);
    auto v1 = hn::Add(hn::Mul(hn::Mul(hn::ConvertTo(d, sum1), lesser1), greater1), bias1);
    if constexpr (sizeof(Y) == 4) {
      if (const auto* r = static_cast<const float*>(b.residual)) {
        __builtin_prefetch(r + at + next, 0, 2), __builtin_prefetch(r + at + next + 16, 0, 2);
        v0 = hn::Add(v0, kWhole ? hn::LoadU(d, r + at) : hn::MaskedLoad(mask0, d, r + at));
        v1 = hn::Add(v1, kWhole ? hn::LoadU(d, r + at + 16) : hn::MaskedLoad(mask1, d, r + at + 16));
      }
      v0 = act(d, v0), v1 = act(d, v1);
      auto* const y = static_cast<float*>(b.y) + at;
      __builtin_prefetch(y + next, 0, 2), __builtin_prefetch(y + next + 16, 0, 2);
      if constexpr (kWhole) hn::StoreU(v0, d, y), hn::StoreU(v1, d, y + 16);
      else hn::BlendedStore(v0, mask0, d, y), hn::BlendedStore(v1, mask1, d, y + 16);
    } else {
      if (b.residual) {
        const auto* from = static_cast<const uint16_t*>(b.residual) + at;
        const auto r = kWhole ? hn::LoadU(d16, from) : hn::MaskedLoad(mask16, d16, from);
        __builtin_prefetch(from + next, 0, 2);
        v0 = hn::Add(v0, widened(hn::LowerHalf(DNarrowHalf(), r)));
        v1 = hn::Add(v1, widened(hn::UpperHalf(DNarrowHalf(), r)));
      }
      v0 = act(d, v0), v1 = act(d, v1);
      const auto out = b.rounds ? rounded_to_bf16<true>(v0, v1) : rounded_to_bf16<false>(v0, v1);
      auto* const y = static_cast<uint16_t*>(b.y) + at;
      __builtin_prefetch(y + next, 0, 2);
      if constexpr (kWhole) hn::StoreU(out, d16, y);
      else hn::BlendedStore(out, mask16, d16, y);
    }
  }
}
using Int8Epilogue = void (*)(const Int8Block& b, int64_t begin, int64_t end);
template <class Y, bool kPlanes>
Int8Epilogue int8_epilogue_with(Activation activation, bool is_whole) {
  Int8Epilogue epilogue = nullptr;
  with_activation(activation, [&](auto act) {
    epilogue = is_whole ? int8_epilogue_rows<Y, kPlanes, true, decltype(act)>
                        : int8_epilogue_rows<Y, kPlanes, false, decltype(act)>;
  });
  return epilogue;
}
Int8Epilogue int8_epilogue_of(const Int8Block& b, Activation activation, DType dtype) {
  const bool is_whole = b.columns == kTiledColumns;
  if (dtype == bf16)
    return b.has_planes ? int8_epilogue_with<BF16, true>(activation, is_whole)
                        : int8_epilogue_with<BF16, false>(activation, is_whole);
  return b.has_planes ? int8_epilogue_with<float, true>(activation, is_whole)
                      : int8_epilogue_with<float, false>(activation, is_whole);
}

using DShorts = hn::RebindToSigned<DNarrow>;
/// round(x), ties to even, in the lower 16 bits of each lane, for |x| below 2^15: beside 1.5 * 2^23, the last bit of an
/// f32 is worth 1.
HWY_INLINE hn::Vec<DWide> rounded_beside(hn::Vec<DWide> x) { return hn::Add(x, hn::Set(DWide(), 0x1.8p23f)); }
/// round(x * factor) of 32 numbers, ties to even.
HWY_INLINE hn::Vec<DShorts> next_shorts(const float* x, hn::Vec<DWide> factor) {
  const DWide d;
  const DShorts d16;
  const auto first = rounded_beside(hn::Mul(hn::LoadU(d, x), factor));
  const auto second = rounded_beside(hn::Mul(hn::LoadU(d, x + 16), factor));
  return hn::ConcatEven(d16, hn::BitCast(d16, second), hn::BitCast(d16, first));
}
HWY_INLINE hn::Vec<DShorts> next_shorts(const BF16* x, hn::Vec<DWide> factor) {
  // Of each two numbers the second is an f32's upper half, and the first when it is shifted up: nothing changes lanes.
  const DWide d;
  const auto pairs = hn::BitCast(DWideBits(), hn::LoadU(DNarrow(), reinterpret_cast<const uint16_t*>(x)));
  const auto upper = hn::BitCast(d, hn::And(pairs, hn::Set(DWideBits(), 0xffff0000u)));
  const auto lower = hn::BitCast(d, hn::ShiftLeft<16>(pairs));
  const auto odd = rounded_beside(hn::Mul(upper, factor)), even = rounded_beside(hn::Mul(lower, factor));
  return hn::OddEven(hn::BitCast(DShorts(), hn::ShiftLeft<16>(hn::BitCast(DWideBits(), odd))),
                     hn::BitCast(DShorts(), even));
}
/// 32 values, as bytes, of each plane.
template <bool kPlanes, bool kUnsigned, class X>
HWY_INLINE void quantize_next(const X* x, hn::Vec<DWide> factor, uint8_t flip, char* values, char* low) {
  const DShorts d16;
  const hn::Rebind<int8_t, DShorts> d;
  const hn::Rebind<uint8_t, DShorts> du;
  const auto value = next_shorts(x, factor);
  if constexpr (kPlanes) {
    hn::StoreU(hn::Xor(hn::DemoteTo(d, hn::ShiftRight<7>(value)), hn::Set(d, static_cast<int8_t>(flip))), d,
               reinterpret_cast<int8_t*>(values));
    hn::StoreU(hn::DemoteTo(d, hn::And(value, hn::Set(d16, int16_t{127}))), d, reinterpret_cast<int8_t*>(low));
  } else if constexpr (kUnsigned) {
    hn::StoreU(hn::DemoteTo(du, value), du, reinterpret_cast<uint8_t*>(values));
  } else {
    hn::StoreU(hn::Xor(hn::DemoteTo(d, value), hn::Set(d, static_cast<int8_t>(flip))), d,
               reinterpret_cast<int8_t*>(values));
  }
}
template <bool kPlanes, bool kUnsigned, class X>
void quantize_some(const X* x, int64_t count, float scale, uint8_t flip, char* values, char* low) {
  constexpr int64_t kStep = 32;
  const auto factor = hn::Set(DWide(), 1 / scale);
  const auto low_at = [&](int64_t i) { return kPlanes ? low + i : low; };
  int64_t i = 0;
  for (; i + kStep <= count; i += kStep) quantize_next<kPlanes, kUnsigned>(x + i, factor, flip, values + i, low_at(i));
  if (i == count) return;
  const auto rest = static_cast<size_t>(count - i);
  alignas(64) X some[kStep] = {};
  char some_values[kStep], some_low[kStep];
  std::memcpy(some, x + i, rest * sizeof(X));
  quantize_next<kPlanes, kUnsigned>(some, factor, flip, some_values, some_low);
  std::memcpy(values + i, some_values, rest);
  if constexpr (kPlanes) std::memcpy(low + i, some_low, rest);
}

#endif

}  // namespace

/// Computes an epilogue alone.
void finish_int8_block([[maybe_unused]] const Int8Block& block, [[maybe_unused]] Activation activation,
                       [[maybe_unused]] DType dtype) {
#if HWY_TARGET == HWY_AVX3 && RLX_HAS_TILES
  int8_epilogue_of(block, activation, dtype)(block, 0, (block.lower ? 2 : 1) * kTileRows);
#endif
}

/// Multiplies `tiles`, if there are any, beside the epilogue of the block before, if there is one.
void multiply_int8_beside([[maybe_unused]] const TilesAt* tiles, [[maybe_unused]] void* sums,
                          [[maybe_unused]] const Int8Block* before, [[maybe_unused]] Activation activation,
                          [[maybe_unused]] DType dtype) {
#if HWY_TARGET == HWY_AVX3 && RLX_HAS_TILES
  if (!before) return multiply_tiles_at(*tiles, sums);
  const Int8Epilogue epilogue = int8_epilogue_of(*before, activation, dtype);
  const int64_t rows = (before->lower ? 2 : 1) * kTileRows;
  if (!tiles) return epilogue(*before, 0, rows);
  const auto epilogue_some = [&](int64_t begin, int64_t end) HWY_ATTR { epilogue(*before, begin, end); };
  if (tiles->values == TileValues::u8) multiply_tiles_beside_rows<TileValues::u8>(*tiles, sums, rows, epilogue_some);
  else multiply_tiles_beside_rows<TileValues::i8>(*tiles, sums, rows, epilogue_some);
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
                      [[maybe_unused]] bool is_unsigned, [[maybe_unused]] uint8_t flip, [[maybe_unused]] char* values,
                      [[maybe_unused]] char* low) {
#if HWY_TARGET == HWY_AVX3 && RLX_HAS_TILES
  if (low) quantize_some<true, false>(x, count, scale, flip, values, low);
  else if (is_unsigned) quantize_some<false, true>(x, count, scale, 0, values, nullptr);
  else quantize_some<false, false>(x, count, scale, flip, values, nullptr);
#endif
}
void quantize_some_f32(const float* x, int64_t count, float scale, bool is_unsigned, uint8_t flip, char* values,
                       char* low) {
  quantize_some_of(x, count, scale, is_unsigned, flip, values, low);
}
void quantize_some_bf16(const BF16* x, int64_t count, float scale, bool is_unsigned, uint8_t flip, char* values,
                        char* low) {
  quantize_some_of(x, count, scale, is_unsigned, flip, values, low);
}

}  // namespace HWY_NAMESPACE
}  // namespace rlx::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rlx::kernels {

HWY_EXPORT(finish_int8_block);
HWY_EXPORT(multiply_int8_beside);
HWY_EXPORT(bf16_range_bits);
HWY_EXPORT(quantize_some_bf16);
HWY_EXPORT(quantize_some_f32);

uint32_t bf16_range(const BF16* x, int64_t count) noexcept { return HWY_DYNAMIC_DISPATCH(bf16_range_bits)(x, count); }
void quantize_bytes(DType dtype, const void* x, int64_t count, float scale, bool is_unsigned, uint8_t flip,
                    char* values, char* low) noexcept {
  if (!(scale == scale)) {
    std::memset(values, is_unsigned ? 0 : flip, static_cast<size_t>(count));
    if (low) std::memset(low, 0, static_cast<size_t>(count));
  } else if (dtype == bf16) {
    HWY_DYNAMIC_DISPATCH(quantize_some_bf16)(static_cast<const BF16*>(x), count, scale, is_unsigned, flip, values, low);
  } else {
    HWY_DYNAMIC_DISPATCH(quantize_some_f32)(static_cast<const float*>(x), count, scale, is_unsigned, flip, values, low);
  }
}

void convolve_int8_tiles(const TileImage& image, const Int8TilesCall& call, int64_t begin, int64_t end, int64_t first,
                         int64_t last) noexcept {
  // Where all weights stay in the second-level cache, two tiles are multiplied with each of them before the next two
  // are, so that results and residuals are written and read in their order.
  constexpr int64_t kWeightBytesInCache = 512 << 10;
  const int64_t panel_bytes = image.panel_bytes();
  const bool stay = (last - first) * panel_bytes <= kWeightBytesInCache;
  const int64_t at_once = stay ? 2 : end - begin, together = call.low ? 1 : 2;
  // While tiles multiply, the epilogue of the block before is computed.
  alignas(64) int32_t sums[2][2 * kTileRows * kTiledColumns];
  int turn = 0;
  const bool by_dots = call.column_sums != nullptr;
  std::optional<TileScope> scope;
  if (!by_dots) scope.emplace(image.k_bytes());
  TilesAt tiles;
  tiles.stride = image.stride(), tiles.offsets = image.offsets().data();
  tiles.steps = static_cast<int64_t>(image.offsets().size()), tiles.k_bytes = image.k_bytes();
  tiles.values = call.is_unsigned && !call.low ? TileValues::u8 : TileValues::i8;
  DotTiles dots;
  dots.values = DotValues::u8_by_i8, dots.offsets = tiles.offsets, dots.steps = tiles.steps;
  dots.k_bytes = tiles.k_bytes, dots.sums = sums[turn];
  int64_t rows_of = -1;  // the tile whose rows `dots` has, and those of what is multiplied beside it
  Int8Block block{};
  block.rounds = tiles_round_to_bf16();
  block.channels = call.channels, block.has_planes = call.low != nullptr;
  block.residual = call.residual, block.y = call.y, block.scale = call.scale;
  Int8Block before{};
  const auto multiply = [&](const TilesAt* next, void* to) {
    HWY_DYNAMIC_DISPATCH(multiply_int8_beside)
    (next, to, before.sums ? &before : nullptr, call.activation, call.dtype);
  };
  for (int64_t from = begin; from < end; from += at_once) {
    const int64_t to = std::min(end, from + at_once);
    for (int64_t panel = first; panel < last; ++panel) {
      tiles.right = call.weights + panel * panel_bytes;
      const bool is_new = from == begin && panel + 1 < last;  // the panel that comes next
      PacedPrefetch paced(is_new ? tiles.right + panel_bytes : nullptr, panel_bytes, divided_up(to - from, together),
                          tiles.steps);
      block.column = panel * kTiledColumns;
      block.columns = std::min(kTiledColumns, call.channels - block.column);
      if (by_dots && (!call.is_unsigned || call.low)) block.column_sums = call.column_sums + block.column;
      block.w_scale = call.w_scale + block.column, block.bias = call.bias ? call.bias + block.column : nullptr;
      for (int64_t t = from; t < to; t += together) {
        block.upper = &image.tiles()[static_cast<size_t>(t)];
        block.lower = !call.low && t + 1 < to ? block.upper + 1 : nullptr;
        tiles.upper = call.values + block.upper->at;
        tiles.lower = call.low ? call.low + block.upper->at : block.lower ? call.values + block.lower->at : nullptr;
        paced.give(tiles);
        block.sums = sums[turn];
        if (by_dots) {
          if (std::exchange(rows_of, t) != t) set_dot_rows(dots, tiles, *block.upper, block.lower);
          dots.right = tiles.right, dots.prefetch = tiles.prefetch, dots.prefetch_bytes = tiles.prefetch_bytes;
          multiply_dot_tiles(dots, 2);
          HWY_DYNAMIC_DISPATCH(finish_int8_block)(block, call.activation, call.dtype);
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
