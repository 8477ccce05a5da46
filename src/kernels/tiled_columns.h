// Columns of f32 that are split into the parts of matrix tiles (matrix_tiles.h) while products run: the vectors split
// what comes next while the tiles multiply, so that neither waits, and nothing but the columns themselves comes from
// memory. For products of few rows, which are packed before; user: gemm_tiled.cpp.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/matrix_tiles.h"

namespace rlx::kernels {

/// 32 columns: element p of column i of a half is half[h].data[p * k_stride + i]. What is behind `lines` counts as zero
/// and is not read.
struct ColumnBlock {
  struct Half {
    const float* data = nullptr;
    int64_t k_stride = 0, lines = 0;
  };
  Half half[2];
};

/// Blocks of columns, one after the other:
///   for (columns.begin(first);; columns.advance()) { columns.follow_with(next); multiply() for each block of rows }
class TiledColumns {
 public:
  /// Bytes of `memory`, which is aligned to 64. `row_blocks`: how often multiply() is called for a block.
  static int64_t bytes(int64_t k, int64_t row_blocks);
  TiledColumns(int64_t k, int64_t row_blocks, char* memory) noexcept;

  /// Where all columns lie one after the other in the order in which they are split, and what is read once they all
  /// are: memory is asked for in that order. Before begin(); else rows are asked for some time before they are split.
  void stream(std::span<const char> columns, std::span<const char> then) noexcept;
  void begin(const ColumnBlock& first) noexcept;
  /// What is split during the products that follow; nothing comes after the last block.
  void follow_with(const ColumnBlock& next) noexcept;
  void follow_with_nothing() noexcept;
  /// As multiply_tiles() with parts of f32 and the block of columns at hand.
  void multiply(const char* upper, const char* lower, float* sums, int64_t stride) noexcept;
  /// After a product: whether parts stand for the columns at hand (see pack_right_tiles()). If not, the sums mean
  /// nothing.
  bool is_fit() const noexcept;
  void advance() noexcept;

  struct Stream {
    const char *at = nullptr, *end = nullptr, *then = nullptr, *then_end = nullptr;
    int64_t lines = 0;  ///< of 64 bytes, asked for with each product of parts
  };
  /// A block that is being split.
  struct Head {
    ColumnBlock rest;       ///< what is still to be split
    int64_t rows_left = 0;  ///< of it, along k
    /// Largest magnitudes by the upper halves of numbers (of even and odd rows, side by side), and all bits that occur.
    alignas(64) uint32_t most[2][kTileLines]{};
    alignas(64) uint32_t bits[2][kTileLines]{};
  };

 private:
  int64_t k_, row_blocks_;
  char* memory_;  ///< a ring of steps
  int64_t memory_bytes_;
  int64_t step_ = 0;  ///< where in the ring the block at hand begins
  bool is_split_ = false;
  Stream stream_;
  Head heads_[2];
  int at_hand_ = 0;
};

}  // namespace rlx::kernels
