// The work of a graph whose shapes are numbers: what a device has to compute and to move, node by node.
#pragma once

#include <vector>

#include "rlx/graph.h"

namespace rlx {

struct NodeWork {
  double product_flops = 0;      ///< multiplications and additions of products of matrices, 2 a term
  double convolution_flops = 0;  ///< the same of convolutions
  double attention_flops = 0;    ///< the same of attention
  double simple_elements = 0;    ///< results of additions, comparisons, moves and the like
  double function_elements = 0;  ///< results of exp, tanh, division and the like
  double sort_compares = 0;      ///< elements that are sorted, times the logarithm to base 2 of how many in a row
  double bytes = 0;              ///< operands that are read and results that are written, each once
  /// How many nodes are launched for it: one, or those of a loop's body for each trip. None of inputs, params,
  /// constants and what only renames its operand.
  double launches = 0;

  NodeWork& operator+=(const NodeWork& other);
};

/// One entry for each node. A loop counts as often as its extent says, a loop whose trips depend on data once. Fails
/// for a symbolic dim, naming it.
std::vector<NodeWork> work_of(const Graph& g);

}  // namespace rlx
