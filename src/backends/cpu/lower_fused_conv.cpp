// Convolutions with what follows them. Channels side by side (`channels_last`) make a convolution of single places a
// product, and a depthwise one a sum of vectors; all others are oneDNN's, or else our own with the rest behind it.
#include <algorithm>

#include "backends/cpu/convolution_steps.h"
#include "backends/cpu/product.h"
#include "kernels/depthwise_channels.h"
#include "kernels/few_channels.h"
#include "rlx/ops/fused_blocks.h"

namespace rlx::cpu {
namespace {

using kernels::ConvolutionArgs;

/// Does each result depend on one place of x alone?
bool is_pointwise(const ConvolutionArgs& a) {
  if (a.groups != 1) return false;
  for (int d = 0; d < a.spatial; ++d)
    if (a.kernel[d] != 1 || a.low[d] != 0 || (a.out_dims[d] - 1) * a.stride[d] >= a.in_dims[d]) return false;
  return true;
}
/// All places, in their order?
bool takes_all_places(const ConvolutionArgs& a) {
  for (int d = 0; d < a.spatial; ++d)
    if (a.stride[d] != 1 || a.in_dims[d] != a.out_dims[d]) return false;
  return true;
}

/// Brings the places that strides leave side by side, and multiplies them.
class GatheredStep final : public Step {
 public:
  GatheredStep(Prepared product, const ConvolutionArgs& args, int operands)
      : product_(std::move(product)), args_(args), operands_(operands), rows_(args.batch) {
    for (int d = 0; d + 1 < args.spatial; ++d) rows_ *= args.out_dims[d];
    bytes_ = aligned(static_cast<size_t>(rows_ * args.out_dims[args.spatial - 1] * args.in_channels) * sizeof(float));
  }
  size_t scratch_bytes() const override { return bytes_ + product_->scratch_bytes(); }
  bool reads_operand(size_t i) const override { return product_->reads_operand(i); }
  std::string kernel() const override { return product_->kernel() + ", gathered"; }
  void run(const StepArgs& step) const noexcept override {
    const int last = args_.spatial - 1;
    const int64_t cols = args_.out_dims[last], channels = args_.in_channels;
    auto* const gathered = reinterpret_cast<float*>(step.scratch);
    for_ranges(step, rows_, 1, static_cast<double>(rows_ * cols * channels) * 0.1,
               [&](int64_t begin, int64_t end, int64_t) {
                 for (int64_t row = begin; row < end; ++row) {
                   int64_t rest = row, from = 0;
                   for (int d = last - 1; d >= 0; --d) {
                     from += rest % args_.out_dims[d] * args_.stride[d] * args_.x_strides[d];
                     rest /= args_.out_dims[d];
                   }
                   const float* x = step.in<float>(0) + rest * args_.x_batch_stride + from;
                   float* to = gathered + row * cols * channels;
                   for (int64_t c = 0; c < cols; ++c, to += channels)
                     std::copy_n(x + c * args_.stride[last] * args_.x_strides[last], channels, to);
                 }
               });
    void* operands[4];
    std::copy_n(step.operands, operands_, operands);
    operands[0] = gathered;
    product_->run({operands, step.results, step.scratch + bytes_, step.width, step.pool});
  }

