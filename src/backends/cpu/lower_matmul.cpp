// Products of a matrix with weights: matmul, linear, fused_matmul. Weights that are bound are packed once. Two operands
// that are known only in a run are multiplied by the batched product, with bias, activation and residual.
// Rows that choose a matrix each are multiplied in groups: grouped_matmul, segment_matmul.
#include "backends/cpu/lowerings.h"
#include "backends/cpu/product.h"
#include "kernels/gemm/grouped.h"
#include "rlx/ops/linear.h"

namespace rlx::cpu {

kernels::Activation kernel_activation(Activation a) {
  switch (a) {
    case Activation::relu: return kernels::Activation::relu;
    case Activation::gelu: return kernels::Activation::gelu_erf;
    case Activation::gelu_tanh: return kernels::Activation::gelu_tanh;
    case Activation::silu: return kernels::Activation::silu;
    case Activation::sigmoid: return kernels::Activation::sigmoid;
    case Activation::tanh: return kernels::Activation::tanh;
    case Activation::relu6: return kernels::Activation::relu6;
    case Activation::hard_swish: return kernels::Activation::hard_swish;
    case Activation::none: break;
  }
  return kernels::Activation::none;
}

std::optional<int64_t> row_stride(const View& v) {
  size_t rank = v.shape.size();
  if (v.count() == 0) return rank > 0 ? std::max<int64_t>(v.shape[rank - 1], 1) : 1;  // no row, so no stride is wrong
  int64_t stride = rank > 0 ? std::max<int64_t>(v.shape[rank - 1], 1) : 1, rows = 1;
  bool first = true;
  for (size_t d = rank; d-- > 1;) {
    size_t dim = d - 1;
    if (v.shape[dim] == 1) continue;
    if (first) stride = v.strides[dim], first = false;
    else if (v.strides[dim] != stride * rows) return {};
    rows *= v.shape[dim];
  }
  return stride;
}

int64_t row_count(const View& v) {
  int64_t rows = 1;
  for (size_t d = 0; d + 1 < v.shape.size(); ++d) rows *= v.shape[d];
  return rows;
}

namespace {

/// The product [..., k] x [k, n], with one set of weights for all batches.
Prepared weights_step(const LoweringContext& c, bool transposed, const ProductEpilogue& epilogue) {
  const View &x = c.operands[0], &w = c.operands[1], &y = c.results[0];
  int64_t k = x.shape.back(), n = y.shape.back(), m = row_count(y);
  size_t k_dim = transposed ? 1 : 0;
  Product product{m, n, k, row_stride(x).value(), w.strides[k_dim], w.strides[1 - k_dim]};
  if (auto step = packed_product(c, product, epilogue)) return step;
  kernels::BatchedGemmSpec s;
  s.m = m, s.n = n, s.k = k;
  s.lhs_m_stride = product.x_stride, s.lhs_k_stride = 1;
  s.rhs_k_stride = product.w_k_stride, s.rhs_n_stride = product.w_n_stride;
  s.y_m_stride = n, s.y_n_stride = 1;
  s.lhs_dtype = x.dtype, s.rhs_dtype = w.dtype, s.y_dtype = y.dtype;
  s.threads = c.threads, s.policy = c.policy;
  s.epilogue.activation = epilogue.activation;
  if (epilogue.bias >= 0) s.epilogue.bias = true, s.epilogue.bias_dtype = c.operands[size_t(epilogue.bias)].dtype;
  if (epilogue.residual >= 0) s.epilogue.residual = kernels::Residual::separate;
  auto gemm = kernels::prepare_batched_gemm(s);
  const auto run = [=](const StepArgs& args) {
    auto operand = [&](int i) { return i >= 0 ? args.in(static_cast<size_t>(i)) : nullptr; };
    gemm.run({args.in(0), args.in(1), args.out(), operand(epilogue.bias), operand(epilogue.residual)}, args.scratch,
             thread_pool());
  };
  return make_step("gemm", gemm.scratch_bytes(), run, [gemm] { return gemm.strategy(); });
}

}  // namespace

bool matmul_strided(const Node& node, size_t operand, const Shape& shape, std::span<const int64_t> strides) {
  if (node.op == &op::matmul) return operand < 2 && shape.size() >= 2;  // the batched product takes any strides
  if (operand == 1) return true;                                        // weights are packed, or read by strides
  if (operand > 1 || !strided::rows(node, operand, shape, strides)) return false;
  return row_stride({f32, shape, {strides.begin(), strides.end()}}).has_value();
}

std::string when_matmul(const Question& q) {
  if (auto why = when::is_float(q); !why.empty()) return why;
  for (const Type& t : q.operands)
    if (t.dtype != q.operands[0].dtype) return text_of("operands of ", q.operands[0].dtype, " and ", t.dtype);
  if (q.node.op == &op::matmul && (q.operands[0].rank() < 2 || q.operands[1].rank() < 2)) return "an operand of rank 1";
  if (q.node.op == &op::matmul && q.operands[1].rank() > 2 + size_t(kernels::BatchedGemmSpec::kMaxBatchRank))
    return text_of("rank ", q.operands[1].rank(), " is above ", 2 + kernels::BatchedGemmSpec::kMaxBatchRank);
  return "";
}

Prepared lower_matmul(const LoweringContext& c) {
  if (c.node.op == &op::linear) return weights_step(c, true, {.bias = c.operands.size() > 2 ? 2 : -1});
  if (c.node.op == &op::fused_matmul) {
    const auto& a = c.attrs<FusedMatmulAttrs>();
    ProductEpilogue epilogue{kernel_activation(a.activation), a.has_bias ? 2 : -1, a.has_residual ? 2 + a.has_bias : -1,
                             0};
    if (a.has_residual) epilogue.residual_stride = c.results[0].shape.back();
    return weights_step(c, a.transpose_rhs, epilogue);
  }
  const View &x = c.operands[0], &w = c.operands[1], &y = c.results[0];
  if (w.rank() == 2 && strided::rows(c.node, 0, x.shape, x.strides) && row_stride(x)) return weights_step(c, false, {});
  kernels::BatchedGemmSpec s;
  size_t batch = y.shape.size() - 2;
  s.m = y.shape[batch], s.n = y.shape[batch + 1], s.k = x.shape.back();
  auto from_end = [](const View& v, size_t i) { return v.strides[v.strides.size() - i]; };
  s.lhs_m_stride = from_end(x, 2), s.lhs_k_stride = from_end(x, 1);
  s.rhs_k_stride = from_end(w, 2), s.rhs_n_stride = from_end(w, 1);
  s.y_m_stride = s.n, s.y_n_stride = 1;
  s.batch_rank = static_cast<int>(batch);
  for (size_t b = 0; b < batch; ++b) {
    // Batch dims are aligned at the last one. The stride of a broadcast dim is 0.
    auto stride = [&](const View& v) -> int64_t {
      size_t back = batch - b, dims = v.shape.size() - 2;
      return back > dims || v.shape[dims - back] == 1 ? 0 : v.strides[dims - back];
    };
    s.batch_dims[b] = y.shape[b];
    s.lhs_batch_strides[b] = stride(x), s.rhs_batch_strides[b] = stride(w), s.y_batch_strides[b] = y.strides[b];
  }
  s.lhs_dtype = x.dtype, s.rhs_dtype = w.dtype, s.y_dtype = y.dtype;
  s.threads = c.threads, s.policy = c.policy;
  auto gemm = kernels::prepare_batched_gemm(s);
  const auto run = [=](const StepArgs& args) {
    gemm.run({args.in(0), args.in(1), args.out()}, args.scratch, thread_pool());
  };
  return make_step("gemm", gemm.scratch_bytes(), run, [gemm] { return gemm.strategy(); });
}

// ---- products of a mixture of experts, of which each group is one product; experts in packed formats:
// lower_blocks.cpp ----

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
