// 8-bit matrix products that are requantized to 8 bits, with packed weights: the kernel of qmatmul and qconv2d. It runs
// on AMX tiles where the processor has them, else on dot products of 8-bit integers (vnni.h), else on pairs of 16 bits
// (int8_pairs.h). The sums are exact in each form, so all of them give the same result.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/quant/vnni.h"
#include "rlx/dtype.h"

namespace rlx::kernels {

/// Weights [k, n] of i8 or u8 in the layout that pack_quantized() writes for `isa`.
struct PackedQuantizedWeights {
  DType dtype = i8;
  int32_t zero_point = 0;
  int64_t k = 0, n = 0;
  const char* packed = nullptr;
  Int8DotIsa isa = best_int8_dot_isa();
};
/// The size of packed weights.
size_t packed_quantized_bytes(const PackedQuantizedWeights& weights);
/// Packs a source whose element (p, j) is at w[p * k_stride + j * n_stride]. `out` has packed_quantized_bytes() and is
/// aligned to 64 bytes; `weights.packed` is ignored.
void pack_quantized(const PackedQuantizedWeights& weights, const void* w, int64_t k_stride, int64_t n_stride,
                    char* out) noexcept;

/// y[i, j] = clamp(round(f32(bias[j] + sum (x - x_zero)(w - w_zero)) * multiplier) + y_zero). The sum is an i32 that
/// wraps on overflow; ties round to even; NaN becomes 0. x and y have the same dtype, i8 or u8.
struct RequantizedProduct {
  /// A range of columns begins at a multiple of this.
  static constexpr int64_t kColumns = 64;

  PackedQuantizedWeights w;
  DType dtype = i8;
  int64_t rows = 0;
  const void* x = nullptr;
  int64_t x_stride = 0;
  int32_t x_zero_point = 0, y_zero_point = 0;
  float multiplier = 1;
  const float* multipliers = nullptr;  ///< [n]: one multiplier a column; if null, `multiplier` is used for all
  const int32_t* bias = nullptr;       ///< [n]
  void* y = nullptr;
  int64_t y_stride = 0;
};
/// Scratch of a calling thread.
size_t requantized_product_scratch_bytes(const PackedQuantizedWeights& weights, int64_t rows);
/// Computes columns [begin, end); `begin` is a multiple of kColumns, `scratch` has requantized_product_scratch_bytes().
void multiply_packed_quantized(const RequantizedProduct& p, int64_t begin, int64_t end, void* scratch) noexcept;

}  // namespace rlx::kernels
