// Convolutions of bf16: the sums of all of them are made in f32, channels last, in scratch memory, and the epilogue of
// products (kernels/gemm) adds bias and residual, activates and rounds once. oneDNN could do that too, but its relu
// turns NaN into 0.
#include "backends/cpu/convolution_steps.h"
#include "kernels/conv/onednn.h"
#include "kernels/gemm/fma/micro_kernels.h"
#include "kernels/gemm/product_plan.h"

namespace rlx::cpu {
namespace {

using kernels::ConvolutionArgs;

int64_t pixels_of(const ConvolutionArgs& a) {
  int64_t pixels = 1;
  for (int d = 0; d < a.spatial; ++d) pixels *= a.out_dims[d];
  return pixels;
}

/// Of a pixel of the sums: the epilogue reads and writes whole vectors.
int64_t sums_stride(const ConvolutionArgs& a) { return rounded_up(a.out_channels, 16); }

/// The same convolution into f32, channels last.
ConvolutionArgs into_sums(ConvolutionArgs a) {
  a.out_dtype = f32;
  a.y_channel_stride = 1;
  int64_t stride = sums_stride(a);
  for (int d = a.spatial; d-- > 0; stride *= a.out_dims[d]) a.y_strides[d] = stride;
  a.y_batch_stride = stride;
  return a;
}

class NarrowConvolution final : public Step {
 public:
  /// `sums` computes into_sums(args).
  NarrowConvolution(Prepared sums, const ConvolutionArgs& args, const EpilogueOperands& epilogue)
      : sums_(std::move(sums)), args_(args), operands_(epilogue), pixels_(pixels_of(args)) {
    epilogue_.activation = epilogue.activation, epilogue_.residual_first = true;
    epilogue_.bias = epilogue.bias >= 0, epilogue_.bias_dtype = args.dtype;
    if (epilogue.residual >= 0) epilogue_.residual = kernels::Residual::separate;
    sums_bytes_ = aligned(static_cast<size_t>(args.batch * pixels_ * sums_stride(args)) * sizeof(float));
  }
  size_t scratch_bytes() const override { return sums_bytes_ + sums_->scratch_bytes(); }
  bool reads_operand(size_t i) const override { return i != 1 || sums_->reads_operand(1); }
  std::string kernel() const override { return sums_->kernel() + ", bf16"; }
  void run(const StepArgs& step) const noexcept override {
    void* const sums = step.scratch;
    sums_->run({step.operands, &sums, step.scratch + sums_bytes_, step.width});
    const bool channels_last = args_.y_channel_stride == 1;
    const auto size = static_cast<int64_t>(byte_size(args_.dtype));
    kernels::BlockProduct block;
    block.y_dtype = args_.dtype, block.epilogue = &epilogue_;
    block.y_row_stride = block.residual_row_stride = channels_last ? args_.out_channels : 1;
    block.y_col_stride = channels_last ? 1 : args_.y_channel_stride;
    block.bias = operands_.bias >= 0 ? step.in(static_cast<size_t>(operands_.bias)) : nullptr;
    const int64_t rows = args_.batch * pixels_, blocks = divided_up(pixels_, kBlockRows);
    for_ranges(
        step, args_.batch * blocks, 1, static_cast<double>(rows * args_.out_channels) * 0.2,
        [&](int64_t begin, int64_t end, int64_t) {
          for (int64_t i = begin; i < end; ++i) {
            const int64_t image = i / blocks, row = i % blocks * kBlockRows;
            const int64_t at = image * args_.y_batch_stride * size;
            kernels::BlockProduct of_image = block;
            of_image.y = static_cast<char*>(step.out(0)) + at;
            if (operands_.residual >= 0)
              of_image.residual = static_cast<const char*>(step.in(static_cast<size_t>(operands_.residual))) + at;
            float* const from = static_cast<float*>(sums) + (image * pixels_ + row) * sums_stride(args_);
            for (int64_t c = 0; c < args_.out_channels; c += kBlockColumns)
              kernels::apply_epilogue(of_image, from + c, sums_stride(args_), row, std::min(kBlockRows, pixels_ - row),
                                      c, std::min(kBlockColumns, args_.out_channels - c));
          }
        });
  }

 private:
  // Blocks fit the first-level cache; the epilogue takes at most 32 columns.
  static constexpr int64_t kBlockRows = 64, kBlockColumns = 32;

  Prepared sums_;
  ConvolutionArgs args_;
  EpilogueOperands operands_;
  kernels::Epilogue epilogue_;
  int64_t pixels_;
  size_t sums_bytes_;
};

}  // namespace

bool has_narrow_convolutions() {
  static const bool has = [] {
    const kernels::ProductTarget target = kernels::product_target();
    return kernels::has_onednn() && (target.has_bf16_dots || target.has_matrix_tiles);
  }();
  return has;
}

Prepared narrow_convolution(const LoweringContext& c, const ConvolutionArgs& args, const EpilogueOperands& epilogue) {
  const ConvolutionArgs sums = into_sums(args);
  Prepared step = onednn_convolution(c, sums, 1);
  if (!step) step = own_convolution(sums, 1, c.threads);
  return std::make_unique<NarrowConvolution>(std::move(step), args, epilogue);
}

}  // namespace rlx::cpu
