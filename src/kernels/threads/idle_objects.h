// A lock-free pool of objects that only one call at a time may use, such as buffers and handles of libraries.
#pragma once

#include <atomic>
#include <cstddef>
#include <vector>

namespace rlx::kernels {

/// Keeps `count` objects. As long as at most `count` calls of `with_one` overlap, none allocates; further overlapping
/// calls make an object each, and delete it if no slot is free afterwards.
template <class T>
class IdleObjects {
 public:
  template <class Make>
  IdleObjects(int count, Make make) : slots_(static_cast<size_t>(count)) {
    for (auto& slot : slots_) slot.store(new T(make()), std::memory_order_relaxed);
  }
  ~IdleObjects() {
    for (auto& slot : slots_) delete slot.load(std::memory_order_relaxed);
  }
  IdleObjects(const IdleObjects&) = delete;
  IdleObjects& operator=(const IdleObjects&) = delete;

  /// Calls use(object) with an idle object, or else with the result of make().
  template <class Make, class Use>
  void with_one(Make make, Use use) const {
    T* object = nullptr;
    for (size_t i = 0; i < slots_.size() && !object; ++i)
      object = slots_[i].exchange(nullptr, std::memory_order_acquire);
    if (!object) object = new T(make());
    use(*object);
    for (auto& slot : slots_) {
      T* empty = nullptr;
      if (slot.compare_exchange_strong(empty, object, std::memory_order_release, std::memory_order_relaxed)) return;
    }
    delete object;
  }

 private:
  mutable std::vector<std::atomic<T*>> slots_;
};

}  // namespace rlx::kernels
