// Integers that a graph computes from its sizes, as dims: how `reshape(x, concat(shape(x)[0], -1))` stays symbolic.
#pragma once

#include <optional>

#include "rlx/graph.h"

namespace rlx::mlprogram {

/// The elements of an integer tensor of rank 0 or 1, in order, if they follow from constants and symbols by copying,
/// sums, differences, products and exact quotients; nothing otherwise.
std::optional<Dims> known_dims(const Graph& g, Ref r);

}  // namespace rlx::mlprogram
