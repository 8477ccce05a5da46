// See the header.
#include "backends/cpu/convolution_plan.h"

#include <algorithm>

#include "base/rounded_up.h"
#include "kernels/conv/amx_convolution.h"
#include "kernels/conv/depthwise.h"
#include "kernels/conv/depthwise_channels_last.h"
#include "kernels/conv/depthwise_narrow.h"
#include "kernels/conv/few_channels.h"
#include "kernels/conv/fma_convolution.h"
#include "kernels/conv/narrow_tiles.h"
#include "kernels/conv/onednn.h"
#include "kernels/gemm/amx/tiles.h"
#include "kernels/gemm/fma/micro_kernels.h"
#include "kernels/gemm/product_plan.h"
#include "kernels/partial_sums.h"
#include "rlx/error.h"

namespace rlx::cpu {
namespace {

using kernels::ConvolutionArgs;
using Problem = ConvolutionProblem;

/// Whether each output depends on a single pixel of x.
bool is_pointwise(const ConvolutionArgs& a) {
  if (a.groups != 1) return false;
  for (int d = 0; d < a.spatial; ++d)
    if (a.kernel[d] != 1 || a.low[d] != 0 || (a.out_dims[d] - 1) * a.stride[d] >= a.in_dims[d]) return false;
  return true;
}
bool is_pointwise_of_channels(const Problem& p) {
  return p.is_fused && p.channels_last && p.is_x_dense && is_pointwise(p.args);
}
bool has_few_pixels(const Problem& p) {
  const ConvolutionArgs& a = p.args;
  if (a.spatial != 2) return false;
  const int64_t pixels = a.batch * a.out_dims[0] * a.out_dims[1];
  return kernels::plan_pointwise_convolution(pixels, a.in_channels, a.out_channels, p.policy).by_convolution;
}
/// Whether oneDNN computes a convolution of bf16 in 0.9 of the time of dot products: with several taps of so many
/// channels that what it costs to copy the image is little. Tiles are faster than both.
bool is_faster_by_onednn(const ConvolutionArgs& a) {
  constexpr int64_t kManyChannels = 32;
  int64_t taps = 1;
  for (int d = 0; d < a.spatial; ++d) taps *= a.kernel[d];
  return taps > 1 && a.in_channels >= kManyChannels && !kernels::has_matrix_tiles() && kernels::has_onednn();
}
/// Whether the class for multiply-adds computes the convolution, with vectors that are wide enough to be worth it. Of
/// constant weights packed_convolution() knows where the lowest element is, not where the first tap of a reversed
/// kernel is: these are refused.
bool has_multiply_adds(const Problem& p) {
  for (int d = 0; d < p.args.spatial; ++d)
    if (p.are_weights_constant && p.args.w_strides[d] < 0) return false;
  return kernels::product_lanes(f32) >= 8 && kernels::FmaConvolution::supports(p.args, p.batch_groups);
}
/// Whether multiply-adds are worth packing the weights in each run: `least` pixels or more use each of them.
bool has_packed_in_run(const Problem& p, int64_t least) {
  return !p.are_weights_constant && has_multiply_adds(p) &&
         p.args.batch * p.args.out_dims[0] * p.args.out_dims[1] >= least;
}
/// Whether a pointwise convolution is faster as a matrix product, whose kernel prefetches weights, also those of the
/// next step, and keeps long sums in registers. Measured with vectors of 16 (Zen 5): by multiply-adds few pixels took
/// 1.02 (ResNet-50) to 1.04 times as long (MobileNetV2), and long sums 1.06 (68 shapes of 257 channels or more, up to
/// 1.26 with few outputs). With vectors of 8 multiply-adds were faster.
bool is_faster_as_product(const Problem& p) {
  constexpr int64_t kFewPixels = 128;
  return kernels::product_lanes(f32) > 8 && is_pointwise_of_channels(p) &&
         (p.args.batch * p.args.out_dims[0] * p.args.out_dims[1] < kFewPixels ||
          p.args.in_channels > kernels::kPartialSumTerms);
}
/// Whether the convolution is so large that creating oneDNN's kernels takes less time than they save.
bool is_worth_onednn(const Problem& p) {
  constexpr double kMinProducts = 1 << 18;  // multiplications
  const ConvolutionArgs& a = p.args;
  double work = static_cast<double>(a.batch * a.out_channels) * static_cast<double>(a.in_channels / a.groups);
  double elements = static_cast<double>(a.batch * p.batch_groups * a.in_channels), taps = 1, outputs = 1;
  for (int d = 0; d < a.spatial; ++d)
    taps *= static_cast<double>(a.kernel[d]), outputs *= static_cast<double>(a.out_dims[d]),
        elements *= static_cast<double>(a.in_dims[d]);
  for (int d = 0; d < a.spatial; ++d) work /= static_cast<double>(a.lhs_dilation[d]);
  return work * taps * outputs >= kMinProducts && elements != 0;
}

constexpr ConvolutionRule kRules[] = {
    {ConvolutionKernel::narrow_tiles,
     "constant weights of bf16: tiles, or dot products in their place, read pixels and channels where they lie",
     [](const Problem& p) {
       return p.are_weights_constant && p.is_fused && p.channels_last && kernels::has_narrow_tiles(p.args) &&
              !(is_faster_by_onednn(p.args) && is_worth_onednn(p));
     }},
    {ConvolutionKernel::pointwise_tiles, "pointwise, with so few pixels that a product does not pay for packing rows",
     [](const Problem& p) { return p.are_weights_constant && is_pointwise_of_channels(p) && has_few_pixels(p); }},
    {ConvolutionKernel::multiply_adds,
     "constant weights and no matrix tiles: the sums of some pixels by 4 vectors of channels fill the registers",
     [](const Problem& p) {
       return p.are_weights_constant && !kernels::has_matrix_tiles() && has_multiply_adds(p) &&
              !is_faster_as_product(p);
     }},
    {ConvolutionKernel::product, "a pointwise convolution of channels-last pixels is a matrix product",
     [](const Problem& p) { return p.are_weights_constant && is_pointwise_of_channels(p); }},
    {ConvolutionKernel::depthwise, "each plane has a kernel of its own",
     [](const Problem& p) { return !p.is_fused && p.batch_groups <= 1 && kernels::is_depthwise(p.args); }},
    {ConvolutionKernel::depthwise_channels_last, "each channel has a kernel of its own, and channels are contiguous",
     [](const Problem& p) {
       return p.is_fused && (kernels::is_depthwise_of_channels(p.args) || kernels::is_narrow_depthwise(p.args));
     }},
    {ConvolutionKernel::few_channels, "rows of few input channels are contiguous, and weights stay in registers",
     [](const Problem& p) { return p.is_fused && p.channels_last && kernels::has_few_channels(p.args); }},
    {ConvolutionKernel::matrix_tiles, "constant weights, and enough pixels and channels for tiles",
     [](const Problem& p) {
       return p.are_weights_constant && kernels::TiledConvolution::suits(p.args, p.batch_groups);
     }},
    {ConvolutionKernel::multiply_adds, "constant weights that matrix tiles do not support",
     [](const Problem& p) { return p.are_weights_constant && has_multiply_adds(p); }},
    {ConvolutionKernel::multiply_adds,
     "weights given at run time, no matrix tiles, and so many pixels that packing in each run pays",
     [](const Problem& p) {
       constexpr int64_t kManyPixels = 1024;
       const bool has_long_rows = is_pointwise(p.args) && p.args.in_channels > kernels::kPartialSumTerms;
       return !kernels::has_matrix_tiles() && !has_long_rows && has_packed_in_run(p, kManyPixels);
     }},
    {ConvolutionKernel::onednn, "enough work to pay for creating oneDNN's kernels, where it is built in",
     is_worth_onednn},
    {ConvolutionKernel::multiply_adds, "oneDNN does not compute it, and enough pixels use the weights of a run",
     [](const Problem& p) {
       constexpr int64_t kSomePixels = 64;
       return has_packed_in_run(p, kSomePixels);
     }},
    {ConvolutionKernel::general, "no other kernel supports it, or it is too small for them",
     [](const Problem&) { return true; }},
};

}  // namespace

std::string_view name_of(ConvolutionKernel kernel) {
  switch (kernel) {
    case ConvolutionKernel::narrow_tiles:
    case ConvolutionKernel::pointwise_tiles:
    case ConvolutionKernel::matrix_tiles: return "matrix tiles";
    case ConvolutionKernel::product: return "product";
    case ConvolutionKernel::depthwise: return "depthwise";
    case ConvolutionKernel::depthwise_channels_last: return "depthwise, channels last";
    case ConvolutionKernel::few_channels: return "few channels";
    case ConvolutionKernel::multiply_adds: return "multiply-adds";
    case ConvolutionKernel::onednn: return "oneDNN";
    case ConvolutionKernel::general: break;
  }
  return "general";
}

std::string ConvolutionRule::text() const { return text_of(name_of(kernel), ": ", reason); }

std::span<const ConvolutionRule> convolution_rules() { return kRules; }

bool reads_all_pixels(const ConvolutionArgs& a) {
  for (int d = 0; d < a.spatial; ++d)
    if (a.stride[d] != 1 || a.in_dims[d] != a.out_dims[d]) return false;
  return true;
}

PipelineStrategy plan_pipeline(const PipelineProblem& p, const kernels::CacheSizes& caches) {
  constexpr int64_t kSkinny = 48, kMinPixels = 784, kMinBytes = 3 << 19, kMaxRows = 64;
  // The values between the convolutions stay in the second-level cache; more than 768 KiB were never faster.
  const int64_t cache_bytes = std::min<int64_t>(caches.l2_bytes * 3 / 4, 768 << 10);
  const ConvolutionArgs& d = p.depthwise;
  if (!kernels::is_depthwise_of_channels(d) || d.low[0] < 0 || d.low[0] > d.kernel[0] * d.rhs_dilation[0] ||
      d.stride[0] > kMaxRows || d.rhs_dilation[0] > kMaxRows || d.kernel[0] > kMaxRows)
    return {0, "no kernel for bands of this depthwise convolution"};
  if ((p.first && p.first->in_channels > kSkinny) || p.last.out_channels > kSkinny)
    return {0, "wider products are faster as steps of their own, on matrix tiles or panel by panel"};
  const int64_t in_row = d.in_dims[1] * d.in_channels * 4, out_row = d.out_dims[1] * d.out_channels * 4;
  if (d.in_dims[0] * d.in_dims[1] < kMinPixels || d.out_dims[0] * d.out_dims[1] == 0 ||
      d.batch * (in_row * d.in_dims[0] + out_row * d.out_dims[0]) < kMinBytes)
    return {0, "the values between the convolutions fit the cache anyway"};
  // A band has as many rows as the cache holds; then the rows of the image are distributed evenly over the bands.
  const int64_t halo = std::max<int64_t>(0, (d.kernel[0] - 1) * d.rhs_dilation[0] + 1 - d.stride[0]) * in_row;
  const int64_t row = out_row + d.stride[0] * in_row;
  const int64_t rows = std::clamp<int64_t>((cache_bytes - halo) / row, 1, std::min(kMaxRows, d.out_dims[0]));
  return {divided_up(d.out_dims[0], divided_up(d.out_dims[0], rows)),
          "band by band, so that the values between the convolutions stay in the cache"};
}

}  // namespace rlx::cpu
