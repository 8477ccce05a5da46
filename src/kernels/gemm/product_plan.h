// The planner of products: which kernel computes a product, how the product is divided into tasks, and why. All
// functions but product_target() are pure: the same arguments give the same strategy. Kernels choose by nothing but
// operands' values, as for the fp32 fallback. The first rule of product_rules() that holds decides the kernel. Users:
// fma_gemm.cpp, batched.cpp, ozaki_gemm.cpp; micro_kernels.cpp (blocks); gemm.cpp (packing);
// backends/cpu/convolution_plan.cpp (pointwise convolutions). `rlx where MODEL --strategies` prints strategies.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "kernels/cost_model.h"
#include "kernels/gemm/amx/tiles.h"
#include "kernels/gemm/fma/micro_kernels.h"
#include "kernels/gemm/gemm.h"
#include "kernels/memory/cache_sizes.h"

namespace rlx::kernels {

/// What strategies depend on besides the product: the instruction set, the caches, and the calibrated figures.
struct ProductTarget {
  bool has_matrix_tiles = false;
  bool has_bf16_dots = false;
  int64_t f32_lanes = 16, f64_lanes = 8;  ///< of a vector
  CacheSizes caches;
  CostModel costs;

  int64_t lanes(DType dtype) const { return dtype == f64 ? f64_lanes : f32_lanes; }
  bool operator==(const ProductTarget&) const = default;
};
/// This machine, with the calling thread's cost model.
ProductTarget product_target();

enum class RightOperand : uint8_t {
  run_time,  ///< known when the product runs; read with strides
  panels,    ///< constant, packed for multiply-adds
  splits,    ///< constant, packed as Ozaki splits
};

/// y[m, n] = lhs[m, k] rhs[k, n]; strides in elements.
struct ProductProblem {
  int64_t m = 0, n = 0, k = 0;
  int64_t batches = 1;  ///< products of these extents
  RightOperand right = RightOperand::run_time;
  int64_t lhs_m_stride = 0, lhs_k_stride = 1;
  int64_t rhs_k_stride = 0, rhs_n_stride = 1;  ///< of a run-time right operand
  int64_t split_bytes = 0;                     ///< of Ozaki splits
  DType lhs_dtype = f32, rhs_dtype = f32, y_dtype = f32;
  int threads = 1;
  ProductPolicy policy;
};

enum class ProductKernel : uint8_t {
  multiply_adds,  ///< fma: vectors
  bf16_tiles,     ///< amx: matrix tiles of bf16 terms
  ozaki_splits,   ///< ozaki: matrix tiles of 8-bit integers
};
std::string_view name_of(ProductKernel kernel);

/// The terms of a piece along k. Sums are the sums of partial sums over so many, whether in one piece or in several.
inline constexpr int64_t kPieceTerms = kSumTileSteps * kTileFloats;

/// A kernel, and how it divides the product: row_tasks times column_tasks tasks for each product of a batch.
struct ProductStrategy {
  ProductKernel kernel = ProductKernel::multiply_adds;
  std::string_view reason;  ///< of the rule that chose the kernel
  int64_t row_tasks = 0, column_tasks = 0;

  // Run-time right operands.
  bool transposed = false;          ///< y^T = rhs^T lhs^T is computed; set by the caller, see is_better_transposed()
  bool product_per_thread = false;  ///< each product of the batch is one task
  bool packs_together = false;      ///< all threads first pack `piece_panels` panels of rhs, which all then read
  int64_t piece_panels = 0;
  DType packed_dtype = f32;  ///< of these panels

  // Matrix tiles of bf16 terms.
  bool rows_first = false;             ///< the rows are packed first, and tasks divide the columns
  bool splits_columns = false;         ///< rows first; columns are split into terms while the tiles multiply
  int64_t k_pieces = 1;                ///< splits columns: pieces of kPieceTerms along k, all columns for each piece
  bool transposes_sums = false;        ///< rows first; columns are the left operand, and the sums are transposed
  bool packs_rows_per_thread = false;  ///< rows first; each thread packs them for itself

