// Between graphs with names and params and the transforms, which know of positions only.
#pragma once

#include "rlx/autodiff.h"
#include "rlx/op_def.h"

namespace rlx {

/// A graph's inputs and params as the inputs of a closed graph, in that order.
struct Closed {
  explicit Closed(const Graph& g);
  Graph graph;
  std::vector<Node> leaves;  // of the original

  /// Which inputs of `graph` are meant; fails on a name that is none, or of a dtype without derivatives.
  Mask wrt(const Names& names) const;
  /// The leaves again, as named inputs and params of `to`.
  std::vector<Value> leaves_in(Graph& to) const;
};

/// Fails unless the first output is a float scalar; says what to do instead.
void require_scalar(const Graph& g, std::string_view what);

}  // namespace rlx
