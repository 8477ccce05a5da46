// A graph whose params have become constants: for packages, which carry their weights.
#pragma once

#include "rlx/graph.h"
#include "rlx/io.h"

namespace rlx {

/// Fails where a param has no value among `params`, or one of another type.
Graph with_values(const Graph& g, const NamedTensors& params);

}  // namespace rlx
