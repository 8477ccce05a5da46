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
  /// Elements that are sorted, times the base-2 logarithm of the extent along which they are; a symbolic extent counts
  /// as 1024.
  Amount sort_compares = 0;
  Amount bytes = 0;  ///< operands that are read and results that are written, each once
  /// Kernels that are launched for the node: one; for a loop, those of its body in each trip; none for inputs, params,
  /// constants and ops that only rename their operand (a reshape).
  Amount launches = 0;

  WorkIn& operator+=(const WorkIn& other);
};
using NodeWork = WorkIn<double>;
using SymbolicWork = WorkIn<Dim>;

/// One entry for each node. The body of a loop counts once for each trip, or once if data decide how many trips there
/// are; of the branches of a condition the larger one counts. Fails for a symbolic dim, naming it.
std::vector<NodeWork> work_of(const Graph& g);
/// The same in the graph's symbols. Which branch is the larger one is decided as if each symbol were 1000. Fails for
/// amounts beyond 64 bits, and for elements smaller than a byte where they may not fill whole bytes.
std::vector<SymbolicWork> symbolic_work_of(const Graph& g);

}  // namespace rlx
