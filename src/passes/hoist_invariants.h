// What every trip of a loop would compute again. Neighbours: trim_control_flow, which makes captured operands of
// carries that never change; hoist_params, which takes out of a run what depends on params alone.
#pragma once

#include "rlx/graph.h"

namespace rlx {

/// Computes in front of a while_loop or scan what its bodies compute from captured operands and constants alone; the
/// result becomes a captured operand.
///
///   before  %2 = while_loop(%0, %1) {condition = ..., body = graph {
///             %0 = input() @"x"  %1 = input() @"w"
///             %2 = exp(%1)       %3 = mul(%0, %2)
///             return %3
///           }}
///   after   %2 = exp(%1)
///           %3 = while_loop(%0, %1, %2) {condition = ..., body = graph {
///             %0 = input() @"x"  %1 = input() @"w"  %2 = input() @"hoisted.2"
///             %3 = mul(%0, %2)
///             return %3
///           }}
///
/// An operand that is no longer read stays one: trim_control_flow behind removes it.
///
/// Stays inside: what only looks at memory (reshape, transpose, slice, broadcast) or counts (iota), constants, barriers
/// and what stands behind them, and control flow, for a loop may not end where it would not have begun. So does what
/// takes more memory than 64 KiB and than each captured operand: it would be kept while the loop runs. A loop that
/// makes no trip now computes it once.
Graph hoist_invariants(const Graph& g);

}  // namespace rlx
