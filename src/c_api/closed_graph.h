// What transforms and inlining take of the C ABI.
#pragma once

#include "c_api/handles.h"

namespace rlx::c {

/// Transforms take closed graphs.
inline const Graph& closed(const rlx_graph* graph) {
  const Graph& g = required(graph, "graph").graph;
  if (!g.params().empty())
    fail(ErrorCode::invalid_argument, "graph '", g.name(), "' has the param '", g.node(g.params()[0]).name,
         "'; transforms take graphs with inputs only");
  return g;
}

}  // namespace rlx::c
