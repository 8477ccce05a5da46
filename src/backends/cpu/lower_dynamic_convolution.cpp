// dynamic_quantize_conv: convolutions of f32 in 8-bit integers (kernels/quant/dynamic_convolution.h). Images are taken
// a few at a time, as many as stay in the cache when quantized: of each the largest number is looked for, then it is
// quantized, then its outputs are computed block by block. Weights that are bound are packed once, others in each run.
#include <algorithm>

#include "backends/cpu/convolution_steps.h"
#include "kernels/memory/aligned_memory.h"
#include "kernels/quant/dynamic_convolution.h"
#include "rlx/ops/dynamic_quantize.h"

namespace rlx::cpu {
namespace {

using kernels::DynamicConvolution;
using kernels::DynamicProduct;

class DynamicConvolutionStep final : public Step {
 public:
  DynamicConvolutionStep(const LoweringContext& c, const kernels::ConvolutionArgs& args)
      : threads_(c.threads), conv_(args, c.attrs<DynamicQuantizeConvAttrs>().channels_last,
                                   static_cast<int32_t>(c.attrs<DynamicQuantizeConvAttrs>().x_largest)) {
    const auto& a = c.attrs<DynamicQuantizeConvAttrs>();
    operands_ = {kernel_activation(a.activation), a.has_bias ? 3 : -1, a.has_residual ? 3 + a.has_bias : -1};
    conv_.activation = operands_.activation;
    image_bytes_ = aligned(kernels::quantized_image_bytes(conv_));
    images_ =
        std::clamp<int64_t>(static_cast<int64_t>(kImageBytesInCache / std::max<size_t>(1, image_bytes_)) * threads_, 1,
                            std::max<int64_t>(1, args.batch));
    divide();
    if (const Tensor* weights = c.bound(1)) {
      std::string layout =
          text_of(int8_form(conv_.weights.isa), "convolution ", args.out_channels, 'x', args.in_channels, " of groups ",
                  args.groups, " by ", args.w_out_stride, ' ', args.w_in_stride);
      for (int d = 0; d < args.spatial; ++d) layout += text_of(", ", args.kernel[d], " by ", args.w_strides[d]);
      packed_ = c.packed.in_layout(*weights, layout, kernels::convolution_weights_bytes(conv_), [&](char* out) {
        const kernels::AlignedMemory own = kernels::aligned_memory(kernels::convolution_packing_bytes(conv_));
        kernels::pack_convolution_weights(conv_, reinterpret_cast<const int8_t*>(weights->data()), out,
                                          reinterpret_cast<std::byte*>(own.get()));
      });
    }
  }

  size_t scratch_bytes() const override {
    return packing_bytes() + magnitude_bytes() + image_bytes_ * static_cast<size_t>(images_) +
           block_bytes() * static_cast<size_t>(threads_);
  }
  bool reads_operand(size_t i) const override { return i != 1 || !packed_; }
  std::string kernel() const override {
    return text_of("int8 convolution ", conv_.outputs(), "x", conv_.weights.k, "x", conv_.weights.n,
                   conv_.shape.groups > 1 ? text_of(", ", conv_.shape.groups, " groups") : std::string());
  }

  void run(const StepArgs& args) const noexcept override {
    const char* packed = packed_ ? packed_->get() : pack(args);
    auto* const magnitudes = reinterpret_cast<uint32_t*>(args.scratch + packing_bytes());
    std::byte* const values = args.scratch + packing_bytes() + magnitude_bytes();
    std::byte* const blocks = values + image_bytes_ * static_cast<size_t>(images_);
    const kernels::ConvolutionEpilogue operands = operands_.of(args);
    const int64_t pixels = conv_.inputs(), in = pixels * conv_.shape.in_channels;
    const int64_t out = conv_.outputs() * conv_.shape.out_channels;
    for (int64_t first = 0; first < conv_.shape.batch; first += images_) {
      const int64_t images = std::min(images_, conv_.shape.batch - first);
      const float* x = args.in<float>(0) + first * in;
      const auto reading_ns = static_cast<double>(images * in);
      for_ranges(args, images * tasks_, 1, reading_ns * 0.05, [&](int64_t begin, int64_t end, int64_t) {
        for (int64_t i = begin; i < end; ++i) {
          const int64_t task = i % tasks_, from = in * task / tasks_, to = in * (task + 1) / tasks_;
          magnitudes[i] = kernels::largest_magnitude(x + i / tasks_ * in + from, to - from);
        }
      });
      const auto scale_of = [&](int64_t image) {
        const uint32_t* of_image = magnitudes + image * tasks_;
        return kernels::dynamic_scale(*std::max_element(of_image, of_image + tasks_), conv_.weights.x_largest);
      };
      for_ranges(args, images * tasks_, 1, reading_ns * 0.15, [&](int64_t begin, int64_t end, int64_t) {
        for (int64_t i = begin; i < end; ++i) {
          const int64_t task = i % tasks_, image = i / tasks_;
          kernels::quantize_image(conv_, x + image * in, pixels * task / tasks_, pixels * (task + 1) / tasks_,
                                  scale_of(image), values + image_bytes_ * static_cast<size_t>(image));
        }
      });
      // Blocks of an image, and of each the ranges of columns, of which each copies the rows for itself.
      const int64_t groups = conv_.shape.groups, blocks_of_image = conv_.blocks(), n = conv_.weights.n;
      const double work_ns = static_cast<double>(images * out * conv_.weights.k) * int8_multiply_ns(conv_.weights.isa);
      for_ranges(args, images * groups * blocks_of_image * ranges_, 1, work_ns,
                 [&](int64_t begin, int64_t end, int64_t task) {
                   for (int64_t i = begin; i < end; ++i) {
                     const int64_t range = i % ranges_, item = i / ranges_;
                     const int64_t image = item / blocks_of_image / groups, at = (first + image) * out;
                     kernels::ConvolutionBlock b{};
                     b.values = values + image_bytes_ * static_cast<size_t>(image), b.scale = scale_of(image);
                     b.block = item % blocks_of_image, b.group = item / blocks_of_image % groups;
                     b.begin = range * range_columns_, b.end = std::min(n, b.begin + range_columns_);
                     b.packed = packed, b.w_scale = args.in<float>(2), b.bias = operands.bias;
                     b.residual = operands.residual ? operands.residual + at : nullptr, b.y = args.out<float>() + at;
                     kernels::convolve_block(conv_, b, blocks + block_bytes() * static_cast<size_t>(task));
                   }
                 });
    }
  }

