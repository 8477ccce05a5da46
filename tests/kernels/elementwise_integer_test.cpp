// Element-wise integer ops against 128-bit arithmetic: all pairs of 8-bit values, chosen ones of the wider dtypes.
#include <bit>

#include "kernels/elementwise_test.h"

using namespace rlx;
using namespace rlx::test;

namespace {

// 64-bit values do not fit the doubles of Elements, so these tests hold bits: sign- or zero-extended to 64.
using Bits = std::vector<uint64_t>;
__extension__ typedef __int128 Wide;

bool is_signed(DType t) { return kind_of(t) == Kind::signed_int; }
int width(DType t) { return info(t).bits; }
uint64_t mask(DType t) { return ~uint64_t{0} >> (64 - width(t)); }
Wide value(DType t, uint64_t bits) {
  return is_signed(t) ? Wide{static_cast<int64_t>(bits << (64 - width(t))) >> (64 - width(t))} : Wide{bits & mask(t)};
}
uint64_t wrapped(DType t, Wide v) { return static_cast<uint64_t>(v) & mask(t); }

std::vector<unsigned char> packed(DType t, const Bits& values) {
  const size_t bytes = byte_size(t);
  std::vector<unsigned char> memory(values.size() * bytes);
  for (size_t i = 0; i < values.size(); ++i) std::memcpy(&memory[i * bytes], &values[i], bytes);  // little-endian
  return memory;
}
Bits unpacked(DType t, const std::vector<unsigned char>& memory) {
  const size_t bytes = byte_size(t);
  Bits values(memory.size() / bytes, 0);
  for (size_t i = 0; i < values.size(); ++i) std::memcpy(&values[i], &memory[i * bytes], bytes);
  return values;
}
Bits apply(Op op, DType t, DType out, const Bits& x, const Bits* y = nullptr) {
  const auto a = packed(t, x), b = y ? packed(t, *y) : a;
  std::vector<unsigned char> z(x.size() * byte_size(out));
  std::vector<std::pair<DType, const void*>> operands{{t, a.data()}};
  if (y) operands.push_back({t, b.data()});
  apply_op(op, out, operands, z.data(), static_cast<int64_t>(x.size()));
  return unpacked(out, z);
}

/// All pairs: of every value of 8 bits, of the interesting ones otherwise.
void all_pairs(DType t, Bits& x, Bits& y) {
  Bits values;
  if (width(t) == 8) {
    for (uint64_t v = 0; v < 256; ++v) values.push_back(v);
  } else {
    const uint64_t top = uint64_t{1} << (width(t) - 1);
    for (uint64_t v :
         {uint64_t{0},  uint64_t{1},   uint64_t{2},     uint64_t{3},  uint64_t{7},
          uint64_t{15}, uint64_t{16},  uint64_t{31},    uint64_t{32}, uint64_t{63},
          uint64_t{64}, uint64_t{100}, uint64_t{12345}, top - 1,      top,
          top + 1,      mask(t),       mask(t) - 1,     mask(t) - 6,  uint64_t{0x5555555555555555} & mask(t)})
      values.push_back(v);
  }
  for (uint64_t a : values)
    for (uint64_t b : values) x.push_back(a), y.push_back(b);
}

Wide power(DType t, Wide base, Wide exponent) {
  if (exponent < 0) return base == 1 ? 1 : base == -1 ? (exponent % 2 == 0 ? 1 : -1) : base == 0 ? -1 : 0;
  uint64_t result = 1;
  for (Wide i = 0; i < exponent && i < 300; ++i) result = (result * static_cast<uint64_t>(base)) & mask(t);
  return result;
}

struct Binary {
  Op op;
  Wide (*exact)(DType, Wide, Wide);
};
const Binary kBinary[] = {
    {Op::add, [](DType, Wide x, Wide y) { return x + y; }},
    {Op::sub, [](DType, Wide x, Wide y) { return x - y; }},
    {Op::mul, [](DType, Wide x, Wide y) { return Wide{static_cast<uint64_t>(x) * static_cast<uint64_t>(y)}; }},
    {Op::div, [](DType, Wide x, Wide y) { return y == 0 ? Wide{-1} : x / y; }},
    {Op::rem, [](DType, Wide x, Wide y) { return y == 0 ? x : x % y; }},
    {Op::max, [](DType, Wide x, Wide y) { return x > y ? x : y; }},
    {Op::min, [](DType, Wide x, Wide y) { return x < y ? x : y; }},
    {Op::logical_and, [](DType, Wide x, Wide y) { return x & y; }},
    {Op::logical_or, [](DType, Wide x, Wide y) { return x | y; }},
    {Op::logical_xor, [](DType, Wide x, Wide y) { return x ^ y; }},
    {Op::shift_left,
     [](DType t, Wide x, Wide y) {
       const uint64_t by = wrapped(t, y);
       return by >= static_cast<uint64_t>(width(t)) ? Wide{0} : Wide{wrapped(t, x) << by};
     }},
    {Op::shift_right_logical,
     [](DType t, Wide x, Wide y) {
       const uint64_t by = wrapped(t, y);
       return by >= static_cast<uint64_t>(width(t)) ? Wide{0} : Wide{wrapped(t, x) >> by};
     }},
    {Op::shift_right_arithmetic,
     [](DType t, Wide x, Wide y) {
       const uint64_t by = std::min<uint64_t>(wrapped(t, y), 64);
       const uint64_t bits = wrapped(t, x) << (64 - width(t));
       return (Wide{static_cast<int64_t>(bits)} >> (64 - width(t))) >> by;
     }},
};
struct Compare {
  Op op;
  bool (*exact)(Wide, Wide);
};
const Compare kCompare[] = {
    {Op::eq, [](Wide x, Wide y) { return x == y; }}, {Op::ne, [](Wide x, Wide y) { return x != y; }},
    {Op::lt, [](Wide x, Wide y) { return x < y; }},  {Op::le, [](Wide x, Wide y) { return x <= y; }},
    {Op::gt, [](Wide x, Wide y) { return x > y; }},  {Op::total_ge, [](Wide x, Wide y) { return x >= y; }},
};

}  // namespace

