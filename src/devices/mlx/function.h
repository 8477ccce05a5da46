// Graphs as functions of MLX's: .mlxfn files, which Python's mlx imports (mx.import_function).
#pragma once

#include <string>

#include "rlx/graph.h"
#include "rlx/io.h"

namespace rlx {

/// Writes the graph with the values of its params in it. The function takes the inputs in the order of the graph
/// and gives the outputs in order. `dims` are numbers for the graph's symbols, which must all have one. Fails
/// where this build has no MLX, and, naming the node, for a graph that MLX alone cannot run: control flow, ops that run
/// by their references.
void write_mlx_function(const std::string& path, const Graph& g, const NamedTensors& params, const Bindings& dims = {});

}  // namespace rlx
