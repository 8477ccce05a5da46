// 8-bit dot products with sums of 32 bits by VNNI instructions (AVX-512 VNNI, or AVX-VNNI with vectors of half the
// width), on operands that are packed as for AMX tiles. An instruction multiplies groups of four u8 of the left operand
// with four i8 of the right one; values of the other signedness are shifted by 128 when they are packed, and so are
// their zero points. Neighbour: tiles.h.
#pragma once

#include <cstdint>

namespace rlx::kernels {

/// The instructions of an 8-bit product, from the slowest to the fastest. Every processor has `pairs`: multiply-adds of
/// pairs of 16 bits (int8_pairs.h).
enum class Int8DotIsa : uint8_t { pairs, avx_vnni, avx512_vnni, tiles };

/// Whether the processor has these instructions, and Highway's targets of that vector width are not switched off.
bool has_int8_dot_isa(Int8DotIsa isa);
/// The fastest instructions of this processor.
Int8DotIsa best_int8_dot_isa();

/// Writes sums[i * stride + j] for `rows` rows and 32 columns, which are packed at `right`. Of the rows, 16 are packed
/// at `upper` and up to 16 more at `lower`. k is 64 * `steps`. `isa` is avx_vnni or avx512_vnni.
void multiply_int8_dots(Int8DotIsa isa, int64_t steps, int64_t rows, const char* upper, const char* lower,
                        const char* right, int32_t* sums, int64_t stride) noexcept;

}  // namespace rlx::kernels
