// The textual IR. One node a line; a sub-graph is a nested block in the attribute that holds it.
//
//   graph @scores {
//     %0 = input() @"x" : f32[N, 4]
//     %1 = param() @"w" : f32[4, 8]
//     %2 = matmul(%0, %1) @"head" : f32[N, 8]
//     %3, %4 = top_k(%2) {k = 2, axis = -1} : f32[N, 2], i32[N, 2]
//     return %3 @"values", %4 @"places"
//   }
//
// `@"..."` is a name: of an input or param, of the part of the model a node belongs to, of an output. Types are
// stated and checked against what the ops infer. parse(print(g)) = g, names and numbering included.
#pragma once

#include <functional>
#include <map>

#include "rlx/graph.h"

namespace rlx {

void print(std::ostream&, const Graph&, int indent = 0);
std::string text(const Graph&);
/// `extra` is an op that is not in the table: a custom op, a law's planted fault.
Graph parse_graph(Scanner&, const OpDef* extra = nullptr);
Graph parse_graph(std::string_view text, const OpDef* extra = nullptr);

/// A graph as files hold it: the version line "rlx 1", the text, and by their names the constants that are too large
/// for a text, of 256 bytes and more. Equal constants have one name.
struct GraphFile {
  std::string text;
  std::map<std::string, Tensor, std::less<>> constants;
  bool operator==(const GraphFile&) const = default;
};
GraphFile graph_file_of(const Graph&);
/// The graph of such a text, verified. `constant` gives those that it only names.
Graph parse_graph_file(std::string_view text, const std::function<Tensor(std::string_view name)>& constant);

}  // namespace rlx
