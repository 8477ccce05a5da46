// Products of 8-bit codes four by four into sums of 32 bits (VNNI: AVX-512 VNNI, or AVX-VNNI with vectors of half the
// width), on operands that are packed as for matrix tiles. The left one is of u8, the right one of i8: codes of the
// other kind are moved by 128 when they are packed, and zero points with them. Neighbour: matrix_tiles.h.
#pragma once

#include <cstdint>

namespace rlx::kernels {

/// What multiplies codes: from the slowest to the fastest.
enum class CodeForm : uint8_t { plain, avx_vnni, avx512_vnni, tiles };

/// Whether this processor has it and Highway's targets of its width are not switched off.
bool has_code_form(CodeForm form);
/// The fastest that there is.
CodeForm best_code_form();

/// sums[i * stride + j] for `rows` rows, 16 from `upper` on and those behind from `lower` on, and 32 columns; `steps`
/// of 64 along k. `form`: one of the two VNNI.
void multiply_code_dots(CodeForm form, int64_t steps, int64_t rows, const char* upper, const char* lower,
                        const char* right, int32_t* sums, int64_t stride) noexcept;

}  // namespace rlx::kernels
