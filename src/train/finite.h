// Where the numbers of a graph stop being finite.
#pragma once

#include "rlx/graph.h"
#include "rlx/io.h"

namespace rlx::train {

/// Runs g node by node by the reference and tells of the first float result with an infinity or NaN: its op, its place
/// and its scope. An input or param counts too. Empty if there is none.
std::string first_not_finite(const Graph& g, Tensors inputs, const NamedTensors& params);

}  // namespace rlx::train
