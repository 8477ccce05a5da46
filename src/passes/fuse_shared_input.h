// Several products of one input, as one. Neighbours: fuse_matmul before it, hoist_params for the joined weights.
#pragma once

#include "rlx/graph.h"

namespace rlx {

/// Products of the same x with weights that are bound become one product with the weights side by side, and slices of
/// its result: queries, keys and values of an attention, gate and value of a gated unit.
///
///   before  %4 = linear(%0, %1)        after  %4 = concatenate(%1, %2, %3) {axis = 0}
///           %5 = linear(%0, %2)               %5 = linear(%0, %4)
///           %6 = linear(%0, %3)               %6 = slice(%5) ...  %7 = slice(%5) ...  %8 = slice(%5) ...
///
/// The weights agree in op, orientation, bias (all or none) and activation; none has a residual. Each is used here
/// alone, so that the joined copy replaces them: a backend that hoists it (hoist_params) drops the originals. Weights
/// that are computed in a run are left alone, for joining them would copy them every time.
///
/// One product reads x once and keeps more threads busy; the slices are views where their users read strided rows, as
/// attention and element-wise ops do.
Graph fuse_shared_input(const Graph& g);

}  // namespace rlx
