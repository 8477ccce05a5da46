// Convolutions whose groups have one input channel each, over 1 or 2 spatial dims: plane by plane, straight from and to
// the layout that the arrays have. Neighbours: convolution.h, which takes everything; onednn_convolution.h, which would
// bring the channels side by side first, and that takes several times as long as these few multiplications.
#pragma once

#include "kernels/convolution.h"

namespace rlx::kernels {

/// Whether it is one: f32, f16 or bf16, groups of one input channel, outputs side by side along the last dim that step
/// by one input each, no gaps in the input, at most 64 taps, none of them so far apart that the rows between do not
/// stay in the cache, and no result that is empty. `reversed` is not looked at.
bool is_depthwise(const ConvolutionArgs& args);

/// Per calling thread, aligned to 64 bytes.
size_t depthwise_scratch_bytes(const ConvolutionArgs& args);

/// The planes [begin, end) of batch * out_channels, sums in f32.
void depthwise(const ConvolutionArgs& args, int64_t begin, int64_t end, void* scratch) noexcept;

}  // namespace rlx::kernels
