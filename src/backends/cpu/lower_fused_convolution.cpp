// Lowers fused_conv: convolutions with an epilogue, by the kernel that convolution_plan.h chooses. Our general kernels
// apply the epilogue in a second pass.
#include <algorithm>
#include <cstring>

#include "backends/cpu/convolution_steps.h"
#include "backends/cpu/product.h"
#include "kernels/conv/depthwise_channels_last.h"
#include "kernels/conv/few_channels.h"
#include "rlx/ops/fused_blocks.h"

namespace rlx::cpu {
namespace {

using kernels::ConvolutionArgs;

/// Gathers the pixels that the strides select into a dense array, and multiplies that.
class GatheredStep final : public Step {
 public:
  GatheredStep(Prepared product, const ConvolutionArgs& args, int operands)
      : product_(std::move(product)), args_(args), operands_(operands), rows_(args.batch) {
    for (int d = 0; d + 1 < args.spatial; ++d) rows_ *= args.out_dims[d];
    pixel_bytes_ = static_cast<size_t>(args.in_channels) * byte_size(args.dtype);
    bytes_ = aligned(static_cast<size_t>(rows_ * args.out_dims[args.spatial - 1]) * pixel_bytes_);
  }
  size_t scratch_bytes() const override { return bytes_ + product_->scratch_bytes(); }
  bool reads_operand(size_t i) const override { return product_->reads_operand(i); }
  std::string kernel() const override { return product_->kernel() + ", gathered"; }
  void run(const StepArgs& step) const noexcept override {
    const int last = args_.spatial - 1;
    const int64_t cols = args_.out_dims[last], channels = args_.in_channels;
    const auto size = static_cast<int64_t>(byte_size(args_.dtype)), pixel = static_cast<int64_t>(pixel_bytes_);
    std::byte* const gathered = step.scratch;
    for_ranges(
        step, rows_, 1, static_cast<double>(rows_ * cols * channels) * 0.1, [&](int64_t begin, int64_t end, int64_t) {
          for (int64_t row = begin; row < end; ++row) {
            int64_t rest = row, from = 0;
            for (int d = last - 1; d >= 0; --d) {
              from += rest % args_.out_dims[d] * args_.stride[d] * args_.x_strides[d];
              rest /= args_.out_dims[d];
            }
            const auto* x = static_cast<const std::byte*>(step.in(0)) + (rest * args_.x_batch_stride + from) * size;
            std::byte* to = gathered + row * cols * pixel;
            for (int64_t c = 0; c < cols; ++c, to += pixel)
              std::memcpy(to, x + c * args_.stride[last] * args_.x_strides[last] * size, pixel_bytes_);
          }
        });
    void* operands[4];
    std::copy_n(step.operands, operands_, operands);
    operands[0] = gathered;
    product_->run({operands, step.results, step.scratch + bytes_, step.width, step.control});
  }

