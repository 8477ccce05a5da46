// Runs a split graph: the steps of its plan, each behind the events of those whose values it reads. Where the graph's
// own device computes in the host's memory, the caller's thread runs the parts of such devices and waits for the
// others; where it has memory of its own, nothing waits: parts that compute in the host's memory run on threads of the
// runtime.
#pragma once

#include "runtime/split_program.h"

namespace rlx {

std::unique_ptr<Executable> load_split(std::shared_ptr<const SplitProgramData> program, const LoadOptions& options);

}  // namespace rlx
