// eigh, svd and eig of small f32 and c64 matrices, by LAPACK's routines for f64 and c128. In single precision the BLAS
// kernels that a machine selects decide the rounding, and eigenvectors whose eigenvalues are close can differ by a
// hundred ulps; at these sizes double precision costs next to nothing.
#pragma once

#include <array>

#include "kernels/linalg/lapack.h"

namespace rlx::kernels {

/// Matrices with at most this many rows and columns count as small.
constexpr int64_t kMaxWidened = 32;

/// Wraps `wide`, a kernel of f64 or c128, for operands and results of half that width. `operand` and `results` are the
/// counts of real numbers (two per complex number) of the operand and of each result. A result for which `wide` accepts
/// null may be null here too.
MatrixKernelPtr widened(MatrixKernelPtr wide, int64_t operand, std::array<int64_t, 3> results);

}  // namespace rlx::kernels
