// Objects that only one call at a time may use, kept between calls.
#pragma once

#include <atomic>
#include <cstddef>
#include <vector>

namespace rlx::kernels {

/// With as many places as calls that run at a time, nothing is allocated after the beginning; where more overlap,
/// further objects are made for a while.
template <class T>
class IdleObjects {
 public:
  template <class Make>
  IdleObjects(int count, Make make) : places_(static_cast<size_t>(count)) {
    for (auto& place : places_) place.store(new T(make()), std::memory_order_relaxed);
  }
  ~IdleObjects() {
    for (auto& place : places_) delete place.load(std::memory_order_relaxed);
  }
  IdleObjects(const IdleObjects&) = delete;
  IdleObjects& operator=(const IdleObjects&) = delete;

  template <class Make, class Use>
  void with_one(Make make, Use use) const {
    T* object = nullptr;
    for (size_t i = 0; i < places_.size() && !object; ++i)
      object = places_[i].exchange(nullptr, std::memory_order_acquire);
    if (!object) object = new T(make());
    use(*object);
    for (auto& place : places_) {
      T* empty = nullptr;
      if (place.compare_exchange_strong(empty, object, std::memory_order_release, std::memory_order_relaxed)) return;
    }
    delete object;
  }

 private:
  mutable std::vector<std::atomic<T*>> places_;
};

}  // namespace rlx::kernels
