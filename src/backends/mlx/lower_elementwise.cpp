// Element-wise ops. MLX's integer division, shifts and conversions are C++'s, undefined where ours have an answer, so
// the operands that C++ leaves open are replaced first. Floats of 16 bits are computed in f32 and rounded once.
#include <cmath>
#include <limits>
#include <map>

#include "backends/mlx/lowerings.h"
#include "rlx/ops.h"

namespace rlx::mlx_backend {
namespace {

using Unary = mx::array (*)(const mx::array&, mx::StreamOrDevice);
using Binary = mx::array (*)(const mx::array&, const mx::array&, mx::StreamOrDevice);

mx::array where(const mx::array& condition, const mx::array& yes, const mx::array& no, mx::Stream s) {
  return mx::where(condition, yes, no, s);
}

/// The unsigned dtype of the same width, or the signed one.
DType same_width(DType t, bool is_signed) {
  switch (info(t).bits) {
    case 8: return is_signed ? i8 : u8;
    case 16: return is_signed ? i16 : u16;
    case 32: return is_signed ? i32 : u32;
    default: return is_signed ? i64 : u64;
  }
}
mx::array seen_as(const mx::array& x, DType dtype, mx::Stream s) {
  return x.dtype() == carried_dtype(dtype) ? x : mx::view(x, carried_dtype(dtype), s);
}
bool is_signed(DType t) { return kind_of(t) == Kind::signed_int; }

/// x / y towards zero; by zero -1. The lowest number by -1 is itself.
mx::array quotient(const mx::array& x, const mx::array& y, DType t, mx::Stream s) {
  const mx::array zero = integer(0, t), one = integer(1, t);
  const mx::array by_zero = mx::equal(y, zero, s);
  const mx::array all_set =
      is_signed(t) ? integer(-1, t) : mx::array(~uint64_t{0} >> (64 - info(t).bits), carried_dtype(t));
  if (!is_signed(t)) return where(by_zero, all_set, mx::floor_divide(x, where(by_zero, one, y, s), s), s);
  const mx::array by_minus = mx::equal(y, integer(-1, t), s);
  const mx::array safe = where(mx::logical_or(by_zero, by_minus, s), one, y, s);
  // MLX's is rounded down (towards zero in some versions): one more where what is left has not the sign of x.
  const mx::array q = mx::floor_divide(x, safe, s), left = mx::subtract(x, mx::multiply(q, safe, s), s);
  const mx::array is_odd = mx::not_equal(mx::less(left, zero, s), mx::less(x, zero, s), s);
  const mx::array is_low = mx::logical_and(mx::not_equal(left, zero, s), is_odd, s);
  const mx::array towards_zero = where(is_low, mx::add(q, one, s), q, s);
  return where(by_zero, all_set, where(by_minus, mx::subtract(zero, x, s), towards_zero, s), s);
}

/// The integers whose order is the total order of floats.
mx::array order_key(const mx::array& x, DType t, mx::Stream s) {
  const DType word = same_width(t, true);
  const mx::array bits = mx::view(x, carried_dtype(word), s);
  const mx::array most = integer(static_cast<int64_t>(~uint64_t{0} >> (65 - info(t).bits)), word);
  return where(mx::less(bits, integer(0, word), s), mx::bitwise_xor(bits, most, s), bits, s);
}

}  // namespace

Lowered lower_unary(Lowering& l) {
  static const std::map<const OpDef*, Unary> table = {
      {&op::abs, mx::abs},
      {&op::neg, mx::negative},
      {&op::floor, mx::floor},
      {&op::ceil, mx::ceil},
      {&op::exp, mx::exp},
      {&op::expm1, mx::expm1},
      {&op::log, mx::log},
      {&op::log1p, mx::log1p},
      {&op::sqrt, mx::sqrt},
      {&op::rsqrt, mx::rsqrt},
      {&op::sin, mx::sin},
      {&op::cos, mx::cos},
      {&op::tan, mx::tan},
      {&op::tanh, mx::tanh},
      {&op::logistic, mx::sigmoid},
      {&op::erf, mx::erf},
      {&op::is_finite, mx::isfinite},
      {&op::round_nearest_even, [](const mx::array& x, mx::StreamOrDevice s) { return mx::round(x, 0, s); }}};
  return {narrowed(l, table.at(l.node.op)(wide(l, 0), l.s))};
}

/// In f64, where MLX's own have the digits of f32.
Lowered lower_double_exp(Lowering& l) {
  const auto exp = [&](const mx::array& x) { return mx::power(number(2.718281828459045235, f64), x, l.s); };
  if (l.node.op == &op::exp) return {exp(l.in[0])};
  const mx::array one = number(1, f64);
  return {mx::divide(one, mx::add(one, exp(mx::negative(l.in[0], l.s)), l.s), l.s)};
}

Lowered lower_sign(Lowering& l) {
  const mx::array &x = l.in[0], zero = number(0, l.types[0].dtype);
  mx::array y = where(mx::greater(x, zero, l.s), number(1, l.types[0].dtype), x, l.s);
  if (kind_of(l.types[0].dtype) == Kind::unsigned_int) return {y};
  return {where(mx::less(x, zero, l.s), number(-1, l.types[0].dtype), y, l.s)};
}

Lowered lower_round_away(Lowering& l) {
  const mx::array x = wide(l, 0), zero = number(0, wide_dtype(l.types[0].dtype)), size = mx::abs(x, l.s);
  const mx::array whole = mx::floor(size, l.s);
  const mx::array up =
      mx::greater_equal(mx::subtract(size, whole, l.s), number(0.5, wide_dtype(l.types[0].dtype)), l.s);
  const mx::array y = where(up, mx::add(whole, number(1, wide_dtype(l.types[0].dtype)), l.s), whole, l.s);
  return {narrowed(l, where(mx::less(x, zero, l.s), mx::negative(y, l.s), y, l.s))};
}

Lowered lower_cube_root(Lowering& l) {
  const DType t = wide_dtype(l.types[0].dtype);
  const mx::array x = wide(l, 0), y = mx::power(mx::abs(x, l.s), number(1.0 / 3, t), l.s);
  return {narrowed(l, where(mx::less(x, number(0, t), l.s), mx::negative(y, l.s), y, l.s))};
}

Lowered lower_complement(Lowering& l) {
  return {l.types[0].dtype == boolean ? mx::logical_not(l.in[0], l.s) : mx::bitwise_invert(l.in[0], l.s)};
}

Lowered lower_part(Lowering& l) {
  if (!is_complex(l.types[0].dtype)) return {l.node.op == &op::real ? l.in[0] : mx::zeros(l.shape(), l.dtype(), l.s)};
  return {l.node.op == &op::real ? mx::real(l.in[0], l.s) : mx::imag(l.in[0], l.s)};
}
Lowered lower_complex(Lowering& l) {
  const mx::array pairs = mx::view(mx::stack({l.in[0], l.in[1]}, -1, l.s), mx::complex64, l.s);
  return {mx::reshape(pairs, l.shape(), l.s)};
}

Lowered lower_arithmetic(Lowering& l) {
  static const std::map<const OpDef*, Binary> table = {
      {&op::add, mx::add},   {&op::sub, mx::subtract},    {&op::mul, mx::multiply},    {&op::div, mx::divide},
      {&op::pow, mx::power}, {&op::maximum, mx::maximum}, {&op::minimum, mx::minimum}, {&op::atan2, mx::arctan2}};
  return {narrowed(l, table.at(l.node.op)(wide(l, 0), wide(l, 1), l.s))};
}
Lowered lower_logic(Lowering& l) {
  return {l.node.op == &op::maximum ? mx::logical_or(l.in[0], l.in[1], l.s) : mx::logical_and(l.in[0], l.in[1], l.s)};
}
Lowered lower_bits(Lowering& l) {
  if (l.node.op == &op::bitwise_and) return {mx::bitwise_and(l.in[0], l.in[1], l.s)};
  if (l.node.op == &op::bitwise_or) return {mx::bitwise_or(l.in[0], l.in[1], l.s)};
  return {mx::bitwise_xor(l.in[0], l.in[1], l.s)};
}

Lowered lower_integer_division(Lowering& l) {
  const DType t = l.types[0].dtype;
  const mx::array q = quotient(l.in[0], l.in[1], t, l.s);
  if (l.node.op == &op::div) return {q};
  return {mx::subtract(l.in[0], mx::multiply(q, l.in[1], l.s), l.s)};  // by zero x - (-1) 0
}

/// Of numbers that are not negative MLX's remainder is C's fmod; the sign is that of x.
Lowered lower_remainder(Lowering& l) {
  const DType t = wide_dtype(l.types[0].dtype);
  const mx::array x = wide(l, 0), y = wide(l, 1), size = mx::abs(x, l.s);
  const mx::array r = mx::remainder(size, mx::abs(y, l.s), l.s);
  return {narrowed(l, where(mx::less(x, number(0, t), l.s), mx::negative(r, l.s), r, l.s))};
}

Lowered lower_shift(Lowering& l) {
  const DType t = l.types[0].dtype, bits = same_width(t, false);
  const int64_t width = info(t).bits;
  const mx::array count = seen_as(l.in[1], bits, l.s), most = integer(width - 1, bits);
  if (l.node.op == &op::shift_right_arithmetic) {
    const DType word = same_width(t, true);
    const mx::array by = seen_as(mx::minimum(count, most, l.s), word, l.s);
    return {seen_as(mx::right_shift(seen_as(l.in[0], word, l.s), by, l.s), t, l.s)};
  }
  const mx::array x = seen_as(l.in[0], bits, l.s), by = mx::minimum(count, most, l.s);
  const mx::array moved = l.node.op == &op::shift_left ? mx::left_shift(x, by, l.s) : mx::right_shift(x, by, l.s);
  return {seen_as(where(mx::greater(count, most, l.s), integer(0, bits), moved, l.s), t, l.s)};
}

namespace {
/// How many bits of unsigned words are set: sums of neighbours, of 1, 2, 4, ... bits.
mx::array count_bits(mx::array x, DType t, mx::Stream s) {
  const int width = info(t).bits;
  for (int step = 1; step < width; step *= 2) {
    uint64_t mask = 0;
    for (int at = 0; at < width; at += 2 * step) mask |= ((uint64_t{1} << step) - 1) << at;
    const mx::array low(mask, carried_dtype(t)), by = integer(step, t);
    x = mx::add(mx::bitwise_and(x, low, s), mx::bitwise_and(mx::right_shift(x, by, s), low, s), s);
  }
  return x;
}
}  // namespace

Lowered lower_popcnt(Lowering& l) {
  const DType t = l.types[0].dtype, bits = same_width(t, false);
  return {seen_as(count_bits(seen_as(l.in[0], bits, l.s), bits, l.s), t, l.s)};
}
Lowered lower_clz(Lowering& l) {
  const DType t = l.types[0].dtype, bits = same_width(t, false);
  mx::array x = seen_as(l.in[0], bits, l.s);
  for (int step = 1; step < info(t).bits; step *= 2)  // all bits below the highest one
    x = mx::bitwise_or(x, mx::right_shift(x, integer(step, bits), l.s), l.s);
  return {seen_as(count_bits(mx::bitwise_invert(x, l.s), bits, l.s), t, l.s)};
}

Lowered lower_compare(Lowering& l) {
  const auto& a = l.attrs<CompareAttrs>();
  const DType t = l.types[0].dtype;
  const bool by_key = a.total_order && is_float(t);
  const mx::array x = by_key ? order_key(l.in[0], t, l.s) : l.in[0], y = by_key ? order_key(l.in[1], t, l.s) : l.in[1];
  switch (a.direction) {
    case Comparison::eq: return {mx::equal(x, y, l.s)};
    case Comparison::ne: return {mx::not_equal(x, y, l.s)};
    case Comparison::lt: return {mx::less(x, y, l.s)};
    case Comparison::le: return {mx::less_equal(x, y, l.s)};
    case Comparison::gt: return {mx::greater(x, y, l.s)};
    default: return {mx::greater_equal(x, y, l.s)};
  }
}

Lowered lower_select(Lowering& l) { return {where(l.in[0], l.in[1], l.in[2], l.s)}; }
Lowered lower_same(Lowering& l) { return l.in; }

namespace when {
std::optional<std::string> can_convert(const Question& q) {
  const DType from = q.operands[0].dtype, to = q.node.types[0].dtype;
  const bool is_wider = from == f64 || (rlx::is_integer(from) && info(from).bits > 16);
  if (is_low_precision(to) && is_wider)
    return text_of("MLX rounds ", from, " to ", to, " by way of f32, which is twice");
  return std::nullopt;
}
std::optional<std::string> can_bitcast(const Question& q) {
  if (q.operands[0].dtype == c64 || q.node.types[0].dtype == c64) return "MLX views no complex numbers";
  if (is_block(q.operands[0].dtype) || is_block(q.node.types[0].dtype)) return "MLX has no blocks";
  return std::nullopt;
}
}  // namespace when

Lowered lower_convert(Lowering& l) {
  const DType from = l.types[0].dtype, to = l.result().dtype;
  const mx::array& in = l.in[0];
  if (to == boolean) return {mx::not_equal(in, mx::array(0, in.dtype()), l.s)};
  if (is_complex(to)) return {mx::astype(in, l.dtype(), l.s)};
  const mx::array x = is_complex(from) ? mx::real(in, l.s) : in;
  const DType real = real_part(from);
  if (!is_float(real) || !is_integer(to)) return {mx::astype(x, l.dtype(), l.s)};
  // Truncated and saturated; NaN is 0. The bounds are powers of two, which every float here holds or is below.
  const mx::array f = is_low_precision(real) ? mx::astype(x, mx::float32, l.s) : x;
  const DType t = wide_dtype(real);
  const int digits = info(to).bits - is_signed(to);
  const mx::array above = number(std::ldexp(1.0, digits), t),
                  below = number(is_signed(to) ? -std::ldexp(1.0, digits) : 0, t);
  const mx::array is_above = mx::greater_equal(f, above, l.s), is_below = mx::less(f, below, l.s);
  const mx::array inside =
      mx::logical_not(mx::logical_or(mx::logical_or(is_above, is_below, l.s), mx::isnan(f, l.s), l.s), l.s);
  const mx::array y = mx::astype(where(inside, f, number(0, t), l.s), l.dtype(), l.s);
  const mx::array most(~uint64_t{0} >> (64 - digits), l.dtype());
  const mx::array least =
      is_signed(to) ? integer(std::numeric_limits<int64_t>::min() >> (63 - digits), to) : integer(0, to);
  return {where(is_above, most, where(is_below, least, y, l.s), l.s)};
}

Lowered lower_bitcast(Lowering& l) {
  const size_t from = byte_size(l.types[0].dtype), to = byte_size(l.result().dtype);
  mx::array x = l.in[0];
  if (from >= to && (from > to || x.ndim() == 0)) x = mx::expand_dims(x, -1, l.s);
  if (!l.is_written) x = mx::contiguous(x, false, l.s);
  return {mx::reshape(mx::view(x, l.dtype(), l.s), l.shape(), l.s)};
}

/// A product of floats of 32 bits is exact in f64; the sum is rounded there, to odd so that rounding it again is
/// rounding once: the last bit is set where something was lost.
Lowered lower_fma(Lowering& l) {
  std::vector<mx::array> in;
  for (const mx::array& x : l.in) in.push_back(mx::astype(x, mx::float64, l.s));
  const mx::array p = mx::multiply(in[0], in[1], l.s), &c = in[2], sum = mx::add(p, c, l.s);
  // What the sum has lost (Knuth's TwoSum).
  const mx::array from_c = mx::subtract(sum, p, l.s);
  const mx::array lost =
      mx::add(mx::subtract(p, mx::subtract(sum, from_c, l.s), l.s), mx::subtract(c, from_c, l.s), l.s);
  const mx::array bits = mx::view(sum, mx::int64, l.s), one = integer(1, i64);
  const mx::array even = mx::equal(mx::bitwise_and(bits, one, l.s), integer(0, i64), l.s);
  const mx::array inexact = mx::logical_and(mx::not_equal(lost, number(0, f64), l.s), mx::isfinite(sum, l.s), l.s);
  // Towards what was lost: a step away from zero if both have one sign, else towards it.
  const mx::array away = mx::equal(mx::less(lost, number(0, f64), l.s), mx::less(sum, number(0, f64), l.s), l.s);
  const mx::array step = where(away, one, integer(-1, i64), l.s);
  const mx::array odd = where(mx::logical_and(mx::logical_and(inexact, even, l.s), mx::isfinite(lost, l.s), l.s),
                              mx::add(bits, step, l.s), bits, l.s);
  const mx::array exact = mx::view(odd, mx::float64, l.s);
  if (l.result().dtype == f32) return {mx::astype(exact, mx::float32, l.s)};
  // To 16 bits through f32, to odd again.
  const mx::array single = mx::astype(exact, mx::float32, l.s);
  const mx::array rest = mx::subtract(exact, mx::astype(single, mx::float64, l.s), l.s);
  const mx::array words = mx::view(single, mx::int32, l.s), unit = integer(1, i32);
  const mx::array is_even = mx::equal(mx::bitwise_and(words, unit, l.s), integer(0, i32), l.s);
  const mx::array rounded = mx::logical_and(mx::not_equal(rest, number(0, f64), l.s), mx::isfinite(single, l.s), l.s);
  const mx::array outward = mx::equal(mx::less(rest, number(0, f64), l.s), mx::less(single, number(0, f32), l.s), l.s);
  const mx::array to_odd = where(mx::logical_and(mx::logical_and(rounded, is_even, l.s), mx::isfinite(rest, l.s), l.s),
                                 mx::add(words, where(outward, unit, integer(-1, i32), l.s), l.s), words, l.s);
  return {mx::astype(mx::view(to_odd, mx::float32, l.s), l.dtype(), l.s)};
}

}  // namespace rlx::mlx_backend
