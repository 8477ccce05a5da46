// Common subexpressions.
#pragma once

#include "rlx/graph.h"

namespace rlx {

/// Nodes with the same op, attributes and operands become the first of them.
///
///   before  %1 = exp(%0)                    after  %1 = exp(%0)
///           %2 = exp(%0)                           %2 = add(%1, %1)
///           %3 = add(%1, %2)
///
/// The order of operands counts, also of those that commute. Two barriers are never one, so nothing is merged across
/// them; inputs and params are the graph's signature. Literals of more than 4 KiB are one if they share their memory.
Graph merge_equal_nodes(const Graph& g);

}  // namespace rlx
