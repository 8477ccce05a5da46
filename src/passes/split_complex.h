// Complex numbers as pairs of real ones, for targets that have only those. Not in the pass list: a backend asks for it.
#pragma once

#include "passes/legalize.h"

namespace rlx {

/// Nothing if `split_complex` has a rule for the node, which has complex operands or results; else why not.
std::optional<std::string> cannot_split_complex(const Question& q);

/// Every complex value becomes two real ones, its parts, sub-graphs included. Inputs and outputs of complex numbers
/// become two each, `<name>_re` and `<name>_im`, one behind the other.
///
///   before  %0 = input() @"x" : c64[3]      after  %0 = input() @"x_re" : f32[3]  %1 = input() @"x_im" : f32[3]
///           %1 = conjugate(%0)                     %2 = neg(%1)
///           return %1 @"y"                         return %0 @"y_re", %2 @"y_im"
///
/// Quotients, magnitudes and roots are scaled so that no square overflows. Fails (unsupported) at a node that has no
/// rule, and at params of complex numbers, which must be constants by then.
Graph split_complex(const Graph& g);

}  // namespace rlx
