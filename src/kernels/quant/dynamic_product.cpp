// See the header. Quantized rows lie in memory as the instructions want them: rows of 16-bit integers for pairs, left
// tiles of bytes for tiles and VNNI. Values beyond 127 take two bytes there, 128 high + low with low from 0 to 127,
// which lie in two planes and are multiplied one after the other. VNNI's unsigned operand has 128 added to signed
// bytes: sum (x + 128) w is 128 sum w too large, and the sums of the columns are packed behind the weights.
#include "kernels/quant/dynamic_product.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "base/rounded_up.h"
#include "kernels/gemm/amx/tiles.h"
#include "kernels/quant/int8_pairs.h"
#include "kernels/quant/requantized_product.h"
#include "kernels/vector/highway_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/quant/dynamic_product.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/vector/activation-inl.h"

#ifndef RLX_KERNELS_QUANT_DYNAMIC_PRODUCT_ONCE
#define RLX_KERNELS_QUANT_DYNAMIC_PRODUCT_ONCE
namespace rlx::kernels {
namespace {

/// A row to quantize. Its values are written in pieces of `piece`, whose beginnings are `step` bytes apart; pieces are
/// filled up with zeros.
struct RowToQuantize {
  const float* x;
  int64_t k;
  void* values;
  int64_t piece, step;
  bool is_wide;    ///< values of 16 bits, else of 8
  uint8_t flip;    ///< exclusive-ored to values of 8 bits: 0x80 adds 128
  std::byte* low;  ///< where the low bytes go, as the values; null if values take one byte
};

/// Sums of rows and 32 columns, of quantized values as they are multiplied, which become those of the values.
struct DynamicSums {
  int32_t* sums;
  int64_t rows;
  const uint32_t* column_sums;  ///< 128 times these is subtracted, of values with 128 added; null: nothing is
  const int32_t* low;  ///< of the low bytes, where `sums` are those of the high ones; null: values have one byte
};

/// Sums of some rows and columns, and where they end.
struct DynamicTile {
  const int32_t* sums;  ///< rows are `stride` apart; up to a multiple of 16 columns may be read
  int64_t stride, rows, columns;
  const float *x_scale, *w_scale, *bias, *residual;  ///< of the first row or column; the last two may be null
  int64_t residual_stride;
  bool residual_first;
  float* y;
  int64_t y_stride;
};

}  // namespace
}  // namespace rlx::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace rlx::kernels {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using DRow = hn::CappedTag<float, 16>;
using DBits = hn::Rebind<int32_t, DRow>;

/// The first `count` elements, and zeros.
HWY_INLINE hn::Vec<DRow> load_some(const float* from, int64_t count) {
  HWY_ALIGN float values[16] = {};
  std::memcpy(values, from, static_cast<size_t>(count) * sizeof(float));
  return hn::Load(DRow(), values);
}

template <class T>
HWY_INLINE void write_values(const RowToQuantize& row, float factor) {
  const DRow d;
  const hn::Rebind<T, DRow> dc;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  // Of one plane: the values, their high or their low bytes.
  const auto write_plane = [&](std::byte* piece, int8_t flip, auto byte_of) HWY_ATTR {
    const auto quantized = [&](auto x) HWY_ATTR {  // NearestInt: ties to even
      const auto value = hn::NearestInt(hn::Mul(x, hn::Set(DRow(), factor)));
      return hn::Xor(hn::DemoteTo(dc, byte_of(value)), hn::Set(dc, static_cast<T>(flip)));
    };
    for (int64_t first = 0; first < row.k; first += row.piece, piece += row.step) {
      const int64_t count = std::min(row.piece, row.k - first);
      auto* to = reinterpret_cast<T*>(piece);
      const float* from = row.x + first;
      int64_t i = 0;
      for (; i + lanes <= count; i += lanes) hn::StoreU(quantized(hn::LoadU(d, from + i)), dc, to + i);
      for (; i < row.piece; i += lanes) {
        HWY_ALIGN T last[16];
        hn::Store(quantized(load_some(from + i, std::max<int64_t>(count - i, 0))), dc, last);
        std::memcpy(to + i, last, static_cast<size_t>(std::min(lanes, row.piece - i)) * sizeof(T));
      }
    }
  };
  auto* values = static_cast<std::byte*>(row.values);
  const auto flip = static_cast<int8_t>(row.flip);
  if (!row.low) return write_plane(values, flip, [](auto v) HWY_ATTR { return v; });
  write_plane(values, flip, [](auto v) HWY_ATTR { return hn::ShiftRight<7>(v); });
  write_plane(row.low, 0, [](auto v) HWY_ATTR { return hn::And(v, hn::Set(DBits(), 127)); });
}

