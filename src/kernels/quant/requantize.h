// Requantization: from 32-bit sums of a product of quantized values to values of 8 bits. Compiled for every target; the
// epilogues of VNNI, Arm's dot products and tiles are in requantized_product.cpp.
#pragma once

#include <cstdint>

#include "rlx/dtype.h"

namespace rlx::kernels {

/// y = clamp(round(f32(sum + bias[j] - row_terms[i]) * multiplier) + y_zero_point). The sum of i32 wraps on overflow;
/// ties round to even; y is 0 where the product is NaN, whatever the zero point.
struct SumsToRequantize {
  const int32_t* sums = nullptr;  ///< rows are `stride` elements apart
  int64_t stride = 0, rows = 0, columns = 0;
  const int32_t* bias = nullptr;       ///< [columns], never null
  const int32_t* row_terms = nullptr;  ///< [rows]: terms of zero points, which are subtracted; null for zeros
  const float* multipliers = nullptr;  ///< [columns]: one multiplier a column; if null, `multiplier` is used for all
  float multiplier = 1;
  DType y_dtype = i8;  ///< i8 or u8
  int32_t y_zero_point = 0;
  void* y = nullptr;
  int64_t y_stride = 0;
};
void requantize_sums(const SumsToRequantize& s) noexcept;

}  // namespace rlx::kernels
