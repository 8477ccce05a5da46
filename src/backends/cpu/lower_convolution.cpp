// Lowers convolutions. Those that the kernels do not support are decomposed here: groups of the batch into one
// convolution each, and a convolution of a dilated input into one undilated convolution for each phase of the outputs
// (the outputs that read the same taps). So gradients, which have both, run like any other convolution: as matrix
// products or, where these would be slow, by the direct kernel.
#include <algorithm>
#include <numeric>
#include <utility>

#include "backends/cpu/convolution_product.h"
#include "backends/cpu/convolution_steps.h"
#include "backends/cpu/lowerings.h"
#include "base/rounded_up.h"
#include "kernels/conv/depthwise.h"
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
  args.spatial = std::max(1, static_cast<int>(spatial));  // without spatial dims: one of extent 1
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

std::shared_ptr<const kernels::AlignedMemory> packed_convolution(
    const LoweringContext& c, std::string_view kernel, const ConvolutionArgs& args, size_t bytes,
    const std::function<void(const ConvolutionArgs&, char*)>& pack) {
  const Tensor& weights = *c.bound(1);
  std::string layout = text_of(kernel, ", ", args.out_channels, 'x', args.in_channels);
  for (int d = 0; d < args.spatial; ++d) layout += text_of('x', args.kernel[d]);
  layout += text_of(" by ", args.w_out_stride, ' ', args.w_in_stride);
  for (int d = 0; d < args.spatial; ++d) layout += text_of(' ', args.w_strides[d]);
  return c.packed.in_layout(weights, layout, bytes, [&](char* out) {
    ConvolutionArgs own = args;
    own.w = weights.data();
    pack(own, out);
  });
}
std::shared_ptr<const kernels::AlignedMemory> packed_floats(const LoweringContext& c, std::string_view kernel,
                                                            const ConvolutionArgs& args, int64_t count,
                                                            void (*pack)(const ConvolutionArgs&, float*)) {
  return packed_convolution(c, kernel, args, static_cast<size_t>(count) * sizeof(float),
                            [&](const ConvolutionArgs& own, char* out) { pack(own, reinterpret_cast<float*>(out)); });
}