 private:
  Prepared product_;
  ConvolutionArgs args_;
  int operands_;
  int64_t rows_;  ///< of outputs, along the last spatial dim
  size_t bytes_;
};

/// Rows of places, weights of channels; null if the weights are not known yet.
Prepared pointwise_step(const LoweringContext& c, const ConvolutionArgs& a, const FinishOperands& finish) {
  int64_t places = a.batch;
  for (int d = 0; d < a.spatial; ++d) places *= a.out_dims[d];
  auto product =
      packed_product(c, {places, a.out_channels, a.in_channels, a.in_channels, a.w_in_stride, a.w_out_stride},
                     {finish.activation, finish.bias, finish.residual, a.out_channels, true});
  if (!product || takes_all_places(a)) return product;
  return std::make_unique<GatheredStep>(std::move(product), a, static_cast<int>(c.operands.size()));
}

/// Few channels in, where products by slices (kernels/sliced_weights.h) spend their time on what follows the sums:
/// tiles of bf16 whose weights stay packed. Null if there are more places, whose rows want packing only once, or if
/// tiles do not suit.
Prepared few_places_step(const LoweringContext& c, ConvolutionArgs a, const FinishOperands& finish) {
  constexpr int64_t kFewPlaces = 256, kMostPlaces = 1024, kFewestChannels = 48, kMostChannelsIn = 127;
  const int64_t places = a.spatial == 2 ? a.batch * a.out_dims[0] * a.out_dims[1] : kMostPlaces + 1;
  // More places multiply fewer channels without tiles.
  if (a.in_channels > kMostChannelsIn || places > (a.out_channels < kFewestChannels ? kFewPlaces : kMostPlaces))
    return nullptr;
  if (takes_all_places(a)) {  // images are more rows of one
    for (int64_t* rows : {&a.in_dims[0], &a.out_dims[0]}) *rows *= a.batch;
    a.x_batch_stride *= a.batch, a.y_batch_stride *= a.batch, a.batch = 1;
  }
  return tiled_convolution(c, a, 1, finish);
}

/// A kernel that makes rows of outputs with weights in a layout of its own.
struct RowKernel {
  const char* name;
  int64_t (*weights_count)(const ConvolutionArgs&);
  void (*pack)(const ConvolutionArgs&, float*) noexcept;
  size_t (*scratch_bytes)(const ConvolutionArgs&);  ///< of a thread
  void (*run)(const ConvolutionArgs&, const float* packed, const kernels::ConvolutionFinish&, int64_t begin,
              int64_t end, void* scratch) noexcept;
};
constexpr RowKernel kDepthwise = {
    "depthwise convolution of channels", kernels::depthwise_weights_count, kernels::pack_depthwise_weights,
    [](const ConvolutionArgs&) { return size_t{0}; },
    [](const ConvolutionArgs& a, const float* packed, const kernels::ConvolutionFinish& finish, int64_t begin,
       int64_t end, void*) noexcept { kernels::depthwise_of_channels(a, packed, finish, begin, end); }};
constexpr RowKernel kFewChannels = {"convolution of few channels", kernels::few_channels_weights_count,
                                    kernels::pack_few_channels_weights, kernels::few_channels_scratch_bytes,
                                    kernels::few_channels};

class RowStep final : public Step {
 public:
  /// Weights that are not bound come with each run, and are packed there.
  RowStep(const RowKernel& kernel, const LoweringContext& c, const ConvolutionArgs& args, const FinishOperands& finish)
      : kernel_(kernel), args_(args), finish_(finish), own_(aligned(kernel.scratch_bytes(args))), threads_(c.threads),
        bytes_(static_cast<size_t>(kernel.weights_count(args)) * sizeof(float)) {
    if (const Tensor* bound = c.bound(1)) weights_ = c.packed.rows(*bound, args, kernel.weights_count, kernel.pack);
  }
  size_t scratch_bytes() const override {
    return own_ * static_cast<size_t>(threads_) + (weights_ ? 0 : aligned(bytes_));
  }
  bool reads_operand(size_t i) const override { return i != 1 || !weights_; }
  std::string kernel() const override { return kernel_.name; }
  void run(const StepArgs& step) const noexcept override {
    ConvolutionArgs call = args_;
    call.x = step.in(0), call.y = step.out();
    std::byte* const given = step.scratch + own_ * static_cast<size_t>(threads_);
    const float* packed = weights_ ? weights_->data() : reinterpret_cast<float*>(given);
    if (!weights_) {
      call.w = step.in(1);
      kernel_.pack(call, reinterpret_cast<float*>(given));
    }
    const int64_t rows = call.batch * (call.spatial > 1 ? call.out_dims[0] : 1);
    double work = static_cast<double>(call.batch * call.out_channels) * 0.05;
    work *= static_cast<double>(call.in_channels / call.groups);
    for (int d = 0; d < call.spatial; ++d) work *= static_cast<double>(call.out_dims[d] * call.kernel[d]);
    for_ranges(step, rows, 1, work, [&](int64_t begin, int64_t end, int64_t part) {
      kernel_.run(call, packed, finish_.of(step), begin, end, step.scratch + own_ * static_cast<size_t>(part));
    });
  }

