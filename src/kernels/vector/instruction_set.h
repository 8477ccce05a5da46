// Which of the processor's instruction sets the kernels may use: all that it has, or at most the one that the variable
// RLX_ISA names. It holds for the whole process, as Highway chooses each kernel's version once.
#pragma once

#include <string>
#include <string_view>

namespace rlx::kernels {

/// Each one includes those before it.
enum class InstructionSet {
  sse4,         ///< the least that kernels are compiled for on x86-64
  avx2,         ///< with FMA
  avx512,       ///< F, BW, DQ, VL, CD
  avx512_vnni,  ///< VNNI and bf16, each where the processor has it; AVX-VNNI counts as one of these, too
  amx,          ///< matrix tiles of bf16 and 8-bit integers
};

std::string_view name_of(InstructionSet set);

/// Whether the process was not forbidden to use it. Says nothing of what the processor has.
bool is_permitted(InstructionSet set) noexcept;

/// Forbids all kernels, Highway's and oneDNN's, what is beyond RLX_ISA; nothing if that is not set. To be called before
/// the first kernel runs, as the CPU backend does when it is made. Fails if RLX_ISA is no instruction set's name, or if
/// the processor lacks it. LAPACK chooses for itself (OPENBLAS_CORETYPE).
void obey_instruction_set_limit();

/// The one that vectors have now. Of a processor that is no x86-64: "native".
std::string_view vector_instruction_set();

/// The architecture and what is in use of it: "x86-64 with avx512 and matrix tiles". The same in every process of one
/// machine that has the same limit.
std::string instruction_set();

}  // namespace rlx::kernels