  // Ozaki splits.
  bool shares_rows = false;  ///< the rows are split first, and tasks divide the columns

  int64_t tasks() const { return row_tasks * column_tasks; }
  /// In words: "multiply-adds, 4 x 2 tasks: there are no matrix tiles".
  std::string text() const;

  bool operator==(const ProductStrategy&) const = default;
};

/// A rule for the kernel: it is taken if `holds`, for the reason that is given.
struct ProductRule {
  ProductKernel kernel;
  std::string_view reason;
  bool (*holds)(const ProductProblem&, const ProductTarget&);
};
/// All rules, in the order in which they are tried. The last one holds always.
std::span<const ProductRule> product_rules();

ProductStrategy plan_product(const ProductProblem& problem, const ProductTarget& target);

/// Whether to compute y^T = rhs^T lhs^T instead: if y is stored by columns, or if n is so small that vectors along n
/// would be mostly empty. Not with a bias, which would be one value per row.
bool is_better_transposed(const BatchedGemmSpec& spec);

/// The smallest number of rows for which constant weights are packed as Ozaki splits, or 0 if they never are: because
/// of the policy, the processor, their dtypes or their extents. (Their values can still prevent it, see
/// ozaki/split_plan.h.)
int64_t min_rows_for_splits(const WeightsSpec& spec, const ProductTarget& target);

/// How multiply_block() computes one block by multiply-adds.
struct BlockStrategy {
  bool dot_per_output = false;  ///< one dot product per output; the right operand's columns are contiguous along k
  bool reads_in_place = false;  ///< the right operand is read without packing
  bool bf16_dots = false;       ///< pairs of bf16 of both operands, if their values allow it (bf16_dots_suffice())
  bool widens_panels = false;   ///< a packed 16-bit panel is widened to scratch memory, for several micro-kernels

  bool operator==(const BlockStrategy&) const = default;
};
/// `kernel_rows`: the maximum rows of a micro-kernel. `has_bf16_dots`: whether bf16 dot products may be used.
inline BlockStrategy plan_block(const BlockProduct& b, DType accumulator, int64_t kernel_rows,
                                bool has_bf16_dots) noexcept {
  // Up to so many rows, a right operand that is not packed is read in place.
  constexpr int64_t kRowsWorthPacking = 32;
  // Up to so many, with a right operand whose columns are adjacent along k, each output is a dot product of its own.
  constexpr int64_t kRowsForDots = 4;
  // With fewer rows, reading the right operand once more to find its minimum costs more than bf16 dot products save.
  constexpr int64_t kRowsForBF16Dots = 4;
  BlockStrategy s;
  // Dot products and pairs of bf16 sum in another order than micro-kernels of vectors: not if batch-invariant.
  s.dot_per_output =
      !b.packed && b.rows <= kRowsForDots && b.rhs.row_stride == 1 && b.lhs.col_stride == 1 && !b.batch_invariant;
  s.reads_in_place = s.dot_per_output || (!b.packed && b.rhs.col_stride == 1 && b.rows <= kRowsWorthPacking);
  s.bf16_dots = has_bf16_dots && b.lhs.dtype == bf16 && b.rhs.dtype == bf16 && b.lhs.col_stride == 1 &&
                !s.reads_in_place && !b.batch_invariant && b.rows >= kRowsForBF16Dots;
  s.widens_panels = b.packed && !s.bf16_dots && b.rhs.dtype != accumulator && b.rows > kernel_rows;
  return s;
}

/// Whether a pointwise convolution of `pixels` pixels in channels-last layout goes to the matrix tiles of
/// conv/amx_convolution.h, if those support it, rather than to a product.
struct PointwiseStrategy {
  bool by_convolution = false;
  std::string_view reason;
};
PointwiseStrategy plan_pointwise_convolution(int64_t pixels, int64_t in_channels, int64_t out_channels,
                                             const ProductPolicy& policy);

}  // namespace rlx::kernels
