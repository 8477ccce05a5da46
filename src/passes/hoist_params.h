// What need be computed only once, when params are bound. Not in the pass list: a backend that keeps its params calls
// it. Neighbour: fold_constants, for what is small and known without params.
#pragma once

#include "rlx/graph.h"

namespace rlx {

struct Hoisted {
  Graph prologue;  ///< no inputs; of the params, those it reads; its outputs are `names`
  Graph main;      ///< the inputs and outputs of the graph; of the params, those it still reads, then `names`
  std::vector<std::string> names;
};

/// Splits a graph into what depends on params and constants alone, to be run once, and the rest, which gets the values
/// as params of its own.
///
///   before    %0 = input() @"x"  %1 = param() @"wq"  %2 = param() @"wk"
///             %3 = concatenate(%1, %2) {axis = 0}
///             %4 = linear(%0, %3)
///   prologue  %0 = param() @"wq"  %1 = param() @"wk"  %2 = concatenate(%0, %1) {axis = 0}  return %2 @"hoisted.0"
///   main      %0 = input() @"x"   %1 = param() @"hoisted.0"  %2 = linear(%0, %1)
///
/// A value is hoisted if it takes little memory: 64 KiB, or twice what the params and constants behind it take (weights
/// from f16 to f32). Broadcasts and iotas are not; reshapes, transposes and slices are views wherever else they are
/// read, and hoisted only for products and convolutions, whose weights are packed. A param that nothing uses stays in
/// `main`.
Hoisted hoist_params(const Graph& g);

/// For each node: would it be computed in the prologue alone?
std::vector<bool> hoisted_nodes(const Graph& g);

}  // namespace rlx
