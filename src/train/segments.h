// Gradient checkpointing: a forward pass in parts that are computed again in the backward pass.
#pragma once

#include "rlx/graph.h"

namespace rlx::train {

/// The graph with its nodes in at most `count` consecutive parts, of about equally many bytes of results each. All but
/// the last one are bodies of `remat`. Same inputs, params and outputs.
///
///   before  %2 = matmul(%0, %1)      after  %4 = remat(%0, %1) {body = ... matmul, tanh ...}
///           %3 = tanh(%2)                   %5 = reduce(%4)
///           %4 = reduce(%3)
Graph in_segments(const Graph& g, int64_t count);

}  // namespace rlx::train
