// How the quantized rows of dynamic_product.h lie in memory: first a scale for each row, then for each row the list of
// its outliers, where it has some, then the values, as the instructions want them: rows of 16-bit integers for pairs,
// left tiles of bytes for tiles and dot products. Internal to this folder.
#pragma once

#include "base/rounded_up.h"
#include "kernels/gemm/amx/tiles.h"
#include "kernels/memory/aligned_memory.h"
#include "kernels/quant/dynamic_product.h"
#include "kernels/quant/int8_pairs.h"

namespace rlx::kernels {

/// A quantized value of more than 8 bits.
struct Outlier {
  int32_t at;  ///< byte offset of its weight for the first of 32 packed columns; at % 4 is its place among four weights
  int32_t high;  ///< the value minus its sign-extended lower byte: a multiple of 256
  // The same for instructions that multiply bytes: |high| / 256 in the byte at % 4, and 256 with the sign of `high` in
  // each 16 bits.
  uint32_t quad;
  int32_t factors;

  Outlier() = default;
  Outlier(int32_t at_byte, int32_t above) : at(at_byte), high(above) {
    quad = static_cast<uint32_t>(above < 0 ? -above : above) / 256 << 8 * (at_byte % 4);
    factors = above < 0 ? static_cast<int32_t>(0xff00ff00u) : 0x01000100;
  }
};
constexpr int64_t kQuadBytes = 64;  // four weights of 16 columns
constexpr int32_t kLargestOutlier = 16383;

constexpr int64_t kTileBlockRows = 2 * kTileRows;

inline bool is_in_pairs(const Int8Weights& w) { return w.isa == Int8DotIsa::pairs; }
inline int64_t pair_stride(int64_t k) { return 2 * pair_count(k); }
/// Whether quantized rows take two planes of bytes.
inline bool has_planes(const Int8Weights& w) { return !is_in_pairs(w) && w.x_largest > 127; }
inline int64_t left_tile_bytes(int64_t k) { return divided_up(k, kTileInt8) * kTileBytes; }
/// Of all rows, in one plane.
inline int64_t plane_bytes(const Int8Weights& w, int64_t rows) {
  return rounded_up(rows, kTileBlockRows) / kTileRows * left_tile_bytes(w.k);
}
/// Whether what outliers have above 8 bits stands in lists, behind the scales. Rows without values have no outliers.
inline bool has_lists(const Int8Weights& w) { return w.x_outliers > 0 && w.k > 0 && !is_in_pairs(w); }
inline size_t scale_bytes(int64_t rows) { return static_cast<size_t>(aligned(rounded_up(rows, kQuantizedRows) * 4)); }
inline size_t list_bytes(const Int8Weights& w, int64_t rows) {
  return has_lists(w) ? static_cast<size_t>(aligned(rows * kMostOutliers * static_cast<int64_t>(sizeof(Outlier)))) : 0;
}
inline const float* scales_of(const void* quantized) { return static_cast<const float*>(quantized); }
/// The list of a row: kMostOutliers, of which those that it does not have are 0.
inline const Outlier* outliers_of(const void* quantized, int64_t rows, int64_t row) {
  return reinterpret_cast<const Outlier*>(static_cast<const char*>(quantized) + scale_bytes(rows)) +
         row * kMostOutliers;
}
inline const char* values_of(const Int8Weights& w, const void* quantized, int64_t rows) {
  return static_cast<const char*>(quantized) + scale_bytes(rows) + list_bytes(w, rows);
}

}  // namespace rlx::kernels
