// Chains of element-wise ops as one op, which a backend runs tile by tile without writing what stands between.
#pragma once

#include "rlx/graph.h"

namespace rlx {

/// Joins element-wise ops of equal dims that feed each other into elementwise_region, with the broadcasts and scalar
/// constants that they read.
///
///   before  %2 = broadcast_in_dim(%1) {dims = [4, 8], axes = [1]}     after  %2 = elementwise_region(%0, %1) {body =
///   ...}
///           %3 = add(%0, %2)
///           %4 = tanh(%3)
///
/// Takes what `can_fuse` accepts; stands behind legalization, and only for a target that takes elementwise_region. A
/// value that others use too becomes a result of the region; nothing is computed twice. A region is run as one, so two
/// ops join only if nothing outside stands between them. It has at most 64 nodes and 16 operands.
///
/// Left alone: a single op, for it is as fast by itself; what is computed once when params are bound (hoist_params);
/// and what a broadcast stretches, which is computed at its own size and read by the region.
Graph fuse_elementwise(const Graph& g, const std::function<bool(const Node&)>& can_fuse);

}  // namespace rlx
