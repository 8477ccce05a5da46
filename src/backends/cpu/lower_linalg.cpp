// Linear algebra by LAPACK: one kernel for the matrices of a stack, which are split over the threads.
#include "backends/cpu/lowerings.h"
#include "base/rounded_up.h"
#include "kernels/lapack.h"
#include "rlx/ops.h"

namespace rlx::cpu {
namespace {

kernels::MatrixPart part_of(Triangle t) {
  return t == Triangle::both    ? kernels::MatrixPart::both
         : t == Triangle::lower ? kernels::MatrixPart::lower
                                : kernels::MatrixPart::upper;
}
kernels::MatrixForm form_of(Transposition t) {
  return t == Transposition::none        ? kernels::MatrixForm::plain
         : t == Transposition::transpose ? kernels::MatrixForm::transposed
                                         : kernels::MatrixForm::adjoint;
}

/// `kernel` for each matrix: operands and results are as many as the first operand has matrices. With `optional` it is
/// handed null for results that nothing reads.
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
  constexpr size_t kMost = 4;
  if (c.operands.size() > kMost || c.results.size() > kMost) fail(ErrorCode::internal, "a kernel of many operands");
  size_t scratch = aligned(kernel->scratch_bytes());
  std::vector<bool> left_out(c.results.size());
  for (size_t i = 0; i < optional.size(); ++i) left_out[i] = optional[i] && c.unread.size() > i && c.unread[i];
  int parts = static_cast<int>(std::clamp<int64_t>(matrices, 1, c.threads));
  std::shared_ptr<const kernels::MatrixKernel> shared = std::move(kernel);
  return make_step(std::move(name), scratch * static_cast<size_t>(parts),
                   [=, in = bytes_of(c.operands), out = bytes_of(c.results)](const StepArgs& args) {
                     for_ranges(args, matrices, 1, shared->work_ns() * static_cast<double>(matrices),
                                [&](int64_t begin, int64_t end, int64_t part) {
                                  for (int64_t b = begin; b < end; ++b) {
                                    const void* from[kMost];
                                    void* to[kMost];
                                    auto at = static_cast<size_t>(b);
                                    for (size_t i = 0; i < in.size(); ++i) from[i] = args.in<std::byte>(i) + at * in[i];
                                    for (size_t i = 0; i < out.size(); ++i)
                                      to[i] = left_out[i] ? nullptr : args.out<std::byte>(i) + at * out[i];
                                    shared->run(from, to, args.scratch + static_cast<size_t>(part) * scratch);
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

std::string when_svd(const Question& q) {
  return q.node.attrs.as<FullAttrs>().full ? "full factors are completed from the thin ones by qr" : "";
}

Prepared lower_lu(const LoweringContext& c) {
  MatrixOf x(c.operands[0]);
  return stack_step(c, "lapack getrf", kernels::make_lu(x.dtype, x.m, x.n));
}
Prepared lower_cholesky(const LoweringContext& c) {
  MatrixOf x(c.operands[0]);
  const auto& a = c.attrs<CholeskyAttrs>();
  return stack_step(c, "lapack potrf", kernels::make_cholesky(x.dtype, x.n, a.lower, part_of(a.reads)));
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
  return stack_step(c, "lapack heevd", kernels::make_eigh(x.dtype, x.n, part_of(c.attrs<TriangleAttrs>().reads)),
                    {false, true});
}
Prepared lower_svd(const LoweringContext& c) {
  MatrixOf x(c.operands[0]);
  // Both factors or none: LAPACK has no third way.
  const bool values_only = c.unread.size() == 3 && c.unread[0] && c.unread[2];
  return stack_step(c, "lapack gesdd", kernels::make_svd(x.dtype, x.m, x.n), {values_only, false, values_only});
}
Prepared lower_eig(const LoweringContext& c) {
  MatrixOf x(c.operands[0]);
  return stack_step(c, "lapack geev", kernels::make_eig(x.dtype, x.n));
}

}  // namespace rlx::cpu
