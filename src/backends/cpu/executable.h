// A legal graph on the CPU: plans per shape, packed weights shared by them, and memory per run.
#pragma once

#include "backends/backend.h"
#include "kernels/vector/instruction_set.h"

namespace rlx::cpu {

/// All that it prepares and runs keeps to `limit`; null: to the process's instruction sets.
std::unique_ptr<Executable> make_executable(Graph legal, const LoadOptions& options,
                                            const kernels::InstructionSetLimit* limit);

}  // namespace rlx::cpu