 private:
  Prepared product_;
  ConvolutionArgs args_;
  int operands_;
  int64_t rows_;  ///< how many rows of outputs (along the last spatial dim) there are
  size_t pixel_bytes_, bytes_;
};

/// The matrix product [pixels, in_channels] * [in_channels, out_channels]. Null if the weights are not bound.
Prepared pointwise_step(const LoweringContext& c, const ConvolutionArgs& a, const EpilogueOperands& epilogue) {
  int64_t pixels = a.batch;
  for (int d = 0; d < a.spatial; ++d) pixels *= a.out_dims[d];
  auto product =
      packed_product(c, {pixels, a.out_channels, a.in_channels, a.in_channels, a.w_in_stride, a.w_out_stride},
                     {epilogue.activation, epilogue.bias, epilogue.residual, a.out_channels, true});
  if (!product || reads_all_pixels(a)) return product;
  const std::string strategy = product->strategy();
  auto step = std::make_unique<GatheredStep>(std::move(product), a, static_cast<int>(c.operands.size()));
  step->set_strategy([strategy] { return strategy; });
  return step;
}

/// A pointwise convolution by matrix tiles. Null if these do not support it.
Prepared pointwise_tiles_step(const LoweringContext& c, ConvolutionArgs a, const EpilogueOperands& epilogue) {
  if (reads_all_pixels(a)) {  // the images of a batch are rows of one image
    for (int64_t* rows : {&a.in_dims[0], &a.out_dims[0]}) *rows *= a.batch;
    a.x_batch_stride *= a.batch, a.y_batch_stride *= a.batch, a.batch = 1;
  }
  return tiled_convolution(c, a, 1, epilogue);
}

/// A kernel that computes rows of outputs, with weights packed in a layout of its own.
struct RowKernel {
  const char *name, *layout;  ///< `layout` as packed_convolution() has it
  int64_t (*weights_count)(const ConvolutionArgs&);
  void (*pack)(const ConvolutionArgs&, float*) noexcept;
  size_t (*scratch_bytes)(const ConvolutionArgs&);  ///< of each thread
  void (*run)(const ConvolutionArgs&, const float* packed, const kernels::ConvolutionEpilogue&, int64_t begin,
              int64_t end, void* scratch) noexcept;
};
constexpr RowKernel kDepthwise = {
    "depthwise convolution of channels",
    "depthwise of channels 1",
    kernels::depthwise_weights_count,
    kernels::pack_depthwise_weights,
    [](const ConvolutionArgs&) { return size_t{0}; },
    [](const ConvolutionArgs& a, const float* packed, const kernels::ConvolutionEpilogue& epilogue, int64_t begin,
       int64_t end, void*) noexcept { kernels::depthwise_of_channels(a, packed, epilogue, begin, end); }};
constexpr RowKernel kFewChannels = {"convolution of few channels",       "few channels 1",
                                    kernels::few_channels_weights_count, kernels::pack_few_channels_weights,
                                    kernels::few_channels_scratch_bytes, kernels::few_channels};

class RowStep final : public Step {
 public:
  /// Packs bound weights once; weights that are not bound are packed in each run.
  RowStep(const RowKernel& kernel, const LoweringContext& c, const ConvolutionArgs& args,
          const EpilogueOperands& epilogue)
      : kernel_(kernel), args_(args), epilogue_(epilogue), thread_bytes_(aligned(kernel.scratch_bytes(args))),
        threads_(c.threads), bytes_(static_cast<size_t>(kernel.weights_count(args)) * sizeof(float)) {
    if (c.bound(1)) weights_ = packed_floats(c, kernel.layout, args, kernel.weights_count(args), kernel.pack);
  }
  size_t scratch_bytes() const override {
    return thread_bytes_ * static_cast<size_t>(threads_) + (weights_ ? 0 : aligned(bytes_));
  }
  bool reads_operand(size_t i) const override { return i != 1 || !weights_; }
  std::string kernel() const override { return kernel_.name; }
  void run(const StepArgs& step) const noexcept override {
    ConvolutionArgs call = args_;
    call.x = step.in(0), call.y = step.out();
    auto* const packed_in_run = reinterpret_cast<float*>(step.scratch + thread_bytes_ * static_cast<size_t>(threads_));
    const float* packed = weights_ ? floats_of(*weights_) : packed_in_run;
    if (!weights_) {
      call.w = step.in(1);
      kernel_.pack(call, packed_in_run);
    }
    const int64_t rows = call.batch * (call.spatial > 1 ? call.out_dims[0] : 1);
    double work = static_cast<double>(call.batch * call.out_channels) * 0.05;
    work *= static_cast<double>(call.in_channels / call.groups);
    for (int d = 0; d < call.spatial; ++d) work *= static_cast<double>(call.out_dims[d] * call.kernel[d]);
    for_ranges(step, rows, 1, work, [&](int64_t begin, int64_t end, int64_t slot) {
      kernel_.run(call, packed, epilogue_.of(step), begin, end,
                  step.scratch + thread_bytes_ * static_cast<size_t>(slot));
    });
  }

