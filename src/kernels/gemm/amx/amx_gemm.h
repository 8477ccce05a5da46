// A product by bf16 matrix tiles (tiles.h); users: fma_gemm.cpp and batched.cpp. With many rows, all threads pack the
// right operand first, and each task then multiplies some rows by all columns. With few rows, the rows are packed
// first, and each task packs some columns and multiplies them by all rows. f32 columns that are adjacent in memory are
// packed while the products before them run (column_packing.h); those that are adjacent along k are packed as the left
// operand of the transposed product. Blocks with numbers out of split range take the fp32 fallback, multiply_block().
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>

#include "kernels/gemm/amx/column_packing.h"
#include "kernels/gemm/amx/pipelined_blocks.h"
#include "kernels/gemm/amx/tiles.h"
#include "kernels/gemm/fma/micro_kernels.h"
#include "kernels/gemm/product_plan.h"
#include "kernels/threads/thread_pool.h"

namespace rlx::kernels {

class TiledProduct {
 public:
  /// `block` is the whole product, and `strategy` a plan for it by ProductKernel::bf16_tiles.
  TiledProduct(const BlockProduct& block, const ProductStrategy& strategy, int threads);

  size_t scratch_bytes() const {
    return static_cast<size_t>((packs_per_thread_ ? 0 : shared_bytes_) + slot_bytes_ * threads_ + so_far_bytes_);
  }
  /// `block` is the whole product, with its operands.
  void run(const BlockProduct& block, void* scratch, ThreadPool& pool) const noexcept;

 private:
  /// What packing finds in 32 rows or columns: their minimum magnitude (tiles.h) and, for rows of x, the positions of
  /// numbers that are the only ones of their rows (TileSource::singles); `has_singles` is whether there are any.
  struct Values {
    float min_magnitude = std::numeric_limits<float>::infinity();
    bool has_singles = false;
    int32_t singles[2 * kTileRows] = {};
  };
  /// 32 rows or columns, packed or (in one term) where they are. Packed ones are at first.data.
  struct Operand {
    TileRows first, second;
    const Values* values = nullptr;
  };
  Operand packed_rows(const char* tiles, const Values& values) const;
  Operand packed_columns(const char* tiles, const Values& values) const;
  /// A block of rows, packed at `tiles` or in x.
  Operand rows_of(const BlockProduct& b, int64_t row, const char* tiles, const Values& values) const;
  /// A block of columns: in the packed weights where it can be read there, else packed to `out`. Sets `values`.
  Operand columns_of(const BlockProduct& b, int64_t column, char* out, Values& values) const noexcept;
  /// Whether a block of 32 rows, or of what there is from `row` on, is read where it is.
  bool reads_rows(int64_t row) const { return reads_rows_ && std::min(m_ - row, 2 * kTileRows) % kTileRows == 0; }
  // These pack 32 rows or columns.
  Values pack_rows(const BlockProduct& b, int64_t row, char* out) const noexcept;
  Values pack_columns(const BlockProduct& b, int64_t column, char* out) const noexcept;
  Values pack_rows_as_right(const BlockProduct& b, int64_t row, char* out) const noexcept;
  Values pack_columns_as_left(const BlockProduct& b, int64_t column, char* out) const noexcept;
  TileSource right_source(const BlockProduct& b, int64_t tile) const;
  /// A block of up to 32 rows and 32 columns of y, and where its sums are stored: in y itself, if there is no epilogue.
  struct OutputBlock {
    int64_t row, rows, column, cols;
    bool is_y = false;
    float* sums = nullptr;
    int64_t stride = 0;
  };
  OutputBlock output_block(const BlockProduct& b, int64_t row, int64_t column, char* slot) const;
  /// Of one term: the block whose epilogue is computed beside the tile products of the next one (pipelined_blocks.h).
  struct Pipeline {
    PendingEpilogue pending = {};
    bool is_pending = false;
    int64_t blocks = 0, column = -1, panels = 0;  ///< `column`: of the bias that was widened last
    float bias[2][kTiledColumns] = {};

