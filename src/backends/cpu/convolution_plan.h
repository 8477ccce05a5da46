// The planner of convolutions: which kernel computes one, and why. The first of its rules that holds decides. Rules
// read the problem and the processor's instruction set. Users: lower_convolution.cpp, lower_fused_convolution.cpp and
// convolution_pipeline.cpp, which make the steps. `rlx where MODEL --strategies` prints the choices. Neighbour:
// kernels/gemm/product_plan.h, the planner of products and of pointwise convolutions with few pixels.
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
  int64_t batch_groups = 1;  ///< batch_group_count of StableHLO's convolution
  bool is_fused = false;     ///< the op is fused_conv, which has an epilogue
  bool channels_last = false;
  bool is_x_dense = false;
  bool are_weights_constant = false;
  kernels::ProductPolicy policy;
};

enum class ConvolutionKernel : uint8_t {
  narrow_tiles,             ///< kernels/conv/narrow_tiles.h, of bf16
  pointwise_tiles,          ///< kernels/conv/amx_convolution.h, with the pixels of all images as one image
  matrix_tiles,             ///< kernels/conv/amx_convolution.h
  product,                  ///< a matrix product over the channels, as planned by kernels/gemm/product_plan.h
  depthwise,                ///< kernels/conv/depthwise.h, plane by plane
  depthwise_channels_last,  ///< kernels/conv/depthwise_channels_last.h; of bf16 depthwise_narrow.h
  few_channels,             ///< kernels/conv/few_channels.h
  multiply_adds,            ///< kernels/conv/fma_convolution.h
  onednn,                   ///< kernels/conv/onednn_convolution.h
  general,                  ///< im2col products or kernels/conv/direct.h: they support every convolution
};
std::string_view name_of(ConvolutionKernel kernel);

/// A rule: where `holds` is true, `kernel` computes the convolution, for the given reason. If no step can be made with
/// that kernel after all (weights out of the range of split-bf16, no kernel of oneDNN), the next rule that holds
/// decides.
struct ConvolutionRule {
  ConvolutionKernel kernel;
  std::string_view reason;
  bool (*holds)(const ConvolutionProblem&);

  /// The rule in words: "matrix tiles: ...".
  std::string text() const;
};
/// All rules, in the order in which they are tried. The last one holds always.
std::span<const ConvolutionRule> convolution_rules();

/// Whether a convolution, which must have a 1x1 kernel and no padding, reads every pixel, in order: its strides are 1,
/// and its result has as many pixels as its input.
bool reads_all_pixels(const kernels::ConvolutionArgs& args);

/// A pipeline of [pointwise,] depthwise, pointwise convolutions of channels-last images (convolution_pipeline.h).
struct PipelineProblem {
  const kernels::ConvolutionArgs* first = nullptr;  ///< null if the pipeline begins with the depthwise convolution
  const kernels::ConvolutionArgs& depthwise;
  const kernels::ConvolutionArgs& last;
};
/// How many output rows of the depthwise convolution the pipeline computes at a time. The number is 0 if the
/// convolutions are not computed as a pipeline, because its kernel does not support them or because they are faster as
/// separate steps.
struct PipelineStrategy {
  int64_t rows = 0;
  std::string_view reason;
};
PipelineStrategy plan_pipeline(const PipelineProblem& problem, const kernels::CacheSizes& caches);

}  // namespace rlx::cpu
