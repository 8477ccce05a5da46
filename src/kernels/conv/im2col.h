// im2col: the input of a convolution as a matrix, by which the flattened kernel is multiplied. For each tap and each
// output it holds the input element that the tap reads for the output, 0 in padding. A matrix has either a row for each
// tap (for kernels smaller than the result) or a row for each output (for kernels larger than it). Neighbour: direct.h,
// which convolves without a matrix.
#pragma once

#include "kernels/conv/direct.h"

namespace rlx::kernels {

// Elements of x have 2, 4 or 8 bytes. `args` has no lhs_dilation.

/// Writes a row for each tap of `channels` channels from `channel` on (ordered by channel, then by tap in row-major
/// order) and a column for each of the outputs [first, first + count) of an image.
void convolution_patches(const ConvolutionArgs& args, int64_t image, int64_t channel, int64_t channels, int64_t first,
                         int64_t count, void* to) noexcept;

/// Writes the rows [row_begin, row_end) of batch * outputs (in row-major order), with a column for each of the taps
/// [first, first + count) of one channel. `to` is the beginning of row 0, whatever row_begin is.
void convolution_columns(const ConvolutionArgs& args, int64_t channel, int64_t first, int64_t count, int64_t row_begin,
                         int64_t row_end, void* to) noexcept;

}  // namespace rlx::kernels
