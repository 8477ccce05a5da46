// Depthwise convolutions of bf16, channels last: y = round(act(sum + bias)), with sums in f32. Neighbour:
// depthwise_channels_last.h, of f32.
#pragma once

#include "kernels/conv/direct.h"
#include "kernels/gemm/gemm.h"
#include "kernels/vector/narrow_float.h"

namespace rlx::kernels {

/// As is_depthwise_of_channels(), of bf16, for so few taps that their sum may be a running one (partial_sums.h).
bool is_narrow_depthwise(const ConvolutionArgs& args);

size_t narrow_depthwise_weights_bytes(const ConvolutionArgs& args);
/// Packs weights of bf16, whose strides are those of the args, as f32.
void pack_narrow_depthwise(const ConvolutionArgs& args, const void* w, float* packed) noexcept;

/// The bias in f32, first of even channels, then of odd ones.
size_t narrow_bias_bytes(const ConvolutionArgs& args);
void split_narrow_bias(const ConvolutionArgs& args, const BF16* bias, float* split) noexcept;

struct NarrowDepthwiseCall {
  const BF16* x = nullptr;
  const float* weights = nullptr;  ///< packed
  const float* bias = nullptr;     ///< split; null: none
  Activation activation = Activation::none;
  BF16* y = nullptr;
};
/// Computes rows [begin, end) of batch * out_dims[0] (one spatial dim: of the batch).
void narrow_depthwise(const ConvolutionArgs& args, const NarrowDepthwiseCall& call, int64_t begin,
                      int64_t end) noexcept;

}  // namespace rlx::kernels