    void finish() {
      if (std::exchange(is_pending, false)) apply_pending(PipelinedTiles::bf16s, pending);
    }
  };
  /// Multiplies a block of rows by a block of columns over all of k, and writes y, or leaves that to the pipeline.
  void multiply(const BlockProduct& b, int64_t row, const Operand& left, int64_t column, const Operand& right,
                char* slot, Pipeline& pipeline) const noexcept;
  void multiply_pipelined_block(const BlockProduct& b, const OutputBlock& out, const Operand& left,
                                const Operand& right, char* slot, Pipeline& pipeline) const noexcept;
  /// The sums of a block with the columns as the left operand.
  void multiply_transposed(const OutputBlock& out, const char* columns, const char* rows, char* slot) const noexcept;
  int64_t shared_blocks() const { return rows_first_ ? row_blocks_ : column_blocks_; }
  /// The `values` of packed blocks stand behind them.
  static Values* values_behind(char* blocks) { return reinterpret_cast<Values*>(blocks); }
  static const Values* values_behind(const char* blocks) { return reinterpret_cast<const Values*>(blocks); }
  static int64_t values_bytes(int64_t blocks);
  /// Packs a block of the operand that all tasks read, and stores its values behind all blocks.
  void pack_shared(const BlockProduct& b, int64_t block, char* to) const noexcept;
  /// One task: some rows by all columns, which are packed.
  void multiply_rows(const BlockProduct& b, int64_t task, const char* columns, char* slot) const noexcept;
  /// One task: some columns by all rows, which are packed. The columns are packed block by block, before they are
  /// multiplied or, in multiply_splitting(), while the block before is.
  void multiply_columns(const BlockProduct& b, int64_t task, const char* rows, char* slot) const noexcept;
  /// `piece` of k; the sums of pieces before the last are kept in `sums_so_far`.
  void multiply_splitting(const BlockProduct& b, int64_t task, int64_t piece, const char* rows, char* slot,
                          float* sums_so_far) const noexcept;
  /// From element `k` of its columns on.
  ColumnBlock column_block(const BlockProduct& b, int64_t block, int64_t k) const;
  /// What of a block of columns is known of the pieces so far: behind the sums, which have the columns' blocks one
  /// after the other, of all rows each.
  float* minima_behind(float* sums_so_far) const {
    return sums_so_far + row_blocks_ * column_blocks_ * 2 * kTileRows * kTiledColumns;
  }
  /// Applies the epilogue to a block's sums and writes y. Before that, if the values are out of split range, all sums
  /// are computed by multiply-adds; else those of rows with only one number are computed by multiplications.
  void store_output(const BlockProduct& b, const OutputBlock& out, const Values& rows, float column_min,
                    char* slot) const noexcept;
  /// The sums of the rows with only one number: each is its product with one row of the right operand.
  void multiply_singles(const BlockProduct& b, const OutputBlock& out, const Values& rows) const noexcept;
  void multiply_by_fma(const BlockProduct& b, int64_t row, int64_t rows, int64_t column, int64_t cols, float* sums,
                       char* scratch) const noexcept;

  int64_t m_, n_, k_;
  int threads_;
  TileForm form_;
  int64_t pair_bytes_;                                        // of 32 packed rows or columns
  int64_t row_blocks_, column_blocks_;                        // of 32
  bool rows_first_, splits_, transposes_, packs_per_thread_;  // see ProductStrategy
  bool reads_rows_, reads_columns_;                           // tiles of bf16 are loaded from x, from packed weights
  int64_t row_tasks_, column_tasks_;
  int64_t k_pieces_, so_far_bytes_ = 0;  // with several: sums of the pieces so far, and minimum magnitudes of columns
  int64_t shared_bytes_, slot_bytes_, packed_bytes_, pipeline_bytes_;
};

}  // namespace rlx::kernels
