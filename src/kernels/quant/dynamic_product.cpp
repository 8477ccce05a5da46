// See the header. Rows are quantized by quantized_rows.cpp; values of two bytes are multiplied a plane after the other.
// VNNI's unsigned operand has 128 added to signed bytes: sum (x + 128) w is 128 sum w too large, and the sums of the
// columns are packed behind the weights. Of outliers, what is above 8 bits is multiplied by its weights, 32 columns at
// a time, and added to a block's sums after the block's product: in the epilogue (dynamic_epilogue.cpp), or before it.
#include "kernels/quant/dynamic_product.h"

#include <algorithm>
#include <utility>

#include "kernels/gemm/amx/pipelined_blocks.h"
#include "kernels/quant/dynamic_epilogue.h"
#include "kernels/quant/requantized_product.h"

namespace rlx::kernels {
namespace {

// Rows of that many bytes are multiplied with all columns before the next ones: they stay in the
// second-level cache.
constexpr int64_t kRowBytesInCache = 256 << 10;
// Rows of sums between a product and its epilogue: 6 KiB of the first-level cache.
constexpr int64_t kPairBlockRows = 96;
constexpr int64_t kDotRows = 8;  // that multiply_int8_dots() multiplies together

PackedQuantizedWeights as_tiles(const Int8Weights& w) {
  PackedQuantizedWeights tiles;
  tiles.k = w.k, tiles.n = w.n, tiles.packed = w.packed, tiles.isa = w.isa;
  return tiles;
}

/// What an epilogue needs of these rows and columns.
DynamicTile tile_at(const DynamicProduct& p, int64_t row, int64_t rows, int64_t column, int64_t columns) {
  DynamicTile t{};
  t.rows = rows, t.columns = columns;
  t.x_scale = scales_of(p.x) + row, t.w_scale = p.w_scale + column;
  const auto size = static_cast<int64_t>(byte_size(p.dtype));
  t.dtype = p.dtype, t.bias = p.bias ? p.bias + column : nullptr;
  t.factor = p.factor ? p.factor + column : nullptr;
  t.residual = p.residual ? static_cast<const char*>(p.residual) + (row * p.residual_stride + column) * size : nullptr;
  t.residual_stride = p.residual_stride, t.residual_first = p.residual_first;
  t.y = static_cast<char*>(p.y) + (row * p.y_stride + column) * size, t.y_stride = p.y_stride;
  return t;
}

/// Asks for what the epilogue of a block will read and write while it is multiplied.
void prefetch_outputs(const DynamicTile& t) {
  const auto size = static_cast<int64_t>(byte_size(t.dtype));
  for (int64_t i = 0; i < t.rows; ++i)
    for (int64_t b = 0; b < t.columns * size; b += 64) {
      __builtin_prefetch(static_cast<const char*>(t.y) + i * t.y_stride * size + b, 1, 2);
      if (t.residual) __builtin_prefetch(static_cast<const char*>(t.residual) + i * t.residual_stride * size + b, 0, 2);
    }
}

void multiply_in_pairs(const DynamicProduct& p, int64_t first, int64_t last, int64_t begin, int64_t end) {
  const int64_t k = p.w.k, stride = pair_stride(k);
  const auto* values = reinterpret_cast<const int16_t*>(values_of(p.w, p.x, p.rows));
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
      apply_dynamic_epilogue(t, p.activation);
    }
  }
}

