// What every graph must be, checked after each pass and on everything that comes from outside.
#pragma once

#include "rlx/graph.h"

namespace rlx {

/// Fails, naming the node, unless every operand is defined before its use, every type is what the op infers from
/// its operands and attributes, names of inputs and params are unique, and sub-graphs are closed and verify.
void verify(const Graph&);

}  // namespace rlx
