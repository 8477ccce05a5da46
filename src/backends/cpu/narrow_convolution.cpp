// Convolutions of bf16: by matrix tiles or dot products (kernels/conv/narrow_tiles.h) and, depthwise ones, by a kernel
// of their own (kernels/conv/depthwise_narrow.h). The sums of all others are made in f32, channels last, in scratch
// memory, and the epilogue of products (kernels/gemm) adds bias and residual, activates and rounds once. oneDNN could
// do that too, but its relu turns NaN into 0.
#include <algorithm>

#include "backends/cpu/convolution_steps.h"
#include "kernels/conv/depthwise_narrow.h"
#include "kernels/conv/narrow_tiles.h"
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
    sums_->run({step.operands, &sums, step.scratch + sums_bytes_, step.width, step.control});
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

/// Writes the bias in f32, with zeros up to `count`.
void widen_bias(const kernels::BF16* bias, int64_t channels, int64_t count, float* to) {
  for (int64_t i = 0; i < channels; ++i) to[i] = kernels::to_f32(bias[i]);
  std::fill(to + channels, to + count, 0.0f);
}

class NarrowTilesStep final : public Step {
 public:
  NarrowTilesStep(const LoweringContext& c, const ConvolutionArgs& args, const EpilogueOperands& epilogue)
      : args_(args), operands_(epilogue), image_(args, 2, true) {
    std::string layout = text_of("bf16 tiles of ", image_.k_bytes(), " bytes, ", args.out_channels, 'x',
                                 args.in_channels, " by ", args.w_out_stride, ' ', args.w_in_stride);
    for (int d = 0; d < args.spatial; ++d) layout += text_of(", ", args.kernel[d], " by ", args.w_strides[d]);
    const Tensor& weights = *c.bound(1);
    weights_bytes_ = static_cast<size_t>(image_.weights_bytes());
    weights_ = c.packed.in_layout(weights, layout, weights_bytes_,
                                  [&](char* out) { image_.pack_weights(weights.data(), out); });
    const int64_t columns = image_.panels() * kernels::TileImage::kColumns;
    bias_bytes_ = aligned(static_cast<size_t>(columns) * sizeof(float));
    if (const Tensor* bias = operands_.bias >= 0 ? c.bound(static_cast<size_t>(operands_.bias)) : nullptr) {
      bias_.resize(static_cast<size_t>(columns));
      widen_bias(reinterpret_cast<const kernels::BF16*>(bias->data()), args.out_channels, columns, bias_.data());
    }
  }
  size_t scratch_bytes() const override { return bias_bytes_ + aligned(static_cast<size_t>(image_.copy_bytes())); }
  bool reads_operand(size_t i) const override {
    return i != 1 && (bias_.empty() || static_cast<int>(i) != operands_.bias);
  }
  std::string kernel() const override {
    return text_of("convolution by ", by_tiles_ ? "matrix tiles" : "dot products", ", bf16",
                   image_.reads_x() ? "" : ", of a copy");
  }
  std::span<const std::byte> packed_weights() const override {
    return {reinterpret_cast<const std::byte*>(weights_->get()), weights_bytes_};
  }
  void prefetch_read(std::span<const std::byte> next) override {
    constexpr size_t kMaxPrefetched = 256 << 10;
    next_ = next.first(std::min(next.size(), kMaxPrefetched));
  }
  void run(const StepArgs& step) const noexcept override {
    kernels::NarrowTilesCall call;
    call.weights = weights_->get(), call.channels = args_.out_channels, call.activation = operands_.activation;
    call.next = next_;
    if (!bias_.empty()) {
      call.bias = bias_.data();
    } else if (operands_.bias >= 0) {
      auto* const widened = reinterpret_cast<float*>(step.scratch);
      widen_bias(step.in<kernels::BF16>(static_cast<size_t>(operands_.bias)), args_.out_channels,
                 image_.panels() * kernels::TileImage::kColumns, widened);
      call.bias = widened;
    }
    char* const copy = reinterpret_cast<char*>(step.scratch + bias_bytes_);
    const auto tiles = static_cast<int64_t>(image_.tiles().size()), pairs = divided_up(tiles, 2);
    const int64_t panels = image_.panels(), outputs = pixels_of(args_) * args_.out_channels;
    const double work_ns = static_cast<double>(tiles * panels * image_.panel_bytes()) * 0.01;
    for (int64_t n = 0; n < args_.batch; ++n) {
      const char* const x = static_cast<const char*>(step.in(0)) + n * args_.x_batch_stride * 2;
      call.image = image_.reads_x() ? x : copy;
      call.y = static_cast<kernels::BF16*>(step.out(0)) + n * outputs;
      if (operands_.residual >= 0)
        call.residual = step.in<kernels::BF16>(static_cast<size_t>(operands_.residual)) + n * outputs;
      for_ranges(step, image_.rows(), 1, static_cast<double>(image_.copy_bytes()) * 0.05,
                 [&](int64_t begin, int64_t end, int64_t) { image_.copy_rows(x, begin, end, copy); });
      if (pairs >= panels)
        for_ranges(step, pairs, 1, work_ns, [&](int64_t begin, int64_t end, int64_t) {
          kernels::convolve_narrow_tiles(image_, call, 2 * begin, std::min(tiles, 2 * end), 0, panels);
        });
      else
        for_ranges(step, panels, 1, work_ns, [&](int64_t begin, int64_t end, int64_t) {
          kernels::convolve_narrow_tiles(image_, call, 0, tiles, begin, end);
        });
    }
  }

