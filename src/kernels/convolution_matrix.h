// What a convolution multiplies its kernel with, as a matrix: for each tap and each output the element of the input
// that meets them, 0 in padding. Two orders, for kernels that are smaller and larger than the result. Neighbour:
// convolution.h, which convolves without a matrix.
#pragma once

#include "kernels/convolution.h"

namespace rlx::kernels {

// x's elements have 2, 4 or 8 bytes; no lhs_dilation, nothing reversed.

/// A row for each tap of `channels` channels from `channel` on (channels, then taps in row-major order), a column for
/// each of the outputs [first, first + count) of an image.
void convolution_patches(const ConvolutionArgs& args, int64_t image, int64_t channel, int64_t channels, int64_t first,
                         int64_t count, void* to) noexcept;

/// The rows [row_begin, row_end) of batch * outputs (the product in this order), a column for each of the taps [first,
/// first + count) of one channel: what belongs to row 0 would stand at `to`.
void convolution_columns(const ConvolutionArgs& args, int64_t channel, int64_t first, int64_t count, int64_t row_begin,
                         int64_t row_end, void* to) noexcept;

}  // namespace rlx::kernels