namespace {

/// A convolution of slices of the operands into a slice of the result.
struct SubConvolution {
  ConvolutionArgs args;
  int64_t x = 0, w = 0, y = 0;  ///< where the slices begin, in elements
};

/// A convolution for each group of the batch: each group computes its own output channels.
std::vector<SubConvolution> groups_of_batch(const ConvolutionArgs& whole, int64_t groups) {
  std::vector<SubConvolution> subs;
  for (int64_t g = 0; g < groups; ++g) {
    SubConvolution p{whole};
    p.args.out_channels /= groups;
    p.x = g * p.args.batch * whole.x_batch_stride;
    p.w = g * p.args.out_channels * whole.w_out_stride;
    p.y = g * p.args.out_channels * whole.y_channel_stride;
    subs.push_back(p);
  }
  return subs;
}

__extension__ using Wide = __int128;  // products of two 64-bit numbers

/// The inverse of a modulo n, in [0, n); a and n are coprime (extended Euclid: Knuth, The Art of Computer Programming,
/// volume 2, 4.5.2).
int64_t inverse_of(int64_t a, int64_t n) {
  int64_t r = n, next = a % n, t = 0, next_t = 1;
  while (next != 0) {
    const int64_t q = r / next;
    r = std::exchange(next, r - q * next);
    t = std::exchange(next_t, t - q * next_t);
  }
  return t < 0 ? t + n : t % n;
}

/// Replaces each convolution whose input is dilated by `base` along spatial dim d by undilated ones, one for each
/// phase. The outputs r, r + period, ... of a phase read the same taps: first, first + every, ... So there are at most
/// as many phases as taps, however large strides and dilations are. Outputs that belong to no phase are 0.
void split_phases(std::vector<SubConvolution>& subs, int d) {
  std::vector<SubConvolution> split;
  for (const SubConvolution& p : subs) {
    const int64_t base = p.args.lhs_dilation[d], stride = p.args.stride[d], tap_step = p.args.rhs_dilation[d];
    const int64_t common = std::gcd(stride, base), period = base / common, every = base / std::gcd(tap_step, base);
    const int64_t outputs = std::min(period, p.args.out_dims[d]);
    const auto undilated = [&](SubConvolution phase) {
      ConvolutionArgs& a = phase.args;
      a.y_strides[d] *= std::min(period, p.args.out_dims[d]);  // a phase of one output needs no stride
      a.w_strides[d] *= std::min(every, p.args.kernel[d]);
      a.stride[d] = stride / common, a.rhs_dilation[d] = tap_step / std::gcd(tap_step, base), a.lhs_dilation[d] = 1;
      return phase;
    };
    std::vector<std::pair<int64_t, int64_t>> phases;  // r, first
    const int64_t inverse = inverse_of(stride / common, period);
    for (int64_t first = 0; first < std::min(every, p.args.kernel[d]); ++first) {
      // Solve r * stride = low - first * tap_step (mod base); common must divide the right side.
      const auto wanted = static_cast<int64_t>((p.args.low[d] - static_cast<Wide>(first) * tap_step) % base);
      const int64_t positive = wanted < 0 ? wanted + base : wanted;
      if (positive % common != 0) continue;
      const auto r = static_cast<int64_t>(static_cast<Wide>(positive / common) * inverse % period);
      if (r < outputs) phases.emplace_back(r, first);
    }
    std::sort(phases.begin(), phases.end());
    if (static_cast<int64_t>(phases.size()) < outputs) {  // fill with zeros before the phases are computed
      SubConvolution none = p;
      for (int s = 0; s < p.args.spatial; ++s) none.args.kernel[s] = 0, none.args.lhs_dilation[s] = 1;
      split.push_back(none);
    }
    for (const auto& [r, first] : phases) {
      SubConvolution phase = undilated(p);
      ConvolutionArgs& a = phase.args;
      phase.y += r * p.args.y_strides[d];
      phase.w += first * p.args.w_strides[d];
      a.out_dims[d] = (p.args.out_dims[d] - r + period - 1) / period;
      a.kernel[d] = (p.args.kernel[d] - first + every - 1) / every;
      a.low[d] = -static_cast<int64_t>(
          (static_cast<Wide>(r) * stride + static_cast<Wide>(first) * tap_step - p.args.low[d]) / base);
      split.push_back(phase);
    }
  }
  subs = std::move(split);
}

/// Computes sub-convolutions one after the other, each on all threads.
class ConvolutionStep final : public Step {
 public:
  ConvolutionStep(const std::vector<SubConvolution>& subs, DType in, DType out, int threads)
      : in_size_(static_cast<int64_t>(byte_size(in))), out_size_(static_cast<int64_t>(byte_size(out))) {
    for (const SubConvolution& p : subs) {
      PreparedSub sub{p, convolution_product(p.args, threads)};
      if (sub.product) scratch_ = std::max(scratch_, sub.product->scratch_bytes());
      else per_thread_ = std::max(per_thread_, aligned(kernels::convolution_scratch_bytes(p.args)));
      subs_.push_back(std::move(sub));
    }
    scratch_ = std::max(scratch_, per_thread_ * static_cast<size_t>(threads));
  }
  size_t scratch_bytes() const override { return scratch_; }
  std::string kernel() const override {
    bool product = !subs_.empty() && subs_[0].product;
    return text_of(product ? "convolution as product" : "convolution",
                   subs_.size() == 1 ? std::string() : text_of(", ", subs_.size(), " sub-convolutions"));
  }
  void run(const StepArgs& step) const noexcept override {
    for (const PreparedSub& p : subs_) {
      const std::byte *x = step.in<std::byte>(0) + p.sub.x * in_size_, *w = step.in<std::byte>(1) + p.sub.w * in_size_;
      std::byte* y = step.out<std::byte>() + p.sub.y * out_size_;
      if (p.product) {
        p.product->run(step, x, w, y);
        continue;
      }
      ConvolutionArgs call = p.sub.args;
      call.x = x, call.w = w, call.y = y;
      const int64_t items = call.batch * call.out_channels * call.out_dims[0];
      double work = static_cast<double>(items * (call.in_channels / call.groups) * call.kernel[0]) * 0.05;
      for (int d = 1; d < call.spatial; ++d) work *= static_cast<double>(call.out_dims[d] * call.kernel[d]);
      for_ranges(step, items, 1, work, [&](int64_t begin, int64_t end, int64_t slot) {
        kernels::convolution(call, begin, end, step.scratch + per_thread_ * static_cast<size_t>(slot));
      });
    }
  }

