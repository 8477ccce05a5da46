// Nodes whose attributes hold graphs, and passes that go into them.
#pragma once

#include <span>

#include "base/growth_limit.h"
#include "rlx/op_def.h"

namespace rlx {

/// Are its sub-graphs programs like the graph around them: branches, loops, calls? Combiners and comparators are not:
/// backends recognize them by their form.
bool holds_programs(const Node& node);

/// `pass` applied to the graph, and before that to the programs in its nodes, to any depth.
Graph with_bodies(const Graph& g, const std::function<Graph(const Graph&)>& pass);

/// What one pass over the graph and its sub-graphs may make: as much as their nodes allow, up to 1 GiB of constants,
/// and what is in proportion to the constants that they hold (codes of four bits become numbers of thirty-two).
Growth room_to_grow(const Graph& g);
/// The same of one node whose operands are in the graph `g`, with the constants among them.
Growth room_to_grow(const Graph& g, const Node& node, std::span<const Ref> operands);

/// The graph with some of its outputs only, in this order, and without what they do not need. Inputs stay.
Graph with_outputs(const Graph& g, std::span<const size_t> outputs);
/// The graph with other inputs: input i becomes input `become[i]` of those given by `types`; an input that nothing
/// reads may become nothing.
Graph with_inputs(const Graph& g, Types types, std::span<const std::optional<size_t>> become);
/// Which inputs a node reads or an output is.
Mask inputs_in_use(const Graph& g);

}  // namespace rlx
