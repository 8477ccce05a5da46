// See the header. Everything is said in primitives, so that nothing is widened: the bits are those of the dtype.
#include "rlx/ops/float_bits.h"

#include <cmath>

#include "ops/core/elementwise_rules.h"
#include "rlx/ops/elementary.h"

namespace rlx {
namespace {

DType bits_of(DType t) { return info(t).bits == 16 ? i16 : info(t).bits == 32 ? i32 : i64; }
void require_float(Value x) { require_kind(x.type(), kReal); }
struct Pair {
  Value x, y;
};
Pair broadcast_pair(Value x, Value y) {
  Dims dims = broadcast_dims(std::array{x, y});
  return {broadcast_to(x, dims), broadcast_to(y, dims)};
}
Value less(Value x, Value y) { return compare(x, y, Comparison::lt); }
Value equal(Value x, Value y) { return compare(x, y, Comparison::eq); }
/// An integer constant that no double need hold.
Value integer(Value like, int64_t value) {
  Tensor t(like.dtype(), {});
  store<int64_t>(t, 0, value);
  return broadcast_to(like.graph().constant(std::move(t)), like.dims());
}
double largest(DType t) {
  return std::ldexp(2 - std::ldexp(1.0, -info(t).mantissa_bits), (1 << (info(t).exponent_bits - 1)) - 1);
}

}  // namespace

Value signbit(Value x) {
  if (!is_float(x.dtype())) return less(x, zeros_like(x));
  Value bits = bitcast(x, bits_of(x.dtype()));
  return less(bits, zeros_like(bits));
}
Value copysign(Value x, Value y) {
  require_float(x);
  auto [a, b] = broadcast_pair(abs(x), y);
  return select(signbit(b), -a, a);
}
Value nextafter(Value x, Value y) {
  require_float(x);
  auto [a, b] = broadcast_pair(x, y);
  require_same(std::array{a.type(), b.type()});
  Value bits = bitcast(a, bits_of(a.dtype())), zero = zeros_like(a), one = integer(bits, 1);
  // Sign and magnitude: away from 0 is one up, whatever the sign.
  Value away = equal(less(zero, a), less(a, b)), moved = select(away, bits + one, bits - one);
  int width = info(a.dtype()).bits;
  int64_t sign = width == 64 ? INT64_MIN : -(int64_t{1} << (width - 1));
  Value least = select(less(b, zero), integer(bits, sign + 1), one);
  Value result = bitcast(select(equal(a, zero), least, moved), a.dtype());
  Value numbers = bitwise_and(equal(a, a), equal(b, b));
  return select(numbers, select(equal(a, b), b, result), full_like(a, NAN));
}
Fraction frexp(Value x) {
  require_float(x);
  DType t = x.dtype();
  int digits = info(t).mantissa_bits, bias = (1 << (info(t).exponent_bits - 1)) - 1;
  // A subnormal number is made normal first.
  Value small = less(abs(x), full_like(x, std::ldexp(1.0, 1 - bias)));
  Value normal = select(small, x * std::ldexp(1.0, digits + 1), x);
  Value bits = bitcast(normal, bits_of(t)), mask = integer(bits, (int64_t{1} << info(t).exponent_bits) - 1);
  Value stored = bitwise_and(shift_right_logical(bits, integer(bits, digits)), mask);
  Value cleared = bitwise_and(bits, bitwise_not(shift_left(mask, integer(bits, digits))));
  Value fraction = bitcast(bitwise_or(cleared, integer(bits, int64_t{bias - 1} << digits)), t);
  Value exponent = convert(stored, i32) - double(bias - 1);
  exponent = select(small, exponent - double(digits + 1), exponent);
  Value plain = bitwise_and(is_finite(x), bitwise_not(equal(x, zeros_like(x))));
  return {select(plain, fraction, x), select(plain, exponent, zeros_like(exponent))};
}
Value ldexp(Value x, Value exponent) {
  require_float(x);
  require_kind(exponent.type(), kInteger, "exponent");
  auto [a, n] = broadcast_pair(x, convert(exponent, i32));
  DType wide = is_low_precision(x.dtype()) ? f32 : x.dtype();
  // In three steps, none of which is beyond what the dtype can hold.
  int most = (1 << (info(wide).exponent_bits - 1)) - 2;
  Value limit = full_like(n, most), y = convert(a, wide);
  for (int step = 0; step < 3; ++step) {
    Value some = maximum(minimum(n, limit), -limit);
    y = y * pow(full_like(y, 2), convert(some, wide));
    n = n - some;
  }
  return convert(y, x.dtype());
}
Value trunc(Value x) {
  if (!is_float(x.dtype())) return x;
  return select(less(x, zeros_like(x)), ceil(x), floor(x));
}
static Value without_nan(Value x, Value y, Value (*f)(Value, Value)) {
  auto [a, b] = broadcast_pair(x, y);
  if (!is_float(a.dtype())) return f(a, b);
  return select(is_nan(a), b, select(is_nan(b), a, f(a, b)));
}
Value fmax(Value x, Value y) { return without_nan(x, y, maximum); }
Value fmin(Value x, Value y) { return without_nan(x, y, minimum); }
Value heaviside(Value x, Value y) {
  require_float(x);
  auto [a, b] = broadcast_pair(x, y);
  Value zero = zeros_like(a), one = full_like(a, 1);
  return select(equal(a, zero), b, select(less(a, zero), zero, select(less(zero, a), one, a)));
}
Value logaddexp2(Value x, Value y) { return logaddexp(x * M_LN2, y * M_LN2) * (1 / M_LN2); }
Value nan_to_num(Value x, double nan, std::optional<double> posinf, std::optional<double> neginf) {
  if (!is_float(x.dtype())) return x;
  double most = largest(x.dtype());
  Value y = select(equal(x, full_like(x, INFINITY)), full_like(x, posinf.value_or(most)), x);
  y = select(equal(x, full_like(x, -INFINITY)), full_like(x, neginf.value_or(-most)), y);
  return select(is_nan(x), full_like(x, nan), y);
}

}  // namespace rlx
