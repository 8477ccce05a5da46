// Scaled dot-product attention, spelled out, and the layout in which its operands come.
#pragma once

#include "passes/rounding.h"
#include "rlx/graph.h"

namespace rlx {

/// softmax(q kᵀ scale + bias) v of four-dimensional operands becomes one op; transposes and reshapes that bring packed
/// heads into place become its layout.
///
///   before  %3 = transpose(%1) {permutation = [0, 1, 3, 2]}   after  %3 = attention(%0, %1, %2)
///           %4 = matmul(%0, %3)                                      {heads = 4, scale = 0.125}
///           %5 = mul(%4, 0.125)
///           %6 = softmax(%5) {axis = 3}
///           %7 = matmul(%6, %2)
///
/// The products are matmul or dot_general with two batch dims, batch and heads. The scores may be multiplied or divided
/// by constants; then a bias may be added that broadcasts to them, or -inf chosen for keys that a mask excludes, or for
/// keys behind the query (of equal lengths, as two iotas compared). Nothing else may use what stands between. f32 and
/// f64, and f16 and bf16 if `rounding` frees them: their scores and weights would be rounded, and are not inside. A
/// query whose scores are all -inf gives zeros, where softmax gives NaN.
///
/// The layout: attention of transposes from [B, S, H, D] reads that (bshd), and of heads split from [B, S, H*D] reads
/// those (packed); the result is turned back behind it, which simplify cancels where the graph does the opposite.
Graph fuse_attention(const Graph& g, Rounding rounding);
inline Graph fuse_attention(const Graph& g) { return fuse_attention(g, Rounding::strict); }

}  // namespace rlx
