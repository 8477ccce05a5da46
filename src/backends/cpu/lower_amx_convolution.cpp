// Lowers convolutions to matrix tiles (kernels/conv/amx_convolution.h). Their weights are packed once.
#include "backends/cpu/convolution_steps.h"
#include "backends/cpu/product.h"
#include "kernels/conv/amx_convolution.h"

namespace rlx::cpu {
namespace {

class TiledStep final : public Step {
 public:
  TiledStep(std::unique_ptr<kernels::TiledConvolution> convolution, const EpilogueOperands& epilogue)
      : convolution_(std::move(convolution)), epilogue_(epilogue) {}
  size_t scratch_bytes() const override { return convolution_->scratch_bytes(); }
  std::string kernel() const override { return "convolution by matrix tiles"; }
  void run(const StepArgs& step) const noexcept override {
    convolution_->run(step.in(0), step.in(1), step.out(), epilogue_.of(step), step.scratch, thread_pool());
  }

 private:
  std::unique_ptr<kernels::TiledConvolution> convolution_;
  EpilogueOperands epilogue_;
};

}  // namespace

Prepared tiled_convolution(const LoweringContext& c, const kernels::ConvolutionArgs& a, int64_t batch_groups,
                           const EpilogueOperands& epilogue) {
  const Tensor* bound = c.bound(1);
  if (!bound || !kernels::TiledConvolution::suits(a, batch_groups)) return nullptr;
  auto weights = c.packed.tiled(*bound, a, c.threads);
  if (!weights) return nullptr;
  return std::make_unique<TiledStep>(kernels::tiled_convolution(a, c.threads, std::move(weights)), epilogue);
}

}  // namespace rlx::cpu
