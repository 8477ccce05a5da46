// What branches and loops compute for nobody. Neighbours: prune (ir/rewrite.h), which removes whole nodes;
// hoist_invariants, for what every trip computes again.
#pragma once

#include "rlx/graph.h"

namespace rlx {

/// Removes, from if_else, while_loop and scan, results that nobody uses, carries that only carry themselves, and
/// operands that no body reads; what is inside goes with them, to any depth. A carry that the body hands on as it is
/// becomes a captured operand, equal captured operands become one, and so do equal ys of a scan.
///
///   before  %3, %4, %5 = scan(%0, %1, %2) {carries = 2, xs = 1, body = graph {     uses of %3 only
///             %0 = input() @"h"  %1 = input() @"w"  %2 = input() @"x"
///             %3 = mul(%0, %1)   %4 = add(%3, %2)
///             return %4, %1, %4
///           }}
///   after   %3 = scan(%0, %2, %1) {carries = 1, xs = 1, body = graph {
///             %0 = input() @"h"  %1 = input() @"x"  %2 = input() @"w"
///             %3 = mul(%0, %2)    %4 = add(%3, %1)
///             return %4
///           }}
///
/// Goes into the bodies itself. Operands that have become one may make values inside equal, which merge_equal_nodes
/// finds, and then a second run finds more. What stands in front of a barrier is needed, whatever is used behind it.
Graph trim_control_flow(const Graph& g);

}  // namespace rlx
