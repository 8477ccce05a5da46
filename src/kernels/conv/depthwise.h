// Depthwise convolutions (groups of one input channel) over 1 or 2 spatial dims, for channels in planes. Planes are
// read and written in the layout that the arrays have. Neighbours: depthwise_channels_last.h; direct.h, which computes
// every convolution; onednn_convolution.h, which would reorder the channels first, and that takes several times as long
// as these few multiplications.
#pragma once

#include "kernels/conv/direct.h"

namespace rlx::kernels {

/// Whether depthwise() computes it: f32, f16 or bf16, groups of one input channel, inputs and outputs contiguous along
/// the last dim, whose stride is 1, no lhs_dilation, at most 64 taps, close enough together for the first-level cache
/// to hold the rows between them, and a result that is not empty. `reversed` is ignored: reversed kernels have negative
/// strides.
bool is_depthwise(const ConvolutionArgs& args);

/// Scratch of a calling thread, aligned to 64 bytes.
size_t depthwise_scratch_bytes(const ConvolutionArgs& args);

/// Computes the planes [begin, end) of batch * out_channels; sums are f32.
void depthwise(const ConvolutionArgs& args, int64_t begin, int64_t end, void* scratch) noexcept;

}  // namespace rlx::kernels
