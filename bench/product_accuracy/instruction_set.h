// Which instructions ours and the peers' products may use.
#pragma once

#include <string>
#include <vector>

namespace rlx::accuracy {

/// What --isa takes: "native", and those that Highway's targets, OpenBLAS's kernels and oneDNN's have in common.
std::vector<std::string> instruction_sets();

/// Call it first: OpenBLAS chooses its kernels as it is loaded, so that the program may start itself anew. Leaves alone
/// what OPENBLAS_CORETYPE and ONEDNN_MAX_CPU_ISA say already. Fails where the machine lacks the instructions.
void choose_instruction_set(const std::string& name, char** argv);

/// What was chosen: of Highway, OpenBLAS and oneDNN.
std::string chosen_instruction_sets();

}  // namespace rlx::accuracy
