// dynamic_quantize_conv: convolutions of f32 in 8-bit integers (kernels/quant/dynamic_convolution.h). Images are taken
// a few at a time, as many as stay in the cache when quantized: of each the largest number is looked for, then it is
// quantized, then its outputs are computed block by block. Weights that are bound are packed once, others in each run.
#include <algorithm>

#include "backends/cpu/convolution_steps.h"
#include "kernels/gemm/fma/dot_tiles.h"
#include "kernels/memory/aligned_memory.h"
#include "kernels/quant/dynamic_convolution.h"
#include "kernels/vector/narrow_float.h"
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
    conv_.is_narrow = conv_.by_tiles && args.dtype == bf16;
    operands_ = {kernel_activation(a.activation), a.has_bias ? 3 : -1, a.has_residual ? 3 + a.has_bias : -1};
    conv_.activation = operands_.activation;
    image_bytes_ = aligned(kernels::quantized_image_bytes(conv_));
    images_ =
        std::clamp<int64_t>(static_cast<int64_t>(kImageBytesInCache / std::max<size_t>(1, image_bytes_)) * threads_, 1,
                            std::max<int64_t>(1, args.batch));
    divide();
    if (const Tensor* weights = c.bound(1)) {
      std::string layout =
          text_of(int8_form(conv_.weights.isa),
                  conv_.by_tiles ? text_of("convolution of steps of ", conv_.image.k_bytes(), ' ') : "convolution ",
                  args.out_channels, 'x', args.in_channels, " of groups ", args.groups, " by ", args.w_out_stride, ' ',
                  args.w_in_stride);
      for (int d = 0; d < args.spatial; ++d) layout += text_of(", ", args.kernel[d], " by ", args.w_strides[d]);
      packed_ = c.packed.in_layout(*weights, layout, kernels::convolution_weights_bytes(conv_), [&](char* out) {
        const kernels::AlignedMemory own = kernels::aligned_memory(kernels::convolution_packing_bytes(conv_));
        kernels::pack_convolution_weights(conv_, reinterpret_cast<const int8_t*>(weights->data()), out,
                                          reinterpret_cast<std::byte*>(own.get()));
      });
    }
  }

  bool by_tiles() const { return conv_.by_tiles; }
  size_t scratch_bytes() const override {
    return packing_bytes() + range_bytes() + image_bytes_ * static_cast<size_t>(images_) +
           block_bytes() * static_cast<size_t>(threads_);
  }
  bool reads_operand(size_t i) const override { return i != 1 || !packed_; }
  std::string kernel() const override {
    return text_of("int8 convolution ", conv_.outputs(), "x", conv_.weights.k, "x", conv_.weights.n,
                   conv_.shape.groups > 1 ? text_of(", ", conv_.shape.groups, " groups") : std::string());
  }

  void run(const StepArgs& args) const noexcept override {
    const char* packed = packed_ ? packed_->get() : pack(args);
    auto* const ranges = reinterpret_cast<kernels::ImageRange*>(args.scratch + packing_bytes());
    std::byte* const values = args.scratch + packing_bytes() + range_bytes();
    std::byte* const blocks = values + image_bytes_ * static_cast<size_t>(images_);
    const auto* const bias = operands_.bias >= 0 ? args.in<float>(static_cast<size_t>(operands_.bias)) : nullptr;
    const auto size = static_cast<int64_t>(byte_size(conv_.shape.dtype));
    const auto* const residual =
        operands_.residual >= 0 ? args.in<std::byte>(static_cast<size_t>(operands_.residual)) : nullptr;
    const int64_t pieces = conv_.pieces(), in = conv_.inputs() * conv_.shape.in_channels;
    const int64_t out = conv_.outputs() * conv_.shape.out_channels;
    for (int64_t first = 0; first < conv_.shape.batch; first += images_) {
      const int64_t images = std::min(images_, conv_.shape.batch - first);
      const std::byte* x = args.in<std::byte>(0) + first * in * size;
      const auto reading_ns = static_cast<double>(images * in);
      for_ranges(args, images * tasks_, 1, reading_ns * 0.05, [&](int64_t begin, int64_t end, int64_t) {
        for (int64_t i = begin; i < end; ++i) {
          const int64_t task = i % tasks_, from = in * task / tasks_, to = in * (task + 1) / tasks_;
          ranges[i] = kernels::image_range(conv_, x, i / tasks_ * in + from, to - from);
        }
      });
      const auto scale_of = [&](int64_t image) {
        kernels::ImageRange of_image;
        for (int64_t task = 0; task < tasks_; ++task) of_image.include(ranges[image * tasks_ + task]);
        return kernels::image_scale(conv_, of_image);
      };
      for_ranges(args, images * tasks_, 1, reading_ns * 0.15, [&](int64_t begin, int64_t end, int64_t) {
        for (int64_t i = begin; i < end; ++i) {
          const int64_t task = i % tasks_, image = i / tasks_;
          kernels::quantize_image(conv_, x + image * in * size, pieces * task / tasks_, pieces * (task + 1) / tasks_,
                                  scale_of(image), values + image_bytes_ * static_cast<size_t>(image));
        }
      });
      // Blocks of an image, and of each the ranges of columns, of which each copies the rows for itself.
      const int64_t groups = conv_.shape.groups, blocks_of_image = conv_.blocks(), n = conv_.weights.n;
      const double work_ns = static_cast<double>(images * out * conv_.weights.k) * int8_multiply_ns(conv_.weights.isa);
      for_ranges(args, images * groups * blocks_of_image * ranges_, 1, work_ns,
                 [&](int64_t begin, int64_t end, int64_t task) {
                   const int64_t items = images * groups * blocks_of_image;
                   for (int64_t i = begin; i < end; ++i) {
                     const int64_t range = divides_channels_ ? i / items : i % ranges_;
                     const int64_t item = divides_channels_ ? i % items : i / ranges_;
                     const int64_t image = item / blocks_of_image / groups, at = (first + image) * out;
                     kernels::ConvolutionBlock b{};
                     b.values = values + image_bytes_ * static_cast<size_t>(image), b.scale = scale_of(image);
                     b.block = item % blocks_of_image, b.group = item / blocks_of_image % groups;
                     b.begin = range * range_columns_, b.end = std::min(n, b.begin + range_columns_);
                     b.packed = packed, b.w_scale = args.in<float>(2), b.bias = bias;
                     b.residual = residual ? residual + at * size : nullptr, b.y = args.out<std::byte>() + at * size;
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
    const int64_t columns = divided_up(std::max<int64_t>(1, n), DynamicProduct::kColumns);
    // Tiles read images in place. So with more channels than pixels each thread takes a range of channels, and the
    // weights are read once.
    divides_channels_ = conv_.by_tiles && threads_ > 1 && columns >= threads_ && n > images_ * conv_.outputs();
    if (conv_.by_tiles && threads_ > 1 && !divides_channels_) {
      even_out();
    } else if (!divides_channels_) {
      while (items() < wanted && conv_.rows_at_once > 2 * kernels::kQuantizedRows)
        conv_.rows_at_once -= kernels::kQuantizedRows;
    }
    const int64_t wanted_ranges = divides_channels_ ? threads_ : divided_up(wanted, items());
    const int64_t ranges = std::clamp<int64_t>(wanted_ranges, 1, columns);
    range_columns_ = divided_up(columns, ranges) * DynamicProduct::kColumns;
    ranges_ = std::max<int64_t>(1, divided_up(n, range_columns_));
  }
  /// Makes blocks of such a size that no thread has much more rows than another: the last block of an image is smaller,
  /// and for_ranges() deals out blocks by their number. Larger blocks are better, where there is a choice.
  void even_out() {
    const int64_t largest = conv_.rows_at_once;
    int64_t best = largest, least = INT64_MAX;
    for (int64_t rows = largest; rows >= 2 * kernels::kQuantizedRows; rows -= kernels::kQuantizedRows) {
      conv_.rows_at_once = rows;
      const int64_t blocks = conv_.blocks(), items = images_ * conv_.shape.groups * blocks,
                    of_image = conv_.tile_rows();
      const int64_t tasks = std::min<int64_t>(threads_, items);
      int64_t most = 0;
      for (int64_t task = 0; task < tasks; ++task) {
        int64_t load = 0;
        for (int64_t i = items * task / tasks; i < items * (task + 1) / tasks; ++i)
          load += std::min(rows, of_image - i % blocks * rows);
        most = std::max(most, load);
      }
      if (most < least - least / 32) least = most, best = rows;
    }
    conv_.rows_at_once = best;
  }
  size_t weights_bytes() const { return packed_ ? 0 : aligned(kernels::convolution_weights_bytes(conv_)); }
  size_t packing_bytes() const { return packed_ ? 0 : weights_bytes() + kernels::convolution_packing_bytes(conv_); }
  size_t range_bytes() const { return aligned(static_cast<size_t>(images_ * tasks_) * sizeof(kernels::ImageRange)); }
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
  bool divides_channels_ = false;                         // among threads, each with all rows
  std::shared_ptr<const kernels::AlignedMemory> packed_;  // null: the weights are not bound
};

/// Of bf16, where only f32 has a kernel: x and residual become f32, and the result is rounded.
class WidenedStep final : public Step {
 public:
  WidenedStep(Prepared convolution, const kernels::ConvolutionArgs& args, int residual, size_t operands)
      : convolution_(std::move(convolution)), residual_(residual), operands_(operands),
        x_count_(args.batch * args.in_channels), y_count_(args.batch * args.out_channels) {
    for (int d = 0; d < args.spatial; ++d) x_count_ *= args.in_dims[d], y_count_ *= args.out_dims[d];
  }
  size_t scratch_bytes() const override {
    return bytes(x_count_) + bytes(y_count_) * (residual_ >= 0 ? 2 : 1) + convolution_->scratch_bytes();
  }
  bool reads_operand(size_t i) const override { return convolution_->reads_operand(i); }
  std::string kernel() const override { return text_of(convolution_->kernel(), ", in f32"); }
  void run(const StepArgs& args) const noexcept override {
    void* operands[5];
    std::copy_n(args.operands, operands_, operands);
    std::byte* scratch = args.scratch;
    const auto widen = [&](int i, int64_t count) {
      auto* const to = reinterpret_cast<float*>(scratch);
      const auto* from = args.in<kernels::BF16>(static_cast<size_t>(i));
      for (int64_t j = 0; j < count; ++j) to[j] = kernels::to_f32(from[j]);
      operands[i] = to, scratch += bytes(count);
    };
    widen(0, x_count_);
    if (residual_ >= 0) widen(residual_, y_count_);
    void* y = scratch;
    convolution_->run({operands, &y, scratch + bytes(y_count_), args.width, args.control});
    auto* const to = args.out<kernels::BF16>();
    for (int64_t j = 0; j < y_count_; ++j) to[j] = kernels::to_bf16(static_cast<const float*>(y)[j]);
  }

 private:
  static size_t bytes(int64_t count) { return aligned(static_cast<size_t>(count) * sizeof(float)); }

  Prepared convolution_;
  int residual_;
  size_t operands_;
  int64_t x_count_, y_count_;
};

}  // namespace

std::string when_dynamic_convolution(const Question& q) {
  const Type& x = q.operands[0];
  const kernels::Int8DotIsa isa = kernels::best_int8_dot_isa();
  const bool is_narrow =
      x.dtype == bf16 &&
      (isa == kernels::Int8DotIsa::tiles || (isa == kernels::Int8DotIsa::avx512_vnni && kernels::has_bf16_tile_dots()));
  if (x.dtype != f32 && !is_narrow) return text_of("no kernel quantizes ", x);
  if (x.rank() < 3 || x.rank() > 2 + size_t(kernels::kMaxSpatial))
    return text_of("the CPU convolves 1 to ", kernels::kMaxSpatial, " spatial dims");
  return refusal_of_largest(q.node.attrs.as<DynamicQuantizeConvAttrs>().x_largest);
}

Prepared lower_dynamic_convolution(const LoweringContext& c) {
  const auto& a = c.attrs<DynamicQuantizeConvAttrs>();
  const ConvAttrs conv = as_convolution(as_fused_conv(a), c.operands[0].shape.size());
  const auto args = convolution_args(conv, c.operands[0], c.operands[1], c.results[0]);
  auto step = std::make_unique<DynamicConvolutionStep>(c, args);
  if (args.dtype == f32 || step->by_tiles()) return step;
  auto wide = args;
  wide.dtype = wide.out_dtype = f32;
  return std::make_unique<WidenedStep>(std::make_unique<DynamicConvolutionStep>(c, wide), wide,
                                       a.has_residual ? 3 + a.has_bias : -1, c.operands.size());
}

}  // namespace rlx::cpu
