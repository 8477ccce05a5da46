// The passes on the way to an ML Program: the list of all targets, and what takes apart the values that programs do not
// have.
#pragma once

#include "backends/coreml/coreml.h"
#include "compile/pipeline.h"

namespace rlx {

/// A legal graph without complex numbers and without tensors of more than coreml::kMostDims dims: of complex inputs and
/// outputs there are two each, and the leading dims of wide ones are joined, which is added to `notes`. The report is
/// that of the graph as it came.
Pipelined coreml_pipeline(const Graph& g, const coreml::Options& options, std::vector<std::string>* notes = nullptr);

/// Whether a graph holds what the above takes apart.
bool is_to_be_split(const Graph& g);

}  // namespace rlx
