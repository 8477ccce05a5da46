// What a run in the host's memory is fed, before a backend looks at it.
#pragma once

#include "backends/backend.h"

namespace rlx {

/// Fails unless there is one tensor for each input of the graph, of its dtype and rank; it names the input and both
/// types. Extents are compared where symbols get their numbers (solve_symbols).
void require_inputs(const Graph& graph, Tensors inputs);

}  // namespace rlx
