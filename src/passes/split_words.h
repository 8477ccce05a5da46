// Integers of 64 bits as pairs of 32, for targets that have only those. Not in the pass list: a backend asks for it.
#pragma once

#include "passes/legalize.h"

namespace rlx {

/// Nothing if `split_words` has a rule for the node, which has integers of 64 bits; else why not.
std::optional<std::string> cannot_split_words(const Question& q);

/// Whether the graph reads bits above the lowest 32 of some integer, in a way that half of it cannot answer: shifts to
/// the right, quotients and remainders of u64.
bool reads_high_words(const Graph& g);

/// Integers of 64 bits become two words of u32, and what is done to them is done to the words: exactly.
///
///   before  %1 = convert(%0) {dtype = i64}        after  %1 = convert(%0) {dtype = u32}
///           %2 = add(%1, %1)                             %2 = add(%1, %1)  %3 = compare(%2, %1) {direction = lt} ...
///
/// With `all` every one of them; else those that high words are read of, and what these are made of and made to. What
/// has no rule keeps its own dtypes, and takes and gives the low words alone; so do inputs, outputs and the borders of
/// sub-graphs. Without `all`, what is given so and not by an input of the whole graph must reach no reader of high
/// words: Unsupported, with the name of the op that gives it.
Graph split_words(const Graph& g, bool all);

/// Inputs, params and outputs of 64 bits become two of i32 each, the high word and then the low one, so that all bits
/// cross the boundary of the graph:
///
///   before  %0 = input() @"x" : i64[4]    after  %0 = input() @"x_high" : i32[4]  %1 = input() @"x_low" : i32[4]
///           return %0 @"y"                       ...  return %5 @"y_high", %6 @"y_low"
///
/// Inside they are joined, and stay of 64 bits: `split_words` comes next.
Graph split_word_signature(const Graph& g);

}  // namespace rlx
