// Weights of a package in fewer bits: a rewrite of the graph, before it is lowered.
#pragma once

#include "rlx/coreml.h"

namespace rlx::coreml {

/// The graph with its large constants in this form: those of f32 or f16 and of rank 2 or more that products, lookups or
/// ops that move data read, and nothing else does. int8: dequantize of constant codes, int4: dequantize_blockwise, from
/// 2,048 elements on; palettes: constants with few different numbers, from 4,096 on. Constants with infinities or NaN
/// stay as they are, and so do params. Adds to `notes`, but for as_built, how many became smaller, from how many bytes
/// to how many, and the root mean square of the change relative to that of the weights.
Graph compress_weights(const Graph& g, PackageWeights form, std::vector<std::string>& notes);

}  // namespace rlx::coreml
