// Values that ML Programs do not have, taken apart: complex numbers, more than kMostDims dims, integers of 64 bits, and
// tensors without elements.
#pragma once

#include "passes/target.h"

namespace rlx::coreml {

/// Whether a graph holds such values.
bool is_taken_apart(const Graph& g);
/// The same where integers of 64 bits become those of 32, but for those whose high halves are read.
bool is_taken_apart_where_narrowed(const Graph& g);

/// A pass for each sort of them. Complex inputs and outputs become two each, real parts and imaginary parts, and the
/// leading dims of wide ones are joined.
/// `with_signature`: inputs and outputs of 64 bits become two each as well.
std::vector<Pass> passes_that_take_apart(bool narrow, bool with_signature);

}  // namespace rlx::coreml
