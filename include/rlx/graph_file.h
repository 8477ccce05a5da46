// Graphs in files: `.rlx` is the textual IR behind a version line; constants of 256 bytes and more stand beside it in a
// safetensors file of the same name.
#pragma once

#include <string>
#include <string_view>

#include "rlx/graph.h"

namespace rlx {

/// Reads `path`. Fails naming the file, the line and what was expected there.
Graph load_graph(const std::string& path);
/// Writes `path`, and `path` with ".safetensors" for ".rlx" if there are large constants. Each appears complete or
/// not at all.
void save_graph(const std::string& path, const Graph& g);

/// From and to text alone: constants are all in it.
Graph parse_graph_text(std::string_view text);
std::string graph_text(const Graph& g);

}  // namespace rlx
