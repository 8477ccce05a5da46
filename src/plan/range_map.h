// What is known of each byte of a memory, kept by ranges of bytes of which the same is known.
#pragma once

#include <cstddef>
#include <iterator>
#include <map>
#include <utility>

namespace rlx {

template <class T>
class RangeMap {
 public:
  /// Calls `f(from, to, known)` for the ranges that [begin, end) consists of; of bytes never named, `known` is T().
  template <class F>
  void over(size_t begin, size_t end, F f) {
    if (begin >= end) return;
    split(begin), split(end);
    for (size_t at = begin; at < end;) {
      auto range = ranges_.find(at);
      if (range == ranges_.end()) {
        const auto next = ranges_.upper_bound(at);
        range = ranges_.emplace(at, Range{next == ranges_.end() || next->first > end ? end : next->first, T()}).first;
      }
      f(at, range->second.end, range->second.known);
      at = range->second.end;
    }
  }

 private:
  struct Range {
    size_t end;
    T known;
  };
  /// No range crosses `at` afterwards.
  void split(size_t at) {
    auto range = ranges_.upper_bound(at);
    if (range == ranges_.begin()) return;
    --range;
    if (range->first == at || range->second.end <= at) return;
    Range upper = range->second;
    range->second.end = at;
    ranges_.emplace(at, std::move(upper));
  }
  std::map<size_t, Range> ranges_;
};

}  // namespace rlx
