// Columns of a convolution: the input as a matrix whose product with the kernel, laid out flat, is the result. For
// kernels that are larger than the result (gradients of weights, whose kernel is the cotangent), where convolution.h
// would have rows of a few outputs only.
#pragma once

#include "kernels/convolution.h"

namespace rlx::kernels {

/// For rows [row_begin, row_end) of batch * outputs (the product in this order) and taps [first, first + count) of the
/// kernel in row-major order, what of input channel `channel` each output meets at each tap, 0 in padding:
/// to[row * count + tap - first]. x's elements have 4 or 8 bytes; one group, no lhs_dilation, nothing reversed.
void convolution_columns(const ConvolutionArgs& args, int64_t channel, int64_t first, int64_t count, int64_t row_begin,
                         int64_t row_end, void* to) noexcept;

}  // namespace rlx::kernels