 private:
  const RowKernel& kernel_;
  ConvolutionArgs args_;
  EpilogueOperands epilogue_;
  size_t thread_bytes_;
  int threads_;
  size_t bytes_;
  std::shared_ptr<const kernels::AlignedMemory> weights_;
};

/// A convolution, then its epilogue as a second pass over the whole result.
class SeparateEpilogueStep final : public Step {
 public:
  SeparateEpilogueStep(Prepared convolution, const ConvolutionArgs& args, bool channels_last,
                       const EpilogueOperands& epilogue)
      : convolution_(std::move(convolution)), epilogue_(epilogue) {
    int64_t pixels = 1;
    for (int d = 0; d < args.spatial; ++d) pixels *= args.out_dims[d];
    rows_.bias_of_row = !channels_last, rows_.activation = epilogue.activation;
    rows_.rows = channels_last ? pixels : args.out_channels, rows_.cols = channels_last ? args.out_channels : pixels;
    rows_.y_row = rows_.residual_row = rows_.cols;
    images_ = args.batch;
  }
  size_t scratch_bytes() const override { return convolution_->scratch_bytes(); }
  bool reads_operand(size_t i) const override { return i != 1 || convolution_->reads_operand(1); }
  std::string kernel() const override { return convolution_->kernel(); }
  void run(const StepArgs& step) const noexcept override {
    convolution_->run(step);
    const kernels::ConvolutionEpilogue epilogue = epilogue_.of(step);
    if (epilogue.is_nothing()) return;
    const int64_t image = rows_.rows * rows_.cols;
    for_ranges(step, images_, 1, static_cast<double>(images_ * image) * 0.2, [&](int64_t begin, int64_t end, int64_t) {
      kernels::EpilogueRows rows = rows_;
      rows.bias = epilogue.bias;
      for (int64_t i = begin; i < end; ++i) {
        rows.y = step.out<float>() + i * image;
        rows.residual = epilogue.residual ? epilogue.residual + i * image : nullptr;
        kernels::apply_epilogue_rows(rows);
      }
    });
  }

 private:
  Prepared convolution_;
  EpilogueOperands epilogue_;
  kernels::EpilogueRows rows_;
  int64_t images_ = 0;
};

}  // namespace

std::string when_fused_conv(const Question& q) {
  const DType dtype = q.operands[0].dtype;
  if (dtype != f32 && !(dtype == bf16 && has_narrow_convolutions()))
    return text_of("the kernels of fused convolutions take f32", has_narrow_convolutions() ? " and bf16" : "", ", got ",
                   dtype);
  for (const Type& t : q.operands)
    if (t.dtype != dtype) return text_of("operands of ", dtype, " and ", t.dtype);
  return when_convolution(q);
}

bool fused_conv_strided(const Node&, size_t operand, const Shape&, std::span<const int64_t>) { return operand < 2; }

Prepared lower_fused_conv(const LoweringContext& c) {
  const auto& a = c.attrs<FusedConvAttrs>();
  const View &x = c.operands[0], &y = c.results[0];
  const ConvolutionArgs args = convolution_args(as_convolution(a, x.shape.size()), x, c.operands[1], y);
  const EpilogueOperands epilogue{kernel_activation(a.activation), a.has_bias ? 2 : -1,
                                  a.has_residual ? 2 + a.has_bias : -1};
  ConvolutionProblem problem{args, 1, true, a.channels_last, is_dense(x), c.bound(1) != nullptr, c.policy};
  if (x.dtype != f32)
    return planned_convolution(problem, [&](ConvolutionKernel kernel) -> Prepared {
      if (kernel == ConvolutionKernel::narrow_tiles) return narrow_tiles(c, args, epilogue);
      if (kernel == ConvolutionKernel::depthwise_channels_last) return narrow_depthwise(c, args, epilogue);
      if (kernel == ConvolutionKernel::product) return pointwise_step(c, args, epilogue);
      if (kernel == ConvolutionKernel::onednn || kernel == ConvolutionKernel::general)
        return narrow_convolution(c, args, epilogue);
      return nullptr;  // of f32 alone
    });
  return planned_convolution(problem, [&](ConvolutionKernel kernel) -> Prepared {
    switch (kernel) {
      case ConvolutionKernel::pointwise_tiles: return pointwise_tiles_step(c, args, epilogue);
      case ConvolutionKernel::product: return pointwise_step(c, args, epilogue);
      case ConvolutionKernel::depthwise_channels_last: return std::make_unique<RowStep>(kDepthwise, c, args, epilogue);
      case ConvolutionKernel::few_channels: return std::make_unique<RowStep>(kFewChannels, c, args, epilogue);
      case ConvolutionKernel::matrix_tiles: return tiled_convolution(c, args, 1, epilogue);
      case ConvolutionKernel::multiply_adds: return fma_convolution(c, args, 1, epilogue);
      case ConvolutionKernel::onednn: return onednn_convolution(c, args, 1, epilogue);
      case ConvolutionKernel::narrow_tiles:  // of bf16 alone
      case ConvolutionKernel::depthwise:
      case ConvolutionKernel::general: break;
    }
    return std::make_unique<SeparateEpilogueStep>(own_convolution(args, 1, c.threads), args, a.channels_last, epilogue);
  });
}

}  // namespace rlx::cpu
