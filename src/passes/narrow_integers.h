// Values of i64 and u64 that provably fit i32 become i32, for targets that have no integers of 64 bits. Not in the pass
// list: a backend asks for it. What is left is for split_words.h.
#pragma once

#include <string>
#include <vector>

#include "rlx/op_def.h"

namespace rlx {

/// Whether the types of inputs and outputs may change too.
enum class NarrowSignature { no, yes };

/// A graph in which values of i64 and u64 are i32 where that changes no number (IntegerRanges). Params keep their
/// types.
///
///   before  %0 = iota() {type = i64[512]}          after  %0 = iota() {type = i32[512]}
///           %1 = add(%0, %0)                              %1 = add(%0, %0)
///           %2 = mul(%1, %input)                          %2 = mul(convert(%1) {dtype = i64}, %input)
///
/// A node becomes one of i32 if all its operands and results of 64 bits are within i32 and its op means the same there.
/// Bodies of if_else, while_loop and scan are narrowed too (other sub-graphs are not); what is carried is i32 if it
/// fits in every trip.
///
/// With NarrowSignature::yes, outputs whose range fits become i32, and inputs of i64 that are used as indices alone
/// (`inputs_used_as_indices`). The caller has to refuse values of those inputs that i32 does not hold.
struct NarrowedIntegers {
  Graph graph;
  /// Sentences for a report: one for each input and output that changed, and one list each of values that became i32
  /// and that stay, with their ranges (the first 12 kinds). Empty if the graph has no integers of 64 bits.
  std::vector<std::string> notes;
};
NarrowedIntegers narrow_integers(const Graph& g, NarrowSignature signature);

/// For each input, whether it is of i64 and all that is computed from it, by moving, choosing, converting, comparing,
/// adding and subtracting, is used as an index of gather, scatter, dynamic_slice or dynamic_update_slice. Inputs that
/// reach no index, those that are outputs, and those that a sub-graph reads, are not. No array has an index beyond i32.
Mask inputs_used_as_indices(const Graph& g);

}  // namespace rlx
