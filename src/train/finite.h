// Where the numbers of a graph stop being finite.
#pragma once

#include <cmath>
#include <string_view>

#include "rlx/graph.h"
#include "rlx/io.h"

namespace rlx::train {

/// "nan", "inf" or "-inf".
inline std::string_view name_of_not_finite(double v) { return std::isnan(v) ? "nan" : v > 0 ? "inf" : "-inf"; }

/// Runs g node by node by the reference, and goes back from the output `output`, which is not finite, to the node that
/// made it so: NaN, or else an infinity, of operands that had none. Tells of its op, the element's place and its scope;
/// of a NaN made of infinities also where those began. An input or param counts as a node. Numbers that a `select` has
/// left out, and -inf in masks, are not blamed. Empty if the output is finite.
std::string first_not_finite(const Graph& g, size_t output, Tensors inputs, const NamedTensors& params);

}  // namespace rlx::train
