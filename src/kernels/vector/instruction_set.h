// Which of the processor's instruction sets the kernels use: all that it has, or at most the one that the environment
// variable RLX_ISA names. The limit holds for the whole process, as Highway chooses each kernel's version once.
#pragma once

#include <string>
#include <string_view>

namespace rlx::kernels {

/// A limit permits all before it of its architecture, of which a processor may lack some.
enum class InstructionSet {
  // x86-64
  sse4,         ///< the least that kernels are compiled for on x86-64
  avx2,         ///< with FMA
  avx512,       ///< F, BW, DQ, VL, CD
  avx512_vnni,  ///< AVX-512 with VNNI, bf16, or both. AVX-VNNI of processors without AVX-512 is permitted with it, too:
                ///< used only where no limit is set, and reported as avx2
  amx,          ///< matrix tiles of bf16 and of 8-bit integers
  // aarch64
  neon,       ///< vectors of 128 bits, which all of them have
  neon_dot,   ///< dot products of 8-bit integers (FEAT_DotProd)
  neon_i8mm,  ///< products of 2 x 8 by 8 x 2 of them (FEAT_I8MM), dot products of bf16 (FEAT_BF16), or both
};
/// What RLX_ISA must permit for dot products of bf16.
#if defined(__aarch64__) || defined(_M_ARM64)
inline constexpr InstructionSet kBF16Dots = InstructionSet::neon_i8mm;
#else
inline constexpr InstructionSet kBF16Dots = InstructionSet::avx512_vnni;
#endif

std::string_view name_of(InstructionSet set);

/// Whether RLX_ISA, as it was at the first call, permits it. True says nothing of the processor: kernels that Highway
/// does not choose (tiles, VNNI, bf16 dot products) ask both. If RLX_ISA names no instruction set of this architecture,
/// all are permitted here, and apply_instruction_set_limit() fails. Of another architecture than the processor's none
/// is, but those of Arm on a processor that is neither.
bool is_permitted(InstructionSet set) noexcept;

/// Makes Highway keep to RLX_ISA (on Arm only checks the name and the processor: Highway has one target there). Does
/// nothing if RLX_ISA is unset, empty or "native", or, for a valid name, once a call has succeeded; may be called by
/// several threads. The CPU backend calls it when it is made, before any kernel runs. oneDNN is limited where its
/// engine is made (conv/onednn.cpp); LAPACK is not (OPENBLAS_CORETYPE). Fails if RLX_ISA names no instruction set, one
/// that this processor or this build lacks, or one below what this build has kernels for (a build for one processor may
/// have them for AVX2 alone); on a processor that is neither x86-64 nor aarch64, for every name but "native".
void apply_instruction_set_limit();

/// The best that kernels use now: of what the processor, the build and RLX_ISA allow; "amx" only if the operating
/// system lets this process use tiles. "native" where the processor is neither x86-64 nor aarch64.
std::string_view used_instruction_set();

/// Whether the processor has matrix tiles and their products of bf16 and of 8-bit integers, whatever RLX_ISA and the
/// operating system say; has_matrix_tiles() asks those, too. False in builds without kernels for tiles.
bool processor_has_tiles() noexcept;

/// What an Arm processor has beyond NEON, whatever RLX_ISA says, as Linux and Apple's systems report it; false
/// elsewhere.
enum class ArmExtension { dotprod, i8mm, bf16 };
bool processor_has(ArmExtension extension) noexcept;

/// The architecture and what is in use of it: "x86-64 with amx". The same in every process of one
/// machine that has the same limit.
std::string instruction_set();

}  // namespace rlx::kernels
