// The two counter-based generators, for numbers and for graph values: `T` is uint32_t or Value. Salmon, Moraes, Dror,
// Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011. Neighbour: random_bits.cpp, which says what counters an
// element has.
#pragma once

#include <array>
#include <cstdint>

#include "rlx/ops/elementwise.h"

namespace rlx {

// ---- what the rounds are made of ----
inline uint32_t rotated_left(uint32_t x, int n) { return x << n | x >> (32 - n); }
inline Value rotated_left(Value x, int n) {
  return bitwise_or(shift_left(x, full_like(x, n)), shift_right_logical(x, full_like(x, 32 - n)));
}
inline uint32_t exclusive_or(uint32_t x, uint32_t y) { return x ^ y; }
inline Value exclusive_or(Value x, Value y) { return bitwise_xor(x, y); }
inline uint32_t plus(uint32_t x, uint32_t n) { return x + n; }
inline Value plus(Value x, uint32_t n) { return x + double(n); }

template <class T>
struct HighLow {
  T high, low;
};
inline HighLow<uint32_t> wide_product(uint32_t x, uint32_t m) {
  uint64_t p = uint64_t{x} * m;
  return {static_cast<uint32_t>(p >> 32), static_cast<uint32_t>(p)};
}
/// By halves: not every device has 64-bit integers.
inline HighLow<Value> wide_product(Value x, uint32_t m) {
  auto high_half = [](Value v) { return shift_right_logical(v, full_like(v, 16)); };
  auto low_half = [](Value v) { return bitwise_and(v, full_like(v, 0xffff)); };
  double m_high = m >> 16, m_low = m & 0xffff;
  Value x_high = high_half(x), x_low = low_half(x);
  Value middle = x_high * m_low + high_half(x_low * m_low);
  Value other = x_low * m_high + low_half(middle);
  return {x_high * m_high + high_half(middle) + high_half(other), x * double(m)};
}

// ---- the generators ----
template <class T>
using Block4 = std::array<T, 4>;
template <class T>
using Block2 = std::array<T, 2>;

/// Philox 4x32-10; constants of Random123's philox.h.
template <class T>
Block4<T> philox_4x32_10(Block4<T> counter, Block2<T> key) {
  for (int round = 0; round < 10; ++round) {
    if (round > 0) key = {plus(key[0], 0x9E3779B9u), plus(key[1], 0xBB67AE85u)};
    auto p0 = wide_product(counter[0], 0xD2511F53u), p1 = wide_product(counter[2], 0xCD9E8D57u);
    counter = {exclusive_or(exclusive_or(p1.high, counter[1]), key[0]), p1.low,
               exclusive_or(exclusive_or(p0.high, counter[3]), key[1]), p0.low};
  }
  return counter;
}

/// Threefry 2x32-20; constants of Random123's threefry.h.
template <class T>
Block2<T> threefry_2x32_20(Block2<T> counter, Block2<T> key) {
  constexpr int kRotations[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
  T parity = exclusive_or(key[0], key[1]);
  const T keys[3] = {key[0], key[1], [&] {
                       if constexpr (std::is_same_v<T, Value>)
                         return exclusive_or(parity, full_like(parity, 0x1BD11BDA));
                       else return exclusive_or(parity, 0x1BD11BDAu);
                     }()};
  T x0 = counter[0] + keys[0], x1 = counter[1] + keys[1];
  for (uint32_t group = 0; group < 5; ++group) {
    for (int n : kRotations[group % 2]) {
      x0 = x0 + x1;
      x1 = exclusive_or(rotated_left(x1, n), x0);
    }
    x0 = x0 + keys[(group + 1) % 3];
    x1 = plus(x1 + keys[(group + 2) % 3], group + 1);
  }
  return {x0, x1};
}

}  // namespace rlx
