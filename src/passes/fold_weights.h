// Weights that a backend needs as constants. This pass is not in the pass list: a backend whose operations take some
// operands as constants only (Core ML) calls it once the values of params are known. Neighbour: fold_constants, which
// folds small constants for every backend.
#pragma once

#include <functional>

#include "rlx/graph.h"

namespace rlx {

/// Replaces operands by constants, however large, if `wanted` says so and they are weights (is_weight() in
/// passes/bound_values.h) that depend on constants alone and on no param. This includes operands in the bodies of
/// control flow.
///
///   before  %0 = input() @"x"  %1 = constant() {value = ...}  %2 = constant() {value = ...}
///           %3 = concatenate(%1, %2) {axis = 0}   %4 = conv_transpose(%0, %3)
///   after   %0 = input() @"x"  %1 = constant() {value = ...}   %2 = conv_transpose(%0, %1)
Graph fold_weights(const Graph& g, const std::function<bool(const Node&, size_t operand)>& wanted);

}  // namespace rlx
