// Values that ML Programs do not have, taken apart: complex numbers, more than kMostDims dims, integers of 64 bits, and
// tensors without elements.
#pragma once

#include "backends/coreml/coreml.h"

namespace rlx::coreml {

/// Whether a graph holds such values.
bool is_taken_apart(const Graph& g);
/// The same where integers of 64 bits become those of 32, but for those whose high halves are read.
bool is_taken_apart_where_narrowed(const Graph& g);

/// A pass for each sort of them. Complex inputs and outputs become two each, real parts and imaginary parts, and the
/// leading dims of wide ones are joined.
/// Integers of 64 bits are i32 where that is known to hold them (passes/narrow_integers.h), unless all are narrowed.
std::vector<Pass> passes_that_take_apart(const Options& options);
/// Nodes of integers of 64 bits that neither become i32 nor words, with the numbers that are known of them.
std::vector<DispatchLine> integers_that_stay(const Graph& g);
/// Params of complex numbers and of more than kMostDims dims as inputs, which can be taken apart before they have
/// values.
Graph with_inputs_for_odd_params(const Graph& g);

}  // namespace rlx::coreml
