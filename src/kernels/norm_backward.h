// Gradients of the norms over the last axis of a matrix: all that layer and RMS normalization pass back, in one pass
// over the rows. f32 and f64; rows are dense. Neighbour: rows.h, the norms themselves.
#pragma once

#include <cstddef>
#include <cstdint>

#include "rlx/dtype.h"

namespace rlx::kernels {

struct NormBackwardArgs {
  DType dtype = f32;  ///< of every tensor here
  const void* x = nullptr;
  const void* ct = nullptr;
  const void* gamma = nullptr;  ///< [cols], or null for ones
  void* d_x = nullptr;
  int64_t cols = 0;
  double eps = 1e-5;
  bool centred = true;  ///< false: the RMS norm
};
/// Scratch that each calling thread needs; it ends with its sums, those of gamma and those of beta.
size_t norm_backward_scratch_bytes(const NormBackwardArgs& args);
/// Sets the sums to 0: each thread's, before its first rows.
void clear_norm_backward_sums(const NormBackwardArgs& args, void* scratch) noexcept;
/// d_x of the rows [row_begin, row_end), and what they add to the cotangents of gamma and beta, added to the sums.
void norm_backward_rows(const NormBackwardArgs& args, int64_t row_begin, int64_t row_end, void* scratch) noexcept;
/// d_gamma and d_beta, either of which may be null: the sums of `threads` threads, whose scratch is `apart` bytes
/// apart.
void add_norm_backward_sums(const NormBackwardArgs& args, const void* scratch, size_t apart, int threads, void* d_gamma,
                            void* d_beta) noexcept;

}  // namespace rlx::kernels
