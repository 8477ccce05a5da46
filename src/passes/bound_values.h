// What is known once params are bound, before any input is: which nodes a run need not repeat.
#pragma once

#include "rlx/graph.h"

namespace rlx {

/// Does anything about the node depend on the extents of a run: its types, a dim or a body among its attributes? An
/// `extent`, or a slice of four rows at a symbolic start, has a static type and still does.
bool has_symbols(const Node& node);

/// For each node: is it a param or a constant, or computed from such alone, whatever the extents of the inputs? Not
/// what stands behind a barrier; an iota counts as a constant.
std::vector<bool> bound_nodes(const Graph& g);

/// Is the value a param or a constant, or made of such alone by moving elements and computing them one by one? What
/// wants its weights as constants may have it, for little work.
bool is_weight(const Graph& g, Ref r);

}  // namespace rlx
