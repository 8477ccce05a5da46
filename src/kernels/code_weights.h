// Codes whose scales are a tensor of their own: reading them, and products with 8- and 4-bit ones straight from the
// codes. Neighbour: blocks.h, formats whose blocks hold the scales.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "rlx/dtype.h"

namespace rlx::kernels {

/// A tensor of numbers of at most 8 bits, or of f32: each is read as f32.
struct CodeReader {
  const void* data = nullptr;
  int bits = 32;                              ///< 32: f32 as they are
  std::shared_ptr<const float[]> table = {};  ///< what each code stands for; 2^bits of them
  /// The reader of that dtype, without data; `table` is null for one that it cannot read.
  static CodeReader of(DType dtype);
  static bool reads(DType dtype);
  float at(int64_t i) const;
  void read(int64_t first, int64_t count, float* to) const;
};

/// ((q - zero_point) scale + bias) global over [outer, extent, inner], each scale standing for `block` places of
/// `extent`.
struct CodeDecoding {
  CodeReader q, scale, zero_point, bias;  ///< without data where there is none
  const float* global = nullptr;
  int64_t outer = 1, extent = 1, inner = 1, block = 1;

  int64_t rows() const { return inner == 1 ? outer : outer * extent; }
};
/// Rows [begin, end): runs along `inner`, or along `extent` if there is no other dim behind it.
void decode_codes(const CodeDecoding& c, float* y, int64_t begin, int64_t end) noexcept;

/// y[rows, n] = x[rows, k] w[k, n], w of i8, u8, i4 or u4 (n is even then), one scale for `block` places along k.
struct CodeWeightsProduct {
  /// What a thread takes is a multiple of it.
  static constexpr int64_t kColumns = 64;
  static bool takes(DType codes) { return codes == i8 || codes == u8 || codes == i4 || codes == u4; }

  DType codes = i8;
  CodeReader w;  ///< of `codes`
  int64_t k = 0, n = 0, block = 1;
  CodeReader scale, zero_point, bias;  ///< [ceil(k / block), n]
  const float* global = nullptr;
  int64_t rows = 0;
  const float* x = nullptr;
  int64_t x_stride = 0;
  float* y = nullptr;
};
/// Its columns [begin, end).
void multiply_code_weights(const CodeWeightsProduct& p, int64_t begin, int64_t end) noexcept;

}  // namespace rlx::kernels
