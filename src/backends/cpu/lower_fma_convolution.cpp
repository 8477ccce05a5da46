// Lowers convolutions to multiply-adds (kernels/conv/fma_convolution.h). Their weights are packed once.
#include "backends/cpu/convolution_steps.h"
#include "backends/cpu/product.h"
#include "kernels/conv/fma_convolution.h"

namespace rlx::cpu {
namespace {

using kernels::FmaConvolution;

class FmaStep final : public Step {
 public:
  FmaStep(FmaConvolution convolution, std::shared_ptr<const kernels::AlignedMemory> weights,
          const EpilogueOperands& epilogue)
      : convolution_(std::move(convolution)), weights_(std::move(weights)), epilogue_(epilogue) {}
  size_t scratch_bytes() const override { return convolution_.scratch_bytes(); }
  bool reads_operand(size_t i) const override { return i != 1; }
  std::string kernel() const override { return "convolution by multiply-adds"; }
  void run(const StepArgs& step) const noexcept override {
    convolution_.run(step.in(0), weights_->get(), step.out(), epilogue_.of(step), step.scratch, thread_pool());
  }

 private:
  FmaConvolution convolution_;
  std::shared_ptr<const kernels::AlignedMemory> weights_;
  EpilogueOperands epilogue_;
};

}  // namespace

Prepared fma_convolution(const LoweringContext& c, const kernels::ConvolutionArgs& a, int64_t batch_groups,
                         const EpilogueOperands& epilogue) {
  if (!c.bound(1) || !FmaConvolution::supports(a, batch_groups)) return nullptr;
  FmaConvolution convolution(a, c.threads);
  auto packed = packed_convolution(c, "multiply-adds 1", a, convolution.weights_bytes(),
                                   [&](const auto& args, char* out) { convolution.pack(args.w, out); });
  return std::make_unique<FmaStep>(std::move(convolution), std::move(packed), epilogue);
}

}  // namespace rlx::cpu
