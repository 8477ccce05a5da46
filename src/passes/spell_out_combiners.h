// Reductions, windows, scatters and sorts by a function of one's own, for targets that combine by name only: such a
// target lists it among its own passes. It asks autodiff for the function of many elements at once.
#pragma once

#include "rlx/graph.h"

namespace rlx {

/// Every reduce, reduce_window, scatter and sort that holds a function becomes ops that hold none, but for loops:
///
///   reduce, reduce_window   a scan over what is reduced, all results side by side, in the order of the elements
///   scatter                 a scan over the updates, in their order, into a flat operand
///   sort                    each element's rank, counted over all pairs of a lane, which takes its length squared
///
///   before  %2 = reduce(%0, %1) {kind = custom, axes = [1], body = f}     after  %2 = scan(...) {body = f of lanes}
///
/// A sort's function must be a strict weak order. Sub-graphs are rewritten too. Fails (unsupported) where the extent of
/// a window is no number.
Graph spell_out_combiners(const Graph& g);

}  // namespace rlx
