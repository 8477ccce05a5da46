// The work of a graph: what a device has to compute and to move, node by node; in numbers, or in the graph's symbols.
#pragma once

#include <vector>

#include "rlx/graph.h"

namespace rlx {

/// Amounts are numbers (double) or polynomials in the graph's symbols (Dim).
template <class Amount>
struct WorkIn {
  Amount product_flops = 0;      ///< multiplications and additions of products of matrices, 2 a term
  Amount convolution_flops = 0;  ///< the same of convolutions
  Amount attention_flops = 0;    ///< the same of attention
  Amount simple_elements = 0;    ///< results of additions, comparisons, moves and the like
  Amount function_elements = 0;  ///< results of exp, tanh, division and the like
  /// Elements that are sorted, times the logarithm to base 2 of how many in a row; a row without a number counts as of
  /// 1024.
  Amount sort_compares = 0;
  Amount bytes = 0;  ///< operands that are read and results that are written, each once
  /// How many nodes are launched for it: one, or those of a loop's body for each trip. None of inputs, params,
  /// constants and what only renames its operand.
  Amount launches = 0;

  WorkIn& operator+=(const WorkIn& other);
};
using NodeWork = WorkIn<double>;
using SymbolicWork = WorkIn<Dim>;

/// One entry for each node. A loop counts as often as its extent says, a loop whose trips depend on data once, and of
/// the branches of a condition the larger one. Fails for a symbolic dim, naming it.
std::vector<NodeWork> work_of(const Graph& g);
/// The same in the graph's symbols. Which branch is the larger one is decided for 1000 of each symbol. Fails for
/// amounts beyond 64 bits, and where elements smaller than a byte make a part of one.
std::vector<SymbolicWork> symbolic_work_of(const Graph& g);

}  // namespace rlx
