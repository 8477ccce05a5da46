// Factorizations of row-major matrices by LAPACK. A kernel is made for one shape, which fixes its scratch size, and is
// called once for each matrix of a stack, from any thread. Factors that are unique only up to signs, phases or order
// are normalized as docs/ir.md, "Linear algebra", says.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "rlx/dtype.h"

namespace rlx::kernels {

class MatrixKernel {
 public:
  virtual ~MatrixKernel() = default;
  /// Scratch of one call, aligned to 64 bytes.
  size_t scratch_bytes() const { return scratch_bytes_; }
  /// Estimated time of one call.
  double work_ns() const { return work_ns_; }
  /// `in` and `out` hold a pointer for each operand and each result; results must not overlap operands.
  virtual void run(const void* const* in, void* const* out, std::byte* scratch) const noexcept = 0;

 protected:
  size_t scratch_bytes_ = 0;
  double work_ns_ = 0;
};
using MatrixKernelPtr = std::unique_ptr<const MatrixKernel>;

enum class MatrixTriangle { both, lower, upper };      ///< which triangle of an operand is read (rlx::Triangle)
enum class MatrixForm { as_is, transposed, adjoint };  ///< op(a) in op(a) x = b

// The kernels. Comments name operands and results, in order; "or null" marks results that need not be computed. Dtypes
// are f32, f64, c64 and c128. Matrices with more elements than LAPACK's 32-bit integers can count fail (unsupported).
MatrixKernelPtr make_lu(DType, int64_t m, int64_t n);  ///< x -> lu, pivots, permutation
MatrixKernelPtr make_cholesky(DType, int64_t n, bool lower, MatrixTriangle reads);
MatrixKernelPtr make_triangular_solve(DType, int64_t m, int64_t n, bool left, bool lower, MatrixForm a,
                                      bool unit_diagonal);                         ///< a, b[m, n] -> x
MatrixKernelPtr make_solve(DType, int64_t n, int64_t columns, MatrixForm a);       ///< a, b -> x
MatrixKernelPtr make_geqrf(DType, int64_t m, int64_t n);                           ///< x -> packed, taus
MatrixKernelPtr make_householder_product(DType, int64_t m, int64_t n, int64_t k);  ///< packed, taus -> q
MatrixKernelPtr make_qr(DType, int64_t m, int64_t n, bool full);                   ///< x -> q, r
MatrixKernelPtr make_eigh(DType, int64_t n, MatrixTriangle reads);                 ///< x -> values, vectors or null
MatrixKernelPtr make_svd(DType, int64_t m, int64_t n);                             ///< x -> u, s, vt; or null, s, null
MatrixKernelPtr make_eig(DType, int64_t n);                                        ///< x -> values, vectors; complex

}  // namespace rlx::kernels
