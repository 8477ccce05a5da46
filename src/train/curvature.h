// Estimates of the Hessian's diagonal, for rules that divide by the curvature.
#pragma once

#include "train/step_graph.h"

namespace rlx::train {

/// Whether a param has a state that estimates make: Sophia's h.
bool wants_curvature(const Layout& layout);
/// The places in `layout.kept` of those states, in order.
std::vector<size_t> curvature_states(const Layout& layout);

/// Inputs: those of `loss`, a key u32[2], the params that are kept, the states. Outputs: the states, moved towards an
/// estimate (rlx/train.h, HessianEstimate). The i-th trained param's random numbers come of fold_in(key, i), drawn
/// labels of the key itself. Fails if the estimate needs logits that are no output of `loss`.
Graph curvature_graph(const Graph& loss, const Layout& layout, const HessianEstimate& estimate);

}  // namespace rlx::train
