// Finds the op at which the numbers of a graph stop being finite.
#pragma once

#include <cmath>
#include <string_view>

#include "rlx/graph.h"
#include "rlx/io.h"

namespace rlx::train {

/// The number as text: "nan", "inf" or "-inf".
inline std::string_view name_of_not_finite(double v) { return std::isnan(v) ? "nan" : v > 0 ? "inf" : "-inf"; }

/// Runs g node by node with the reference implementation. From output number `output`, which is not finite, it goes
/// back to the node that made it so: one with a NaN, or else an infinity, whose operands have none. Inputs and params
/// count as nodes. The text names the node's op and scope and the element's position; for a NaN that was made of
/// infinities, also where those began. Numbers that a `select` does not choose, and -inf in masks, are not blamed. The
/// text is empty if the output is finite.
std::string first_not_finite(const Graph& g, size_t output, Tensors inputs, const NamedTensors& params);

}  // namespace rlx::train
