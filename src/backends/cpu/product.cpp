// Packed products; see the header.
#include "backends/cpu/product.h"

namespace rlx::cpu {
namespace {

class PackedStep final : public Step {
 public:
  PackedStep(Text kernel, kernels::PreparedGemm gemm, std::span<const std::byte> weights, int bias, int residual)
      : kernel_(std::move(kernel)), gemm_(std::move(gemm)), weights_(weights), bias_(bias), residual_(residual) {}
  size_t scratch_bytes() const override { return gemm_.scratch_bytes(); }
  bool reads_operand(size_t i) const override { return i != 1; }
  std::string kernel() const override { return kernel_(); }
  std::span<const std::byte> packed_weights() const override { return weights_; }
  void prefetch_read(std::span<const std::byte> weights) override { prefetch_ = weights; }
  void run(const StepArgs& args) const noexcept override {
    auto operand = [&](int i) { return i >= 0 ? args.in(static_cast<size_t>(i)) : nullptr; };
    gemm_.run({args.in(0), args.out(), operand(bias_), operand(residual_), prefetch_}, args.scratch, thread_pool());
  }

 private:
  Text kernel_;
  kernels::PreparedGemm gemm_;
  std::span<const std::byte> weights_, prefetch_;
  int bias_, residual_;
};

}  // namespace

std::unique_ptr<Step> packed_product(const LoweringContext& c, const Product& p, const ProductEpilogue& e) {
  const Tensor* weights = c.bound(1);
  DType x = c.operands[0].dtype, w = c.operands[1].dtype, y = c.results[0].dtype;
  if (!weights || (w == f64) != (x == f64) || (y == f64) != (x == f64)) return nullptr;
  kernels::WeightsSpec spec{p.k, p.n, p.w_k_stride, p.w_n_stride, w, x, c.threads};
  spec.policy = c.policy;
  spec.rows = kernels::rows_for_packing(spec, p.m);
  auto packed = c.packed.pack(spec, *weights);
  kernels::GemmSpec gemm;
  gemm.m = p.m;
  gemm.x_stride = p.x_stride, gemm.y_stride = p.n, gemm.residual_stride = e.residual_stride;
  gemm.y_dtype = y;
  gemm.threads = c.threads;
  gemm.epilogue.activation = e.activation, gemm.epilogue.residual_first = e.residual_first;
  if (e.bias >= 0) gemm.epilogue.bias = true, gemm.epilogue.bias_dtype = c.operands[size_t(e.bias)].dtype;
  if (e.residual >= 0) gemm.epilogue.residual = kernels::Residual::separate;
  auto prepared = packed->prepare(gemm);
  const auto kernel = [are_split = packed->are_split(), w, m = p.m, k = p.k, n = p.n] {
    return text_of(are_split ? "ozaki" : "packed", " ", w, " ", m, "x", k, "x", n);
  };
  auto step = std::make_unique<PackedStep>(kernel, prepared, packed->packed(), e.bias, e.residual);
  step->set_strategy([prepared] { return prepared.strategy(); });
  return step;
}

}  // namespace rlx::cpu
