// eigh, svd and eig of small f32 and c64 matrices by LAPACK's routines for f64 and c128. The BLAS kernels that a
// machine selects decide the rounding, and single precision can lose a hundred units in the last place of eigenvectors
// whose eigenvalues are close; at these sizes double precision costs next to nothing.
#pragma once

#include <array>

#include "kernels/linalg/lapack.h"

namespace rlx::kernels {

/// Matrices with at most this many rows and columns count as small.
constexpr int64_t kMaxWidened = 32;

/// Wraps a kernel `wide` of f64 or c128 for operands and results of half its width. `operand` and `results` count real
/// numbers, two for each complex number; a result that `wide` accepts null for may be null here too.
MatrixKernelPtr widened(MatrixKernelPtr wide, int64_t operand, std::array<int64_t, 3> results);

}  // namespace rlx::kernels