TEST_CASE("integer arithmetic wraps, division by zero gives all bits, shifts by the width give nothing") {
  for (DType t : integer_dtypes()) {
    Bits x, y;
    all_pairs(t, x, y);
    for (const Binary& b : kBinary) {
      const Bits z = apply(b.op, t, t, x, &y);
      for (size_t i = 0; i < x.size(); ++i) {
        if (z[i] == wrapped(t, b.exact(t, value(t, x[i]), value(t, y[i])))) continue;
        INFO(std::string(name_of(t)), " op ", static_cast<int>(b.op), " of ", x[i], " and ", y[i], " gives ", z[i]);
        REQUIRE(false);
      }
    }
    for (const Compare& c : kCompare) {
      const Bits z = apply(c.op, t, boolean, x, &y);
      for (size_t i = 0; i < x.size(); ++i) REQUIRE((z[i] != 0) == c.exact(value(t, x[i]), value(t, y[i])));
    }
  }
}

TEST_CASE("integer powers wrap, and negative exponents truncate 1 / x^n") {
  for (DType t : integer_dtypes()) {
    Bits x, y;
    all_pairs(t, x, y);
    const Bits z = apply(Op::pow, t, t, x, &y);
    for (size_t i = 0; i < x.size(); ++i) {
      if (value(t, y[i]) >= 300) continue;
      REQUIRE(z[i] == wrapped(t, power(t, value(t, x[i]), value(t, y[i]))));
    }
  }
}

TEST_CASE("unary integer ops know the width and sign of their dtype") {
  for (DType t : integer_dtypes()) {
    Bits x, unused;
    all_pairs(t, x, unused);
    const auto check = [&](Op op, auto exact) {
      const Bits z = apply(op, t, t, x);
      for (size_t i = 0; i < x.size(); ++i) {
        CAPTURE(static_cast<int>(op));
        REQUIRE(z[i] == wrapped(t, exact(value(t, x[i]))));
      }
    };
    check(Op::neg, [](Wide v) { return -v; });
    check(Op::abs, [](Wide v) { return v < 0 ? -v : v; });
    check(Op::sign, [](Wide v) { return Wide{(v > 0) - (v < 0)}; });
    check(Op::logical_not, [](Wide v) { return ~v; });
    check(Op::relu, [](Wide v) { return v < 0 ? Wide{0} : v; });
    check(Op::floor, [](Wide v) { return v; });
    check(Op::popcnt, [&](Wide v) { return Wide{std::popcount(wrapped(t, v))}; });
    check(Op::clz, [&](Wide v) { return Wide{std::countl_zero(wrapped(t, v)) - (64 - width(t))}; });
  }
}

TEST_CASE("integers narrower than 64 bits wrap between the ops of one program") {
  // (100 + 100) > 0 is false in i8, because 200 wraps to -56.
  kernels::ElementwiseProgram p;
  const auto x = p.load(i8, 0);
  p.store(p.apply(Op::gt, boolean, p.apply(Op::add, i8, x, x), p.integer(i8, 0)), 0);
  p.compile();
  Scratch scratch(p.scratch_bytes());
  int8_t in = 100;
  bool out = true;
  const kernels::ElementwiseBuffer from{&in, {0}}, to{&out, {0}};
  p.run({0, {}, &from, &to}, 0, 1, scratch.data());
  CHECK(!out);
}

TEST_CASE("clamp and select work on 64-bit integers that no double holds") {
  const int64_t big = (int64_t{1} << 62) + 1;
  const std::vector<int64_t> low{big, big, big}, x{big - 1, big + 1, big + 3}, high{big + 2, big + 2, big + 2};
  std::vector<int64_t> z(3);
  apply_op(Op::clamp, i64, {{i64, low.data()}, {i64, x.data()}, {i64, high.data()}}, z.data(), 3);
  CHECK(z == std::vector<int64_t>{big, big + 1, big + 2});
  const bool pred[] = {true, false, true};
  apply_op(Op::select, i64, {{boolean, pred}, {i64, low.data()}, {i64, x.data()}}, z.data(), 3);
  CHECK(z == std::vector<int64_t>{big, big + 1, big});
}
