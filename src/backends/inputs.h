// Checks the inputs of a run, in the memory of the host, before a backend reads them.
#pragma once

#include "backends/backend.h"

namespace rlx {

/// Fails with invalid_argument unless there is one tensor for each input of the graph, and with shape_mismatch unless
/// each has the dtype and the rank of its input. Extents are compared where symbols get their numbers (solve_symbols).
void require_inputs(const Graph& graph, Tensors inputs);

}  // namespace rlx
