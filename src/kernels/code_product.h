// Products of 8-bit codes with weights that are packed, requantized: what qmatmul and qconv2d are. By matrix tiles
// where the processor has them, else four by four (code_dots.h), else by integer_product.h; sums are exact in each
// form, so all give the same codes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/code_dots.h"
#include "rlx/dtype.h"

namespace rlx::kernels {

/// Weights [k, n] of i8 or u8 as pack_codes() leaves them.
struct CodeWeights {
  DType dtype = i8;
  int32_t zero_point = 0;
  int64_t k = 0, n = 0;
  const char* packed = nullptr;
  CodeForm form = best_code_form();
};
/// Bytes of the packed form, and packing: element (p, j) is at w[p * k_stride + j * n_stride]. `out` is aligned to 64.
size_t packed_code_bytes(const CodeWeights& weights);
void pack_codes(const CodeWeights& weights, const void* w, int64_t k_stride, int64_t n_stride, char* out) noexcept;

/// y[i, j] = clamp(round(f32(bias[j] + sum (x - x_zero)(w - w_zero)) multiplier) + y_zero), sums in i32, which wraps;
/// ties to even, NaN to 0. x and y are of one dtype, i8 or u8.
struct CodeProduct {
  /// What columns are split by.
  static constexpr int64_t kColumns = 64;

  CodeWeights w;
  DType dtype = i8;
  int64_t rows = 0;
  const void* x = nullptr;
  int64_t x_stride = 0;
  int32_t x_zero_point = 0, y_zero_point = 0;
  float multiplier = 1;
  const float* multipliers = nullptr;  ///< [n], instead of the one, unless null
  const int32_t* bias = nullptr;       ///< [n]
  void* y = nullptr;
  int64_t y_stride = 0;
};
size_t code_product_scratch_bytes(const CodeWeights& weights, int64_t rows);
/// Its columns [begin, end); begin is a multiple of kColumns.
void multiply_packed_codes(const CodeProduct& p, int64_t begin, int64_t end, void* scratch) noexcept;

}  // namespace rlx::kernels
