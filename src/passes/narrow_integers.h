// Integers of 64 bits that are known to be numbers of 32, for targets that have only those. Not in the pass list: a
// backend asks for it. What is left is for split_words.h.
#pragma once

#include <string>
#include <vector>

#include "rlx/op_def.h"

namespace rlx {

/// Whether the types of inputs and outputs may change too.
enum class NarrowSignature { no, yes };

/// A graph in which integers of 64 bits are i32 where that changes no number (IntegerRanges):
///
///   before  %0 = iota() {type = i64[512]}          after  %0 = iota() {type = i32[512]}
///           %1 = add(%0, %0)                              %1 = add(%0, %0)
///           %2 = mul(%1, %input)                          %2 = mul(convert(%1) {dtype = i64}, %input)
///
/// A node becomes one of i32 if all its operands and results of 64 bits are within i32 and its op means the same there.
/// Loops and branches are gone into, and carry i32 where that holds in every trip.
///
/// With NarrowSignature::yes so do outputs, and inputs of i64 that are places (`inputs_that_are_places`): whoever runs
/// the graph has to refuse numbers of theirs that i32 does not hold.
struct NarrowedIntegers {
  Graph graph;
  /// Which values became i32 and why, and which stay: for a report.
  std::vector<std::string> notes;
};
NarrowedIntegers narrow_integers(const Graph& g, NarrowSignature signature);

/// The inputs of i64 that are ids, starts or places: all that is made of them, by moving, choosing, comparing, adding
/// and subtracting, is an index of a gather, a scatter or a slice. No array has a place beyond i32.
Mask inputs_that_are_places(const Graph& g);

}  // namespace rlx
