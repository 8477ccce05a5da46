// What follows a convolution, on sums that the caches still hold: act(y + bias + residual), in place. oneDNN could do
// it on the way, but its relu takes NaN for 0. Neighbours: gemm_epilogue-inl.h, the same for products;
// onednn_convolution.h and depthwise_channels.h, which call it piece by piece.
#pragma once

#include <cstdint>
#include <limits>

#include "kernels/gemm.h"

namespace rlx::kernels {

/// Which of it there is, and where: null for what there is not.
struct ConvolutionFinish {
  Activation activation = Activation::none;
  const float* bias = nullptr;      ///< one for each output channel
  const float* residual = nullptr;  ///< lies as y does, once y is dense

  bool is_nothing() const { return activation == Activation::none && !bias && !residual; }
};

/// What a kernel can do to its sums before it writes them: min(high, max(low, sum + bias + residual)).
struct ClampedFinish {
  const float *bias = nullptr, *residual = nullptr;
  float low = -std::numeric_limits<float>::infinity(), high = std::numeric_limits<float>::infinity();
  bool is_all = false;  ///< nothing is left for finish_rows()
};
/// None of it where there is more.
ClampedFinish clamped_finish(const ConvolutionFinish& finish);

/// Rows of elements that stand side by side: in place, or `from` where the sums are.
struct FinishRows {
  float* y = nullptr;
  const float* residual = nullptr;
  const float* bias = nullptr;  ///< one for each column, or with `bias_of_row` for each row
  bool bias_of_row = false;
  Activation activation = Activation::none;
  int64_t rows = 0, cols = 0;
  int64_t y_row = 0, residual_row = 0;  ///< strides
  const float* from = nullptr;
  int64_t from_row = 0;
};
void finish_rows(const FinishRows& rows) noexcept;

}  // namespace rlx::kernels
