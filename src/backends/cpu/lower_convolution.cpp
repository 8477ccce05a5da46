// Convolutions. What the kernels do not know is taken apart here: groups of the batch, and the dilation of the input,
// which is a plain convolution for each phase of the outputs (those that meet the same taps). So the gradients, which
// have both, run like any other convolution: as products, or where these do not suit by the kernel that needs no
// matrix.
#include <numeric>

#include "backends/cpu/convolution_product.h"
#include "backends/cpu/convolution_steps.h"
#include "backends/cpu/lowerings.h"
#include "base/rounded_up.h"
#include "kernels/depthwise.h"
#include "rlx/io.h"
#include "rlx/ops/window.h"

namespace rlx::cpu {

using kernels::ConvolutionArgs;

ConvolutionArgs convolution_args(const ConvAttrs& a, const View& x, const View& w, const View& y) {
  size_t rank = x.shape.size(), spatial = rank - 2;
  auto layout = [&](const Axes& given) { return given.empty() ? axes_from(0, rank) : given; };
  Axes in = layout(a.lhs_layout), kernel = layout(a.rhs_layout), out = layout(a.out_layout);
  auto dim = [](const View& v, const Axes& l, size_t i) { return v.shape[size_t(l[i])]; };
  auto stride = [](const View& v, const Axes& l, size_t i) { return v.strides[size_t(l[i])]; };
  ConvolutionArgs args;
  args.dtype = x.dtype, args.out_dtype = y.dtype;
  args.spatial = static_cast<int>(spatial);
  args.batch = dim(y, out, 0), args.in_channels = dim(x, in, 1), args.out_channels = dim(y, out, 1);
  args.groups = a.feature_group_count;
  Axes low = shape_of(a.padding_low);
  for (size_t s = 0; s < spatial; ++s) {
    args.in_dims[s] = dim(x, in, s + 2), args.kernel[s] = dim(w, kernel, s + 2), args.out_dims[s] = dim(y, out, s + 2);
    args.stride[s] = a.strides.empty() ? 1 : a.strides[s];
    args.low[s] = low.empty() ? 0 : low[s];
    args.lhs_dilation[s] = a.lhs_dilation.empty() ? 1 : a.lhs_dilation[s];
    args.rhs_dilation[s] = a.rhs_dilation.empty() ? 1 : a.rhs_dilation[s];
    args.x_strides[s] = stride(x, in, s + 2), args.w_strides[s] = stride(w, kernel, s + 2),
    args.y_strides[s] = stride(y, out, s + 2);
  }
  args.x_batch_stride = stride(x, in, 0), args.x_channel_stride = stride(x, in, 1);
  args.w_out_stride = stride(w, kernel, 0), args.w_in_stride = stride(w, kernel, 1);
  args.y_batch_stride = stride(y, out, 0), args.y_channel_stride = stride(y, out, 1);
  return args;
}

namespace {

/// A convolution on parts of the operands and of the result.
struct Part {
  ConvolutionArgs args;
  int64_t x = 0, w = 0, y = 0;  ///< where they begin, in elements
};

/// Each group of the batch makes its own output channels.
std::vector<Part> groups_of_batch(const ConvolutionArgs& whole, int64_t groups) {
  std::vector<Part> parts;
  for (int64_t g = 0; g < groups; ++g) {
    Part p{whole};
    p.args.out_channels /= groups;
    p.x = g * p.args.batch * whole.x_batch_stride;
    p.w = g * p.args.out_channels * whole.w_out_stride;
    p.y = g * p.args.out_channels * whole.y_channel_stride;
    parts.push_back(p);
  }
  return parts;
}

/// Along spatial dim d, outputs r, r + period, ... look at the same taps of an input whose elements are `base` apart.
void split_phases(std::vector<Part>& parts, int d) {
  std::vector<Part> split;
  for (const Part& p : parts) {
    const int64_t base = p.args.lhs_dilation[d], stride = p.args.stride[d], apart = p.args.rhs_dilation[d];
    const int64_t period = base / std::gcd(stride, base), every = base / std::gcd(apart, base);
    for (int64_t r = 0; r < std::min(period, p.args.out_dims[d]); ++r) {
      Part phase = p;
      ConvolutionArgs& a = phase.args;
      int64_t first = 0;  // tap
      while (first < every && (r * stride + first * apart - a.low[d]) % base != 0) ++first;
      const int64_t taps = first < every && first < a.kernel[d] ? (a.kernel[d] - first + every - 1) / every : 0;
      phase.y += r * a.y_strides[d];
      a.out_dims[d] = (a.out_dims[d] - r + period - 1) / period;
      a.y_strides[d] *= period;
      if (taps > 0) {
        phase.w += first * a.w_strides[d];
        a.low[d] = -((r * stride + first * apart - a.low[d]) / base);
      }
      a.kernel[d] = taps;
      a.w_strides[d] *= every;
      a.stride[d] = period * stride / base, a.rhs_dilation[d] = every * apart / base, a.lhs_dilation[d] = 1;
      split.push_back(phase);
    }
  }
  parts = std::move(split);
}

/// All parts in turn, each over all threads.
class ConvolutionStep final : public Step {
 public:
  ConvolutionStep(const std::vector<Part>& parts, DType in, DType out, int threads)
      : in_size_(static_cast<int64_t>(byte_size(in))), out_size_(static_cast<int64_t>(byte_size(out))) {
    for (const Part& p : parts) {
      Ready part{p, convolution_product(p.args, threads)};
      if (part.product) scratch_ = std::max(scratch_, part.product->scratch_bytes());
      else per_thread_ = std::max(per_thread_, aligned(kernels::convolution_scratch_bytes(p.args)));
      parts_.push_back(std::move(part));
    }
    scratch_ = std::max(scratch_, per_thread_ * static_cast<size_t>(threads));
  }
  size_t scratch_bytes() const override { return scratch_; }
  std::string kernel() const override {
    bool product = !parts_.empty() && parts_[0].product;
    return text_of(product ? "convolution as product" : "convolution",
                   parts_.size() == 1 ? std::string() : text_of(", ", parts_.size(), " parts"));
  }
  void run(const StepArgs& step) const noexcept override {
    for (const Ready& p : parts_) {
      const std::byte *x = step.in<std::byte>(0) + p.part.x * in_size_,
                      *w = step.in<std::byte>(1) + p.part.w * in_size_;
      std::byte* y = step.out<std::byte>() + p.part.y * out_size_;
      if (p.product) {
        p.product->run(step, x, w, y);
        continue;
      }
      ConvolutionArgs call = p.part.args;
      call.x = x, call.w = w, call.y = y;
      const int64_t units = call.batch * call.out_channels * call.out_dims[0];
      double work = static_cast<double>(units * (call.in_channels / call.groups) * call.kernel[0]) * 0.05;
      for (int d = 1; d < call.spatial; ++d) work *= static_cast<double>(call.out_dims[d] * call.kernel[d]);
      for_ranges(step, units, 1, work, [&](int64_t begin, int64_t end, int64_t part) {
        kernels::convolution(call, begin, end, step.scratch + per_thread_ * static_cast<size_t>(part));
      });
    }
  }

