// Operations on bits, which ML Programs do not have: four bits at a time, by arithmetic and a table. Slow, and exact.
// Integers of fewer bits are carried in i32 with their own sign, so their bits are those of the i32; of integers of 64
// bits, where they are narrowed, the high half is that of a number that i32 (or u32) holds.
#include <cmath>

#include "backends/coreml/lowerings.h"
#include "rlx/ops.h"

namespace rlx::coreml {

namespace when {
std::optional<std::string> has_bits(const Question& q) {
  for (const Type& t : q.operands)
    if (!rlx::is_integer(t.dtype)) return text_of("of integers, and not of ", t.dtype);
  bool right = q.node.op == &op::shift_right_logical || q.node.op == &op::shift_right_arithmetic;
  if (right && info(q.operands[0].dtype).bits > 32)
    return text_of("it brings down bits of ", q.operands[0].dtype, " above the 32 that are carried");
  return std::nullopt;
}
}  // namespace when

namespace {

constexpr int kDigits = 8;

/// Bits 4 digit to 4 digit + 3 of x, as a number from 0 to 15. Division and remainder round down, so negative numbers
/// are those of the two's complement.
Var digit_of(Emitter& e, const Var& x, int digit) {
  Var shifted = digit == 0 ? x : e.binary("floor_div", x, e.integer(int64_t{1} << (4 * digit)));
  return e.binary("mod", shifted, e.integer(16));
}

Var table_of(Emitter& e, int64_t count, const std::function<int64_t(int64_t)>& f) {
  Tensor t(i32, {count});
  for (int64_t i = 0; i < count; ++i) t.mutable_values<int32_t>()[static_cast<size_t>(i)] = static_cast<int32_t>(f(i));
  return e.constant(t);
}

}  // namespace

namespace {

/// All digits of x at once, along a new last dim.
Var digits_of(Emitter& e, const Var& x) {
  Tensor powers(i32, {kDigits});
  for (int d = 0; d < kDigits; ++d) powers.mutable_values<int32_t>()[static_cast<size_t>(d)] = 1 << (4 * d);
  Var column = e.reshape(x, {e.count(x.shape), 1});
  return e.binary("mod", e.binary("floor_div", column, e.constant(powers)), e.integer(16));
}

/// The number with these digits, of that shape; the last one holds the sign. No sum and no product leaves 32 bits.
Var from_digits(Emitter& e, const Var& digits, const Shape& shape) {
  Tensor from(i32, {kDigits}), less(i32, {kDigits}), worth(i32, {kDigits});
  for (size_t d = 0; d < kDigits; ++d) {
    bool top = d + 1 == kDigits;
    from.mutable_values<int32_t>()[d] = top ? 8 : 16;
    less.mutable_values<int32_t>()[d] = top ? 16 : 0;
    worth.mutable_values<int32_t>()[d] = 1 << (4 * d);
  }
  Var high = e.cast(e.test("greater_equal", digits, e.constant(from)), i32);
  Var with_sign = e.sub(digits, e.mul(high, e.constant(less)));
  return e.reshape(e.reduce("reduce_sum", e.mul(with_sign, e.constant(worth)), {1}), shape);
}

/// k, if a number is 2^k - 1 for 1 <= k <= 30.
std::optional<int> low_bits(std::optional<double> number) {
  for (int k = 1; number && k <= 30; ++k)
    if (*number == static_cast<double>((int64_t{1} << k) - 1)) return k;
  return std::nullopt;
}

}  // namespace

Lowered lower_bitwise(Lowering& l) {
  Emitter& e = l.e;
  Var x = l.operand(0), y = l.operand(1);
  const OpDef* op = l.node.op;
  if (op == &op::bitwise_and)  // of the low bits a remainder is left
    for (size_t i : {0, 1})
      if (auto k = low_bits(l.number(i))) return {e.binary("mod", i == 0 ? y : x, e.integer(int64_t{1} << *k))};
  Var table = table_of(e, 256, [&](int64_t i) {
    int64_t a = i / 16, b = i % 16;
    return op == &op::bitwise_and ? a & b : op == &op::bitwise_or ? a | b : a ^ b;
  });
  Var both = e.gather_flat(table, e.add(e.mul(digits_of(e, x), 16.0), digits_of(e, y)));
  return {from_digits(e, both, x.shape)};
}

Lowered lower_complement(Lowering& l) {
  // -1 - x in two's complement; the largest number less x where there is no sign.
  DType dtype = l.types[0].dtype;
  bool narrow = kind_of(dtype) == Kind::unsigned_int && !is_wide_unsigned(dtype);
  double from = narrow ? static_cast<double>((int64_t{1} << info(dtype).bits) - 1) : -1;
  return {l.e.sub(l.e.number(i32, from), l.operand(0))};
}

Lowered lower_popcnt(Lowering& l) {
  Emitter& e = l.e;
  Var x = l.operand(0);
  Var table = table_of(e, 16, [](int64_t i) { return (i & 1) + (i >> 1 & 1) + (i >> 2 & 1) + (i >> 3 & 1); });
  std::optional<Var> sum;
  DType dtype = l.types[0].dtype;
  for (int d = 0; d < (std::min(info(dtype).bits, 32) + 3) / 4; ++d) {
    Var bits = e.gather_flat(table, digit_of(e, x, d));
    sum = sum ? e.add(*sum, bits) : bits;
  }
  if (dtype == i64) sum = e.add(*sum, e.mul(e.cast(e.test("less", x, 0.0), i32), 32.0));
  return {*sum};
}

Lowered lower_clz(Lowering& l) {
  Emitter& e = l.e;
  Var x = l.operand(0);
  // From the lowest digit up: a digit that is not zero decides anew.
  Var table = table_of(e, 16, [](int64_t i) { return i >= 8 ? 0 : i >= 4 ? 1 : i >= 2 ? 2 : i >= 1 ? 3 : 4; });
  DType dtype = l.types[0].dtype;
  int digits = std::min(info(dtype).bits, 32) / 4;
  Var zeros = e.broadcast(e.reshape(e.integer(4 * digits), Shape(x.shape.size(), 1)), x.shape);
  for (int d = 0; d < digits; ++d) {
    Var digit = digit_of(e, x, d);
    Var here = e.add(e.gather_flat(table, digit), static_cast<double>(4 * (digits - 1 - d)));
    zeros = e.select(e.test("greater", digit, 0.0), here, zeros);
  }
  if (info(dtype).bits == 64) zeros = e.add(zeros, 32.0);
  if (dtype == i64) zeros = e.select(e.test("less", x, 0.0), e.integer(0), zeros);
  return {zeros};
}

namespace {

/// How far to shift, in steps that multiply without leaving 32 bits: powers of two, of 15 bits each at most.
std::vector<Var> powers_of(Emitter& e, const Var& by, int64_t width) {
  // What is negative as a signed number is more than the width as an unsigned one.
  Var rest = e.select(e.test("less", by, 0.0), e.integer(width), e.binary("minimum", by, e.integer(width)));
  Var table = table_of(e, 16, [](int64_t i) { return int64_t{1} << i; });
  std::vector<Var> powers;
  for (int64_t done = 0; done < width; done += 15) {
    Var step = e.binary("minimum", rest, e.integer(15));
    powers.push_back(e.gather_flat(table, step));
    rest = e.sub(rest, step);
  }
  return powers;
}

}  // namespace

namespace {

/// A number of places that is the same everywhere, if it is less than 32 and less than the width.
std::optional<int> places_of(Lowering& l) {
  auto by = l.number(1);
  int width = std::min(info(l.types[0].dtype).bits, 32);
  if (!by || *by < 0 || *by >= width) return std::nullopt;
  return static_cast<int>(*by);
}
/// x / 2^n, rounded down, for n up to 31.
Var halved(Emitter& e, const Var& x, int n) {
  if (n == 0) return x;
  if (n == 31) return halved(e, halved(e, x, 30), 1);  // 2^31 is no i32
  return e.binary("floor_div", x, e.integer(int64_t{1} << n));
}
/// x 2^n for n from 0 to 31: what the shift keeps of x first, with the sign that it gets, so that nothing overflows.
Var doubled(Emitter& e, const Var& x, int n) {
  if (n == 0) return x;
  double least = -std::ldexp(1.0, 31);
  Var low = n == 1 ? e.select(e.test("less", x, 0.0), e.sub(x, least), x)
                   : e.binary("mod", x, e.integer(int64_t{1} << (32 - n)));
  Var high = e.test("greater_equal", low, std::ldexp(1.0, 31 - n));
  Var with_sign = e.select(high, e.add(low, -std::ldexp(1.0, 32 - n)), low);
  return n == 31 ? e.mul(e.mul(with_sign, std::ldexp(1.0, 30)), 2.0) : e.mul(with_sign, std::ldexp(1.0, n));
}

}  // namespace

Lowered lower_shift_left(Lowering& l) {
  Emitter& e = l.e;
  DType dtype = l.types[0].dtype;
  Var x = l.operand(0);
  if (auto n = places_of(l)) return {wrapped(e, doubled(e, x, *n), dtype)};
  for (const Var& power : powers_of(e, l.operand(1), info(dtype).bits)) {
    // In halves of 16 bits, whose products stay within 31.
    Var low = e.mul(e.binary("mod", x, e.integer(65536)), power);
    Var high =
        e.add(e.mul(e.binary("floor_div", x, e.integer(65536)), power), e.binary("floor_div", low, e.integer(65536)));
    high = e.sub(e.binary("mod", e.add(high, 32768.0), e.integer(65536)), 32768.0);
    x = e.add(e.mul(high, 65536.0), e.binary("mod", low, e.integer(65536)));
  }
  return {wrapped(e, x, dtype)};
}

Lowered lower_shift_right(Lowering& l) {
  Emitter& e = l.e;
  DType dtype = l.types[0].dtype;
  int width = info(dtype).bits;
  const bool is_arithmetic = l.node.op == &op::shift_right_arithmetic;
  // What is carried without a sign of its own has zeros above it, and gets the sign whose copies come in.
  const bool is_carried_unsigned = kind_of(dtype) == Kind::unsigned_int && !is_wide_unsigned(dtype);
  Var x = l.operand(0);
  if (is_arithmetic && is_carried_unsigned) {
    const Var is_high = e.test("greater_equal", x, std::ldexp(1.0, width - 1));
    x = e.select(is_high, e.add(x, -std::ldexp(1.0, width)), x);
  }
  const auto result = [&](const Var& v) { return Lowered{is_arithmetic ? wrapped(e, v, dtype) : v}; };
  if (auto n = places_of(l)) {
    Var q = halved(e, x, *n);
    bool zeros =
        l.node.op == &op::shift_right_logical && (kind_of(dtype) == Kind::signed_int || is_wide_unsigned(dtype));
    if (!zeros || *n == 0) return result(q);
    // Zeros where copies of the sign came in: 2^(width - n) more.
    return {e.select(e.test("less", x, 0.0), e.sub(q, -std::ldexp(1.0, width - *n)), q)};
  }
  Var by = l.operand(1), shifted = x;
  for (const Var& power : powers_of(e, by, width)) shifted = e.binary("floor_div", shifted, power);
  if (is_arithmetic || is_carried_unsigned) return result(shifted);
  // Zeros come in where copies of the sign did: what those are worth is added, half of it twice, for it may be 2^31.
  Var table = table_of(e, width + 1, [&](int64_t s) { return s == 0 ? 0 : (int64_t{1} << (width - 1)) >> s; });
  Var far = e.select(e.test("less", by, 0.0), e.integer(width), e.binary("minimum", by, e.integer(width)));
  Var half = e.gather_flat(table, far);
  Var filled = e.add(e.add(shifted, half), half);
  // By the width nothing is left, and by one place less the sign alone.
  filled = e.select(e.test("greater_equal", far, static_cast<double>(width)), e.integer(0), filled);
  Var is_filled = e.both(e.test("less", x, 0.0), e.test("greater", far, 0.0));
  return {e.select(is_filled, filled, shifted)};
}

}  // namespace rlx::coreml
