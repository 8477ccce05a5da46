// Which numbers the integers of a graph can be: an analysis, which changes nothing. Passes and targets ask it: whether
// numbers of 64 bits are numbers of 32 (narrow_integers.h), what a message says of a value.
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

  /// Whether an integer of that dtype holds all of them.
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
  /// Of the inputs, in their order; those that are left out may be any number of their dtype, as params may.
  std::vector<std::optional<IntegerRange>> inputs = {};
  /// Of symbols in dims. Those that are left out are 0 to `most_extent`, and no dim of a value is larger.
  std::map<std::string, IntegerRange> symbols = {};
  int64_t most_extent = std::numeric_limits<int32_t>::max();
};

/// A range for every value of integers or bools in a graph.
///
///   %0 = iota() {type = i64[512]}                     [0, 511]
///   %1 = convert(%bool) {dtype = i64}                 [0, 1]
///   %2 = reduce(%1) {kind = sum, axes = [0]}          [0, 512] where the axis has 512
///   %3 = add(%0, %2)                                  [0, 1023]
///
/// What may wrap around in its dtype has all numbers of that. A composite without a rule of its own has what its parts
/// have, a loop what holds before and after each trip: a counter that is compared with a number ends there.
class IntegerRanges {
 public:
  explicit IntegerRanges(const Graph& g, RangeFacts facts = {});

  /// Of floats and complex numbers nothing is known: the widest range.
  const IntegerRange& of(Ref r) const { return ranges_[static_cast<size_t>(r.node)][static_cast<size_t>(r.result)]; }
  /// With which ranges the sub-graphs of an `if_else`, a `while_loop` or a `scan` begin, one list for each sub-graph in
  /// the order of the attributes: of a loop in every trip. Empty for other nodes.
  const std::vector<std::vector<IntegerRange>>& entries(size_t node) const;
  const RangeFacts& facts() const { return facts_; }

 private:
  friend class RangeRules;
  IntegerRanges(const Graph& g, RangeFacts facts, int depth);

  RangeFacts facts_;
  std::vector<std::vector<IntegerRange>> ranges_;
  std::map<size_t, std::vector<std::vector<IntegerRange>>> entries_;
};

}  // namespace rlx
