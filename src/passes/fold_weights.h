// Weights that are wanted as constants. Not in the pass list: a backend whose operations take constants alone calls it
// when the values of params are known. Neighbour: fold_constants, for what is small.
#pragma once

#include <functional>

#include "rlx/graph.h"

namespace rlx {

/// Operands for which `wanted` says so become constants, however large, where they are weights (passes/bound_values.h)
/// without params; in the bodies of control flow too.
///
///   before  %0 = input() @"x"  %1 = constant() {value = ...}  %2 = constant() {value = ...}
///           %3 = concatenate(%1, %2) {axis = 0}   %4 = conv_transpose(%0, %3)
///   after   %0 = input() @"x"  %1 = constant() {value = ...}   %2 = conv_transpose(%0, %1)
Graph fold_weights(const Graph& g, const std::function<bool(const Node&, size_t operand)>& wanted);

}  // namespace rlx
