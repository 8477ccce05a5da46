// A product by matrix tiles (matrix_tiles.h). Many rows: the right operand is packed first, by all threads, then blocks
// of rows pass over it. Few rows: these are packed first, and columns are packed where they are used, those of f32 that
// stand side by side while the products before them run (tiled_columns.h), those along k as the left operand of turned
// products. Both plans of our own product use it where the processor has tiles; numbers that tiles do not stand for
// well go through multiply_block.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/gemm_kernels.h"
#include "kernels/matrix_tiles.h"
#include "kernels/thread_pool.h"
#include "kernels/tiled_columns.h"

namespace rlx::kernels {

class TiledProduct {
 public:
  /// Whether tiles are there, take these dtypes and strides, and pay for this size. `block` is the whole product.
  static bool suits(const BlockProduct& block);

  TiledProduct(const BlockProduct& block, int threads);

  size_t scratch_bytes() const {
    return static_cast<size_t>((packs_apart_ ? 0 : shared_bytes_) + slot_bytes_ * threads_);
  }
  /// `block`: the whole product, with its operands.
  void run(const BlockProduct& block, void* scratch, ThreadPool& pool) const noexcept;

 private:
  /// Two tiles of rows or of columns, packed one behind the other or between each other, and whether they may be used.
  struct Operand {
    const char* tiles;
    bool is_fit;
  };
  bool pack_rows(const BlockProduct& b, int64_t row, char* out) const noexcept;
  bool pack_columns(const BlockProduct& b, int64_t column, char* out) const noexcept;
  bool pack_rows_as_right(const BlockProduct& b, int64_t row, char* out) const noexcept;
  bool pack_columns_as_left(const BlockProduct& b, int64_t column, char* out) const noexcept;
  TileSource right_source(const BlockProduct& b, int64_t tile) const;
  /// Rows and columns of sums, and where tiles leave them: in y itself, where nothing is to be done to them.
  struct Place {
    int64_t row, rows, column, cols;
    bool is_y = false;
    float* sums = nullptr;
    int64_t stride = 0;
  };
  Place place_of(const BlockProduct& b, int64_t row, int64_t column, char* slot) const;
  /// All of k.
  void multiply(const BlockProduct& b, int64_t row, Operand left, int64_t column, Operand right,
                char* slot) const noexcept;
  /// The same by columns as the left operand.
  void multiply_turned(const Place& at, const char* columns, const char* rows, char* slot) const noexcept;
  int64_t shared_blocks() const { return rows_first_ ? row_blocks_ : column_blocks_; }
  /// Packs a block of the operand that all parts read, and notes behind them all whether it is fit.
  void pack_shared(const BlockProduct& b, int64_t block, char* to) const noexcept;
  /// A part of the rows by all columns, which are packed.
  void multiply_rows(const BlockProduct& b, int64_t part, const char* columns, char* slot) const noexcept;
  /// A part of the columns by all rows, which are packed; the columns before each block, or while products run.
  void multiply_columns(const BlockProduct& b, int64_t part, const char* rows, char* slot) const noexcept;
  void multiply_splitting(const BlockProduct& b, int64_t part, const char* rows, char* slot) const noexcept;
  ColumnBlock column_block(const BlockProduct& b, int64_t block) const;
  /// What the product does to sums, which are made without tiles unless they are fit.
  void finish(const BlockProduct& b, const Place& at, bool is_fit, char* slot) const noexcept;
  void multiply_plainly(const BlockProduct& b, int64_t row, int64_t rows, int64_t column, int64_t cols, float* sums,
                        char* scratch) const noexcept;

  int64_t m_, n_, k_;
  int threads_;
  TileForm form_;
  int64_t pair_bytes_;                  // of two tiles
  int64_t row_blocks_, column_blocks_;  // as wide as multiply_tiles()
  bool rows_first_ = false;             // few rows: they are shared; else the columns are
  bool splits_ = false;                 // and columns are packed while products run
  bool turns_ = false;                  // or columns are the left operand and sums are turned
  bool packs_apart_ = false;            // few rows: each thread packs them for itself
  int64_t row_parts_, column_parts_;
  int64_t shared_bytes_, slot_bytes_, packed_bytes_;
};

}  // namespace rlx::kernels
