// The sum in front of a normalization.
#pragma once

#include "passes/rounding.h"
#include "rlx/graph.h"

namespace rlx {

/// Joins a residual sum with the layer_norm or rms_norm behind it, so that the sum is read while it is at hand.
///
///   before  %4 = add(%0, %1)                         after  %4, %5 = fused_residual_layer_norm(%0, %1, %2, %3)
///           %5 = layer_norm(%4, %2, %3)
///
/// The sum stays available as the second result: other users of it read that. A bias in front of the sum,
/// (x + bias) + residual, is taken in if nothing else uses it. Needs a gamma, and a norm over the last dim alone; of
/// several norms of one sum the first is joined.
///
/// f32 and f64, and f16 and bf16 if `rounding` frees them: their sum would be rounded between, and is not inside.
Graph fuse_residual_norm(const Graph& g, Rounding rounding);
inline Graph fuse_residual_norm(const Graph& g) { return fuse_residual_norm(g, Rounding::strict); }

}  // namespace rlx
