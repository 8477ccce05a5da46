// A clock for what takes less than a millisecond: the processor's cycle counter where it runs at one rate (x86-64),
// which costs some ten nanoseconds to read; elsewhere the system's monotonic clock.
#pragma once

#include <chrono>
#include <cstdint>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace rlx::tools {

class Tick {
 public:
  static Tick now() {
#if defined(__x86_64__)
    unsigned processor = 0;
    Tick tick(__rdtscp(&processor));  // after all that stands before it; the fence keeps back what stands behind
    _mm_lfence();
    return tick;
#else
    return Tick(static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count()));
#endif
  }
  double ms_since(Tick earlier) const { return static_cast<double>(count_ - earlier.count_) * ms_of_one(); }

 private:
  explicit Tick(uint64_t count) : count_(count) {}
  /// Measured against the system's clock, once.
  static double ms_of_one() {
    using Clock = std::chrono::steady_clock;
#if defined(__x86_64__)
    static const double ms = [] {
      const auto begin = Clock::now();
      const Tick first = now();
      while (Clock::now() - begin < std::chrono::milliseconds(20)) {
      }
      const auto end = Clock::now();
      return std::chrono::duration<double, std::milli>(end - begin).count() /
             static_cast<double>(now().count_ - first.count_);
    }();
    return ms;
#else
    return std::chrono::duration<double, std::milli>(Clock::duration(1)).count();
#endif
  }
  uint64_t count_;
};

}  // namespace rlx::tools
