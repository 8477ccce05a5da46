// A graph whose floats have another width: for targets where that is chosen when a model is written, not when it is
// built. Not in the pass list: who writes for such a target asks for it. Neighbour: widen_regions, within one op.
#pragma once

#include "rlx/graph.h"

namespace rlx {

/// Every value of one of the dtypes `from` is of `to` instead, inputs, outputs, constants and sub-graphs included: the
/// graph that one would have built with that dtype. An op that does not take it keeps what it was, between
/// conversions. Finite constants beyond what `to` holds become its largest numbers.
///
///   before  %0 = input() @"x" : f32[2, 4]      after, f32 to f16  %0 = input() @"x" : f16[2, 4]
///           %1 = gelu(%0)                                         %1 = gelu(%0)
Graph change_floats(const Graph& g, const std::vector<DType>& from, DType to);

/// Products (of matrices, convolutions, attention) of f32 are of f16, with their weights; what goes in and comes out
/// of them is converted. All else stays.
Graph products_in_f16(const Graph& g);

/// Every op on f32 or c64 that is neither element-wise nor a mere move of data is of f64 or c128, rounded once: a
/// product, a sum, a norm, a factorization, a Fourier transform. Ops with sub-graphs are as they were, their bodies are
/// changed.
///
///   before  %2 = matmul(%0, %1) : f32[2, 4]    after  %2 = convert(%0) {dtype = f64}   %3 = convert(%1) {dtype = f64}
///                                                     %4 = matmul(%2, %3) : f64[2, 4]
///                                                     %5 = convert(%4) {dtype = f32}
Graph sums_in_f64(const Graph& g);

}  // namespace rlx
