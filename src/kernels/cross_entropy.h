// Cross-entropy of the softmax of each row, for labels or for weights of all classes, and its gradient. f32, f16, bf16
// and f64; f16 and bf16 are computed in f32 and rounded once. Rows are dense. Neighbour: rows.h (softmax, logsumexp).
#pragma once

#include <cstddef>
#include <cstdint>

#include "rlx/dtype.h"

namespace rlx::kernels {

struct CrossEntropyArgs {
  DType dtype = f32;             ///< of logits, targets, ct and y
  const void* logits = nullptr;  ///< [rows, cols]
  const void* labels = nullptr;  ///< [rows]: integers; one that is no class makes its results NaN
  DType label_dtype = i64;
  const void* targets = nullptr;  ///< [rows, cols]
  const void* ct = nullptr;       ///< [rows]
  void* y = nullptr;
  int64_t cols = 0;
};
/// Bytes of scratch each call needs.
size_t cross_entropy_scratch_bytes(DType dtype, int64_t cols);

/// y[rows] = logsumexp(logits) - logits[label], of the rows [row_begin, row_end), as below.
void label_cross_entropy_rows(const CrossEntropyArgs& args, int64_t row_begin, int64_t row_end, void* scratch) noexcept;
/// y[rows] = sum of targets (logsumexp(logits) - logits) where targets are not 0.
void target_cross_entropy_rows(const CrossEntropyArgs& args, int64_t row_begin, int64_t row_end,
                               void* scratch) noexcept;
/// y[rows, cols] = (softmax(logits) - (1 at the label)) ct.
void label_cross_entropy_backward_rows(const CrossEntropyArgs& args, int64_t row_begin, int64_t row_end,
                                       void* scratch) noexcept;

}  // namespace rlx::kernels
