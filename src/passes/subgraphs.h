// Nodes whose attributes hold graphs, and passes that go into them.
#pragma once

#include "rlx/op_def.h"

namespace rlx {

/// Are its sub-graphs programs like the graph around them: branches, loops, calls? Combiners and comparators are not:
/// backends recognize them by their form.
bool holds_programs(const Node& node);

/// `pass` applied to the graph, and before that to the programs in its nodes, to any depth.
Graph with_bodies(const Graph& g, const std::function<Graph(const Graph&)>& pass);

/// The graph with some of its outputs only, in this order, and without what they do not need. Inputs stay.
Graph with_outputs(const Graph& g, std::span<const size_t> outputs);
/// The graph with other inputs: input i becomes input `become[i]` of those given by `types`; an input that nothing
/// reads may become nothing.
Graph with_inputs(const Graph& g, Types types, std::span<const std::optional<size_t>> become);
/// Which inputs a node reads or an output is.
Mask inputs_in_use(const Graph& g);

}  // namespace rlx
