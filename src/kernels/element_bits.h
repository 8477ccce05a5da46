// From the size of an element to an unsigned type of that size, for kernels that move elements and do not look at them.
#pragma once

#include <cstdint>
#include <type_traits>

namespace rlx::kernels {

/// 16 bytes that are copied together.
struct Bits128 {
  uint64_t words[2];
};

/// Calls f.operator()<T>() with a type of `bytes` bytes: 1, 2, 4, 8 or 16.
template <class F>
auto with_bits(int64_t bytes, F f) {
  switch (bytes) {
    case 1: return f.template operator()<uint8_t>();
    case 2: return f.template operator()<uint16_t>();
    case 4: return f.template operator()<uint32_t>();
    case 8: return f.template operator()<uint64_t>();
    default: return f.template operator()<Bits128>();
  }
}

}  // namespace rlx::kernels
