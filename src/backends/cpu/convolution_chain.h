// Fused convolution pipelines: several convolutions computed together, band of rows by band of rows, so that the values
// between them stay in cache. Such are the inverted residuals of MobileNet: a pointwise (1x1) convolution from few
// channels to many, a depthwise convolution of these, and a pointwise one back to few. Neighbour: schedule.cpp, which
// lowers these pipelines before it lowers other nodes one by one.
#pragma once

#include <span>

#include "backends/cpu/lowering.h"

namespace rlx::cpu {

/// Nodes of fused_conv, each the only reader of the one before it: [pointwise,] depthwise, pointwise.
struct ConvolutionPipeline {
  std::vector<size_t> nodes;
};
/// All of a graph. The last node of one may be the first of the next.
std::vector<ConvolutionPipeline> convolution_pipelines(const Graph& graph);

/// One step for a pipeline, given a context for each of its nodes, or null where its kernel does not support it or does
/// not pay. The step's operands are all operands of the first node, then of each other node all but the first.
std::unique_ptr<Step> lower_convolution_pipeline(std::span<const LoweringContext* const> stages);

}  // namespace rlx::cpu
