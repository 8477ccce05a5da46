// Products of a mixture of experts: grouped_matmul and segment_matmul, of which each group is one product. Experts in
// packed formats: lower_blocks.cpp.
#include "backends/cpu/lowerings.h"
#include "kernels/gemm/grouped.h"
#include "rlx/ops/linear.h"

namespace rlx::cpu {

std::string when_grouped(const Question& q) {
  const Type &x = q.operands[0], &other = q.operands[1], &index = q.operands[2];
  if (x.dtype != f32 && x.dtype != f64 && x.dtype != f16 && x.dtype != bf16)
    return text_of(x, " is not f32, f64, f16 or bf16");
  if (other.dtype != x.dtype) return text_of("operands of ", x.dtype, " and ", other.dtype);
  return is_byte_sized(index.dtype) ? "" : text_of("indices of ", index.dtype);
}

namespace {

/// A step of GroupedGemm or SegmentGemm.
template <class Gemm>
Prepared grouped_step(const LoweringContext& c, std::string name, kernels::GroupedGemmSpec s) {
  s.lhs_stride = c.operands[0].strides[0];
  s.dtype = c.operands[0].dtype, s.index_dtype = c.operands[2].dtype;
  s.threads = c.threads, s.policy = c.policy;
  const Gemm gemm(s);
  const auto run = [=](const StepArgs& args) {
    gemm.run({args.in(0), args.in(1), args.in(2), args.out()}, args.scratch, thread_pool());
  };
  return make_step(text_of(name, " ", s.groups, " x ", s.m, "x", s.k, "x", s.n), gemm.scratch_bytes(), run,
                   [gemm] { return gemm.strategy(); });
}

}  // namespace

/// Rows of x of any stride; matrices of any strides, if k or n is contiguous.
bool grouped_matmul_strided(const Node& node, size_t operand, const Shape& shape, std::span<const int64_t> strides) {
  if (operand == 0) return strided::rows(node, operand, shape, strides);
  return operand == 1 && (shape[1] == 1 || shape[2] == 1 || strides[1] == 1 || strides[2] == 1);
}
bool segment_matmul_strided(const Node& node, size_t operand, const Shape& shape, std::span<const int64_t> strides) {
  return operand < 2 && strided::rows(node, operand, shape, strides);
}

Prepared lower_grouped_matmul(const LoweringContext& c) {
  const View &x = c.operands[0], &w = c.operands[1];
  kernels::GroupedGemmSpec s;
  s.m = x.shape[0], s.k = x.shape[1], s.n = w.shape[2], s.groups = w.shape[0];
  s.w_group_stride = w.strides[0], s.w_k_stride = w.strides[1], s.w_n_stride = w.strides[2];
  return grouped_step<kernels::GroupedGemm>(c, "grouped", s);
}

Prepared lower_segment_matmul(const LoweringContext& c) {
  const View &x = c.operands[0], &y = c.operands[1];
  kernels::GroupedGemmSpec s;
  s.m = x.shape[0], s.k = x.shape[1], s.n = y.shape[1], s.groups = c.results[0].shape[0];
  s.rhs_stride = y.strides[0];
  return grouped_step<kernels::SegmentGemm>(c, "segments", s);
}

}  // namespace rlx::cpu
