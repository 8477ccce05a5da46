// Cross-entropy of the softmax of each row, with a label per row or with a weight for every class, and the gradient of
// the form with labels. f32, f16, bf16 and f64; f16 and bf16 are computed in f32 and rounded once. Rows are dense.
// Neighbour: rows.h (softmax, logsumexp).
#pragma once

#include <cstddef>
#include <cstdint>

#include "rlx/dtype.h"

namespace rlx::kernels {

struct CrossEntropyArgs {
  DType dtype = f32;             ///< of logits, targets, ct and y
  const void* logits = nullptr;  ///< [rows, cols]
  const void* labels = nullptr;  ///< [rows] of integers; a label outside [0, cols) makes the row's result NaN
  DType label_dtype = i64;
  const void* targets = nullptr;  ///< [rows, cols], the weights of the classes; instead of labels
  const void* ct = nullptr;       ///< [rows], the cotangent of the losses; for the gradient only
  void* y = nullptr;
  int64_t cols = 0;
};
/// Scratch that each calling thread needs.
size_t cross_entropy_scratch_bytes(DType dtype, int64_t cols);

/// y[rows] = logsumexp(logits) - logits[label]. Like the functions below it computes the rows [row_begin, row_end).
void label_cross_entropy_rows(const CrossEntropyArgs& args, int64_t row_begin, int64_t row_end, void* scratch) noexcept;
/// y[rows] = the sum of targets * (logsumexp(logits) - logits) over the classes whose target is not 0.
void target_cross_entropy_rows(const CrossEntropyArgs& args, int64_t row_begin, int64_t row_end,
                               void* scratch) noexcept;
/// y[rows, cols] = (softmax(logits) - one_hot(label)) * ct.
void label_cross_entropy_backward_rows(const CrossEntropyArgs& args, int64_t row_begin, int64_t row_end,
                                       void* scratch) noexcept;

}  // namespace rlx::kernels