 private:
  struct Ready {
    Part part;
    std::unique_ptr<ConvolutionProduct> product;
  };
  int64_t in_size_, out_size_;
  std::vector<Ready> parts_;
  size_t scratch_ = 0, per_thread_ = 0;
};

/// Planes over the threads; null if it is something else.
Prepared depthwise_step(const ConvolutionArgs& args, int64_t batch_groups, int threads) {
  if (batch_groups > 1 || !kernels::is_depthwise(args)) return nullptr;
  const int64_t planes = args.batch * args.out_channels;
  double work = static_cast<double>(planes) * 0.05;
  for (int d = 0; d < args.spatial; ++d) work *= static_cast<double>(args.out_dims[d] * args.kernel[d]);
  const size_t per_thread = aligned(kernels::depthwise_scratch_bytes(args));
  return make_step("depthwise convolution", per_thread * static_cast<size_t>(threads), [=](const StepArgs& step) {
    ConvolutionArgs call = args;
    call.x = step.in(0), call.w = step.in(1), call.y = step.out();
    for_ranges(step, planes, 1, work, [&](int64_t begin, int64_t end, int64_t part) {
      kernels::depthwise(call, begin, end, step.scratch + per_thread * static_cast<size_t>(part));
    });
  });
}

class OnednnStep final : public Step {
 public:
  OnednnStep(std::shared_ptr<const kernels::ConvolutionPlan> plan, const FinishOperands& finish)
      : plan_(std::move(plan)), finish_(finish) {}
  size_t scratch_bytes() const override { return plan_->scratch_bytes(); }
  bool reads_operand(size_t i) const override { return i != 1 || plan_->reads_weights(); }
  std::string kernel() const override { return text_of("onednn convolution, ", plan_->name()); }
  void run(const StepArgs& step) const noexcept override {
    plan_->run(step.in(0), step.in(1), step.out(), finish_.of(step), step.scratch, step.pool);
  }

