// Normalization of x[n, channels, space] over the channels of a group and all of space, for each n, and its gradient;
// with as many groups as channels it is an instance norm. Layer norm of x[n, channels, space] over the channels.
// f32, f16, bf16 and f64 (the gradient: f32 and f64), computed in f32 or f64 and rounded once. Arrays are dense.
// Neighbours: rows.h, norm_backward.h (gamma and beta along the row).
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
  const void* ct = nullptr;     ///< the gradient alone: as x
  void* y = nullptr;            ///< as x; of the gradient: that of x
  int64_t groups = 1, channels = 1, space = 1;
  double eps = 1e-5;
};

/// y of the groups [begin, end) of the n * groups.
void group_norm(const GroupNormArgs& args, int64_t begin, int64_t end) noexcept;
/// y of the places [begin, end) of the n * space, each normalized over its channels; `groups` has no meaning. Split
/// ranges at multiples of 64 where possible.
void channel_norm(const GroupNormArgs& args, int64_t begin, int64_t end) noexcept;

/// The cotangent of x of the groups [begin, end), and what they add to those of gamma and of beta: sums[0] and sums[1],
/// each [n, channels], as doubles.
void group_norm_backward(const GroupNormArgs& args, int64_t begin, int64_t end, double* const sums[2]) noexcept;
/// result[channels] = what a [n, channels] of such sums comes to.
void add_group_sums(DType dtype, const double* sums, int64_t n, int64_t channels, void* result) noexcept;

}  // namespace rlx::kernels
