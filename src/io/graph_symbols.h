// The symbols of a graph (those of its inputs and params; all others follow from them), and numbers that users give
// them.
#pragma once

#include <set>
#include <string>

#include "rlx/graph.h"

namespace rlx {

std::set<std::string> symbols_of(const Graph& g);

/// Fails for a name in `numbers` that is no symbol of the graph, naming the nearest. `who` gave the numbers: "the
/// profile".
void require_symbols(const Graph& g, const Bindings& numbers, const std::string& who);

}  // namespace rlx
