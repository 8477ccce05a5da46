// Products with weights in block formats (GGUF's Q4_0, Q4_K, ...), and decoding of such blocks. Most formats have
// vector decoders (block_formats-inl.h); blocks of the others (IQ1 to IQ3, TQ1_0, Q1_0, Q2_0, Q8_K) are decoded by
// scalar code, one by one, into the L1 cache. Values decoded to f32 equal those of
// rlx::block_decoder bit by bit; to bf16 they are these, rounded. Neighbour: quantized_weights.h, for quantized values
// with separate scales.
//
// Weights of f16 and bf16 beside x in f32 are products of the same kind: a half is a block of one element. The length
// of a row is a multiple of kHalvesTogether.
#pragma once

#include "kernels/gemm/gemm.h"
#include "kernels/vector/narrow_float.h"

namespace rlx::kernels {

/// Writes the elements of `blocks` blocks, as f32. Of f16 and bf16 `blocks` counts elements, a multiple
/// of kHalvesTogether.
void decode_blocks(DType format, const std::byte* from, int64_t blocks, float* to) noexcept;
/// The same, rounded to bf16.
void decode_blocks(DType format, const std::byte* from, int64_t blocks, BF16* to) noexcept;
/// The same as f32 for `blocks` blocks in each of `rows` rows: those begin `row_bytes` after each other, and row r is
/// written from to[r * to_stride] on.
void decode_block_rows(DType format, const std::byte* from, int64_t row_bytes, int64_t rows, int64_t blocks, float* to,
                       int64_t to_stride) noexcept;

/// y = activation(x wᵀ + bias) + residual for at most kMaxRows rows of x. Each block of w[n, k] is decoded
/// once for 8, 4, 2 or 1 rows together, in registers or in the cache (for 7 rows: three times).
struct BlockWeightsProduct {
  static constexpr int64_t kMaxRows = 8;
  /// The epilogue runs on this many columns at a time; a thread's range of columns begins at a multiple of it.
  static constexpr int64_t kColumns = 32;
  static constexpr int64_t kHalvesTogether = 64;

  DType format = q8_0;  ///< a block format, f16 or bf16
  const std::byte* w = nullptr;
  int64_t k = 0;     ///< a multiple of the format's block_elements, or of kHalvesTogether
  int64_t rows = 0;  ///< at most kMaxRows
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
/// Computes columns [begin, end).
void multiply_block_weights(const BlockWeightsProduct& p, int64_t begin, int64_t end) noexcept;

}  // namespace rlx::kernels