template <class Act>
HWY_INLINE void epilogue_of_rows(const DynamicTile& t, Act act) {
  const DRow d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t i = 0; i < t.rows; ++i) {
    const auto x_scale = hn::Set(d, t.x_scale[i]);
    const float* residual = t.residual ? t.residual + i * t.residual_stride : nullptr;
    float* y = t.y + i * t.y_stride;
    const auto value = [&](int64_t j, auto load) HWY_ATTR {
      auto v = hn::ConvertTo(d, hn::LoadU(DBits(), t.sums + i * t.stride + j));
      const auto w_scale = load(t.w_scale + j);
      const auto is_w_less = hn::Lt(w_scale, x_scale);
      v = hn::Mul(v, hn::IfThenElse(is_w_less, w_scale, x_scale));
      v = hn::Mul(v, hn::IfThenElse(is_w_less, x_scale, w_scale));
      if (t.bias) v = hn::Add(v, load(t.bias + j));
      if (residual && t.residual_first) return act(d, hn::Add(v, load(residual + j)));
      v = act(d, v);
      return residual ? hn::Add(v, load(residual + j)) : v;
    };
    int64_t j = 0;
    for (; j + lanes <= t.columns; j += lanes)
      hn::StoreU(value(j, [&](const float* from) HWY_ATTR { return hn::LoadU(d, from); }), d, y + j);
    if (j == t.columns) continue;
    HWY_ALIGN float last[16];
    const int64_t count = t.columns - j;
    hn::Store(value(j, [&](const float* from) HWY_ATTR { return load_some(from, count); }), d, last);
    std::memcpy(y + j, last, static_cast<size_t>(count) * sizeof(float));
  }
}

}  // namespace

/// The bits of the largest magnitude. Magnitudes are ordered as their bits are, with infinity above all numbers and NaN
/// above infinity.
uint32_t largest_magnitude_bits(const float* x, int64_t count) {
  const DRow d;
  const DBits di;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto magnitude = hn::Set(di, 0x7fffffff);
  const auto bits_at = [&](int64_t at)
                           HWY_ATTR { return hn::And(hn::BitCast(DBits(), hn::LoadU(DRow(), x + at)), magnitude); };
  auto most = hn::Zero(di), most2 = most, most3 = most, most4 = most;
  int64_t i = 0;
  for (; i + 4 * lanes <= count; i += 4 * lanes) {
    most = hn::Max(most, bits_at(i)), most2 = hn::Max(most2, bits_at(i + lanes));
    most3 = hn::Max(most3, bits_at(i + 2 * lanes)), most4 = hn::Max(most4, bits_at(i + 3 * lanes));
  }
  for (; i < count; i += lanes) {
    const auto v = load_some(x + i, std::min(lanes, count - i));
    most = hn::Max(most, hn::And(hn::BitCast(di, v), magnitude));
  }
  most = hn::Max(hn::Max(most, most2), hn::Max(most3, most4));
  return static_cast<uint32_t>(hn::GetLane(hn::MaxOfLanes(di, most)));
}

/// Writes the values for a scale, which may be NaN.
void write_row_values(const RowToQuantize& row, float scale) {
  const bool is_finite = scale == scale;
  if (is_finite && row.is_wide) write_values<int16_t>(row, 1 / scale);
  else if (is_finite) write_values<int8_t>(row, 1 / scale);
  else {
    const size_t bytes = static_cast<size_t>(row.piece) * (row.is_wide ? 2 : 1);
    auto* piece = static_cast<std::byte*>(row.values);
    for (int64_t first = 0; first < row.k; first += row.piece, piece += row.step) {
      std::memset(piece, row.flip, bytes);
      if (row.low) std::memset(row.low + (piece - static_cast<std::byte*>(row.values)), 0, bytes);
    }
  }
}

