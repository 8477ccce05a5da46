// Group norm of x[n, channels, space]: for each n, each group of channels is normalized over the group's channels and
// all of space. With as many groups as channels it is an instance norm. This file also has the gradient of group norm,
// and layer norm over the channels at each position of space. f32, f16, bf16 and f64 (gradients: f32 and f64), computed
// in f32 or f64 and rounded once. Arrays are dense. Neighbours: rows.h, norm_backward.h (norms along the last axis).
#pragma once

#include <cstddef>
#include <cstdint>

#include "rlx/dtype.h"

namespace rlx::kernels {

struct GroupNormArgs {
  DType dtype = f32;  ///< of every array here
  const void* x = nullptr;
  const void* gamma = nullptr;  ///< [channels], or null for ones
  const void* beta = nullptr;   ///< [channels], or null for zeros
  const void* ct = nullptr;     ///< for the gradient only: the cotangent of y, with x's dims
  void* y = nullptr;            ///< with x's dims; for the gradient: the cotangent of x
  int64_t groups = 1, channels = 1, space = 1;
  double eps = 1e-5;
};

/// Normalizes groups [begin, end) of the n * groups.
void group_norm(const GroupNormArgs& args, int64_t begin, int64_t end) noexcept;
/// Normalizes positions [begin, end) of the n * space, each over its channels; `groups` is ignored. Split ranges at
/// multiples of 64 where possible.
void channel_norm(const GroupNormArgs& args, int64_t begin, int64_t end) noexcept;

/// The gradient for groups [begin, end): writes the cotangent of x to y, and the groups' contributions to the
/// cotangents of gamma and beta to sums[0] and sums[1], both [n, channels] of doubles.
void group_norm_backward(const GroupNormArgs& args, int64_t begin, int64_t end, double* const sums[2]) noexcept;
/// result[channels] = the sum over n of such contributions [n, channels].
void add_group_sums(DType dtype, const double* sums, int64_t n, int64_t channels, void* result) noexcept;

}  // namespace rlx::kernels
