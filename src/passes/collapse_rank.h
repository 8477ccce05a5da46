// Tensors of many dims as tensors of one, for targets with a largest rank. Not in the pass list: a backend asks for it.
#pragma once

#include "passes/legalize.h"

namespace rlx {

/// Whether a value has more dims than `most`.
bool is_wide(const Type& t, size_t most);
/// Nothing if `collapse_rank` has a rule for the node, which has wide operands or results; else why not.
std::optional<std::string> cannot_collapse(const Question& q, size_t most);

/// Every value of more than `most` (at least 4) dims becomes flat, of one dim; what is done to its dims is done with
/// the dims around them joined. Sub-graphs included. Inputs and outputs have their leading dims joined.
///
///   before  %0 = input() @"x" : f32[2, 3, 4, 5, 6, 7]        after  %0 = input() @"x" : f32[6, 4, 5, 6, 7]
///           %1 = slice(%0) {starts = [0, 0, 1, 0, 0, 0] ..}         %1 = reshape(%0) {dims = [6, 4, 210]}
///                                                                   %2 = slice(%1) {starts = [0, 1, 0] ..}
///
/// A permutation that takes more than `most` dims moves one dim after another. The index dims of a gather or scatter
/// are joined to one. Fails (unsupported) at a node that has no rule.
Graph collapse_rank(const Graph& g, size_t most);

}  // namespace rlx
