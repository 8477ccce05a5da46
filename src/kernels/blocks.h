// Products with weights that stay packed in blocks, and the decoding of rows. The commonest formats (Q4_0, Q8_0, Q4_K,
// Q6_K) have vector kernels that unpack straight into the sums; the others are decoded block by block into the L1
// cache. The values are those of rlx::block_decoder, bit by bit. Neighbour: code_weights.h, codes with scales of their
// own.
#pragma once

#include "kernels/gemm.h"

namespace rlx::kernels {

/// Writes the elements of `blocks` blocks, as f32.
void decode_blocks(DType format, const std::byte* from, int64_t blocks, float* to) noexcept;

/// y = act(x wᵀ + bias) + residual for a few rows of x: w[n, k] is read once for all of them, and never written out.
struct BlockWeightsProduct {
  static constexpr int64_t kMostRows = 8;
  /// Columns that are finished together; what a thread takes is a multiple of it.
  static constexpr int64_t kColumns = 32;

  DType format = q8_0;
  const std::byte* w = nullptr;
  int64_t k = 0;     ///< whole blocks
  int64_t rows = 0;  ///< at most kMostRows
  const float* x = nullptr;
  int64_t x_stride = 0;
  void* y = nullptr;
  DType y_dtype = f32;  ///< f32, f16 or bf16
  int64_t y_stride = 0;
  Epilogue epilogue = {};
  const void* bias = nullptr;
  const void* residual = nullptr;  ///< of y's dtype
  int64_t residual_stride = 0;
};
/// Its columns [begin, end).
void multiply_block_weights(const BlockWeightsProduct& p, int64_t begin, int64_t end) noexcept;

}  // namespace rlx::kernels
