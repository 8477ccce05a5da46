// Products of one row with weights in blocks of q8_0, q4_k or q6_k, in integers (AVX-512 VNNI, AVX2): each number of
// the row is split into two or three integers of 8 bits, its digits, and the blocks' quantized values are multiplied as
// they are, without making floats of them. Integer sums are exact; over how many products they go depends on the
// kernel, and so do the last bits of a result. Neighbour: blocks.h.
#pragma once

#include "kernels/quant/blocks.h"

namespace rlx::kernels {

/// The integers of 8 bits that a number of x becomes. For ProductPolicy::int8 (gemm/gemm.h) two, for
/// row_relative three: with b = 14 or 22, and 2^e the least power of two above the largest of the 256 numbers that x
/// stands among, x is rounded to a multiple of 2^(e - b), at most 2^b - 1 times that in magnitude.
enum class SplitDigits { two, three };

/// True if `format` is q8_0, q4_k or q6_k, k is a positive multiple of 256 and at most 16,384, and the processor has
/// the instructions: AVX-512 VNNI, or, for two digits, AVX2 with FMA and F16C.
bool splits_rows_beside(SplitDigits digits, DType format, int64_t k);

/// The number of bytes of a split row, whose memory must be aligned to 64 bytes.
size_t split_row_bytes(SplitDigits digits, int64_t k);
/// Splits x[k] to `to`, of split_row_bytes(digits, k) bytes. False if a number is not finite, or the largest magnitude
/// of 256 numbers is neither 0 nor in [2^-60, 2^60): then the contents of `to` are undefined.
bool split_row(SplitDigits digits, DType format, const float* x, int64_t k, void* to) noexcept;
/// Computes columns [begin, end) as multiply_block_weights() does, for the one row p.x; `row` is what split_row() made.
void multiply_split_row(SplitDigits digits, const BlockWeightsProduct& p, const void* row, int64_t begin,
                        int64_t end) noexcept;

}  // namespace rlx::kernels
