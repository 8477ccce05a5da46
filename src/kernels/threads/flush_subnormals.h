// Flush-to-zero mode. While a FlushSubnormals lives, the calling thread's f32 and f64 arithmetic treats subnormal
// operands as 0 and returns 0 instead of subnormal results. It is for loops over decaying numbers (moments of an
// optimizer): a number that is multiplied by 0.9 again and again does not reach 0 but stays at 2^-147, and x86
// processors need some hundred cycles for each vector that holds such a number. The compiler does not know about the
// mode, so the arithmetic must be in a function that it cannot inline.
#pragma once

#include <cstdint>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace rlx::kernels {

class FlushSubnormals {
 public:
  explicit FlushSubnormals(bool flush = true) : before_(control()) {
    if (flush) set_control(before_ | kFlush);
  }
  ~FlushSubnormals() { set_control(before_); }
  FlushSubnormals(const FlushSubnormals&) = delete;
  FlushSubnormals& operator=(const FlushSubnormals&) = delete;

#if defined(__SSE2__)
  static constexpr bool kHasEffect = true;

 private:
  static constexpr uint64_t kFlush = 0x8040;  // MXCSR: FTZ (results) and DAZ (operands)
  static uint64_t control() { return _mm_getcsr(); }
  static void set_control(uint64_t bits) { _mm_setcsr(static_cast<unsigned>(bits)); }
#elif defined(__aarch64__)
  static constexpr bool kHasEffect = true;

 private:
  static constexpr uint64_t kFlush = uint64_t{1} << 24;  // FPCR.FZ
  static uint64_t control() {
    uint64_t bits = 0;
    asm volatile("mrs %0, fpcr" : "=r"(bits));
    return bits;
  }
  static void set_control(uint64_t bits) { asm volatile("msr fpcr, %0" ::"r"(bits)); }
#else
  static constexpr bool kHasEffect = false;

 private:
  static constexpr uint64_t kFlush = 0;
  static uint64_t control() { return 0; }
  static void set_control(uint64_t) {}
#endif
  uint64_t before_;
};

}  // namespace rlx::kernels