void combine_sums(const DynamicSums& s) {
  const DBits d;
  const hn::RebindToUnsigned<DBits> du;
  for (int64_t j = 0; j < kTiledColumns; j += static_cast<int64_t>(hn::Lanes(d))) {
    auto shift = hn::Zero(d);
    if (s.column_sums) shift = hn::BitCast(d, hn::ShiftLeft<7>(hn::LoadU(du, s.column_sums + j)));
    for (int64_t i = 0; i < s.rows; ++i) {
      const int64_t at = i * kTiledColumns + j;
      auto v = hn::Sub(hn::LoadU(d, s.sums + at), shift);
      if (s.low) v = hn::Add(hn::ShiftLeft<7>(v), hn::LoadU(d, s.low + at));
      hn::StoreU(v, d, s.sums + at);
    }
  }
}

void apply_dynamic_epilogue(const DynamicTile& tile, Activation activation) {
  with_activation(activation, [&](auto act) HWY_ATTR { epilogue_of_rows(tile, act); });
}

}  // namespace HWY_NAMESPACE
}  // namespace rlx::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rlx::kernels {

HWY_EXPORT(largest_magnitude_bits);
HWY_EXPORT(write_row_values);
HWY_EXPORT(combine_sums);
HWY_EXPORT(apply_dynamic_epilogue);

