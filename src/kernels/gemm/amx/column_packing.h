// Packs f32 columns for matrix tiles (tiles.h) while products run: vector instructions split the next columns into bf16
// terms while the tiles multiply, so that neither waits, and only the columns themselves are read from memory. For
// products of few rows; the rows are packed beforehand. User: amx_gemm.cpp.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/gemm/amx/tiles.h"

namespace rlx::kernels {

/// 32 columns as two halves of 16: element p along k of column i of half h is half[h].data[p * k_stride + i]. Columns
/// from `columns` on count as zero and are not read.
struct ColumnBlock {
  struct Half {
    const float* data = nullptr;
    int64_t k_stride = 0, columns = 0;
  };
  Half half[2];
};

/// Splits and multiplies blocks of columns, one after the other:
///   for (columns.begin(first);; columns.advance()) { columns.set_next(next); multiply() for each block of rows }
class TiledColumns {
 public:
  /// Bytes of `memory`, which is aligned to 64. For each block of columns, multiply() is called `row_blocks` times.
  static int64_t bytes(int64_t k, int64_t row_blocks);
  TiledColumns(int64_t k, int64_t row_blocks, char* memory) noexcept;

  /// To be called before begin() if the columns lie in `columns` in the order in which they are split. They are then
  /// prefetched sequentially, and `next` (may be empty) after them. Else each row is prefetched some rows before it is
  /// split.
  void stream(std::span<const char> columns, std::span<const char> next) noexcept;
  void begin(const ColumnBlock& first) noexcept;
  /// Sets the block that is split during the products that follow; set_no_next() during those of the last block.
  void set_next(const ColumnBlock& next) noexcept;
  void set_no_next() noexcept;
  /// As multiply_tiles() with TileForm::three and the current block of columns.
  void multiply(const char* upper, const char* lower, float* sums, int64_t stride) noexcept;
  /// The minimum magnitude that pack_right_tiles() would return for the current block; known after the first
  /// multiply(). If split_bf16_suffices() returns false for it, the sums are meaningless.
  float min_magnitude() const noexcept;
  void advance() noexcept;

  /// What is prefetched: [at, end), then [next, next_end).
  struct Stream {
    const char *at = nullptr, *end = nullptr, *next = nullptr, *next_end = nullptr;
    int64_t cache_lines = 0;  ///< how many each product of two terms prefetches
  };
  /// A block that is being split.
  struct SplitState {
    ColumnBlock rest;       ///< what is still to be split
    int64_t rows_left = 0;  ///< of it, along k
    /// By half and column. max_bits: the maximum of the upper 16 bits of a magnitude, of even rows in the lower word,
    /// of odd rows in the upper one. min_bits: the minimum of 2 * bits - 1 of magnitudes; 0 wraps to the largest.
    alignas(64) uint32_t max_bits[2][kTileRows]{};
    alignas(64) uint32_t min_bits[2][kTileRows];
  };

 private:
  int64_t k_, row_blocks_;
  char* memory_;  ///< a ring buffer of packed steps along k
  int64_t memory_bytes_;
  int64_t step_ = 0;       ///< where in the ring the current block begins
  bool is_split_ = false;  ///< whether all of the current block is split
  Stream stream_;
  SplitState states_[2];
  int current_ = 0;
};

}  // namespace rlx::kernels
