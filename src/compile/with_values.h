// Values for the params of a graph, and the graph in which they have become constants: for packages, which carry their
// weights.
#pragma once

#include "rlx/graph.h"
#include "rlx/io.h"

namespace rlx {

/// The value of a param node. Fails if there is none, or one of another type.
const Tensor& value_of(const NamedTensors& params, const Node& param);
/// Fails where a param has no value among `params`, or one of another type.
Graph with_values(const Graph& g, const NamedTensors& params);

}  // namespace rlx
