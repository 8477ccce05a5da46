// Products of one row with weights in blocks of q8_0, q4_k or q6_k, in integers (AVX-512 VNNI, AVX2): each number of
// the row is split into two or three integers of 8 bits, and the blocks' quantized values are multiplied as they are,
// without making floats of them. Sums within a block are exact. Neighbour: blocks.h.
#pragma once

#include "kernels/quant/blocks.h"

namespace rlx::kernels {

/// The integers of 8 bits that a number of x becomes. It is rounded to 14 bits (ProductPolicy::int8) or 22
/// (row_relative) of the largest of the 256 numbers that it stands among: if that is below 2^e, to a multiple of
/// 2^(e - 14) or 2^(e - 22).
enum class SplitDigits { two, three };

/// True if the processor has AVX-512 VNNI, or AVX2 for two digits, `format` is q8_0, q4_k or q6_k, and k is a positive
/// multiple of 256 and at most 16,384.
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