 private:
  ConvolutionArgs args_;
  EpilogueOperands operands_;
  kernels::TileImage image_;
  bool by_tiles_ = kernels::has_matrix_tiles();
  size_t weights_bytes_ = 0, bias_bytes_ = 0;
  std::shared_ptr<const kernels::AlignedMemory> weights_;
  std::vector<float> bias_;  // of a bound bias
  std::span<const std::byte> next_ = {};
};

class NarrowDepthwiseStep final : public Step {
 public:
  NarrowDepthwiseStep(const LoweringContext& c, const ConvolutionArgs& args, const EpilogueOperands& epilogue)
      : args_(args), operands_(epilogue), packed_bytes_(aligned(kernels::narrow_depthwise_weights_bytes(args))),
        bias_bytes_(aligned(kernels::narrow_bias_bytes(args))) {
    if (const Tensor* bound = c.bound(1)) {
      std::string layout = text_of("narrow depthwise of ", args.out_channels, " by ", args.w_out_stride);
      for (int d = 0; d < args.spatial; ++d) layout += text_of(", ", args.kernel[d], " by ", args.w_strides[d]);
      weights_ = c.packed.in_layout(*bound, layout, packed_bytes_, [&](char* out) {
        kernels::pack_narrow_depthwise(args, bound->data(), reinterpret_cast<float*>(out));
      });
    }
  }
  size_t scratch_bytes() const override { return bias_bytes_ + (weights_ ? 0 : packed_bytes_); }
  bool reads_operand(size_t i) const override { return i != 1 || !weights_; }
  std::string kernel() const override { return "depthwise convolution of channels, bf16"; }
  void run(const StepArgs& step) const noexcept override {
    kernels::NarrowDepthwiseCall call;
    call.x = step.in<kernels::BF16>(0), call.y = static_cast<kernels::BF16*>(step.out(0));
    call.activation = operands_.activation;
    if (operands_.bias >= 0) {
      auto* const split = reinterpret_cast<float*>(step.scratch);
      kernels::split_narrow_bias(args_, step.in<kernels::BF16>(static_cast<size_t>(operands_.bias)), split);
      call.bias = split;
    }
    auto* const own = reinterpret_cast<float*>(step.scratch + bias_bytes_);
    if (!weights_) kernels::pack_narrow_depthwise(args_, step.in(1), own);
    call.weights = weights_ ? reinterpret_cast<const float*>(weights_->get()) : own;
    const int64_t rows = args_.batch * (args_.spatial > 1 ? args_.out_dims[0] : 1);
    double work = static_cast<double>(args_.batch * pixels_of(args_) * args_.out_channels) * 0.05;
    for (int d = 0; d < args_.spatial; ++d) work *= static_cast<double>(args_.kernel[d]);
    for_ranges(step, rows, 1, work,
               [&](int64_t begin, int64_t end, int64_t) { kernels::narrow_depthwise(args_, call, begin, end); });
  }

 private:
  ConvolutionArgs args_;
  EpilogueOperands operands_;
  size_t packed_bytes_, bias_bytes_;
  std::shared_ptr<const kernels::AlignedMemory> weights_;  // null: they are packed in each run
};

}  // namespace

Prepared narrow_tiles(const LoweringContext& c, const ConvolutionArgs& args, const EpilogueOperands& epilogue) {
  ConvolutionArgs a = args;
  const auto all_one = [&](const int64_t* of) {
    return std::all_of(of, of + a.spatial, [](int64_t n) { return n == 1; });
  };
  if (a.spatial == 2 && all_one(a.kernel) && reads_all_pixels(a) && a.low[0] == 0 && a.low[1] == 0 &&
      a.x_batch_stride == a.in_dims[0] * a.x_strides[0]) {  // the images of a batch are rows of one image
    for (int64_t* rows : {&a.in_dims[0], &a.out_dims[0]}) *rows *= a.batch;
    a.batch = 1;
    if (!kernels::has_narrow_tiles(a)) a = args;
  }
  return std::make_unique<NarrowTilesStep>(c, a, epilogue);
}

Prepared narrow_depthwise(const LoweringContext& c, const ConvolutionArgs& args, const EpilogueOperands& epilogue) {
  if (epilogue.residual >= 0) return nullptr;
  return std::make_unique<NarrowDepthwiseStep>(c, args, epilogue);
}

bool has_narrow_convolutions() {
  const kernels::ProductTarget target = kernels::product_target();
  return kernels::has_onednn() && (target.has_bf16_dots || target.has_matrix_tiles);
}

Prepared narrow_convolution(const LoweringContext& c, const ConvolutionArgs& args, const EpilogueOperands& epilogue) {
  const ConvolutionArgs sums = into_sums(args);
  Prepared step = onednn_convolution(c, sums, 1);
  if (!step) step = own_convolution(sums, 1, c.threads);
  return std::make_unique<NarrowConvolution>(std::move(step), args, epilogue);
}

}  // namespace rlx::cpu
