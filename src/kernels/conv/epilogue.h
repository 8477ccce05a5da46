// The epilogue of a convolution: y = activation(y + bias + residual), applied while the caches still hold y. oneDNN
// could apply it too, but its relu turns NaN into 0. Neighbours: gemm/fma/epilogue-inl.h, the same for matrix products;
// onednn_convolution.h and depthwise_channels_last.h, which apply it to slices of y.
#pragma once

#include <cstdint>
#include <limits>

#include "kernels/gemm/gemm.h"

namespace rlx::kernels {

/// Absent operands are null.
struct ConvolutionEpilogue {
  Activation activation = Activation::none;
  const float* bias = nullptr;      ///< one for each output channel
  const float* residual = nullptr;  ///< has the layout of y; y is dense

  bool is_nothing() const { return activation == Activation::none && !bias && !residual; }
};

/// An epilogue that kernels apply in registers, before they store: min(high, max(low, sum + bias + residual)).
struct ClampedEpilogue {
  const float *bias = nullptr, *residual = nullptr;
  float low = -std::numeric_limits<float>::infinity(), high = std::numeric_limits<float>::infinity();
  bool is_all = false;  ///< true if this is all of the epilogue; if not, call apply_epilogue_rows() after the kernel
};
/// `epilogue` in that form. If its activation is no clamp (none, relu and relu6 are), the result adds and clamps
/// nothing, and is_all is false.
ClampedEpilogue clamped_epilogue(const ConvolutionEpilogue& epilogue);

/// `rows` rows of `cols` contiguous elements. The sums are read from `from`, or from y if `from` is null.
struct EpilogueRows {
  float* y = nullptr;
  const float* residual = nullptr;
  const float* bias = nullptr;  ///< one for each column, or with `bias_of_row` for each row
  bool bias_of_row = false;
  Activation activation = Activation::none;
  int64_t rows = 0, cols = 0;
  int64_t y_row = 0, residual_row = 0;  ///< strides, in elements
  const float* from = nullptr;
  int64_t from_row = 0;
};
/// Applies the epilogue to these rows and writes y.
void apply_epilogue_rows(const EpilogueRows& rows) noexcept;

}  // namespace rlx::kernels
