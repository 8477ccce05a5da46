// What follows the sums of a product in 8 bits (dynamic_product.h): outliers, scales, bias, activation, factor,
// residual. Internal to this folder.
#pragma once

#include "kernels/quant/quantized_rows.h"

namespace rlx::kernels {

/// Sums of some rows and columns, and where they end.
struct DynamicTile {
  const int32_t* sums;  ///< rows are `stride` apart; up to a multiple of 16 columns may be read
  const int32_t* low;   ///< of the low bytes, where `sums` are those of the high ones; null: values have one byte
  const uint32_t* column_sums;  ///< 128 times these is subtracted, of values with 128 added; null: nothing is
  int64_t stride, rows, columns;
  const float *x_scale, *w_scale, *bias, *factor;  ///< of the first row or column; bias and factor may be null
  DType dtype;                                     ///< of what follows, f32 or bf16
  const void* residual;                            ///< may be null
  int64_t residual_stride;
  bool residual_first;
  void* y;
  int64_t y_stride;
  // What adds outliers to the sums in the epilogue, where no step of its own did: kMostOutliers of each row, or null,
  // and the packed weights of the first column.
  const Outlier* outliers;
  const char* right;
};

void apply_dynamic_epilogue(const DynamicTile& tile, Activation activation);
/// Of sums that multiply_int8_dots() gave for Int8DotIsa::avx512_vnni, which lie 32 to a row and aligned. `rounds`:
/// bf16 by the processor's instruction.
void apply_dots_epilogue(const DynamicTile& tile, Activation activation, bool rounds);
/// Adds the products of the outliers of rows, `count` of each, with 32 packed columns to their sums.
void add_outlier_products(const Outlier* outliers, int64_t count, int64_t rows, const char* right, int32_t* sums,
                          int64_t stride);

}  // namespace rlx::kernels
