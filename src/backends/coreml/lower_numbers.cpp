// Numbers that ML Programs do not have. Unsigned integers of 32 bits are carried as the i32 of the same bits; floats of
// fewer bits than f32 other than f16 as f32, rounded after each op. The exponent of a float is found by a logarithm
// that is corrected by comparisons, so its bits are exact.
#include <cmath>

#include "backends/coreml/lowerings.h"
#include "rlx/ops.h"

namespace rlx::coreml {
namespace {

constexpr int kLeast = -126, kMost = 127;  // exponents of normal numbers in f32

/// What tells a format of floats: OCP 8-bit floating point 1.0, OCP Microscaling 1.0, IEEE 754.
struct Format {
  int mantissa, bias, bits;
  double largest;
  bool infinite, has_nan, is_signed;
};
Format format_of(DType t) {
  const DTypeInfo& i = info(t);
  double infinity = decode_float(t, encode_float(t, INFINITY));
  bool infinite = std::isinf(infinity);
  double largest = infinite ? std::ldexp(2 - std::ldexp(1.0, -i.mantissa_bits), (1 << (i.exponent_bits - 1)) - 1)
                            : infinity;  // formats without infinity saturate
  bool fnuz = t == f8e4m3fnuz || t == f8e5m2fnuz;
  return {i.mantissa_bits, (1 << (i.exponent_bits - 1)) - 1 + fnuz,           i.bits,        largest,
          infinite,        std::isnan(decode_float(t, encode_float(t, NAN))), t != f8e8m0fnu};
}

/// x < 0, or x is -0.
Var has_sign(Emitter& e, const Var& x) {
  return e.either(e.test("less", x, 0.0), e.test("less", e.binary("real_div", e.number(f32, 1), x), 0.0));
}

struct Scale {
  Var exponent;  ///< i32: the largest k with 2^k <= a, at least `least`
  Var power;     ///< 2^k
};
/// Of a >= 0 in f32; of infinity and NaN some k.
Scale scale_of(Emitter& e, const Var& a, int least) {
  Tensor powers(f32, {kMost - kLeast + 1});
  for (int k = kLeast; k <= kMost; ++k) powers.mutable_values<float>()[size_t(k - kLeast)] = std::ldexp(1.0F, k);
  Var table = e.constant(powers);
  Var usual = e.both(e.test("greater_equal", a, std::ldexp(1.0, kLeast)),
                     e.test("less_equal", a, double{std::numeric_limits<float>::max()}));
  Var safe = e.select(usual, a, e.number(f32, 1));
  Var guess = e.clamp(e.unary("floor", e.mul(e.log(safe), 1 / std::log(2.0))), kLeast, kMost);
  Var k = e.cast(guess, i32);
  Var power = e.gather_flat(table, e.sub(k, double(kLeast)));
  Var above = e.cast(e.test("greater_equal", safe, e.mul(power, 2.0)), i32);
  Var below = e.cast(e.test("less", safe, power), i32);
  k = e.sub(e.add(k, above), below);
  k = e.clamp(e.select(usual, k, e.integer(least)), std::max(least, kLeast), kMost);
  return {k, e.gather_flat(table, e.sub(k, double(kLeast)))};
}

}  // namespace

Var rounded(Emitter& e, const Var& x, DType dtype) {
  Format f = format_of(dtype);
  Var a = e.unary("abs", x);
  Scale s = scale_of(e, a, 1 - f.bias);
  Var q = e.binary("real_div", a, s.power);
  Var r = q;
  if (dtype == f8e8m0fnu) {  // powers of two: half way goes up; there is no sign and no zero
    r = e.mul(e.select(e.test("greater_equal", q, 1.5), e.number(f32, 2), e.number(f32, 1)), s.power);
    Var normal = e.test("greater_equal", x, std::ldexp(1.5, -127));
    r = e.select(normal, e.binary("minimum", r, e.number(f32, f.largest)), e.number(f32, std::ldexp(1.0, -127)));
    return e.select(e.test("equal", x, x), r, x);
  }
  r = e.mul(e.mul(e.unary("round", e.mul(q, std::ldexp(1.0, f.mantissa))), std::ldexp(1.0, -f.mantissa)), s.power);
  Var beyond = e.test("greater", r, f.largest);
  r = e.select(beyond, e.number(f32, f.infinite ? INFINITY : f.largest), r);
  r = e.mul(r, e.select(has_sign(e, x), e.number(f32, -1), e.number(f32, 1)));
  if (!f.has_nan) r = e.select(e.test("equal", x, x), r, e.number(f32, 0));
  return r;
}

Var code_of(Emitter& e, const Var& carried_x, DType dtype) {
  Format f = format_of(dtype);
  Var x = e.cast(carried_x, f32), a = e.unary("abs", x);
  if (dtype == f8e8m0fnu) {
    Var least = e.test("less", a, std::ldexp(1.0, kLeast));
    Var code = e.add(scale_of(e, a, kLeast).exponent, double(f.bias));
    code = e.select(least, e.integer(0), code);
    return e.select(e.test("equal", x, x), code, e.integer(255));
  }
  int least = 1 - f.bias;
  Scale s = scale_of(e, a, least);
  Var q = e.binary("real_div", a, s.power);
  Var plain = e.test("less_equal", a, f.largest);
  q = e.select(plain, q, e.number(f32, 0));
  Var digits = e.cast(e.unary("round", e.mul(q, std::ldexp(1.0, f.mantissa))), i32);
  // A subnormal number has the least exponent's scale and no leading one: its digits are the code.
  auto one = static_cast<double>(int64_t{1} << f.mantissa);
  Var normal = e.add(e.mul(e.sub(s.exponent, double(least)), one), digits);
  Var code = normal;
  if (f.infinite) code = e.select(plain, code, e.integer(static_cast<int64_t>(encode_float(dtype, INFINITY))));
  Var number = e.test("equal", x, x);
  double top = -std::ldexp(1.0, 31);
  Var with_sign = f.bits == 32 ? e.add(code, top) : e.add(code, std::ldexp(1.0, f.bits - 1));
  code = e.select(has_sign(e, x), with_sign, code);
  auto nan = static_cast<int64_t>(encode_float(dtype, NAN));
  return e.select(number, code, e.integer(f.bits == 32 ? int32_t(uint32_t(nan) & 0x7fffffff) : nan));
}

Var decoded(Emitter& e, const Var& word, DType dtype) {
  Format f = format_of(dtype);
  if (f.bits <= 8) {
    auto count = int64_t{1} << f.bits;
    Tensor values(f32, {count});
    for (int64_t i = 0; i < count; ++i) store<double>(values, size_t(i), decode_float(dtype, uint64_t(i)));
    return e.gather_flat(e.constant(values), e.binary("mod", word, e.integer(count)));
  }
  auto one = int64_t{1} << f.mantissa;
  int exponents = 1 << (f.bits - 1 - f.mantissa);
  Var magnitude = f.bits == 32 ? e.select(e.test("less", word, 0.0), e.sub(word, -std::ldexp(1.0, 31)), word)
                               : e.binary("mod", word, e.integer(int64_t{1} << (f.bits - 1)));
  Var exponent = e.binary("floor_div", magnitude, e.integer(one));
  Var fraction = e.mul(e.cast(e.binary("mod", magnitude, e.integer(one)), f32), 1 / double(one));
  Tensor powers(f32, {exponents});
  for (int i = 0; i < exponents; ++i)
    powers.mutable_values<float>()[size_t(i)] =
        i == exponents - 1 ? INFINITY : std::ldexp(1.0F, std::max(i, 1) - f.bias);
  Var power = e.gather_flat(e.constant(powers), exponent);
  Var leading = e.cast(e.test("greater", exponent, 0.0), f32);
  Var value = e.mul(e.add(fraction, leading), power);
  Var is_nan = e.both(e.test("equal", exponent, double(exponents - 1)), e.test("greater", fraction, 0.0));
  value = e.select(is_nan, e.number(f32, NAN), value);
  Var negative = f.bits == 32 ? e.test("less", word, 0.0)
                              : e.test("greater_equal", e.binary("mod", word, e.integer(int64_t{1} << f.bits)),
                                       std::ldexp(1.0, f.bits - 1));
  value = e.mul(value, e.select(negative, e.number(f32, -1), e.number(f32, 1)));
  return e.cast(value, *carried(dtype));
}

Var flipped(Emitter& e, const Var& x) {
  double least = -std::ldexp(1.0, 31);
  return e.select(e.test("less", x, 0.0), e.sub(x, least), e.add(x, least));
}

Var ordered(Emitter& e, const Var& x, DType dtype) { return is_wide_unsigned(dtype) ? flipped(e, x) : x; }

Var real_of_unsigned(Emitter& e, const Var& x) {
  // Halves of 16 bits are exact, and so is their product with 2^16: one rounding is left.
  Var low = e.binary("mod", x, e.integer(65536)), high = e.binary("floor_div", x, e.integer(65536));
  high = e.binary("mod", high, e.integer(65536));
  return e.add(e.mul(e.cast(high, f32), 65536.0), e.cast(low, f32));
}

namespace {

/// Hacker's Delight, 9-3: the quotient of the halved dividend, doubled, is one too small at most.
Var unsigned_quotient(Emitter& e, const Var& x, const Var& y) {
  double least = -std::ldexp(1.0, 31);
  Var half = e.binary("floor_div", x, e.integer(2));
  half = e.select(e.test("less", half, 0.0), e.sub(half, least), half);
  Var large = e.test("less", y, 0.0), safe = e.select(large, e.integer(1), y);
  Var q = e.mul(e.binary("floor_div", half, safe), 2.0);
  Var rest = e.sub(x, e.mul(q, safe));
  Var one_more = e.test("greater_equal", flipped(e, rest), flipped(e, safe));
  q = e.add(q, e.cast(one_more, i32));
  Var by_large = e.cast(e.test("greater_equal", flipped(e, x), flipped(e, y)), i32);
  return e.select(large, by_large, q);
}

}  // namespace

Var integer_quotient(Emitter& e, const Var& x, const Var& y, DType dtype) {
  Var none = e.test("equal", y, 0.0), safe = e.select(none, e.integer(1), y);
  Var q = x;
  if (is_wide_unsigned(dtype)) {
    q = unsigned_quotient(e, x, safe);
  } else {
    Var size_x = e.unary("abs", x), size_y = e.unary("abs", safe);
    // Of i32 the magnitude may be 2^31, which is its own opposite and is right as an integer without a sign.
    Var magnitude =
        info(dtype).bits < 32 ? e.binary("floor_div", size_x, size_y) : unsigned_quotient(e, size_x, size_y);
    q = e.mul(magnitude, e.mul(e.unary("sign", x), e.unary("sign", safe)));
  }
  // By zero: all bits set.
  bool narrow_unsigned = kind_of(dtype) == Kind::unsigned_int && !is_wide_unsigned(dtype);
  return e.select(none, e.integer(narrow_unsigned ? (int64_t{1} << info(dtype).bits) - 1 : -1), q);
}

namespace when {
std::optional<std::string> can_bitcast(const Question& q) {
  for (DType t : {q.operands[0].dtype, q.node.types[0].dtype}) {
    if (t == f64) return "f64 is carried as f32, and its bits are lost";
    if (is_block(t)) return "a package has blocks as constants only";
    if (info(t).bits < 8 && q.operands[0].dtype != q.node.types[0].dtype)
      return "elements of less than a byte have no bits of their own";
  }
  return std::nullopt;
}
std::optional<std::string> is_integer(const Question& q) {
  for (const Type& t : q.operands)
    if (!rlx::is_integer(t.dtype)) return text_of("of integers only, and not of ", t.dtype);
  return std::nullopt;
}
}  // namespace when

Lowered lower_bitcast(Lowering& l) {
  Emitter& e = l.e;
  DType from = l.types[0].dtype, to = l.result().dtype;
  Var x = l.operand(0);
  if (from == to) return {x};
  int width = info(from).bits, wanted = info(to).bits;
  // As a word, in i32: of fewer than 32 bits without a sign, of 64 the low half.
  Var word = is_float(from) ? code_of(e, x, from) : x.dtype == boolean ? e.cast(x, i32) : x;
  if (width < 32) word = e.binary("mod", word, e.integer(int64_t{1} << width));
  auto digit = [&](const Var& v, int d) {
    Var shifted = d == 0 ? v : e.binary("floor_div", v, e.integer(int64_t{1} << (wanted * d)));
    return wanted >= 32 ? shifted : e.binary("mod", shifted, e.integer(int64_t{1} << wanted));
  };
  if (wanted < width) {
    int each = std::min(width, 32) / wanted;
    Shape unit = l.shape();
    unit.back() = 1;
    std::vector<Var> parts;
    Var sign = e.number(i32, 0);
    if (width == 64 && kind_of(from) == Kind::signed_int) sign = e.mul(e.cast(e.test("less", word, 0.0), i32), -1.0);
    for (int d = 0; d < each; ++d) parts.push_back(e.reshape(digit(word, d), unit));
    for (int d = each; d < width / wanted; ++d) {
      Var high = wanted >= 32 ? sign : e.binary("mod", sign, e.integer(int64_t{1} << wanted));
      parts.push_back(e.broadcast(e.reshape(high, high.shape.empty() ? Shape(unit.size(), 1) : unit), unit));
    }
    word = e.concat(parts, static_cast<int64_t>(unit.size()) - 1);
  } else if (wanted > width) {
    size_t axis = x.shape.size() - 1;
    std::optional<Var> sum;
    for (int d = 0; d < std::min(wanted, 32) / width; ++d) {
      Shape starts(x.shape.size(), 0), limits = x.shape;
      starts[axis] = d, limits[axis] = d + 1;
      Var part = e.slice(word, starts, limits, Axes(starts.size(), 1));
      bool top = width * (d + 1) == 32 && width < 32;
      if (top)
        part = e.sub(part, e.mul(e.cast(e.test("greater_equal", part, std::ldexp(1.0, width - 1)), i32),
                                 std::ldexp(1.0, width)));
      if (d > 0) part = e.mul(part, std::ldexp(1.0, width * d));
      sum = sum ? e.add(*sum, part) : part;
    }
    word = e.reshape(*sum, l.shape());
  }
  if (is_float(to)) return {decoded(e, word, to)};
  if (to == boolean) return {e.test("not_equal", word, 0.0)};
  return {wrapped(e, word, to)};
}

Lowered lower_integer_pow(Lowering& l) {
  Emitter& e = l.e;
  DType dtype = l.types[0].dtype;
  bool is_signed = kind_of(dtype) == Kind::signed_int;
  Var x = l.operand(0), y = l.operand(1), base = x, n = y;
  Var result = e.broadcast(e.reshape(e.integer(1), Shape(x.shape.size(), 1)), x.shape);
  for (int bit = 0; bit < std::min(info(dtype).bits, 32) - is_signed; ++bit) {
    Var odd = e.test("equal", e.binary("mod", n, e.integer(2)), 1.0);
    result = e.select(odd, e.mul(result, base), result);
    base = e.mul(base, base);
    n = e.binary("floor_div", n, e.integer(2));
  }
  if (is_signed) {  // the truncated reciprocal: 1, -1 or 0
    Var odd = e.test("equal", e.binary("mod", y, e.integer(2)), 1.0);
    Var of_minus_one = e.select(odd, e.integer(-1), e.integer(1));
    Var small =
        e.select(e.test("equal", x, -1.0), of_minus_one, e.select(e.test("equal", x, 1.0), e.integer(1), e.integer(0)));
    result = e.select(e.test("less", y, 0.0), small, result);
  }
  return {wrapped(e, result, dtype)};
}

}  // namespace rlx::coreml
