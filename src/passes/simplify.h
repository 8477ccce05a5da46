// The rules of algebra that cost nothing to apply: what does nothing goes, and two moves in a row become one.
#pragma once

#include "rlx/graph.h"

namespace rlx {

/// Removes ops that change nothing and joins ops that move elements twice. Every result keeps its bits.
///
///   before  %1 = transpose(%0) {permutation = [1, 0]}       after   %1 = exp(%0)
///           %2 = transpose(%1) {permutation = [1, 0]}
///           %3 = exp(%2)
///
///   arithmetic   x * 1, x / 1, x - 0, --x, x ^ 1; x ^ 2 = x * x; of floats x + 0 stays, for -0 + 0 is +0, but
///                x + -0 goes; of integers both go; of complex numbers none (inf * (1 + 0i) has a NaN)
///   logic        x and true, x or false, not not x, select by a constant or between equals, if_else by a constant
///   conversions  to the same dtype; through one that holds every value of the first (f16 -> f32 -> f16)
///   moves        reshape of reshape, transpose of transpose, slice of slice, broadcast of broadcast, of an inserted
///                dim and of a scalar's broadcast; transpose of broadcast; reverse twice; those that leave all as it
///                was; concatenate of one, and of empty parts; pad of nothing; reduce over no axes
///   broadcasts   an element-wise op on values that were all stretched alike is computed before they are stretched
///   transforms   stop_gradient: what is compiled is not differentiated any more
///
/// Makes no op that was not there but `mul` for `pow` and `broadcast_in_dim` for another: it may run behind
/// legalization. A rule sees operands only and what it makes is simplified in turn, so one sweep reaches the fixed
/// point.
Graph simplify(const Graph& g);

}  // namespace rlx
