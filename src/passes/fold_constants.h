// What can be known before the first run. Neighbour: hoist_params, for what can be known once params are bound.
#pragma once

#include "rlx/graph.h"

namespace rlx {

/// Puts a literal in place of an op whose operands are all literals, as the reference computes it.
///
///   before  %0 = constant() {value = f32[2] [1, 2]}         after  %0 = constant() {value = f32[2] [2, 1]}
///           %1 = reverse(%0) {axes = [0]}
///
/// Leaves alone what would make the program larger or the compile slow: results of more than 64 KiB, or larger than
/// the operands together (a broadcast scalar, an iota), more than about a million steps of the reference, ops with
/// sub-graphs, symbolic results, and optimization barriers. What is too large here is hoisted: it runs once, fast.
Graph fold_constants(const Graph& g);

}  // namespace rlx