 private:
  /// Quantized images of so many bytes for each thread are written and read while they are in the cache.
  static constexpr size_t kImageBytesInCache = 1 << 20;

  /// Gives each thread about two pieces of each kind, where there are enough.
  void divide() {
    const int64_t wanted = threads_ > 1 ? 2 * threads_ : 1, n = conv_.weights.n;
    const int64_t most = std::max<int64_t>(1, conv_.inputs() * conv_.shape.in_channels / 4096);
    tasks_ = std::clamp<int64_t>(divided_up(wanted, images_), 1, most);
    const auto items = [&] { return std::max<int64_t>(1, images_ * conv_.shape.groups * conv_.blocks()); };
    while (items() < wanted && conv_.rows_at_once > 2 * kernels::kQuantizedRows)
      conv_.rows_at_once -= kernels::kQuantizedRows;
    const int64_t columns = divided_up(std::max<int64_t>(1, n), DynamicProduct::kColumns);
    const int64_t ranges = std::clamp<int64_t>(divided_up(wanted, items()), 1, columns);
    range_columns_ = divided_up(columns, ranges) * DynamicProduct::kColumns;
    ranges_ = std::max<int64_t>(1, divided_up(n, range_columns_));
  }
  size_t weights_bytes() const { return packed_ ? 0 : aligned(kernels::convolution_weights_bytes(conv_)); }
  size_t packing_bytes() const { return packed_ ? 0 : weights_bytes() + kernels::convolution_packing_bytes(conv_); }
  size_t magnitude_bytes() const { return aligned(static_cast<size_t>(images_ * tasks_) * sizeof(uint32_t)); }
  size_t block_bytes() const { return aligned(kernels::convolution_block_bytes(conv_)); }
  const char* pack(const StepArgs& args) const {
    auto* out = reinterpret_cast<char*>(args.scratch);
    kernels::pack_convolution_weights(conv_, args.in<int8_t>(1), out, args.scratch + weights_bytes());
    return out;
  }

  int threads_;
  DynamicConvolution conv_;
  EpilogueOperands operands_;
  size_t image_bytes_ = 0;
  int64_t images_ = 1;                                    // at once
  int64_t tasks_ = 1;                                     // in which an image is quantized
  int64_t ranges_ = 1, range_columns_ = 1;                // of output channels of a group
  std::shared_ptr<const kernels::AlignedMemory> packed_;  // null: the weights are not bound
};

}  // namespace

std::string when_dynamic_convolution(const Question& q) {
  const Type& x = q.operands[0];
  if (x.dtype != f32) return text_of("no kernel quantizes ", x);
  if (x.rank() < 3 || x.rank() > 2 + size_t(kernels::kMaxSpatial))
    return text_of("the CPU convolves 1 to ", kernels::kMaxSpatial, " spatial dims");
  return refusal_of_largest(q.node.attrs.as<DynamicQuantizeConvAttrs>().x_largest);
}

Prepared lower_dynamic_convolution(const LoweringContext& c) {
  const auto& a = c.attrs<DynamicQuantizeConvAttrs>();
  const ConvAttrs conv = as_convolution(as_fused_conv(a), c.operands[0].shape.size());
  return std::make_unique<DynamicConvolutionStep>(c,
                                                  convolution_args(conv, c.operands[0], c.operands[1], c.results[0]));
}

}  // namespace rlx::cpu