namespace {

// Rows of that many bytes are multiplied with all columns before the next ones: they stay in the
// second-level cache.
constexpr int64_t kRowBytesInCache = 256 << 10;
// Rows of sums between a product and its epilogue: 6 KiB of the first-level cache.
constexpr int64_t kPairBlockRows = 96;
constexpr int64_t kTileBlockRows = 2 * kTileRows;

bool is_in_pairs(const Int8Weights& w) { return w.isa == Int8DotIsa::pairs; }
int64_t pair_stride(int64_t k) { return 2 * pair_count(k); }
/// Whether quantized rows take two planes of bytes.
bool has_planes(const Int8Weights& w) { return !is_in_pairs(w) && w.x_largest > 127; }
int64_t left_tile_bytes(int64_t k) { return divided_up(k, kTileInt8) * kTileBytes; }
PackedQuantizedWeights as_tiles(const Int8Weights& w) {
  PackedQuantizedWeights tiles;
  tiles.k = w.k, tiles.n = w.n, tiles.packed = w.packed, tiles.isa = w.isa;
  return tiles;
}

/// Of all rows, in one plane.
int64_t plane_bytes(const Int8Weights& w, int64_t rows) {
  return rounded_up(rows, kTileBlockRows) / kTileRows * left_tile_bytes(w.k);
}
size_t scale_bytes(int64_t rows) { return static_cast<size_t>(aligned(rounded_up(rows, kQuantizedRows) * 4)); }
const float* scales_of(const void* quantized) { return static_cast<const float*>(quantized); }
const char* values_of(const void* quantized, int64_t rows) {
  return static_cast<const char*>(quantized) + scale_bytes(rows);
}

/// What an epilogue needs of these rows and columns.
DynamicTile tile_at(const DynamicProduct& p, int64_t row, int64_t rows, int64_t column, int64_t columns) {
  DynamicTile t{};
  t.rows = rows, t.columns = columns;
  t.x_scale = scales_of(p.x) + row, t.w_scale = p.w_scale + column;
  t.bias = p.bias ? p.bias + column : nullptr;
  t.residual = p.residual ? p.residual + row * p.residual_stride + column : nullptr;
  t.residual_stride = p.residual_stride, t.residual_first = p.residual_first;
  t.y = p.y + row * p.y_stride + column, t.y_stride = p.y_stride;
  return t;
}

void multiply_in_pairs(const DynamicProduct& p, int64_t first, int64_t last, int64_t begin, int64_t end) {
  const int64_t k = p.w.k, stride = pair_stride(k);
  const auto* values = reinterpret_cast<const int16_t*>(values_of(p.x, p.rows));
  const int64_t at_once =
      std::clamp<int64_t>(kRowBytesInCache / std::max<int64_t>(1, 2 * stride) / 6 * 6, 6, kPairBlockRows);
  alignas(64) int32_t sums[kPairBlockRows * kPairColumns];
  const int64_t blocks = divided_up(last - first, at_once);  // of nearly equal size
  for (int64_t b = 0; b < blocks; ++b) {
    const int64_t row = first + (last - first) * b / blocks, rows = first + (last - first) * (b + 1) / blocks - row;
    for (int64_t column = begin; column < end; column += kPairColumns) {
      multiply_int8_pairs(k, rows, values + row * stride, stride,
                          p.w.packed + column / kPairColumns * pair_panel_bytes(k), sums);
      DynamicTile t = tile_at(p, row, rows, column, std::min(kPairColumns, end - column));
      t.sums = sums, t.stride = kPairColumns;
      HWY_DYNAMIC_DISPATCH(apply_dynamic_epilogue)(t, p.activation);
    }
  }
}

/// For AMX tiles (inside a TileScope), VNNI and Arm's dot products.
void multiply_in_tiles(const DynamicProduct& p, int64_t first, int64_t last, int64_t begin, int64_t end) {
  const int64_t k = p.w.k, steps = divided_up(k, kTileInt8), bytes = left_tile_bytes(k);
  const char* values = values_of(p.x, p.rows);
  const auto* column_sums =
      reinterpret_cast<const uint32_t*>(p.w.packed + divided_up(p.w.n, kTiledColumns) * 2 * steps * kTileBytes);
  const bool is_tiles = p.w.isa == Int8DotIsa::tiles;
  const int64_t at_once = std::max<int64_t>(1, kRowBytesInCache / std::max<int64_t>(1, 2 * bytes)) * kTileBlockRows;
  alignas(64) int32_t sums[kTileBlockRows * kTiledColumns], low_sums[kTileBlockRows * kTiledColumns];
  for (int64_t from = first; from < last; from += at_once)
    for (int64_t column = begin; column < end; column += kTiledColumns) {
      const char* right = p.w.packed + column / kTiledColumns * 2 * steps * kTileBytes;
      const int64_t columns = std::min(kTiledColumns, end - column);
      for (int64_t row = from; row < std::min(from + at_once, last); row += kTileBlockRows) {
        const int64_t rows = std::min(kTileBlockRows, last - row);
        const auto multiply = [&](const char* plane, int32_t* to) {
          const char *upper = plane + row / kTileRows * bytes, *lower = upper + bytes;
          if (!is_tiles) multiply_int8_dots(p.w.isa, steps, rows, upper, lower, right, to, kTiledColumns);
          else multiply_int8_tiles(i8, i8, steps, upper, rows > kTileRows ? lower : nullptr, right, to, kTiledColumns);
        };
        multiply(values, sums);
        if (has_planes(p.w)) multiply(values + plane_bytes(p.w, p.rows), low_sums);
        const bool is_shifted = is_left_unsigned(p.w.isa);
        if (is_shifted || has_planes(p.w)) {
          const DynamicSums multiplied{sums, rows, is_shifted ? column_sums + column : nullptr,
                                       has_planes(p.w) ? low_sums : nullptr};
          HWY_DYNAMIC_DISPATCH(combine_sums)(multiplied);
        }
        DynamicTile t = tile_at(p, row, rows, column, columns);
        t.sums = sums, t.stride = kTiledColumns;
        HWY_DYNAMIC_DISPATCH(apply_dynamic_epilogue)(t, p.activation);
      }
    }
}

void write_row(const Int8Weights& w, const float* x, int64_t count, const QuantizedRow& to, float scale) {
  RowToQuantize row{};
  row.x = x, row.k = count, row.values = to.values, row.low = to.low;
  row.is_wide = is_in_pairs(w), row.flip = quantized_zero(w, 0);
  row.piece = to.piece / quantized_value_bytes(w), row.step = to.step;
  HWY_DYNAMIC_DISPATCH(write_row_values)(row, scale);
}

}  // namespace

