// Which of the processor's instruction sets the kernels use: all that it has, or at most the one that the environment
// variable RLX_ISA names. The limit holds for the whole process, as Highway chooses each kernel's version once.
#pragma once

#include <string>
#include <string_view>

namespace rlx::kernels {

/// Each one includes those before it.
enum class InstructionSet {
  sse4,         ///< the least that kernels are compiled for on x86-64
  avx2,         ///< with FMA
  avx512,       ///< F, BW, DQ, VL, CD
  avx512_vnni,  ///< VNNI, bf16, or both, as far as the processor has them; AVX-VNNI, of processors with AVX2 alone, too
  amx,          ///< matrix tiles of bf16 and of 8-bit integers
};

std::string_view name_of(InstructionSet set);

/// Whether RLX_ISA allows it. A name that is none allows all: apply_instruction_set_limit() refuses it. Kernels that
/// Highway does not choose (tiles, VNNI, bf16 dot products) ask this besides the processor.
bool is_permitted(InstructionSet set) noexcept;

/// Makes Highway keep to RLX_ISA; does nothing if that is not set, is "native", or was applied before. The CPU backend
/// calls it when it is made, before any kernel runs. oneDNN is limited where its engine is made (conv/onednn.cpp);
/// LAPACK chooses for itself (OPENBLAS_CORETYPE). Fails if RLX_ISA names no instruction set, one that this processor
/// lacks, or one below what this build has kernels for.
void apply_instruction_set_limit();

/// The best that kernels use now: that of the processor and the build, within the limit. "native" where the processor
/// is no x86-64.
std::string_view used_instruction_set();

/// Whether the processor has matrix tiles, and the instructions with them; the operating system has still to allow
/// their use. False where they are not compiled in.
bool processor_has_tiles() noexcept;

/// The architecture and what is in use of it: "x86-64 with amx". The same in every process of one
/// machine that has the same limit.
std::string instruction_set();

}  // namespace rlx::kernels