 private:
  std::shared_ptr<const kernels::ConvolutionPlan> plan_;
  FinishOperands finish_;
};

}  // namespace

Prepared onednn_convolution(const LoweringContext& c, const ConvolutionArgs& a, int64_t batch_groups,
                            const FinishOperands& finish) {
  constexpr double kWorthwhile = 1 << 18;  // multiplications
  double work = static_cast<double>(a.batch * a.out_channels) * static_cast<double>(a.in_channels / a.groups);
  double elements = static_cast<double>(a.batch * batch_groups * a.in_channels), taps = 1, outputs = 1;
  for (int d = 0; d < a.spatial; ++d)
    taps *= static_cast<double>(a.kernel[d]), outputs *= static_cast<double>(a.out_dims[d]),
        elements *= static_cast<double>(a.in_dims[d]);
  for (int d = 0; d < a.spatial; ++d) work /= static_cast<double>(a.lhs_dilation[d]);
  work *= taps * outputs;
  if (work < kWorthwhile || elements == 0) return nullptr;
  const Tensor* weights = c.bound(1);
  auto plan = kernels::plan_convolution(a, batch_groups, c.threads, weights ? c.packed.convolution(*weights) : nullptr);
  if (!plan) return nullptr;
  if (weights && !plan->reads_weights()) release_pages(*weights);  // packed, and not read again
  return std::make_unique<OnednnStep>(std::move(plan), finish);
}

Prepared own_convolution(const ConvolutionArgs& whole, int64_t batch_groups, int threads) {
  if (auto step = depthwise_step(whole, batch_groups, threads)) return step;
  auto parts = groups_of_batch(whole, batch_groups);
  // A result without elements has no phases, and so no parts.
  for (int d = 0, spatial = parts[0].args.spatial; d < spatial && !parts.empty(); ++d)
    if (parts[0].args.lhs_dilation[d] > 1) split_phases(parts, d);
  return std::make_unique<ConvolutionStep>(parts, whole.dtype, whole.out_dtype, threads);
}

std::string when_convolution(const Question& q) {
  if (q.operands[0].rank() < 3 || q.operands[0].rank() > 2 + size_t(kernels::kMaxSpatial))
    return text_of("the CPU convolves 1 to ", kernels::kMaxSpatial, " spatial dims");
  if (is_complex(q.operands[0].dtype) || q.operands[0].dtype == boolean)
    return text_of("no kernel convolves ", q.operands[0].dtype);
  DType t = q.operands[0].dtype, out = q.node.types[0].dtype;
  bool wider = out == f32 ? t == f16 || t == bf16 : (out == i32 || out == i64) && is_integer(t);
  if (out != t && !wider) return text_of("no kernel convolves ", t, " into ", out);
  return when::is_byte_sized(q);
}

Prepared lower_convolution(const LoweringContext& c) {
  const auto& a = c.attrs<ConvAttrs>();
  const ConvolutionArgs whole = convolution_args(a, c.operands[0], c.operands[1], c.results[0]);
  if (auto step = depthwise_step(whole, a.batch_group_count, c.threads)) return step;
  if (auto step = tiled_convolution(c, whole, a.batch_group_count)) return step;
  if (auto step = onednn_convolution(c, whole, a.batch_group_count)) return step;
  return own_convolution(whole, a.batch_group_count, c.threads);
}

}  // namespace rlx::cpu
