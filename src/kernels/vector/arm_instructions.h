// Arm's instructions beyond the baseline, as inline functions. Intrinsics would need target attributes that clang 14
// does not honour, and the assemblers of GCC and clang are told of an extension by different directives. So each
// instruction is written as its number (.inst), into which the numbers of the registers that the compiler chose are put
// (as Linux does: arch/arm64/include/asm/gpr-num.h). Callers ask is_permitted() and processor_has() first
// (instruction_set.h). The numbers: Arm Architecture Reference Manual, C7.2.
#pragma once

#if defined(__aarch64__)
#include <arm_neon.h>

// Defines .Lrlx_v0 = 0, .Lrlx_v1 = 1 ..., by which the assembler makes a number of a register's name. GCC and clang
// write assembly that stands outside of functions before all functions of the file.
asm(".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31\n\t"
    ".equ .Lrlx_v\\n, \\n\n\t"
    ".endr");

// Rd, Rn, Rm are operands 0, 1, 2.
#define RLX_ARM_INSTRUCTION(bits) ".inst " bits " | .Lrlx_%0 | (.Lrlx_%1 << 5) | (.Lrlx_%2 << 16)"

namespace rlx::kernels {

/// sdot (FEAT_DotProd): adds to each lane of `sums` the dot product of its four bytes of `left` with group `kGroup`, of
/// four bytes, of `right`.
template <int kGroup>
inline void add_dots(int32x4_t& sums, int8x16_t left, int8x16_t right) {
  static_assert(kGroup >= 0 && kGroup < 4);
  constexpr int kBits = 0x4f80e000 | (kGroup & 1) << 21 | (kGroup >> 1) << 11;
  asm(RLX_ARM_INSTRUCTION("%c3") : "+w"(sums) : "w"(left), "w"(right), "i"(kBits));
}
/// smmla (FEAT_I8MM): adds to `sums`, which is 2 x 2, the product of `left`, 2 x 8, with the transpose of `right`, 2
/// x 8.
inline void add_2x2_products(int32x4_t& sums, int8x16_t left, int8x16_t right) {
  asm(RLX_ARM_INSTRUCTION("0x4e80a400") : "+w"(sums) : "w"(left), "w"(right));
}
/// bfdot (FEAT_BF16): adds to each lane of `sums` the two products of a pair of bf16, the first in the lower half of a
/// lane. Subnormal operands count as 0, and subnormal sums become 0. Both additions round to odd, which errs by up to a
/// unit in the last place.
inline void add_bf16_dots(float32x4_t& sums, uint32x4_t left, uint32x4_t right) {
  asm(RLX_ARM_INSTRUCTION("0x6e40fc00") : "+w"(sums) : "w"(left), "w"(right));
}

}  // namespace rlx::kernels
#undef RLX_ARM_INSTRUCTION
#endif
