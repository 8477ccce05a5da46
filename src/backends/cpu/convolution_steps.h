// The ways to convolve, as lower_convolution.cpp and lower_fused_conv.cpp choose among them.
#pragma once

#include "backends/cpu/lowerings.h"
#include "kernels/onednn_convolution.h"
#include "rlx/ops/window.h"

namespace rlx::cpu {

/// Extents and strides from the views; null pointers.
kernels::ConvolutionArgs convolution_args(const ConvAttrs& a, const View& x, const View& w, const View& y);

/// What follows the convolution, by positions of operands in the node, or -1.
struct FinishOperands {
  kernels::Activation activation = kernels::Activation::none;
  int bias = -1, residual = -1;

  kernels::ConvolutionFinish of(const StepArgs& step) const {
    const auto operand = [&](int i) { return i >= 0 ? step.in<float>(static_cast<size_t>(i)) : nullptr; };
    return {activation, operand(bias), operand(residual)};
  }
};

/// By matrix tiles, or null: if the weights are not known yet, or if tiles do not suit.
Prepared tiled_convolution(const LoweringContext& c, const kernels::ConvolutionArgs& args, int64_t batch_groups,
                           const FinishOperands& finish = {});
/// oneDNN's, or null: also where there is so little to do that making its kernels takes longer than many runs.
Prepared onednn_convolution(const LoweringContext& c, const kernels::ConvolutionArgs& args, int64_t batch_groups,
                            const FinishOperands& finish = {});
/// Our own, which runs everywhere; operands 0 and 1 are x and w.
Prepared own_convolution(const kernels::ConvolutionArgs& args, int64_t batch_groups, int threads);

}  // namespace rlx::cpu
