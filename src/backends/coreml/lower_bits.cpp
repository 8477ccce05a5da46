// Operations on bits, which ML Programs do not have: four bits at a time, by arithmetic and a table. Slow, and exact.
// Integers of fewer bits are carried in i32 with their own sign, so their bits are those of the i32.
#include "backends/coreml/lowerings.h"
#include "rlx/ops.h"

namespace rlx::coreml {

namespace when {
std::optional<std::string> has_bits(const Question& q) {
  for (const Type& t : q.operands)
    if (!is_integer(t.dtype) || info(t.dtype).bits > 32)
      return text_of("of integers up to 32 bits, and not of ", t.dtype);
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

/// The number with these digits; the last one holds the sign.
Var from_digits(Emitter& e, const std::vector<Var>& digits) {
  Var top = digits.back();
  Var sum = e.mul(e.sub(top, e.mul(e.cast(e.test("greater_equal", top, 8.0), i32), 16.0)),
                  static_cast<double>(int64_t{1} << (4 * (kDigits - 1))));
  for (size_t d = 0; d + 1 < digits.size(); ++d)
    sum = e.add(sum, d == 0 ? digits[d] : e.mul(digits[d], static_cast<double>(int64_t{1} << (4 * d))));
  return sum;
}

Var table_of(Emitter& e, int64_t count, const std::function<int64_t(int64_t)>& f) {
  Tensor t(i32, {count});
  for (int64_t i = 0; i < count; ++i) t.mutable_values<int32_t>()[static_cast<size_t>(i)] = static_cast<int32_t>(f(i));
  return e.constant(t);
}

}  // namespace

Lowered lower_bitwise(Lowering& l) {
  Emitter& e = l.e;
  Var x = l.operand(0), y = l.operand(1);
  const OpDef* op = l.node.op;
  Var table = table_of(e, 256, [&](int64_t i) {
    int64_t a = i / 16, b = i % 16;
    return op == &op::bitwise_and ? a & b : op == &op::bitwise_or ? a | b : a ^ b;
  });
  std::vector<Var> digits;
  for (int d = 0; d < kDigits; ++d)
    digits.push_back(e.gather_flat(table, e.add(e.mul(digit_of(e, x, d), 16.0), digit_of(e, y, d))));
  return {from_digits(e, digits)};
}

Lowered lower_complement(Lowering& l) {
  // -1 - x in two's complement; the largest number less x where there is no sign.
  DType dtype = l.types[0].dtype;
  double from = kind_of(dtype) == Kind::unsigned_int ? static_cast<double>((int64_t{1} << info(dtype).bits) - 1) : -1;
  return {l.e.sub(l.e.number(i32, from), l.operand(0))};
}

Lowered lower_popcnt(Lowering& l) {
  Emitter& e = l.e;
  Var x = l.operand(0);
  Var table = table_of(e, 16, [](int64_t i) { return (i & 1) + (i >> 1 & 1) + (i >> 2 & 1) + (i >> 3 & 1); });
  std::optional<Var> sum;
  for (int d = 0; d < info(l.types[0].dtype).bits / 4; ++d) {
    Var bits = e.gather_flat(table, digit_of(e, x, d));
    sum = sum ? e.add(*sum, bits) : bits;
  }
  return {*sum};
}

Lowered lower_clz(Lowering& l) {
  Emitter& e = l.e;
  Var x = l.operand(0);
  // From the lowest digit up: a digit that is not zero decides anew.
  Var table = table_of(e, 16, [](int64_t i) { return i >= 8 ? 0 : i >= 4 ? 1 : i >= 2 ? 2 : i >= 1 ? 3 : 4; });
  int digits = info(l.types[0].dtype).bits / 4;
  Var zeros = e.broadcast(e.reshape(e.integer(4 * digits), Shape(x.shape.size(), 1)), x.shape);
  for (int d = 0; d < digits; ++d) {
    Var digit = digit_of(e, x, d);
    Var here = e.add(e.gather_flat(table, digit), static_cast<double>(4 * (digits - 1 - d)));
    zeros = e.select(e.test("greater", digit, 0.0), here, zeros);
  }
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

Lowered lower_shift_left(Lowering& l) {
  Emitter& e = l.e;
  DType dtype = l.types[0].dtype;
  Var x = l.operand(0);
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
  Var x = l.operand(0), by = l.operand(1), shifted = x;
  for (const Var& power : powers_of(e, by, width)) shifted = e.binary("floor_div", shifted, power);
  if (l.node.op == &op::shift_right_arithmetic || kind_of(dtype) == Kind::unsigned_int) return {shifted};
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
