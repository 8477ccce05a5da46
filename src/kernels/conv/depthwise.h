// Depthwise convolutions (groups of one input channel) over 1 or 2 spatial dims, for images whose channels are planes.
// Planes are read and written in the layout that the arrays have. Neighbours: depthwise_channels_last.h; direct.h,
// which computes every convolution; onednn_convolution.h, which would first reorder the channels, and that takes
// several times as long as these few multiplications.
#pragma once

#include "kernels/conv/direct.h"

namespace rlx::kernels {

/// Whether depthwise() computes the convolution. It needs f32, f16 or bf16, groups of one input channel, inputs and
/// outputs that are contiguous along the last dim, a stride of 1 there, no lhs_dilation, a result that is not empty,
/// and at most 64 taps, which are so close together that the first-level cache holds the rows between them. A kernel
/// that is read backwards has negative strides.
bool is_depthwise(const ConvolutionArgs& args);

/// Scratch of a calling thread, aligned to 64 bytes.
size_t depthwise_scratch_bytes(const ConvolutionArgs& args);

/// Computes the planes [begin, end) of batch * out_channels; sums are f32.
void depthwise(const ConvolutionArgs& args, int64_t begin, int64_t end, void* scratch) noexcept;

}  // namespace rlx::kernels
