// The range of every integer in a graph, by interval arithmetic; the graph is not changed. Passes and targets use it to
// see whether values of i64 fit i32 (narrow_integers.h), and to print ranges in messages.
#pragma once

#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "rlx/graph.h"

namespace rlx {

/// The least and the greatest number that an element may be, both included. Of u64 the greatest int64_t stands for all
/// numbers from there on.
struct IntegerRange {
  int64_t least = std::numeric_limits<int64_t>::min(), most = std::numeric_limits<int64_t>::max();

  /// Whether `dtype`, of integers or bool, holds all of them. Of a range of u64 that ends at 2^63-1 the answer about
  /// i64 is wrong: the value may be larger.
  bool fits(DType dtype) const;
  bool is_within(const IntegerRange& o) const { return least >= o.least && most <= o.most; }
  bool operator==(const IntegerRange&) const = default;
};
std::ostream& operator<<(std::ostream&, const IntegerRange&);  ///< [0, 511]; [-2^63, 2^63-1]

/// All numbers of an integer dtype; of bool 0 and 1.
IntegerRange all_numbers_of(DType dtype);
/// The least range that holds both.
IntegerRange united(const IntegerRange& a, const IntegerRange& b);

/// What is known before the graph is looked at.
struct RangeFacts {
  /// One for each input, in their order. Without one, as where the list ends early, an input may be any number of its
  /// dtype, as params may. They are trusted, not checked.
  std::vector<std::optional<IntegerRange>> inputs = {};
  /// Of symbols in dims; others are taken to be 0 to `most_extent`. No dim with a symbol in it is taken to be larger
  /// than that.
  std::map<std::string, IntegerRange> symbols = {};
  int64_t most_extent = std::numeric_limits<int32_t>::max();
};

/// A range for every value of integers or bools in a graph.
///
///   %0 = iota() {type = i64[512]}                     [0, 511]
///   %1 = convert(%bool) {dtype = i64}                 [0, 1]
///   %2 = reduce(%1) {kind = sum, axes = [0]}          [0, 512] where the axis has 512
///   %3 = broadcast_in_dim(%2) {shape = [512]}         [0, 512]
///   %4 = add(%0, %3)                                  [0, 1023]
///
/// Where a result might overflow its dtype, its range is the whole dtype. A composite without a rule is decomposed;
/// graphs nested deeper than six levels have whole dtypes. The range of what a loop carries holds before the first trip
/// and after each one. A while_loop's condition bounds a counter; `max_trips` and a scan's `length` do not.
class IntegerRanges {
 public:
  /// Reads `g` only here: the graph may end before this object does.
  explicit IntegerRanges(const Graph& g, RangeFacts facts = {});

  /// `r` is of that graph. Of floats and complex numbers nothing is known: the widest range.
  const IntegerRange& of(Ref r) const { return ranges_[static_cast<size_t>(r.node)][static_cast<size_t>(r.result)]; }
  /// For each sub-graph of a node, which is an index of nodes(), the range of each of its inputs, which holds in every
  /// trip. if_else: then, else, without the condition; while_loop: condition, then body (where the condition holds);
  /// scan: body. Empty for other ops.
  const std::vector<std::vector<IntegerRange>>& subgraph_inputs(size_t node) const;
  const RangeFacts& facts() const { return facts_; }

 private:
  friend class RangeRules;
  IntegerRanges(const Graph& g, RangeFacts facts, int depth);

  RangeFacts facts_;
  std::vector<std::vector<IntegerRange>> ranges_;
  std::map<size_t, std::vector<std::vector<IntegerRange>>> entries_;
};

}  // namespace rlx
