// See the header.
#include "backends/inputs.h"

namespace rlx {

void require_inputs(const Graph& graph, Tensors inputs) {
  if (inputs.size() != graph.inputs().size())
    fail(ErrorCode::invalid_argument, "graph '", graph.name(), "' has ", graph.inputs().size(), " inputs, got ",
         inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Node& node = graph.node(graph.inputs()[i]);
    if (inputs[i].dtype() != node.types[0].dtype || inputs[i].rank() != node.types[0].rank())
      fail(ErrorCode::shape_mismatch, "input '", node.name, "' is ", node.types[0], ", got ", inputs[i].type());
  }
}

}  // namespace rlx
