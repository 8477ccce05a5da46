// A cache of the most recently used plans, by their spec. A hit takes a lock and compares a few specs; it does not
// allocate. The size is bounded, so that a symbolic dim that never repeats cannot fill the memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace rlx::kernels {

template <class Spec, class Plan>
class PlanCache {
 public:
  explicit PlanCache(size_t capacity) : capacity_(capacity) { entries_.reserve(capacity); }

  /// The plan of an equal spec, or make(spec), which is called without the lock.
  template <class Make>
  std::shared_ptr<const Plan> find_or_make(const Spec& spec, Make make) {
    {
      std::lock_guard lock(mutex_);
      if (Entry* entry = find(spec)) return entry->plan;
    }
    std::shared_ptr<const Plan> plan = make(spec);
    std::lock_guard lock(mutex_);
    if (Entry* entry = find(spec)) return entry->plan;  // another thread has made it meanwhile
    if (entries_.size() == capacity_)
      *std::min_element(entries_.begin(), entries_.end(),
                        [](const Entry& a, const Entry& b) { return a.used < b.used; }) = {spec, plan, ++clock_};
    else entries_.push_back({spec, plan, ++clock_});
    return plan;
  }

 private:
  struct Entry {
    Spec spec;
    std::shared_ptr<const Plan> plan;
    uint64_t used;
  };

  Entry* find(const Spec& spec) {
    for (Entry& entry : entries_)
      if (entry.spec == spec) {
        entry.used = ++clock_;
        return &entry;
      }
    return nullptr;
  }

  std::mutex mutex_;
  size_t capacity_;
  uint64_t clock_ = 0;
  std::vector<Entry> entries_;
};

}  // namespace rlx::kernels
