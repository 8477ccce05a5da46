// A product and what is done to its result. Neighbour: simplify_products, before it.
#pragma once

#include "passes/rounding.h"
#include "rlx/graph.h"

namespace rlx {

/// Folds bias, activation and residual into the product in front of them: activation(x w + bias) + residual.
///
///   before  %4 = matmul(%0, %1)                                     after  %4 = fused_matmul(%0, %1, %2, %3)
///           %5 = broadcast_in_dim(%2) {dims = [8, 64], axes = [1]}             {has_bias = true,
///           %6 = add(%4, %5)                                                    has_residual = true,
///           %7 = gelu(%6)                                                       activation = gelu}
///           %8 = add(%7, %3)
///
/// Takes products with a right operand of rank 2 (matmul, linear, fused_matmul). The steps are folded only in that
/// order, and only if nothing else uses the value in between. The bias is a vector over the last dim. The residual has
/// the result's dims and is no broadcast: an element-wise op reads a broadcast without a copy, the product does not.
///
/// f32 and f64. The separate ops of f16 and bf16 round between each other, the fused one rounds once at the end: other
/// bits, so they stay separate unless `rounding` frees them.
Graph fuse_matmul(const Graph& g, Rounding rounding);
inline Graph fuse_matmul(const Graph& g) { return fuse_matmul(g, Rounding::strict); }

}  // namespace rlx
