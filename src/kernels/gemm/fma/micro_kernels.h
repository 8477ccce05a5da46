// The vector kernels of products by multiply-adds: packing of the right operand into panels, and the product of one
// block of rows and panels by one thread. Compiled once per instruction set in micro_kernels.cpp and chosen at run
// time. Users: fma_gemm.cpp and batched.cpp, which divide a product into blocks; and the matrix tile kernels (amx,
// ozaki) for what those cannot multiply (fp32 fallback).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/rounded_up.h"
#include "kernels/gemm/gemm.h"

namespace rlx::kernels {

/// Element (i, j) is at data + i * row_stride + j * col_stride, in elements.
struct StridedMatrix {
  const void* data = nullptr;
  int64_t row_stride = 0, col_stride = 1;
  DType dtype = f32;
};

/// How n columns are divided into panels of 1 to kVectors vectors. Packed, the panels follow each other, and in a panel
/// its k rows. A panel is one vector wide only if all columns fit it: a tile of that width reuses too little.
struct PanelLayout {
  static constexpr int64_t kVectors = 3;  ///< the widest panel

  int64_t n = 0;
  int64_t lanes = 1;  ///< numbers of the accumulator's type in a vector

  int64_t vectors() const { return divided_up(n, lanes); }
  int64_t panels() const { return divided_up(vectors(), kVectors); }
  /// The index of a panel's first vector; begin(panels()) is the number of vectors.
  int64_t begin(int64_t panel) const {
    int64_t back = panels() - panel, all = vectors();
    if (all % kVectors == 1 && all > 1 && back <= 2) return all - 2 * back;  // ... 3 3 2 2, not ... 3 3 3 1
    return back == 0 ? all : panel * kVectors;
  }
  /// Bytes of these panels, packed, for k rows. bf16 is packed in pairs of rows, the two elements of a column side by
  /// side (an odd last row is paired with zeros): a shift or a mask widens them, and bf16 dot product instructions read
  /// them directly.
  int64_t packed_bytes(int64_t k, DType dtype, int64_t panel_begin, int64_t panel_end) const {
    const int64_t rows = dtype == bf16 ? k + k % 2 : k;
    return rows * lanes * (begin(panel_end) - begin(panel_begin)) * static_cast<int64_t>(byte_size(dtype));
  }
};

/// Lanes of a vector of f32 (or f64) in the instruction set that was chosen for this process.
int64_t product_lanes(DType accumulator);

/// The dtype in which a run-time right operand is packed: bf16 if both are and the processor has bf16 dot products, f64
/// for f64, else f32.
DType packed_dtype_for(DType lhs, DType rhs);

/// Packs the panels [panel_begin, panel_end) of a k x n matrix to `out`, where panel_begin starts. `out_dtype` is f32
/// or f64, the dtype of the sums, or the matrix's own dtype if that is bf16 or f16.
void pack_panels(const StridedMatrix& matrix, int64_t k, const PanelLayout& layout, int64_t panel_begin,
                 int64_t panel_end, void* out, DType out_dtype) noexcept;

/// A block of a product: `rows` rows by the columns of the panels [panel_begin, panel_end), over all of k.
struct BlockProduct {
  int64_t rows = 0, k = 0;
  StridedMatrix lhs;  ///< rows x k
  PanelLayout layout;
  int64_t panel_begin = 0, panel_end = 0;
  /// The right operand: packed (then rhs.data is where panel_begin starts), or k x n with strides.
  bool packed = false;
  StridedMatrix rhs;
  /// Of bf16: the minimum magnitude of the whole packed operand, but for 0, as min_magnitude_of() (amx/tiles.h) has it;
  /// 0: not known.
  float rhs_min_magnitude = 0;
  /// y and residual point to the block's first row, in the whole matrix's column 0; bias to column 0.
  void* y = nullptr;
  int64_t y_row_stride = 0, y_col_stride = 1;
  DType y_dtype = f32;
  const void* bias = nullptr;
  const void* residual = nullptr;
  int64_t residual_row_stride = 0;  ///< its column stride is y's
  const Epilogue* epilogue = nullptr;
  void* scratch = nullptr;
  std::span<const char> prefetch;  ///< read after a packed right operand; may be prefetched meanwhile
  /// The order of each sum depends on k and n alone, not on the number of rows.
  bool batch_invariant = false;
};

/// Bytes that multiply_block needs at `scratch`, aligned to 64, for blocks of at most `rows` rows; a multiple of 64.
size_t block_scratch_bytes(int64_t rows, int64_t k, const StridedMatrix& lhs, const StridedMatrix& rhs, bool packed);
void multiply_block(const BlockProduct& block) noexcept;
/// The minimum magnitude of bf16 that are not 0; infinity if there are none, 0 if it is below the range in which tiles
/// and dot products of bf16 are exact.
float bf16_min_magnitude(const void* data, int64_t count) noexcept;

/// Applies the block's epilogue to f32 sums and writes y: `rows` rows from `row`, `cols` columns (at most 32) from
/// `column`. For sums that were not computed by multiply_block. The sums are overwritten; each row of them is read and
/// written in whole vectors, also behind its last column.
void apply_epilogue(const BlockProduct& block, float* sums, int64_t stride, int64_t row, int64_t rows, int64_t column,
                    int64_t cols) noexcept;

}  // namespace rlx::kernels
