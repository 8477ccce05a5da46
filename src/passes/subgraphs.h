// Nodes whose attributes hold graphs, and passes that go into them.
#pragma once

#include "rlx/op_def.h"

namespace rlx {

/// `pass` applied to the graph, and before that to the bodies of its control flow: branches and loops are programs like
/// the graph around them. Combiners and comparators are left alone: backends recognize them by their form.
Graph with_bodies(const Graph& g, const std::function<Graph(const Graph&)>& pass);

}  // namespace rlx
