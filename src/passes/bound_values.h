// What is known once params are bound, before there are inputs: the nodes that need not be computed again in each run.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "rlx/graph.h"

namespace rlx {

/// Calls `f` with the name of each symbol, some more than once: of types; of attributes, their sub-graphs included; and
/// of a node's types and attributes.
using SymbolVisitor = std::function<void(const std::string&)>;
void for_each_symbol(const std::vector<Type>& types, const SymbolVisitor& f);
void for_each_symbol(const Attrs& attrs, const SymbolVisitor& f);
void for_each_symbol(const Node& node, const SymbolVisitor& f);

/// Whether anything about the node depends on the extents of a run: its types, or a dim or a body among its attributes.
/// An `extent`, or a slice of four rows that begins at a symbolic index, has a static type and depends on them
/// nevertheless.
bool has_symbols(const Node& node);

/// For each node, whether it is a param or a constant, or is computed from such alone, whatever the extents of the
/// inputs are. Nodes behind a barrier do not count; an iota counts as a constant.
std::vector<bool> bound_nodes(const Graph& g);

/// Whether the value is a param or a constant, or is made of such alone by moving elements and by element-wise ops. A
/// backend that needs its weights as constants can compute these with little work.
bool is_weight(const Graph& g, Ref r);

}  // namespace rlx
