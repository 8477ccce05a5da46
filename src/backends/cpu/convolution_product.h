// Convolutions as matrix products: the kernel, laid out flat, times a matrix of the input that is made in pieces that
// stay in the cache (kernels/convolution_matrix.h). Neighbour: lower_convolution.cpp, which takes convolutions apart
// into what stands here or in kernels/convolution.h.
#pragma once

#include "backends/cpu/step.h"
#include "kernels/convolution.h"

namespace rlx::cpu {

class ConvolutionProduct {
 public:
  virtual ~ConvolutionProduct() = default;
  virtual size_t scratch_bytes() const = 0;
  virtual void run(const StepArgs& step, const std::byte* x, const std::byte* w, std::byte* y) const noexcept = 0;
};

/// The product that does it, or null if none suits: few channels, or a dtype that is not multiplied. No lhs_dilation.
std::unique_ptr<ConvolutionProduct> convolution_product(const kernels::ConvolutionArgs& args, int threads);

}  // namespace rlx::cpu
