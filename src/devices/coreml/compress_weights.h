// Weights of a package in fewer bits: a rewrite of the graph, before it is lowered.
#pragma once

#include "rlx/coreml.h"

namespace rlx::coreml {

/// The graph with its large constants in this form, as PackageWeights says. Constants with numbers that are not finite
/// stay as they are. Adds to `notes` how many became smaller, from how many bytes to how many, and how far the numbers
/// moved.
Graph compress_weights(const Graph& g, PackageWeights form, std::vector<std::string>& notes);

}  // namespace rlx::coreml
