// Factorizations of row-major matrices by LAPACK: one kernel for one shape, with its scratch memory measured when it is
// made, and called once for each matrix of a stack, from any thread. What is unique only up to signs, phases or order
// is brought into the form that docs/ir.md, "Linear algebra", gives it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "rlx/dtype.h"

namespace rlx::kernels {

class MatrixKernel {
 public:
  virtual ~MatrixKernel() = default;
  /// Of one call; the memory is aligned to 64 bytes.
  size_t scratch_bytes() const { return scratch_bytes_; }
  /// A guess at what one call takes.
  double work_ns() const { return work_ns_; }
  /// Matrices of the operands and of the results. Never both at one place.
  virtual void run(const void* const* in, void* const* out, std::byte* scratch) const noexcept = 0;

 protected:
  size_t scratch_bytes_ = 0;
  double work_ns_ = 0;
};
using MatrixKernelPtr = std::unique_ptr<const MatrixKernel>;

enum class MatrixPart { both, lower, upper };  ///< as rlx::Triangle
enum class MatrixForm { plain, transposed, adjoint };

// All for f32, f64, c64, c128. They fail (unsupported) for matrices whose places LAPACK's 32-bit integers cannot count.
MatrixKernelPtr make_lu(DType, int64_t m, int64_t n);  ///< x -> lu, pivots, permutation
MatrixKernelPtr make_cholesky(DType, int64_t n, bool lower, MatrixPart reads);
MatrixKernelPtr make_triangular_solve(DType, int64_t m, int64_t n, bool left, bool lower, MatrixForm a,
                                      bool unit_diagonal);                         ///< a, b[m, n] -> x
MatrixKernelPtr make_solve(DType, int64_t n, int64_t columns, MatrixForm a);       ///< a, b -> x
MatrixKernelPtr make_geqrf(DType, int64_t m, int64_t n);                           ///< x -> packed, taus
MatrixKernelPtr make_householder_product(DType, int64_t m, int64_t n, int64_t k);  ///< packed, taus -> q
MatrixKernelPtr make_qr(DType, int64_t m, int64_t n, bool full);                   ///< x -> q, r
MatrixKernelPtr make_eigh(DType, int64_t n, MatrixPart reads);                     ///< x -> values, vectors or null
MatrixKernelPtr make_svd(DType, int64_t m, int64_t n);                             ///< x -> u, s, vt; or null, s, null
MatrixKernelPtr make_eig(DType, int64_t n);                                        ///< x -> values, vectors; complex

}  // namespace rlx::kernels
