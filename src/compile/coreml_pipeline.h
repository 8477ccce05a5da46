// The passes on the way to an ML Program: the list of all targets, and what takes apart the values that programs do not
// have.
#pragma once

#include "backends/coreml/coreml.h"
#include "compile/pipeline.h"

namespace rlx {

/// A legal graph without complex numbers and without tensors of more than coreml::kMostDims dims: of complex inputs and
/// outputs there are two each, and the leading dims of wide ones are joined. The report is that of the graph as it
/// came.
Pipelined coreml_pipeline(const Graph& g, const coreml::Options& options);

}  // namespace rlx
