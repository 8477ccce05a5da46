// Convolutions as matrix products: the flattened kernel times the im2col matrix of the input, of which only a piece
// that stays in the cache exists at a time (kernels/conv/im2col.h). User: lower_convolution.cpp, which divides a
// convolution (by groups of the batch and phases of the outputs) into those that are computed here or by
// kernels/conv/direct.h.
#pragma once

#include "backends/cpu/step.h"
#include "kernels/conv/direct.h"

namespace rlx::cpu {

/// Computes one convolution. `x`, `w` and `y` of a run point to the first elements of its slices of the tensors.
class ConvolutionProduct {
 public:
  virtual ~ConvolutionProduct() = default;
  virtual size_t scratch_bytes() const = 0;
  virtual void run(const StepArgs& step, const std::byte* x, const std::byte* w, std::byte* y) const noexcept = 0;
};

/// Null if a product is slow (few channels) or empty, or its dtype has no products. `args` has no lhs_dilation.
std::unique_ptr<ConvolutionProduct> convolution_product(const kernels::ConvolutionArgs& args, int threads);

}  // namespace rlx::cpu
