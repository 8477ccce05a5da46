// Kernels over the last axis of a matrix: softmax, log_softmax, logsumexp, layer and RMS norm. f32, f16, bf16 and f64;
// f16 and bf16 are computed in f32 and rounded once. Each call computes rows [row_begin, row_end); the caller splits
// rows over threads. Strides are in elements, from row to row; the elements of a row are contiguous. Neighbours:
// reduce.h (sums over any axis), attention.h (softmax of scores).
#pragma once

#include <cstddef>
#include <cstdint>

#include "rlx/dtype.h"

namespace rlx::kernels {

/// Scratch that every function of this file needs per calling thread, for rows of `cols` elements.
size_t rows_scratch_bytes(DType dtype, int64_t cols);

struct SoftmaxArgs {
  DType dtype = f32;
  const void* x = nullptr;
  void* y = nullptr;  ///< may be x
  int64_t x_stride = 0, y_stride = 0;
  int64_t cols = 0;
  bool log = false;  ///< log_softmax: x - max - log(sum exp(x - max))
};
/// y = exp(x - max) / sum exp(x - max). A row whose elements are all -inf, or that holds NaN or +inf, gives NaN.
void softmax_rows(const SoftmaxArgs& args, int64_t row_begin, int64_t row_end, void* scratch) noexcept;

struct LogSumExpArgs {
  DType dtype = f32;
  const void* x = nullptr;
  void* y = nullptr;  ///< one element per row, contiguous, same dtype
  int64_t x_stride = 0;
  int64_t cols = 0;
};
/// y = max + log(sum exp(x - max)); the max is taken as 0 where it is infinite, so that a row of -inf gives -inf.
void logsumexp_rows(const LogSumExpArgs& args, int64_t row_begin, int64_t row_end, void* scratch) noexcept;

struct NormArgs {
  DType dtype = f32;  ///< of every tensor here
  const void* x = nullptr;
  void* y = nullptr;  ///< may be x or residual
  int64_t x_stride = 0, y_stride = 0;
  int64_t cols = 0;

  // s = x, or x + bias, or x + residual, or (x + bias) + residual. With `round_sum` each of these sums is rounded to
  // `dtype`, as separate ops would round it; otherwise s stays in f32.
  const void* bias = nullptr;      ///< [cols], or null
  const void* residual = nullptr;  ///< rows like x, or null
  int64_t residual_stride = 0;
  void* sum = nullptr;  ///< if not null, s is stored here too
  int64_t sum_stride = 0;
  bool round_sum = true;

  const void* gamma = nullptr;  ///< [cols], or null for ones
  const void* beta = nullptr;   ///< [cols], or null for zeros
  double eps = 1e-5;
};
/// y = (s - mean) / sqrt(variance + eps) * gamma + beta; the variance is computed in a second pass, from distances to
/// the mean.
void layer_norm_rows(const NormArgs& args, int64_t row_begin, int64_t row_end, void* scratch) noexcept;
/// y = s / sqrt(mean(s^2) + eps) * gamma + beta.
void rms_norm_rows(const NormArgs& args, int64_t row_begin, int64_t row_end, void* scratch) noexcept;

}  // namespace rlx::kernels
