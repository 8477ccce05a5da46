// Products of one row with weights in blocks of q8_0, q4_k or q6_k, by 8-bit dot products of AVX-512 VNNI: the row is
// split into three integers of 8 bits for each number, and the blocks' quantized values are multiplied as they are,
// without making floats of them. Sums of four products are exact. For ProductPolicy::row_relative: each number of x is
// rounded to 22 bits of the largest of the 256 numbers that it stands among. Neighbour: blocks.h.
#pragma once

#include "kernels/quant/blocks.h"

namespace rlx::kernels {

/// Whether there are the instructions, and such products of the format; k is a multiple of 256.
bool splits_rows_beside(DType format, int64_t k);

/// Bytes of a split row, aligned to 64.
size_t split_row_bytes(int64_t k);
/// Splits x[k]. False if a number is not finite, or the numbers are so large or so small that their scale would not be
/// a normal one: then `to` means nothing.
bool split_row(DType format, const float* x, int64_t k, void* to) noexcept;
/// As multiply_block_weights() of one row, which split_row() made of p.x.
void multiply_split_row(const BlockWeightsProduct& p, const void* row, int64_t begin, int64_t end) noexcept;

}  // namespace rlx::kernels