 private:
  const RowKernel& kernel_;
  ConvolutionArgs args_;
  FinishOperands finish_;
  size_t own_;
  int threads_;
  size_t bytes_;
  std::shared_ptr<const std::vector<float>> weights_;
};

/// A convolution, and then what follows it over the whole result.
class FinishedStep final : public Step {
 public:
  FinishedStep(Prepared convolution, const ConvolutionArgs& args, bool channels_last, const FinishOperands& finish)
      : convolution_(std::move(convolution)), finish_(finish) {
    int64_t places = 1;
    for (int d = 0; d < args.spatial; ++d) places *= args.out_dims[d];
    rows_.bias_of_row = !channels_last, rows_.activation = finish.activation;
    rows_.rows = channels_last ? places : args.out_channels, rows_.cols = channels_last ? args.out_channels : places;
    rows_.y_row = rows_.residual_row = rows_.cols;
    images_ = args.batch;
  }
  size_t scratch_bytes() const override { return convolution_->scratch_bytes(); }
  bool reads_operand(size_t i) const override { return i != 1 || convolution_->reads_operand(1); }
  std::string kernel() const override { return convolution_->kernel(); }
  void run(const StepArgs& step) const noexcept override {
    convolution_->run(step);
    const kernels::ConvolutionFinish finish = finish_.of(step);
    if (finish.is_nothing()) return;
    const int64_t image = rows_.rows * rows_.cols;
    for_ranges(step, images_, 1, static_cast<double>(images_ * image) * 0.2, [&](int64_t begin, int64_t end, int64_t) {
      kernels::FinishRows rows = rows_;
      rows.bias = finish.bias;
      for (int64_t i = begin; i < end; ++i) {
        rows.y = step.out<float>() + i * image;
        rows.residual = finish.residual ? finish.residual + i * image : nullptr;
        kernels::finish_rows(rows);
      }
    });
  }

 private:
  Prepared convolution_;
  FinishOperands finish_;
  kernels::FinishRows rows_;
  int64_t images_ = 0;
};

}  // namespace

std::string when_fused_conv(const Question& q) {
  for (const Type& t : q.operands)
    if (t.dtype != f32) return text_of("the kernels that finish a convolution take f32, got ", t.dtype);
  return when_convolution(q);
}

bool fused_conv_strided(const Node&, size_t operand, const Shape&, std::span<const int64_t>) { return operand < 2; }

Prepared lower_fused_conv(const LoweringContext& c) {
  const auto& a = c.attrs<FusedConvAttrs>();
  const View &x = c.operands[0], &y = c.results[0];
  const ConvolutionArgs args = convolution_args(as_convolution(a, x.shape.size()), x, c.operands[1], y);
  const FinishOperands finish{kernel_activation(a.activation), a.has_bias ? 2 : -1,
                              a.has_residual ? 2 + a.has_bias : -1};
  if (a.channels_last && is_pointwise(args) && is_dense(x)) {
    if (auto step = few_places_step(c, args, finish)) return step;
    if (auto step = pointwise_step(c, args, finish)) return step;
  }
  if (kernels::is_depthwise_of_channels(args)) return std::make_unique<RowStep>(kDepthwise, c, args, finish);
  if (a.channels_last && kernels::has_few_channels(args))
    return std::make_unique<RowStep>(kFewChannels, c, args, finish);
  if (auto step = tiled_convolution(c, args, 1, finish)) return step;
  if (auto step = onednn_convolution(c, args, 1, finish)) return step;
  return std::make_unique<FinishedStep>(own_convolution(args, 1, c.threads), args, a.channels_last, finish);
}

}  // namespace rlx::cpu
