// Products of f32 by matrix tiles of 8-bit integers (matrix_tiles.h): numbers are scaled to integers, of 24 bits for a
// column of weights and of 31 for a row of the other operand, and these cut into slices of 8 bits. Products of
// slices are exact, and so are their sums; those that weigh 2^-32 of the first are left out (Ozaki, Ogita, Oishi, Rump,
// "Error-free transformations of matrix multiplication", Numerical Algorithms 59, 2012; Ootomo, Ozaki, Yokota, "DGEMM
// on integer matrix multiplication unit", 2024). Nine products of tiles, each 64 long along k, take the place of the
// twelve that parts of bf16 need for as much, weights take three bytes instead of four to read, and nothing is done to
// them in a run.
//
// What is lost: a weight is off by up to 2^-24 of its column's largest, as if it were rounded to f32 next to that one.
// That is less than sums of f32 lose along k as long as a column's numbers are of like size; a block of columns where
// they are not gets a fourth slice, thirteen products, and loses 2^-32. First each row of weights that is much larger
// or smaller than the others is brought to their size by a power of 2, the other operand's column taking the inverse:
// so features of unlike units, with weights that make up for it, lose nothing. A row of the other operand is off by up
// to 2^-31 of its largest; one that is not finite, or beyond 2^-60 ... 2^60, is multiplied by multiply-adds.
//
// So an error is measured by the largest numbers of a row and of a column, which is right where these meet. Weights
// of which a part is 0 or next to nothing may meet large numbers there alone (filters of a spectrum, blocks along a
// diagonal, pruned ones): they are not sliced. If that is said of some columns alone, the blocks of 16 that they are in
// stay f32, among the others, and are multiplied by multiply-adds.
#pragma once

#include <cstdint>

#include "base/rounded_up.h"
#include "kernels/gemm_kernels.h"
#include "kernels/matrix_tiles.h"

namespace rlx::kernels {

struct SlicingPlan;

/// Whether weights are sliced here: the processor has the tiles, and nobody has asked for the weights as they are.
bool slices_weights();

/// Between these the largest number of a column, or of a row of the other operand, must be for slices to stand for it.
inline constexpr float kLeastSliced = 0x1p-60f, kMostSliced = 0x1p60f;

/// Where what lies in k x n sliced weights. Blocks are 16 columns wide, steps 64 long.
struct SlicedLayout {
  static constexpr int64_t kMostK =
      (int64_t{1} << 31) / (4 * 128 * 128) - 1;  ///< four products of slices along it fit i32
  static constexpr char kMark[8] = {'R', 'L', 'X', 'S', 'L', 'I', 'C', '1'};  ///< what they begin with
  static constexpr int64_t kSlices = 3;                                       ///< of a weight
  static constexpr int64_t kStepBytes = kSlices * kTileBytes;                 ///< of a block
  static constexpr int64_t kRowStepBytes = 4 * kTileBytes;                    ///< of 16 rows of the other operand

  /// Forms of blocks: of three slices; of four, where that is the place of the fourth; or as f32, [k, 16], which takes
  /// as much as four slices: so the first three quarters are where three slices would be, and this is the last one's
  /// place.
  static constexpr int32_t kThreeSlices = -1;
  static constexpr int32_t four_slices(int32_t place) { return place; }
  static constexpr int32_t plain(int32_t place) { return kThreeSlices - 1 - place; }
  /// The place of a fourth quarter; a form that is not kThreeSlices.
  static constexpr int32_t place(int32_t form) { return is_plain(form) ? kThreeSlices - 1 - form : form; }
  static constexpr bool is_plain(int32_t form) { return form < kThreeSlices; }

  int64_t k = 0, n = 0;

  int64_t steps() const { return divided_up(k, kTileCodes); }
  int64_t blocks() const { return divided_up(n, kTileLines); }
  int64_t block_bytes() const { return steps() * kStepBytes; }
  int64_t units() const { return aligned(static_cast<int64_t>(sizeof kMark)); }  ///< f32, by column
  int64_t balances() const { return units() + blocks() * 64; }                   ///< f32, along k
  int64_t forms() const { return balances() + steps() * kTileCodes * 4; }        ///< i32, by block
  int64_t tiles() const { return forms() + aligned(blocks() * 4); }
  int64_t fourths() const { return tiles() + blocks() * block_bytes(); }
  int64_t fourth_bytes() const { return steps() * kTileBytes; }
  /// With so many blocks of which there is a fourth quarter.
  int64_t bytes(int64_t fourth_blocks) const { return fourths() + fourth_blocks * fourth_bytes(); }
  int64_t restored_bytes() const { return k * kTileLines * 4; }
};

/// Sliced weights in memory.
class SlicedColumns {
 public:
  SlicedColumns(SlicedLayout layout, const char* data) : layout_(layout), data_(data) {}

  const SlicedLayout& layout() const { return layout_; }
  const char* tiles(int64_t block) const { return data_ + layout_.tiles() + block * layout_.block_bytes(); }
  /// What a one of the third slice stands for, of 16 columns.
  const float* units(int64_t block) const { return at<float>(layout_.units()) + block * kTileLines; }
  /// Powers of 2 by which the other operand is multiplied along k.
  const float* balances() const { return at<float>(layout_.balances()); }
  /// Whether a block is not sliced: then it is read by restore() alone.
  bool is_plain(int64_t block) const { return SlicedLayout::is_plain(form(block)); }
  /// A block's fourth slice, or the last quarter of one that is not sliced; or null.
  const char* fourth(int64_t block) const {
    if (form(block) == SlicedLayout::kThreeSlices) return nullptr;
    return data_ + layout_.fourths() + SlicedLayout::place(form(block)) * layout_.fourth_bytes();
  }
  /// Writes a block as f32, [k, 16].
  void restore(int64_t block, float* out) const noexcept;

 private:
  template <class T>
  const T* at(int64_t offset) const {
    return reinterpret_cast<const T*>(data_ + offset);
  }
  int32_t form(int64_t block) const { return at<int32_t>(layout_.forms())[block]; }

  SlicedLayout layout_;
  const char* data_;
};

/// By a plan of these weights. `out`: as many bytes as the layout takes, aligned to 64.
void slice_columns(const StridedMatrix& weights, const SlicedLayout& layout, const SlicingPlan& plan, int threads,
                   char* out);

}  // namespace rlx::kernels
