// A list of at most so many entries, from which the one that was not used for the longest time is dropped. Executables
// keep what they made for the extents of a run in one, so that a program that meets ever new extents does not grow.
#pragma once

#include <cstddef>
#include <list>
#include <utility>

namespace rlx {

/// Not for several threads at once.
template <class T>
class LruList {
 public:
  explicit LruList(size_t most) : most_(most) {}

  /// The entry of which `is_it` is true, asked from the latest one on; it is the latest from now on. Null if there is
  /// none. Its address is stable until it is dropped, removed or cleared.
  template <class F>
  T* find(F is_it) {
    for (auto at = entries_.begin(); at != entries_.end(); ++at)
      if (is_it(*at)) {
        entries_.splice(entries_.begin(), entries_, at);
        return &entries_.front();
      }
    return nullptr;
  }
  /// Adds it as the latest one; where there are too many, the one that was not used for the longest time goes.
  T& add(T entry) {
    entries_.push_front(std::move(entry));
    if (entries_.size() > most_) entries_.pop_back();
    return entries_.front();
  }
  template <class F>
  void remove_if(F is_it) {
    entries_.remove_if(is_it);
  }
  void clear() { entries_.clear(); }

  // From the latest one on.
  auto begin() const { return entries_.begin(); }
  auto end() const { return entries_.end(); }

 private:
  size_t most_;
  std::list<T> entries_;
};

}  // namespace rlx
