// Products of f32 or bf16 that are computed in integers: rows of x are quantized by their own scales, weights are 8-bit
// integers with a scale for each column, sums are in i32, and the epilogue makes f32 of them, which is rounded once for
// bf16: the kernel of dynamic_quantize_matmul. It runs on AMX tiles where the processor has them, else on 8-bit dot
// products (VNNI or Arm's, vnni.h), else on multiply-adds of pairs of 16 bits (int8_pairs.h). All of them give the same
// bits, except that activations like gelu, which are computed in vectors, may differ in the last ones
// (docs/runtime.md). Neighbour: requantized_product.h, where x and the result are quantized already.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/gemm/gemm.h"
#include "kernels/quant/vnni.h"

namespace rlx::kernels {

/// The weights of a product, w[k, n] from -127 to 127, in the layout that pack_int8_weights() writes for `isa`; and how
/// large the quantized x may be.
struct Int8Weights {
  int64_t k = 0, n = 0;
  const char* packed = nullptr;
  Int8DotIsa isa = best_int8_dot_isa();
  /// The largest magnitude of a quantized x that is no outlier, 1 to 16383. Sums are exact while 127 *
  /// x_largest * k is below 2^31, and wrap beyond. Above 127 all instructions but `pairs` multiply twice, once for each
  /// plane (below).
  int32_t x_largest = 127;
  /// How many quantized values of a row may be larger, up to 16383 (`outliers` of dynamic_quantize): 0 to
  /// kMostOutliers; 0 where x_largest is above 127. Sums are then exact while 127 * (x_largest * k + 16383 *
  /// x_outliers) is below 2^31.
  int32_t x_outliers = 0;
};
inline constexpr int32_t kMostOutliers = 3;
/// The size of packed weights: a byte for each weight, padding of n and k, and, but for pairs, the sum of each column
/// as an i32.
size_t int8_weights_bytes(const Int8Weights& weights);
/// Packs weights, of which element (p, j) is at w[p * k_stride + j * n_stride]; `w` may be null if k is 0. `out` has
/// int8_weights_bytes() and is aligned to 64 bytes; `weights.packed` is ignored.
void pack_int8_weights(const Int8Weights& weights, const int8_t* w, int64_t k_stride, int64_t n_stride,
                       char* out) noexcept;

/// Bytes for `rows` quantized rows, their scales and lists of outliers; the caller owns that memory and aligns it to 64
/// bytes.
size_t quantized_rows_bytes(const Int8Weights& weights, int64_t rows);
/// `first` of multiply_quantized_rows() is a multiple of this, as quantized rows lie in blocks of two tiles of 16 rows.
/// quantize_rows() takes any range.
inline constexpr int64_t kQuantizedRows = 32;
/// Quantizes rows [begin, end) of the `rows` that `out` is for, as dynamic_quantize does (rlx/ops/dynamic_quantize.h):
/// scale = max(|x|) / weights.x_largest, or with outliers the greater of a / x_largest and max(|x|) / 16383, where a is
/// the (x_outliers + 1)-th largest |x|; at least 2^-126; values = round(x * (1 / scale)), ties to even. A row with a
/// number that is not finite gets a scale of NaN and values of 0. x is of `dtype`, f32 or bf16. Row i begins at element
/// i * x_stride; x may be null if k is 0.
void quantize_rows(const Int8Weights& weights, const void* x, DType dtype, int64_t x_stride, int64_t begin, int64_t end,
                   int64_t rows, void* out) noexcept;

// The steps of quantize_rows(), for numbers that share a scale without being a row (dynamic_convolution.h), and have no
// outliers. Quantized values lie in planes: one of i16 for `pairs`, else one of bytes or, where x_largest is above 127,
// two: value = 128 * high + low, low 0 to 127.

int quantized_planes(const Int8Weights& weights);
/// Bytes of a value in a plane.
int64_t quantized_value_bytes(const Int8Weights& weights);
/// The byte that stands for 0 in a plane (repeated, in a plane of i16): 0x80 where the instruction takes x as unsigned.
uint8_t quantized_zero(const Int8Weights& weights, int plane);
/// The bits of the largest |x|, which are ordered as the numbers are, with infinity and NaN above all of them.
uint32_t largest_magnitude(const float* x, int64_t count) noexcept;
/// max(|x|) / x_largest, at least 2^-126; NaN if largest_magnitude() met an infinity or a NaN.
float dynamic_scale(uint32_t magnitude, int32_t x_largest);
/// Quantizes x and writes each plane; the values are 0 if `scale` is NaN. `low` is null if there is one plane.
void quantize_numbers(const Int8Weights& weights, const float* x, int64_t count, float scale, std::byte* values,
                      std::byte* low) noexcept;
/// A row in the memory that quantize_rows() fills: its k values begin at `values`, and in the second plane at `low`
/// (else null), in pieces of `piece` bytes whose beginnings are `step` bytes apart. What the last piece holds behind
/// the k values has no effect, as packed weights are 0 there.
struct QuantizedRow {
  float* scale;
  std::byte *values, *low;
  int64_t piece, step;
};
QuantizedRow quantized_row(const Int8Weights& weights, void* out, int64_t rows, int64_t row);

/// y = act(f32(sum) * w_scale[j] * x_scale[i] + bias[j]) * factor[j] + residual, each operation rounded. The sum is
/// multiplied by the lesser of the two scales, then by the other. With `residual_first`, the residual is added before
/// act is applied.
struct DynamicProduct {
  /// A range of columns begins at a multiple of this.
  static constexpr int64_t kColumns = 64;

  Int8Weights w;
  int64_t rows = 0;
  const void* x = nullptr;         ///< what quantize_rows() wrote, for `rows` rows
  const float* w_scale = nullptr;  ///< [n]
  const float* bias = nullptr;     ///< [n], or null
  const float* factor = nullptr;   ///< [n], or null
  DType dtype = f32;               ///< of residual and y, f32 or bf16
  const void* residual = nullptr;  ///< [rows, n], or null
  int64_t residual_stride = 0;     ///< in elements, as y_stride
  bool residual_first = false;
  Activation activation = Activation::none;
  void* y = nullptr;
  int64_t y_stride = 0;
};
/// Computes columns [begin, end) of rows [first, last); `first` is a multiple of kQuantizedRows, `begin` of kColumns.
/// Threads may compute different ranges at once.
void multiply_quantized_rows(const DynamicProduct& p, int64_t first, int64_t last, int64_t begin, int64_t end) noexcept;

}  // namespace rlx::kernels
