// Softmaxes and norms that are written out.
#pragma once

#include "passes/rounding.h"
#include "rlx/graph.h"

namespace rlx {

/// Recognizes what is written out along the last dim: a softmax, exp(x - max) / sum; layer_norm and rms_norm, with
/// gamma and beta behind them; l2_normalize. Each becomes the op, which is one pass over memory.
///
///   before  %1 = reduce(%0) {kind = max, axes = [1]}        after  %1 = softmax(%0)
///           %2 = broadcast_in_dim(%1) {dims = [64, 256], axes = [0]}
///           %3 = exp(sub(%0, %2))
///           %4 = broadcast_in_dim(reduce(%3) {axes = [1]}) {dims = [64, 256], axes = [0]}
///           %5 = div(%3, %4)
///
/// f32 and f64, and f16 and bf16 if `rounding` frees them.
Graph fuse_rows(const Graph& g, Rounding rounding);
inline Graph fuse_rows(const Graph& g) { return fuse_rows(g, Rounding::strict); }

}  // namespace rlx
