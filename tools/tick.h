// A clock for what takes less than a millisecond: the processor's cycle counter where it says that it runs at one rate
// (x86-64), which costs some ten nanoseconds to read; elsewhere the system's monotonic clock.
#pragma once

#include <chrono>
#include <cstdint>
#if defined(__x86_64__)
#include <cpuid.h>
#include <x86intrin.h>
#endif

namespace rlx::tools {

class Tick {
 public:
  static Tick now() {
#if defined(__x86_64__)
    if (runs_at_one_rate()) {
      unsigned processor = 0;
      Tick tick(__rdtscp(&processor));  // after all that stands before it; the fence keeps back what stands behind
      _mm_lfence();
      return tick;
    }
#endif
    return Tick(static_cast<uint64_t>(Clock::now().time_since_epoch().count()));
  }
  double ms_since(Tick earlier) const { return static_cast<double>(count_ - earlier.count_) * ms_of_one(); }

 private:
  using Clock = std::chrono::steady_clock;

  explicit Tick(uint64_t count) : count_(count) {}
#if defined(__x86_64__)
  /// CPUID 8000'0007h, EDX bit 8: the time-stamp counter is invariant (AMD64 manual, volume 3; Intel SDM 18.17.1).
  static bool runs_at_one_rate() {
    static const bool invariant = [] {
      unsigned a = 0, b = 0, c = 0, d = 0;
      return __get_cpuid(0x80000007, &a, &b, &c, &d) != 0 && (d >> 8 & 1) != 0;
    }();
    return invariant;
  }
#else
  static bool runs_at_one_rate() { return false; }
#endif
  /// Measured against the system's clock, once.
  static double ms_of_one() {
    static const double ms = [] {
      if (!runs_at_one_rate()) return std::chrono::duration<double, std::milli>(Clock::duration(1)).count();
      const auto begin = Clock::now();
      const Tick first = now();
      while (Clock::now() - begin < std::chrono::milliseconds(20)) {
      }
      const auto end = Clock::now();
      return std::chrono::duration<double, std::milli>(end - begin).count() /
             static_cast<double>(now().count_ - first.count_);
    }();
    return ms;
  }
  uint64_t count_;
};

}  // namespace rlx::tools
