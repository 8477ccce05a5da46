// Products of one row with weights in blocks of q8_0, q4_k or q6_k by matrix tiles of integers (gemm/amx/tiles.h), as
// exact as sums of f32, without making floats of the weights. Each number of x is written as eight digits of seven
// bits, which hold all its bits if the largest of 1024 magnitudes is at most 2^32 times the smallest that is not 0. The
// quantized values are the left operand of the tiles, and the digits are columns of the right one, so that sums over
// the elements that share a scale are exact. Neighbours: blocks.h; split_blocks.h, which rounds x.
#pragma once

#include "kernels/quant/blocks.h"

namespace rlx::kernels {

/// True if the processor has tiles, `format` is q8_0, q4_k or q6_k, 0 < k < 2^26, and n is at least 16.
bool has_digits_beside(DType format, int64_t k, int64_t n);

/// The number of bytes of a row as digits, whose memory must be aligned to 64 bytes.
size_t digit_row_bytes(int64_t k);
/// Writes x[k] as digits to `to`, of digit_row_bytes(k) bytes. False if a number is not finite, or the largest
/// magnitude of 1024 numbers is neither 0 nor in [2^-60, 2^60), or digits do not hold them: then the contents of `to`
/// are undefined.
bool make_digits(DType format, const float* x, int64_t k, void* to) noexcept;
/// Computes columns [begin, end) as multiply_block_weights() does, for the one row p.x; `row` is what make_digits()
/// made. `end` is at least 16, whatever `begin` is.
void multiply_digits(const BlockWeightsProduct& p, const void* row, int64_t begin, int64_t end) noexcept;

}  // namespace rlx::kernels
