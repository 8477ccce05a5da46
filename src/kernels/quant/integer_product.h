// 8-bit matrix products with exact sums, requantized to 8 bits, for processors without integer dot products.
// requantized_product.h calls it there. Neighbour: quantized_weights.h, where x is f32.
#pragma once

#include <cstdint>

#include "rlx/dtype.h"

namespace rlx::kernels {

/// y[rows, n] = clamp(round(f32(bias + sum (x - x_zero)(w - w_zero)) * multiplier) + y_zero). The sum is an i32.
struct IntegerProduct {
  /// A thread's range of columns begins at a multiple of this.
  static constexpr int64_t kColumns = 64;

  int64_t rows = 0, k = 0, n = 0;
  const float* x = nullptr;  ///< [rows, k]: quantized values minus their zero point, as center_values() writes them
  DType w_dtype = i8, y_dtype = i8;  ///< i8 or u8
  const void* w = nullptr;           ///< [k, n]
  int32_t w_zero_point = 0, y_zero_point = 0;
  float multiplier = 1;
  const float* multipliers = nullptr;  ///< [n]: one multiplier a column; if null, `multiplier` is used for all
  const int32_t* bias = nullptr;
  void* y = nullptr;
};
/// Computes columns [begin, end).
void multiply_quantized(const IntegerProduct& p, int64_t begin, int64_t end) noexcept;

/// to[i] = values[i] - zero_point for i8 or u8 values.
void center_values(DType dtype, const void* values, int64_t count, int32_t zero_point, float* to) noexcept;

}  // namespace rlx::kernels
