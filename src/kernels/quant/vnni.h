// 8-bit dot products with sums of 32 bits by VNNI instructions (AVX-512 VNNI, or AVX-VNNI with vectors of half the
// width) or Arm's (neon_dots.cpp), on operands that are packed as for AMX tiles. A VNNI instruction multiplies groups
// of four u8 of the left operand with four i8 of the right one, Arm's multiply i8 with i8; values of the other
// signedness are shifted by 128 when they are packed, and so are their zero points. Neighbour: tiles.h.
#pragma once

#include <cstdint>

namespace rlx::kernels {

/// The instructions of an 8-bit product, from the slowest to the fastest. Every processor has `pairs`: multiply-adds of
/// pairs of 16 bits (int8_pairs.h).
enum class Int8DotIsa : uint8_t { pairs, neon_dot, neon_i8mm, avx_vnni, avx512_vnni, tiles };
inline constexpr Int8DotIsa kInt8DotIsas[] = {Int8DotIsa::pairs,    Int8DotIsa::neon_dot,    Int8DotIsa::neon_i8mm,
                                              Int8DotIsa::avx_vnni, Int8DotIsa::avx512_vnni, Int8DotIsa::tiles};
/// Whether the left operand must be u8. Arm's take i8 for both, tiles i8 or u8 for either; of pairs the left one is
/// i16.
constexpr bool is_left_unsigned(Int8DotIsa isa) {
  return isa == Int8DotIsa::avx_vnni || isa == Int8DotIsa::avx512_vnni;
}

/// Whether kernels may use these instructions in this process: the processor and this build (on x86-64 one for Linux)
/// have them, and RLX_ISA permits them; tiles also need Linux's permission (has_matrix_tiles()). `pairs` always.
bool has_int8_dot_isa(Int8DotIsa isa);
/// The fastest of those.
Int8DotIsa best_int8_dot_isa();

/// Weights that are multiplied soon: kernels prefetch `step_bytes` of them, a multiple of 64, in each step of some
/// rows, from `at` on, which they move on, as long as there are as many before `end`.
struct ComingWeights {
  const char *at = nullptr, *end = nullptr;
  int64_t step_bytes = 0;
};
/// Writes sums[i * stride + j] for `rows` rows, 1 to 32, and 32 columns, which are packed at `right`, aligned to 64
/// bytes, as pack_quantized() does (requantized_product.h). Rows 0 to 15 are at `upper` and 16 to 31 at `lower`, which
/// is not read if there are none: 16 rows of 64 bytes for each step. k is 64 * `steps`. `isa` is neither pairs nor
/// tiles, and has_int8_dot_isa() is true of it. Only avx512_vnni reads `coming`.
void multiply_int8_dots(Int8DotIsa isa, int64_t steps, int64_t rows, const char* upper, const char* lower,
                        const char* right, int32_t* sums, int64_t stride, ComingWeights* coming = nullptr) noexcept;

}  // namespace rlx::kernels
