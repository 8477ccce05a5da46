// Linear algebra by LAPACK: one kernel, called for each matrix of a stack; the matrices are split over threads.
#include "backends/cpu/lowerings.h"
#include "base/rounded_up.h"
#include "kernels/linalg/blas_library.h"
#include "kernels/linalg/lapack.h"
#include "rlx/ops.h"

namespace rlx::cpu {
namespace {

kernels::MatrixTriangle triangle_of(Triangle t) {
  return t == Triangle::both    ? kernels::MatrixTriangle::both
         : t == Triangle::lower ? kernels::MatrixTriangle::lower
                                : kernels::MatrixTriangle::upper;
}
kernels::MatrixForm form_of(Transposition t) {
  return t == Transposition::none        ? kernels::MatrixForm::as_is
         : t == Transposition::transpose ? kernels::MatrixForm::transposed
                                         : kernels::MatrixForm::adjoint;
}

/// Calls `kernel` for each matrix of the first operand; the other operands and the results hold as many matrices.
/// Results that are marked in `optional` and that nothing reads are passed as null.
Prepared stack_step(const LoweringContext& c, std::string name, kernels::MatrixKernelPtr kernel,
                    const std::vector<bool>& optional = {}) {
  const View& x = c.operands[0];
  int64_t matrices = 1;
  for (size_t d = 0; d + 2 < x.shape.size(); ++d) matrices *= x.shape[d];
  auto bytes_of = [&](const std::vector<View>& views) {
    std::vector<size_t> sizes;
    for (const View& v : views)
      sizes.push_back(matrices == 0 ? 0 : static_cast<size_t>(v.count() / matrices) * v.element_bytes());
    return sizes;
  };
  constexpr size_t kMax = 4;
  if (c.operands.size() > kMax || c.results.size() > kMax) fail(ErrorCode::internal, "a kernel of many operands");
  size_t scratch = aligned(kernel->scratch_bytes());
  std::vector<bool> left_out(c.results.size());
  for (size_t i = 0; i < optional.size(); ++i) left_out[i] = optional[i] && c.unread.size() > i && c.unread[i];
  int tasks = static_cast<int>(std::clamp<int64_t>(matrices, 1, c.threads));
  std::shared_ptr<const kernels::MatrixKernel> shared = std::move(kernel);
  return make_step(std::move(name), scratch * static_cast<size_t>(tasks),
                   [=, in = bytes_of(c.operands), out = bytes_of(c.results)](const StepArgs& args) {
                     for_ranges(args, matrices, 1, shared->work_ns() * static_cast<double>(matrices),
                                [&](int64_t begin, int64_t end, int64_t task) {
                                  for (int64_t b = begin; b < end; ++b) {
                                    const void* from[kMax];
                                    void* to[kMax];
                                    auto at = static_cast<size_t>(b);
                                    for (size_t i = 0; i < in.size(); ++i) from[i] = args.in<std::byte>(i) + at * in[i];
                                    for (size_t i = 0; i < out.size(); ++i)
                                      to[i] = left_out[i] ? nullptr : args.out<std::byte>(i) + at * out[i];
                                    shared->run(from, to, args.scratch + static_cast<size_t>(task) * scratch);
                                  }
                                });
                   });
}

struct MatrixOf {
  DType dtype;
  int64_t m, n;
  explicit MatrixOf(const View& v) : dtype(v.dtype), m(v.shape[v.shape.size() - 2]), n(v.shape.back()) {}
};

}  // namespace

std::string when_lapack(const Question&) {
  const kernels::BlasLibrary& blas = kernels::blas_library();
  return blas.is_there ? "" : "LAPACK: " + blas.name;
}
std::string when_svd(const Question& q) {
  if (std::string why_not = when_lapack(q); !why_not.empty()) return why_not;
  return q.node.attrs.as<FullAttrs>().full ? "full factors are completed from the reduced ones by qr" : "";
}

Prepared lower_lu(const LoweringContext& c) {
  MatrixOf x(c.operands[0]);
  return stack_step(c, "lapack getrf", kernels::make_lu(x.dtype, x.m, x.n));
}
Prepared lower_cholesky(const LoweringContext& c) {
  MatrixOf x(c.operands[0]);
  const auto& a = c.attrs<CholeskyAttrs>();
  return stack_step(c, "lapack potrf", kernels::make_cholesky(x.dtype, x.n, a.lower, triangle_of(a.reads)));
}
Prepared lower_triangular_solve(const LoweringContext& c) {
  MatrixOf b(c.operands[1]);
  const auto& a = c.attrs<TriangularSolveAttrs>();
  return stack_step(c, "blas trsm",
                    kernels::make_triangular_solve(b.dtype, b.m, b.n, a.left_side, a.lower, form_of(a.transposition),
                                                   a.unit_diagonal));
}
Prepared lower_solve(const LoweringContext& c) {
  MatrixOf a(c.operands[0]);
  const View& b = c.operands[1];
  int64_t columns = b.shape.size() == c.operands[0].shape.size() ? b.shape.back() : 1;
  return stack_step(c, "lapack getrf, getrs",
                    kernels::make_solve(a.dtype, a.n, columns, form_of(c.attrs<SolveAttrs>().transposition)));
}
Prepared lower_geqrf(const LoweringContext& c) {
  MatrixOf x(c.operands[0]);
  return stack_step(c, "lapack geqrf", kernels::make_geqrf(x.dtype, x.m, x.n));
}
Prepared lower_householder_product(const LoweringContext& c) {
  MatrixOf x(c.operands[0]);
  return stack_step(c, "lapack orgqr",
                    kernels::make_householder_product(x.dtype, x.m, x.n, c.operands[1].shape.back()));
}
Prepared lower_qr(const LoweringContext& c) {
  MatrixOf x(c.operands[0]);
  return stack_step(c, "lapack geqrf, orgqr", kernels::make_qr(x.dtype, x.m, x.n, c.attrs<FullAttrs>().full));
}
Prepared lower_eigh(const LoweringContext& c) {
  MatrixOf x(c.operands[0]);
  return stack_step(c, "lapack heevd", kernels::make_eigh(x.dtype, x.n, triangle_of(c.attrs<TriangleAttrs>().reads)),
                    {false, true});
}
Prepared lower_svd(const LoweringContext& c) {
  MatrixOf x(c.operands[0]);
  // LAPACK computes both factors or neither.
  const bool values_only = c.unread.size() == 3 && c.unread[0] && c.unread[2];
  return stack_step(c, "lapack gesdd", kernels::make_svd(x.dtype, x.m, x.n), {values_only, false, values_only});
}
Prepared lower_eig(const LoweringContext& c) {
  MatrixOf x(c.operands[0]);
  return stack_step(c, "lapack geev", kernels::make_eig(x.dtype, x.n));
}

}  // namespace rlx::cpu
