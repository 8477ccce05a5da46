// Products of f32 that are computed in 8-bit integers: rows of x are quantized by their own scales, weights are codes
// with a scale for each column, sums are exact in i32, and one epilogue in f32 ends them: the kernel of
// dynamic_quantize_matmul. It runs on AMX tiles where the processor has them, else on VNNI dot products (vnni.h), else
// on multiply-adds of pairs of 16 bits (int8_pairs.h). All of them give the same bits.
// Neighbour: requantized_product.h, where x and the result are codes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/gemm/gemm.h"
#include "kernels/quant/vnni.h"

namespace rlx::kernels {

/// Codes w[k, n] from -127 to 127, in the layout that pack_int8_weights() writes for `isa`.
struct Int8Weights {
  int64_t k = 0, n = 0;
  const char* packed = nullptr;
  Int8DotIsa isa = best_int8_dot_isa();
  /// Of the codes of rows that are multiplied with it; up to 16383, and 127 * x_largest * k is below 2^31. Beyond 127,
  /// VNNI and tiles multiply twice.
  int32_t x_largest = 127;
};
/// The size of packed weights: a byte each, and what fills up the last columns and the end of k.
size_t int8_weights_bytes(const Int8Weights& weights);
/// Packs codes, of which element (p, j) is at codes[p * k_stride + j * n_stride]. `out` has int8_weights_bytes() and is
/// aligned to 64 bytes; `weights.packed` is ignored.
void pack_int8_weights(const Int8Weights& weights, const int8_t* codes, int64_t k_stride, int64_t n_stride,
                       char* out) noexcept;

/// Memory for `rows` quantized rows and their scales; it is aligned to 64 bytes.
size_t quantized_rows_bytes(const Int8Weights& weights, int64_t rows);
/// Ranges of rows that are quantized by different calls begin at multiples of this.
inline constexpr int64_t kQuantizedRows = 32;
/// Quantizes rows [begin, end) of `rows`, as dynamic_quantize does (rlx/ops/dynamic_quantize.h): scale = max(|x|) /
/// 127, at least 2^-126, codes = round(x * (1 / scale)), ties to even; NaN and zeros if the row has a number that is
/// not finite. Row i begins at x[i * x_stride].
void quantize_rows(const Int8Weights& weights, const float* x, int64_t x_stride, int64_t begin, int64_t end,
                   int64_t rows, void* out) noexcept;

/// y = act((f32(sum) * w_scale[j]) * x_scale[i] + bias[j]) + residual, each operation rounded.
struct DynamicProduct {
  /// A range of columns begins at a multiple of this.
  static constexpr int64_t kColumns = 64;

  Int8Weights w;
  int64_t rows = 0;
  const void* x = nullptr;         ///< as quantize_rows() left them
  const float* w_scale = nullptr;  ///< [n]
  const float* bias = nullptr;     ///< [n], or null
  const float* residual = nullptr;
  int64_t residual_stride = 0;
  Activation activation = Activation::none;
  float* y = nullptr;
  int64_t y_stride = 0;
};
/// Computes columns [begin, end) of rows [first, last); `first` is a multiple of kQuantizedRows.
void multiply_quantized_rows(const DynamicProduct& p, int64_t first, int64_t last, int64_t begin, int64_t end) noexcept;

}  // namespace rlx::kernels