size_t int8_weights_bytes(const Int8Weights& w) {
  if (is_in_pairs(w)) return static_cast<size_t>(divided_up(w.n, kPairColumns) * pair_panel_bytes(w.k));
  return packed_quantized_bytes(as_tiles(w));
}

void pack_int8_weights(const Int8Weights& w, const int8_t* weights, int64_t k_stride, int64_t n_stride,
                       char* out) noexcept {
  if (!is_in_pairs(w)) return pack_quantized(as_tiles(w), weights, k_stride, n_stride, out);
  if (w.k == 0) return;  // panels of no bytes, and `weights` may be null
  for (int64_t j = 0; j < w.n; j += kPairColumns, out += pair_panel_bytes(w.k))
    pack_pair_panel(weights + j * n_stride, w.k, k_stride, n_stride, std::min(kPairColumns, w.n - j), out);
}

size_t quantized_rows_bytes(const Int8Weights& w, int64_t rows) {
  const int64_t packed = is_in_pairs(w) ? rows * pair_stride(w.k) * 2 : plane_bytes(w, rows) * (has_planes(w) ? 2 : 1);
  return scale_bytes(rows) + static_cast<size_t>(aligned(packed));
}

void quantize_rows(const Int8Weights& w, const float* x, int64_t x_stride, int64_t begin, int64_t end, int64_t rows,
                   void* out) noexcept {
  for (int64_t i = begin; i < end; ++i) {
    const QuantizedRow to = quantized_row(w, out, rows, i);
    const float* from = w.k > 0 ? x + i * x_stride : x;
    *to.scale = dynamic_scale(largest_magnitude(from, w.k), w.x_largest);
    write_row(w, from, w.k, to, *to.scale);
  }
}

int quantized_planes(const Int8Weights& w) { return has_planes(w) ? 2 : 1; }
int64_t quantized_value_bytes(const Int8Weights& w) { return is_in_pairs(w) ? 2 : 1; }
uint8_t quantized_zero(const Int8Weights& w, int plane) { return plane == 0 && is_left_unsigned(w.isa) ? 0x80 : 0; }

uint32_t largest_magnitude(const float* x, int64_t count) noexcept {
  return HWY_DYNAMIC_DISPATCH(largest_magnitude_bits)(x, count);
}
float dynamic_scale(uint32_t magnitude, int32_t x_largest) {
  if (magnitude >= 0x7f800000u) return std::numeric_limits<float>::quiet_NaN();
  return std::max(std::bit_cast<float>(magnitude) / static_cast<float>(x_largest), 0x1p-126f);
}
void quantize_numbers(const Int8Weights& w, const float* x, int64_t count, float scale, std::byte* values,
                      std::byte* low) noexcept {
  write_row(w, x, count, {nullptr, values, low, count * quantized_value_bytes(w), 0}, scale);
}
QuantizedRow quantized_row(const Int8Weights& w, void* out, int64_t rows, int64_t row) {
  auto* scales = static_cast<float*>(out);
  std::byte* values = static_cast<std::byte*>(out) + scale_bytes(rows);
  if (is_in_pairs(w)) {
    const int64_t bytes = pair_stride(w.k) * 2;
    return {scales + row, values + row * bytes, nullptr, bytes, bytes};
  }
  values += row / kTileRows * left_tile_bytes(w.k) + row % kTileRows * kTileInt8;
  return {scales + row, values, has_planes(w) ? values + plane_bytes(w, rows) : nullptr, kTileInt8, kTileBytes};
}

void multiply_quantized_rows(const DynamicProduct& p, int64_t first, int64_t last, int64_t begin,
                             int64_t end) noexcept {
  if (is_in_pairs(p.w)) return multiply_in_pairs(p, first, last, begin, end);
  if (p.w.isa != Int8DotIsa::tiles) return multiply_in_tiles(p, first, last, begin, end);
  const TileScope scope;
  multiply_in_tiles(p, first, last, begin, end);
}

}  // namespace rlx::kernels
#endif
