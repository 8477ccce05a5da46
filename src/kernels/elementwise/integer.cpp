// The element-wise loops on integers and booleans. Arithmetic runs in 64 bits, and the loops of find_narrow wrap the
// results of narrower dtypes afterwards, so only ops whose result depends on the width or sign need the dtype here.
// elementwise.h defines what StableHLO leaves open.
#include <bit>
#include <limits>

#include "kernels/elementwise/loops.h"

namespace rlx::kernels::elementwise {
namespace {

using Op = ElementwiseOp;

template <class F>
Kernel unary(F) {
  return [](void* dst, const void* a, const void*, const void*, int64_t n) noexcept {
    const auto* x = static_cast<const uint64_t*>(a);
    for (int64_t i = 0; i < n; ++i) static_cast<uint64_t*>(dst)[i] = F()(x[i]);
  };
}
template <class F>
Kernel binary(F) {
  return [](void* dst, const void* a, const void* b, const void*, int64_t n) noexcept {
    const auto* x = static_cast<const uint64_t*>(a);
    const auto* y = static_cast<const uint64_t*>(b);
    for (int64_t i = 0; i < n; ++i) static_cast<uint64_t*>(dst)[i] = F()(x[i], y[i]);
  };
}
template <class T, class F>
Kernel compare(F) {
  return [](void* dst, const void* a, const void* b, const void*, int64_t n) noexcept {
    const T* x = static_cast<const T*>(a);
    const T* y = static_cast<const T*>(b);
    for (int64_t i = 0; i < n; ++i) static_cast<bool*>(dst)[i] = F()(x[i], y[i]);
  };
}

uint64_t power(uint64_t base, uint64_t exponent) {
  uint64_t result = 1;
  for (; exponent; exponent >>= 1, base *= base)
    if (exponent & 1) result *= base;
  return result;
}
/// For a negative exponent: 1 / base^|exponent|, truncated.
uint64_t signed_power(uint64_t base, uint64_t exponent) {
  if (static_cast<int64_t>(exponent) >= 0) return power(base, exponent);
  if (base == 1) return 1;
  if (base == ~uint64_t{0}) return exponent & 1 ? base : 1;
  return base == 0 ? ~uint64_t{0} : 0;  // 1 / 0 is all bits set
}
uint64_t signed_div(uint64_t x, uint64_t y) {
  if (y == 0) return ~uint64_t{0};
  if (y == ~uint64_t{0}) return -x;  // the lowest value / -1 wraps
  return static_cast<uint64_t>(static_cast<int64_t>(x) / static_cast<int64_t>(y));
}
uint64_t signed_rem(uint64_t x, uint64_t y) {
  if (y == 0) return x;
  if (y == ~uint64_t{0}) return 0;
  return static_cast<uint64_t>(static_cast<int64_t>(x) % static_cast<int64_t>(y));
}

/// Ops whose result depends on how many bits the dtype has.
template <int kBits>
Kernel find_by_width(Op op) {
  static constexpr uint64_t mask = ~uint64_t{0} >> (64 - kBits);
  switch (op) {
    case Op::popcnt: return unary([](uint64_t x) { return static_cast<uint64_t>(std::popcount(x & mask)); });
    case Op::clz:
      return unary([](uint64_t x) { return static_cast<uint64_t>(std::countl_zero(x & mask) - (64 - kBits)); });
    // A negative shift count is a large unsigned one.
    case Op::shift_left: return binary([](uint64_t x, uint64_t y) { return y < kBits ? x << y : 0; });
    case Op::shift_right_logical: return binary([](uint64_t x, uint64_t y) { return y < kBits ? (x & mask) >> y : 0; });
    case Op::shift_right_arithmetic:
      return binary([](uint64_t x, uint64_t y) {
        const auto extended = static_cast<int64_t>(x << (64 - kBits)) >> (64 - kBits);
        return static_cast<uint64_t>(extended >> (y < kBits ? y : kBits - 1));
      });
    default: return nullptr;
  }
}

/// Ops that interpret the register as T, which is int64_t or uint64_t.
template <class T>
Kernel find_by_sign(Op op) {
  constexpr bool is_signed = std::numeric_limits<T>::is_signed;
  switch (op) {
    case Op::abs: return unary([](uint64_t x) { return is_signed && static_cast<int64_t>(x) < 0 ? -x : x; });
    case Op::sign:
      return unary([](uint64_t x) {
        return is_signed && static_cast<int64_t>(x) < 0 ? ~uint64_t{0} : static_cast<uint64_t>(x != 0);
      });
    case Op::div:
      return binary([](uint64_t x, uint64_t y) { return is_signed ? signed_div(x, y) : y ? x / y : ~uint64_t{0}; });
    case Op::rem: return binary([](uint64_t x, uint64_t y) { return is_signed ? signed_rem(x, y) : y ? x % y : x; });
    case Op::pow: return binary([](uint64_t x, uint64_t y) { return is_signed ? signed_power(x, y) : power(x, y); });
    case Op::max: return binary([](uint64_t x, uint64_t y) { return static_cast<T>(x) > static_cast<T>(y) ? x : y; });
    case Op::min: return binary([](uint64_t x, uint64_t y) { return static_cast<T>(x) < static_cast<T>(y) ? x : y; });
    case Op::eq:
    case Op::total_eq: return compare<T>([](T x, T y) { return x == y; });
    case Op::ne:
    case Op::total_ne: return compare<T>([](T x, T y) { return x != y; });
    case Op::lt:
    case Op::total_lt: return compare<T>([](T x, T y) { return x < y; });
    case Op::le:
    case Op::total_le: return compare<T>([](T x, T y) { return x <= y; });
    case Op::gt:
    case Op::total_gt: return compare<T>([](T x, T y) { return x > y; });
    case Op::ge:
    case Op::total_ge: return compare<T>([](T x, T y) { return x >= y; });
    case Op::clamp:
      return [](void* dst, const void* a, const void* b, const void* c, int64_t n) noexcept {
        const T* low = static_cast<const T*>(a);
        const T* x = static_cast<const T*>(b);
        const T* high = static_cast<const T*>(c);
        for (int64_t i = 0; i < n; ++i) {
          const T floor = x[i] < low[i] ? low[i] : x[i];
          static_cast<T*>(dst)[i] = floor > high[i] ? high[i] : floor;
        }
      };
    default: return nullptr;
  }
}

template <class F>
Kernel boolean_binary(F) {
  return [](void* dst, const void* a, const void* b, const void*, int64_t n) noexcept {
    const auto* x = static_cast<const uint8_t*>(a);
    const auto* y = static_cast<const uint8_t*>(b);
    for (int64_t i = 0; i < n; ++i) static_cast<uint8_t*>(dst)[i] = static_cast<uint8_t>(F()(x[i], y[i]));
  };
}

}  // namespace

Kernel find_integer(ElementwiseOp op, DType dtype) {
  switch (op) {
    case Op::neg: return unary([](uint64_t x) { return -x; });
    case Op::logical_not: return unary([](uint64_t x) { return ~x; });
    case Op::floor:
    case Op::ceil:
    case Op::trunc:
    case Op::round_nearest_even:
    case Op::round_nearest_afz:
    case Op::real:
    case Op::conj: return unary([](uint64_t x) { return x; });
    case Op::relu:
      return dtype == u64 ? unary([](uint64_t x) { return x; })
                          : unary([](uint64_t x) { return static_cast<int64_t>(x) < 0 ? 0 : x; });
    case Op::add: return binary([](uint64_t x, uint64_t y) { return x + y; });
    case Op::sub: return binary([](uint64_t x, uint64_t y) { return x - y; });
    case Op::mul: return binary([](uint64_t x, uint64_t y) { return x * y; });
    case Op::logical_and: return binary([](uint64_t x, uint64_t y) { return x & y; });
    case Op::logical_or: return binary([](uint64_t x, uint64_t y) { return x | y; });
    case Op::logical_xor: return binary([](uint64_t x, uint64_t y) { return x ^ y; });
    case Op::fma:
      return [](void* dst, const void* a, const void* b, const void* c, int64_t n) noexcept {
        const auto* x = static_cast<const uint64_t*>(a);
        const auto* y = static_cast<const uint64_t*>(b);
        const auto* z = static_cast<const uint64_t*>(c);
        for (int64_t i = 0; i < n; ++i) static_cast<uint64_t*>(dst)[i] = x[i] * y[i] + z[i];
      };
    case Op::is_finite:
      return [](void* dst, const void*, const void*, const void*, int64_t n) noexcept {
        for (int64_t i = 0; i < n; ++i) static_cast<bool*>(dst)[i] = true;
      };
    default: break;
  }
  const Kernel by_sign = kind_of(dtype) == Kind::unsigned_int ? find_by_sign<uint64_t>(op) : find_by_sign<int64_t>(op);
  if (by_sign) return by_sign;
  switch (info(dtype).bits) {
    case 8: return find_by_width<8>(op);
    case 16: return find_by_width<16>(op);
    case 32: return find_by_width<32>(op);
    default: return find_by_width<64>(op);
  }
}

Kernel find_boolean(ElementwiseOp op) {
  switch (op) {
    case Op::logical_not:
      return [](void* dst, const void* a, const void*, const void*, int64_t n) noexcept {
        for (int64_t i = 0; i < n; ++i)
          static_cast<uint8_t*>(dst)[i] = static_cast<uint8_t>(static_cast<const uint8_t*>(a)[i] ^ 1);
      };
    // StableHLO: on booleans addition is or, multiplication is and.
    case Op::add:
    case Op::max:
    case Op::logical_or: return boolean_binary([](int x, int y) { return x | y; });
    case Op::mul:
    case Op::min:
    case Op::logical_and: return boolean_binary([](int x, int y) { return x & y; });
    case Op::logical_xor:
    case Op::ne:
    case Op::total_ne: return boolean_binary([](int x, int y) { return x ^ y; });
    case Op::eq:
    case Op::total_eq: return boolean_binary([](int x, int y) { return x == y; });
    case Op::lt:
    case Op::total_lt: return boolean_binary([](int x, int y) { return x < y; });
    case Op::le:
    case Op::total_le: return boolean_binary([](int x, int y) { return x <= y; });
    case Op::gt:
    case Op::total_gt: return boolean_binary([](int x, int y) { return x > y; });
    case Op::ge:
    case Op::total_ge: return boolean_binary([](int x, int y) { return x >= y; });
    default: return nullptr;
  }
}

}  // namespace rlx::kernels::elementwise
