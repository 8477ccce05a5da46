// Products of 8-bit codes with exact sums, requantized: what qmatmul is. Neighbour: code_weights.h, where x is no code.
#pragma once

#include <cstdint>

#include "rlx/dtype.h"

namespace rlx::kernels {

/// y[rows, n] = clamp(round(f32(bias + sum (x - x_zero)(w - w_zero)) multiplier) + y_zero), sums in i32.
struct IntegerProduct {
  /// What a thread takes is a multiple of it.
  static constexpr int64_t kColumns = 64;

  int64_t rows = 0, k = 0, n = 0;
  const float* x = nullptr;          ///< codes less their zero point; see center_codes
  DType w_dtype = i8, y_dtype = i8;  ///< i8 or u8
  const void* w = nullptr;           ///< [k, n]
  int32_t w_zero_point = 0, y_zero_point = 0;
  float multiplier = 1;
  const float* multipliers = nullptr;  ///< [n], instead of the one, unless null
  const int32_t* bias = nullptr;
  void* y = nullptr;
};
/// Its columns [begin, end).
void multiply_codes(const IntegerProduct& p, int64_t begin, int64_t end) noexcept;

/// Codes of i8 or u8 less their zero point.
void center_codes(DType dtype, const void* codes, int64_t count, int32_t zero_point, float* to) noexcept;

}  // namespace rlx::kernels
