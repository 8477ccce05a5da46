// Ops from outside the library (register_op in rlx/op_def.h).
#pragma once

#include "rlx/graph.h"

namespace rlx {

/// Whether the graph, or a sub-graph in it, has an op that is registered now.
bool has_registered_op(const Graph& g);

}  // namespace rlx
