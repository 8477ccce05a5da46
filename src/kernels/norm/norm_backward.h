// Gradients of layer and RMS norm over the last axis of a matrix: the cotangents of x, gamma and beta in one pass over
// the rows. f32 and f64; rows are dense. Neighbour: rows.h, the norms themselves.
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
  bool centred = true;  ///< true: layer norm; false: RMS norm, which subtracts no mean
};
/// Scratch that each calling thread needs. It holds the thread's sums for the cotangents of gamma and beta.
size_t norm_backward_scratch_bytes(const NormBackwardArgs& args);
/// Sets a thread's sums to 0. Call it before the thread's first rows.
void clear_norm_backward_sums(const NormBackwardArgs& args, void* scratch) noexcept;
/// Writes d_x of rows [row_begin, row_end) and adds the rows' contributions to the thread's sums.
void norm_backward_rows(const NormBackwardArgs& args, int64_t row_begin, int64_t row_end, void* scratch) noexcept;
/// Adds the sums of `threads` threads, whose scratch is `stride_bytes` apart, to d_gamma and d_beta; either may be
/// null.
void add_norm_backward_sums(const NormBackwardArgs& args, const void* scratch, size_t stride_bytes, int threads,
                            void* d_gamma, void* d_beta) noexcept;

}  // namespace rlx::kernels
