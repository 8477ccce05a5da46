// The vector kernels under our own product (gemm_highway.cpp): packing, and one thread's block of rows and columns.
// Compiled once per instruction set in gemm_kernels.cpp and chosen at run time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/rounded_up.h"
#include "kernels/gemm.h"

namespace rlx::kernels {

/// Element (i, j) is at data + i * row_stride + j * col_stride, in elements.
struct StridedMatrix {
  const void* data = nullptr;
  int64_t row_stride = 0, col_stride = 1;
  DType dtype = f32;
};

/// How n columns are divided into panels, each some vectors wide. In packed form the panels follow each other, and in
/// a panel its k rows. No panel is one vector wide if another cut avoids it: that shape has too little to reuse.
struct PanelLayout {
  static constexpr int64_t kVectors = 3;  ///< the widest panel

  int64_t n = 0;
  int64_t lanes = 1;  ///< of a vector of the accumulator's type

  int64_t vectors() const { return divided_up(n, lanes); }
  int64_t panels() const { return divided_up(vectors(), kVectors); }
  /// The first vector of a panel, also of the one behind the last.
  int64_t begin(int64_t panel) const {
    int64_t back = panels() - panel, all = vectors();
    if (all % kVectors == 1 && all > 1 && back <= 2) return all - 2 * back;  // ... 3 3 2 2, not ... 3 3 3 1
    return back == 0 ? all : panel * kVectors;
  }
  /// Bytes of the packed form of k rows, in the columns of these panels. Packed bf16 goes by pairs of rows, the two
  /// elements of a column side by side (an odd last row is paired with zeros): so a shift or a mask widens them, and
  /// processors with a bf16 dot product take them as they are.
  int64_t packed_bytes(int64_t k, DType dtype, int64_t panel_begin, int64_t panel_end) const {
    const int64_t rows = dtype == bf16 ? k + k % 2 : k;
    return rows * lanes * (begin(panel_end) - begin(panel_begin)) * static_cast<int64_t>(byte_size(dtype));
  }
};

/// Lanes of a vector for products that accumulate in f32 (or f64) on this machine.
int64_t product_lanes(DType accumulator);

/// How a right operand of that dtype is best packed while the product runs.
DType packed_dtype_for(DType lhs, DType rhs);

/// Writes the panels [panel_begin, panel_end) of a k x n matrix, in f32, f64, or its own dtype if that is narrower
/// and `out_dtype` says so. `out` is where panel_begin starts.
void pack_panels(const StridedMatrix& matrix, int64_t k, const PanelLayout& layout, int64_t panel_begin,
                 int64_t panel_end, void* out, DType out_dtype) noexcept;

/// A block of the product: all of `rows` and the columns of some panels.
struct BlockProduct {
  int64_t rows = 0, k = 0;
  StridedMatrix lhs;  ///< rows x k
  PanelLayout layout;
  int64_t panel_begin = 0, panel_end = 0;
  /// The right operand: packed (then `data` is where panel_begin starts), or k x n as it is.
  bool packed = false;
  StridedMatrix rhs;
  /// y, bias and residual point to what belongs to row 0 and column 0 of the whole matrix.
  void* y = nullptr;
  int64_t y_row_stride = 0, y_col_stride = 1;
  DType y_dtype = f32;
  const void* bias = nullptr;
  const void* residual = nullptr;
  int64_t residual_row_stride = 0;  ///< its column stride is y's
  const Epilogue* epilogue = nullptr;
  void* scratch = nullptr;
  std::span<const char> ahead;  ///< what will be read after a packed right operand; memory may be asked for it
};

/// Scratch bytes that multiply_block needs for blocks of at most `rows` rows; a multiple of 64.
size_t block_scratch_bytes(int64_t rows, int64_t k, const StridedMatrix& lhs, const StridedMatrix& rhs, bool packed);
void multiply_block(const BlockProduct& block) noexcept;

/// What multiply_block does once it has sums: those of `rows` rows from `row` and `cols` columns (at most 32) from
/// `column` go through the block's epilogue to y. They are changed, and a whole vector is read and written behind the
/// last of a row.
void finish_sums(const BlockProduct& block, float* sums, int64_t stride, int64_t row, int64_t rows, int64_t column,
                 int64_t cols) noexcept;

}  // namespace rlx::kernels
