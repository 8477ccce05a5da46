// Constant f32 weights for products by matrix tiles of 8-bit integers (tiles.h), after Ozaki: numbers are scaled to
// integers, of 24 bits with a scale per column of weights and of 31 bits with a scale per row of the other operand, and
// these are split into digits of 8 bits, the splits. Products of splits and their sums are exact in i32; products that
// weigh 2^-32 of the first are left out (Ozaki, Ogita, Oishi, Rump, "Error-free transformations of matrix
// multiplication", Numerical Algorithms 59, 2012; Ootomo, Ozaki, Yokota, "DGEMM on integer matrix multiplication unit",
// 2024). A step of 64 along k takes nine tile products instead of the twelve of bf16x3, weights take three bytes
// instead of four, and need no work at run time.
//
// Accuracy: the error of a weight is up to 2^-24 of its column's maximum, as if it were rounded to f32 at that
// magnitude. That is below the rounding errors of f32 sums along k as long as a column's numbers are of similar
// magnitude; a block of columns where they are not gets a fourth split, thirteen products, and errors of 2^-32. Before
// that, rows of weights that are much larger or smaller than the others are balanced by a power of 2, and the column of
// the other operand that meets them by its inverse: so features of different magnitudes, with weights that
// compensate, lose nothing. The error of the other operand's numbers is up to 2^-31 of their row's maximum; a row that
// is not finite, or whose maximum is out of 2^-60 ... 2^60, takes the fp32 fallback.
//
// So errors are relative to the maxima of a row and of a column, which is sound if the maxima are multiplied with each
// other. Where some weights are 0 or negligible, large numbers of the other operand may meet those alone (filters of a
// spectrum, block-diagonal weights, pruned ones): such weights are not split. If only some columns are such, their
// blocks of 16 stay f32, among the split ones, and take the fp32 fallback.
#pragma once

#include <cstdint>

#include "base/rounded_up.h"
#include "kernels/gemm/amx/tiles.h"
#include "kernels/gemm/fma/micro_kernels.h"

namespace rlx::kernels {

struct SplitPlan;

/// The maximum magnitude of a column, or of a row of the other operand, must be between these to be split.
inline constexpr float kMinSplit = 0x1p-60f, kMaxSplit = 0x1p60f;

/// The memory layout of k x n split weights, with blocks of 16 columns and steps of 64 along k. Offsets are in bytes
/// from the begin: the mark, column scales, balances, forms, the first three splits of all blocks, and the fourths.
struct SplitLayout {
  static constexpr int64_t kMaxK =
      (int64_t{1} << 31) / (4 * 128 * 128) - 1;  ///< four products of splits, summed along k, fit i32
  static constexpr char kMark[8] = {'R', 'L', 'X', 'S', 'L', 'I', 'C', '1'};  ///< the first bytes
  static constexpr int64_t kSplits = 3;                                       ///< of a weight
  static constexpr int64_t kStepBytes = kSplits * kTileBytes;                 ///< of a block
  static constexpr int64_t kRowStepBytes = 4 * kTileBytes;  ///< of 16 rows of the other operand, in four splits

  /// The form of a block says how it is stored: in three splits; in four, of which the fourth has an index of its own
  /// in the fourths; or as f32, [k, 16], which has the size of four splits: three quarters of it are stored where the
  /// three splits would be, and the last one in the fourths.
  static constexpr int32_t kThreeSplits = -1;
  static constexpr int32_t four_splits(int32_t fourth) { return fourth; }
  static constexpr int32_t f32_block(int32_t fourth) { return kThreeSplits - 1 - fourth; }
  /// The index of the block's fourth quarter; for forms other than kThreeSplits.
  static constexpr int32_t fourth_index(int32_t form) { return is_f32(form) ? kThreeSplits - 1 - form : form; }
  static constexpr bool is_f32(int32_t form) { return form < kThreeSplits; }

  int64_t k = 0, n = 0;

  int64_t steps() const { return divided_up(k, kTileInt8); }
  int64_t blocks() const { return divided_up(n, kTileRows); }
  int64_t block_bytes() const { return steps() * kStepBytes; }
  int64_t column_scales() const { return aligned(static_cast<int64_t>(sizeof kMark)); }  ///< f32, per column
  int64_t balances() const { return column_scales() + blocks() * 64; }                   ///< f32, per row
  int64_t forms() const { return balances() + steps() * kTileInt8 * 4; }                 ///< i32, per block
  int64_t tiles() const { return forms() + aligned(blocks() * 4); }
  int64_t fourths() const { return tiles() + blocks() * block_bytes(); }
  int64_t fourth_bytes() const { return steps() * kTileBytes; }
  /// Bytes of all, if so many blocks have a fourth quarter.
  int64_t bytes(int64_t fourth_blocks) const { return fourths() + fourth_blocks * fourth_bytes(); }
  int64_t dequantized_bytes() const { return k * kTileRows * 4; }
};

/// Split weights in memory of this layout.
class SplitColumns {
 public:
  SplitColumns(SplitLayout layout, const char* data) : layout_(layout), data_(data) {}

  const SplitLayout& layout() const { return layout_; }
  const char* tiles(int64_t block) const { return data_ + layout_.tiles() + block * layout_.block_bytes(); }
  /// The scales of 16 columns: a balanced weight is its 24-bit integer times the scale.
  const float* column_scales(int64_t block) const { return at<float>(layout_.column_scales()) + block * kTileRows; }
  /// A power of 2 for each k, by which the other operand's numbers are multiplied and the weights were divided; 0 where
  /// all weights are 0.
  const float* balances() const { return at<float>(layout_.balances()); }
  /// Whether a block is stored as f32: then it is read by dequantize() alone.
  bool is_f32(int64_t block) const { return SplitLayout::is_f32(form(block)); }
  /// A block's fourth split, or the last quarter of an f32 block; or null.
  const char* fourth(int64_t block) const {
    if (form(block) == SplitLayout::kThreeSplits) return nullptr;
    return data_ + layout_.fourths() + SplitLayout::fourth_index(form(block)) * layout_.fourth_bytes();
  }
  /// Writes a block to `out` as f32, [k, 16], whatever its form.
  void dequantize(int64_t block, float* out) const noexcept;

 private:
  template <class T>
  const T* at(int64_t offset) const {
    return reinterpret_cast<const T*>(data_ + offset);
  }
  int32_t form(int64_t block) const { return at<int32_t>(layout_.forms())[block]; }

  SplitLayout layout_;
  const char* data_;
};

/// Splits weights as `plan`, which was made for them, says. `out`: layout.bytes() bytes, aligned to 64.
void split_columns(const StridedMatrix& weights, const SplitLayout& layout, const SplitPlan& plan, int threads,
                   char* out);

}  // namespace rlx::kernels
