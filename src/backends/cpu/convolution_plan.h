// The planner of convolutions: which kernel computes one, and why. It is a table of rules, of which the first that
// holds decides; the functions are pure. Users: lower_convolution.cpp, lower_fused_convolution.cpp and
// convolution_chain.cpp, which make the steps. `rlx where MODEL --strategies` prints the choices. Neighbour for
// products, and for pointwise convolutions of few pixels: kernels/gemm/product_plan.h.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "kernels/conv/direct.h"
#include "kernels/gemm/gemm.h"
#include "kernels/memory/cache_sizes.h"

namespace rlx::cpu {

struct ConvolutionProblem {
  kernels::ConvolutionArgs args;
  int64_t batch_groups = 1;
  bool is_fused = false;  ///< fused_conv: it has an epilogue
  bool channels_last = false;
  bool is_x_dense = false;
  bool are_weights_constant = false;
  kernels::ProductPolicy policy;
};

enum class ConvolutionKernel : uint8_t {
  pointwise_tiles,          ///< kernels/conv/amx_convolution.h, with the images of a batch as one
  matrix_tiles,             ///< kernels/conv/amx_convolution.h
  product,                  ///< of pixels by channels, as planned by kernels/gemm/product_plan.h
  depthwise,                ///< kernels/conv/depthwise.h, plane by plane
  depthwise_channels_last,  ///< kernels/conv/depthwise_channels_last.h
  few_channels,             ///< kernels/conv/few_channels.h
  onednn,                   ///< kernels/conv/onednn_convolution.h
  general,                  ///< im2col products or kernels/conv/direct.h: they support every convolution
};
std::string_view name_of(ConvolutionKernel kernel);

/// A rule for the kernel: it is taken if `holds`, for the reason that is given. If a step cannot be made of it after
/// all (weights out of the range of tiles, no kernel of oneDNN), the next rule that holds is taken.
struct ConvolutionRule {
  ConvolutionKernel kernel;
  std::string_view reason;
  bool (*holds)(const ConvolutionProblem&);

  /// In words: "matrix tiles: ...".
  std::string text() const;
};
/// All rules, in the order in which they are tried. The last one holds always.
std::span<const ConvolutionRule> convolution_rules();

/// Whether a pointwise convolution reads every pixel, in order: its strides are 1, and its result has as many pixels.
bool reads_all_pixels(const kernels::ConvolutionArgs& args);

/// A pipeline of [pointwise,] depthwise, pointwise convolutions of channels-last images (convolution_chain.h).
struct PipelineProblem {
  const kernels::ConvolutionArgs* first = nullptr;  ///< or null
  const kernels::ConvolutionArgs& depthwise;
  const kernels::ConvolutionArgs& last;
};
/// How many output rows of the depthwise convolution the pipeline computes at a time; 0 if there is no pipeline,
/// because its kernel does not support the convolutions or because they are faster as separate steps.
struct PipelineStrategy {
  int64_t rows = 0;
  std::string_view reason;
};
PipelineStrategy plan_pipeline(const PipelineProblem& problem, const kernels::CacheSizes& caches);

}  // namespace rlx::cpu
