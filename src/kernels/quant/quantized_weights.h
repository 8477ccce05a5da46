// Quantized values whose scales, zero points and biases are tensors of their own: their dequantization, and products of
// f32 with 8- and 4-bit weights that dequantize in registers. Neighbour: blocks.h, for formats whose blocks hold the
// scales.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "rlx/dtype.h"

namespace rlx::kernels {

/// Reads a tensor of f32, or of any integer or float dtype of at most 8 bits, as f32. The latter are looked up in a
/// table.
struct QuantizedReader {
  const void* data = nullptr;
  int bits = 32;                              ///< of an element; 32 means f32
  std::shared_ptr<const float[]> table = {};  ///< the f32 value of each of the 2^bits bit patterns
  /// A reader of `dtype` whose `data` is not set yet; a reader of f32 if reads() is false.
  static QuantizedReader of(DType dtype);
  /// Whether `dtype` can be read.
  static bool reads(DType dtype);
  float at(int64_t i) const;
  void read(int64_t first, int64_t count, float* to) const;
};

/// y = ((q - zero_point) * scale + bias) * global over a dense [outer, extent, inner] tensor. Scale, zero point and
/// bias have one element for each `block` consecutive elements along `extent`: [outer, ceil(extent / block), inner].
struct Dequantization {
  QuantizedReader q, scale, zero_point, bias;  ///< `data` is null where the operand is absent
  const float* global = nullptr;
  int64_t outer = 1, extent = 1, inner = 1, block = 1;

  int64_t rows() const { return inner == 1 ? outer : outer * extent; }
};
/// Writes rows [begin, end). A row is a run of `inner` elements, or of `extent` elements if inner is 1.
void dequantize_values(const Dequantization& c, float* y, int64_t begin, int64_t end) noexcept;

/// y[rows, n] = x[rows, k] w[k, n] with f32 x and y. w is i8, u8, i4 or u4 (then n is even); `block` consecutive
/// elements along k share a scale.
struct QuantizedWeightsProduct {
  /// A thread's range of columns begins at a multiple of this.
  static constexpr int64_t kColumns = 64;
  static bool supports(DType w_dtype) { return w_dtype == i8 || w_dtype == u8 || w_dtype == i4 || w_dtype == u4; }

  DType w_dtype = i8;
  QuantizedReader w;  ///< of `w_dtype`
  int64_t k = 0, n = 0, block = 1;
  QuantizedReader scale, zero_point, bias;  ///< [ceil(k / block), n]
  const float* table =
      nullptr;  ///< of u4: the numbers that the 16 values stand for; there is no zero point and no bias then
  const float* global = nullptr;
  int64_t rows = 0;
  const float* x = nullptr;
  int64_t x_stride = 0;
  float* y = nullptr;
};
/// Computes columns [begin, end).
void multiply_quantized_weights(const QuantizedWeightsProduct& p, int64_t begin, int64_t end) noexcept;

}  // namespace rlx::kernels
