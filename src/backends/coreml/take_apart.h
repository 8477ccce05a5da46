// Rewrites graphs whose values ML Programs do not have: a complex tensor becomes two of its parts, dims beyond
// kMostDims are joined, an integer of 64 bits becomes two words of 32 (or an i32, if its range is known to fit), and
// operands without elements are dropped. coreml.cpp runs the passes before it lowers a graph; the rewrites are in
// src/passes.
#pragma once

#include "backends/coreml/coreml.h"

namespace rlx::coreml {

/// Whether a graph has such values, so that the passes below change it.
bool is_taken_apart(const Graph& g);
/// The same for a caller that permits integers of 64 bits to be computed in i32 (Options::narrow): then only those
/// count whose high words are read.
bool is_taken_apart_where_narrowed(const Graph& g);

/// A pass for each sort of value, in the order in which they have to run. Complex inputs and outputs become two each,
/// real parts and imaginary parts; of inputs and outputs with too many dims the leading dims are joined.
std::vector<Pass> passes_that_take_apart(const Options& options);
/// A line for the dispatch report for each node whose integers of 64 bits become neither i32 nor words: the node cannot
/// run, and the line says which range its numbers are known to have.
std::vector<DispatchLine> integers_that_stay(const Graph& g);
/// The graph with its complex params, and those of more than kMostDims dims, as inputs: inputs can be taken apart
/// before the params have values.
Graph with_inputs_for_odd_params(const Graph& g);

}  // namespace rlx::coreml
