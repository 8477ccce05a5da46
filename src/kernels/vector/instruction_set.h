// What the kernels run on here: the processor's architecture and the best of the instruction sets that they were
// compiled for.
#pragma once

#include <string>

namespace rlx::kernels {

/// "x86-64 with AVX2", "x86-64 with AVX3_SPR and matrix tiles", "aarch64 with NEON": the same in every process of one
/// machine.
std::string instruction_set();

}  // namespace rlx::kernels
