// A legal graph on the CPU: plans per shape, packed weights shared by them, and memory per run.
#pragma once

#include "backends/backend.h"

namespace rlx::cpu {

std::unique_ptr<Executable> make_executable(Graph legal, const LoadOptions& options);

}  // namespace rlx::cpu