/// For AMX tiles (inside a TileScope), VNNI and Arm's dot products.
void multiply_in_tiles(const DynamicProduct& p, int64_t first, int64_t last, int64_t begin, int64_t end) {
  const int64_t k = p.w.k, steps = divided_up(k, kTileInt8), bytes = left_tile_bytes(k);
  const char* values = values_of(p.w, p.x, p.rows);
  const auto* column_sums =
      reinterpret_cast<const uint32_t*>(p.w.packed + divided_up(p.w.n, kTiledColumns) * 2 * steps * kTileBytes);
  const bool is_tiles = p.w.isa == Int8DotIsa::tiles, rounds = tiles_round_to_bf16();
  const bool is_pipelined = is_tiles && kernels::is_pipelined(p.activation, p.dtype);
  const PipelinedTiles kind = has_planes(p.w) ? PipelinedTiles::planes : PipelinedTiles::bytes;
  const int64_t at_once = std::max<int64_t>(1, kRowBytesInCache / std::max<int64_t>(1, 2 * bytes)) * kTileBlockRows;
  constexpr int64_t kSums = kTileBlockRows * kTiledColumns;
  alignas(64) int32_t buffers[2][2 * kSums];  // of the block before and of this one, high and low bytes
  PendingEpilogue pending;
  bool is_pending = false;
  int64_t blocks = 0;
  const auto add_outliers = [&](int64_t row, int64_t rows, const char* right, int32_t* sums) {
    if (has_lists(p.w))
      add_outlier_products(outliers_of(p.x, p.rows, row), p.w.x_outliers, rows, right, sums, kTiledColumns);
  };
  const auto apply_left_epilogue = [&] {
    if (std::exchange(is_pending, false)) apply_pending(kind, pending);
  };
  for (int64_t from = first; from < last; from += at_once)
    for (int64_t column = begin; column < end; column += kTiledColumns) {
      const char* right = p.w.packed + column / kTiledColumns * 2 * steps * kTileBytes;
      const int64_t columns = std::min(kTiledColumns, end - column);
      const int64_t until = std::min(from + at_once, last);
      // The next panel comes to the second-level cache while this one is multiplied, its lines spread over the rows.
      ComingWeights coming;
      if (column + kTiledColumns < end)
        coming.at = right + 2 * steps * kTileBytes, coming.end = coming.at + 2 * steps * kTileBytes;
      coming.step_bytes = rounded_up(divided_up(2 * kTileBytes, divided_up(until - from, kDotRows)), 64);
      for (int64_t row = from; row < until; row += kTileBlockRows, ++blocks) {
        const int64_t rows = std::min(kTileBlockRows, last - row);
        int32_t* const sums = buffers[blocks % 2];
        const char* const high = values + row / kTileRows * bytes;
        DynamicTile t = tile_at(p, row, rows, column, columns);
        if (is_pipelined && columns == kTiledColumns) {
          const TileRows lower{rows > kTileRows ? high + bytes : nullptr, kTileInt8, kTileBytes};
          PipelinedBlock block;
          block.steps = steps, block.sums = sums, block.low_plane = plane_bytes(p.w, p.rows);
          block.upper = {high, kTileInt8, kTileBytes}, block.lower = lower;
          block.first = {right, kTileInt8, 2 * kTileBytes};
          block.second = {right + kTileBytes, kTileInt8, 2 * kTileBytes};
          if (row == from && column + 2 * kTiledColumns <= end) {
            block.next_first = block.first, block.next_second = block.second;
            block.next_first.data += 2 * steps * kTileBytes, block.next_second.data += 2 * steps * kTileBytes;
          }
          multiply_pipelined(kind, block, std::exchange(is_pending, true) ? &pending : nullptr);
          add_outliers(row, rows, right, sums);
          pending.sums = sums, pending.rows = rows, pending.row_scales = t.x_scale, pending.column_scales = t.w_scale;
          pending.bias = t.bias, pending.factor = t.factor, pending.activation = p.activation, pending.dtype = p.dtype;
          pending.residual = t.residual, pending.residual_stride = t.residual_stride;
          pending.residual_first = t.residual_first, pending.y = t.y, pending.y_stride = t.y_stride;
          continue;
        }
        apply_left_epilogue();
        prefetch_outputs(t);
        const auto multiply = [&](const char* upper, int32_t* to) {
          const char* lower = upper + bytes;
          if (!is_tiles) multiply_int8_dots(p.w.isa, steps, rows, upper, lower, right, to, kTiledColumns, &coming);
          else multiply_int8_tiles(i8, i8, steps, upper, rows > kTileRows ? lower : nullptr, right, to, kTiledColumns);
        };
        multiply(high, sums);
        if (has_planes(p.w)) multiply(high + plane_bytes(p.w, p.rows), sums + kSums);
        t.sums = sums, t.stride = kTiledColumns;
        if (has_planes(p.w)) t.low = sums + kSums;
        if (is_left_unsigned(p.w.isa)) t.column_sums = column_sums + column;
        if (p.w.isa == Int8DotIsa::avx512_vnni) {
          if (has_lists(p.w)) t.outliers = outliers_of(p.x, p.rows, row), t.right = right;
          apply_dots_epilogue(t, p.activation, rounds);
          continue;
        }
        add_outliers(row, rows, right, sums);
        apply_dynamic_epilogue(t, p.activation);
      }
    }
  apply_left_epilogue();
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

void multiply_quantized_rows(const DynamicProduct& p, int64_t first, int64_t last, int64_t begin,
                             int64_t end) noexcept {
  if (is_in_pairs(p.w)) return multiply_in_pairs(p, first, last, begin, end);
  if (p.w.isa != Int8DotIsa::tiles) return multiply_in_tiles(p, first, last, begin, end);
  const TileScope scope;
  multiply_in_tiles(p, first, last, begin, end);
}

}  // namespace rlx::kernels
