// Lowers convolutions to multiply-adds (kernels/conv/fma_convolution.h). Bound weights are packed once,
// others before each run.
#include "backends/cpu/convolution_steps.h"
#include "backends/cpu/product.h"
#include "base/rounded_up.h"
#include "kernels/conv/fma_convolution.h"

namespace rlx::cpu {
namespace {

using kernels::FmaConvolution;

class FmaStep final : public Step {
 public:
  /// With null `weights` each run packs operand 1.
  FmaStep(FmaConvolution convolution, std::shared_ptr<const kernels::AlignedMemory> weights,
          const EpilogueOperands& epilogue)
      : convolution_(std::move(convolution)), weights_(std::move(weights)), epilogue_(epilogue),
        packed_bytes_(weights_ ? 0 : aligned(convolution_.weights_bytes())) {}
  size_t scratch_bytes() const override { return packed_bytes_ + convolution_.scratch_bytes(); }
  bool reads_operand(size_t i) const override { return i != 1 || !weights_; }
  std::string kernel() const override { return "convolution by multiply-adds"; }
  void run(const StepArgs& step) const noexcept override {
    if (!weights_) convolution_.pack(step.in(1), step.scratch, thread_pool());
    convolution_.run(step.in(0), weights_ ? weights_->get() : static_cast<const void*>(step.scratch), step.out(),
                     epilogue_.of(step), step.scratch + packed_bytes_, thread_pool());
  }

 private:
  FmaConvolution convolution_;
  std::shared_ptr<const kernels::AlignedMemory> weights_;
  EpilogueOperands epilogue_;
  size_t packed_bytes_;  ///< of scratch
};

}  // namespace

Prepared fma_convolution(const LoweringContext& c, const kernels::ConvolutionArgs& a, int64_t batch_groups,
                         const EpilogueOperands& epilogue) {
  if (!FmaConvolution::supports(a, batch_groups)) return nullptr;
  FmaConvolution convolution(a, c.threads);
  std::shared_ptr<const kernels::AlignedMemory> packed;
  if (c.bound(1))
    packed = packed_convolution(c, "multiply-adds 2", a, convolution.weights_bytes(),
                                [&](const auto& args, char* out) { convolution.pack(args.w, out, thread_pool()); });
  return std::make_unique<FmaStep>(std::move(convolution), std::move(packed), epilogue);
}

}  // namespace rlx::cpu
