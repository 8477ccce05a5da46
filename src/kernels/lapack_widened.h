// Spectra of small matrices of f32 and c64 by the routines of f64 and c128. Which of its kernels a BLAS takes for the
// machine at hand decides the rounding, and what the routine of single precision leaves of a vector whose neighbours
// are near is worse by a hundred units in the last place on some; at these sizes double precision costs next to
// nothing.
#pragma once

#include <array>

#include "kernels/lapack.h"

namespace rlx::kernels {

/// The most rows or columns of a matrix that is taken for small.
constexpr int64_t kMostWidened = 32;

/// `wide` of f64 or c128 for operands and results of half its width. Counts are of real numbers, two for a complex one;
/// a result that `wide` may be handed null for may be null here too.
MatrixKernelPtr widened(MatrixKernelPtr wide, int64_t operand, std::array<int64_t, 3> results);

}  // namespace rlx::kernels
