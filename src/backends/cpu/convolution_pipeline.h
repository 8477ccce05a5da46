// Fused convolution pipelines: several convolutions that are computed together, band of rows by band of rows, so that
// the values between them stay in the cache. They are meant for the inverted residuals of MobileNet: a pointwise (1x1)
// convolution from few channels to many, a depthwise convolution of these, and a pointwise one back to few.
// convolution_plan.h decides which pipelines pay. What they gained on one thread: MobileNetV2 4.49 to 3.88 ms, eight
// images at once 41.8 to 32.5 (docs/performance.md, "Kept"). User: schedule.cpp, which lowers pipelines before it
// lowers the other nodes one by one.
#pragma once

#include <span>

#include "backends/cpu/lowering.h"

namespace rlx::cpu {

/// A pipeline: the numbers of its fused_conv nodes, pointwise (or none), depthwise, pointwise. Nothing but the next
/// node reads a node's result.
struct ConvolutionPipeline {
  std::vector<size_t> nodes;
};
/// All pipelines of a graph. The last node of one may be the first of the next.
std::vector<ConvolutionPipeline> convolution_pipelines(const Graph& graph);

/// One step for a pipeline, given a context for each of its nodes. Null if its kernel does not support the
/// convolutions, or if they are faster as separate steps. The step's operands are all operands of the first node,
/// followed by those of each other node except its first.
std::unique_ptr<Step> lower_convolution_pipeline(std::span<const LoweringContext* const> stages);

}  // namespace rlx::cpu