 private:
  struct PreparedSub {
    SubConvolution sub;
    std::unique_ptr<ConvolutionProduct> product;  ///< null: the direct kernel computes it
  };
  int64_t in_size_, out_size_;
  std::vector<PreparedSub> subs_;
  size_t scratch_ = 0;     ///< bytes of all scratch
  size_t per_thread_ = 0;  ///< bytes of scratch of each thread, for the direct kernel
};

/// A step that distributes the planes over the threads. Null if is_depthwise() is false.
Prepared depthwise_step(const ConvolutionArgs& args, int64_t batch_groups, int threads) {
  if (batch_groups > 1 || !kernels::is_depthwise(args)) return nullptr;
  const int64_t planes = args.batch * args.out_channels;
  double work = static_cast<double>(planes) * 0.05;
  for (int d = 0; d < args.spatial; ++d) work *= static_cast<double>(args.out_dims[d] * args.kernel[d]);
  const size_t per_thread = aligned(kernels::depthwise_scratch_bytes(args));
  return make_step("depthwise convolution", per_thread * static_cast<size_t>(threads), [=](const StepArgs& step) {
    ConvolutionArgs call = args;
    call.x = step.in(0), call.w = step.in(1), call.y = step.out();
    for_ranges(step, planes, 1, work, [&](int64_t begin, int64_t end, int64_t slot) {
      kernels::depthwise(call, begin, end, step.scratch + per_thread * static_cast<size_t>(slot));
    });
  });
}

class OnednnStep final : public Step {
 public:
  OnednnStep(std::shared_ptr<const kernels::ConvolutionPlan> plan, const EpilogueOperands& epilogue)
      : plan_(std::move(plan)), epilogue_(epilogue) {}
  size_t scratch_bytes() const override { return plan_->scratch_bytes(); }
  bool reads_operand(size_t i) const override { return i != 1 || plan_->reads_weights(); }
  std::string kernel() const override { return text_of("onednn convolution, ", plan_->name()); }
  void run(const StepArgs& step) const noexcept override {
    plan_->run(step.in(0), step.in(1), step.out(), epilogue_.of(step), step.scratch, thread_pool());
  }

 private:
  std::shared_ptr<const kernels::ConvolutionPlan> plan_;
  EpilogueOperands epilogue_;
};

}  // namespace

Prepared onednn_convolution(const LoweringContext& c, const ConvolutionArgs& a, int64_t batch_groups,
                            const EpilogueOperands& epilogue) {
  const Tensor* weights = c.bound(1);
  auto plan = kernels::plan_convolution(a, batch_groups, c.threads, weights ? c.packed.convolution(*weights) : nullptr);
  if (!plan) return nullptr;
  if (weights && !plan->reads_weights())
    release_pages(*weights);  // the plan has packed them and does not read them again
  return std::make_unique<OnednnStep>(std::move(plan), epilogue);
}

Prepared own_convolution(const ConvolutionArgs& whole, int64_t batch_groups, int threads) {
  if (auto step = depthwise_step(whole, batch_groups, threads)) return step;
  auto subs = groups_of_batch(whole, batch_groups);
  // A result without elements has no phases, so that no sub-convolutions may be left.
  for (int d = 0; d < whole.spatial && !subs.empty(); ++d)
    if (whole.lhs_dilation[d] > 1) split_phases(subs, d);
  return std::make_unique<ConvolutionStep>(subs, whole.dtype, whole.out_dtype, threads);
}

std::string when_convolution(const Question& q) {
  if (q.operands[0].rank() > 2 + size_t(kernels::kMaxSpatial))
    return text_of("the CPU convolves up to ", kernels::kMaxSpatial, " spatial dims");
  if (q.operands[0].dtype == boolean) return text_of("no kernel convolves ", q.operands[0].dtype);
  DType t = q.operands[0].dtype, out = q.node.types[0].dtype;
  bool wider = out == f32 ? t == f16 || t == bf16 : (out == i32 || out == i64) && is_integer(t);
  if (out != t && !wider) return text_of("no kernel convolves ", t, " into ", out);
  return when::is_byte_sized(q);
}

Prepared lower_convolution(const LoweringContext& c) {
  const auto& a = c.attrs<ConvAttrs>();
  const ConvolutionArgs whole = convolution_args(a, c.operands[0], c.operands[1], c.results[0]);
  const ConvolutionProblem problem{
      whole, a.batch_group_count, false, false, is_dense(c.operands[0]), c.bound(1) != nullptr, c.policy};
  return planned_convolution(problem, [&](ConvolutionKernel kernel) {
    switch (kernel) {
      case ConvolutionKernel::depthwise: return depthwise_step(whole, a.batch_group_count, c.threads);
      case ConvolutionKernel::matrix_tiles: return tiled_convolution(c, whole, a.batch_group_count);
      case ConvolutionKernel::multiply_adds: return fma_convolution(c, whole, a.batch_group_count);
      case ConvolutionKernel::onednn: return onednn_convolution(c, whole, a.batch_group_count);
      default: return own_convolution(whole, a.batch_group_count, c.threads);
    }
  });
}

}  // namespace rlx::cpu
