// Floats by their bits, and arithmetic that looks at signs and NaN: what NumPy and C have beside the elementary
// functions. Builders, made of the primitives; they broadcast.
#pragma once

#include "rlx/ops/elementwise.h"

namespace rlx {

/// Whether the sign bit is set: also of -0 and of a NaN.
Value signbit(Value x);
/// |x| with y's sign.
Value copysign(Value x, Value y);
/// The number beside x toward y; y if they are equal, NaN if either is. No derivative flows through it.
Value nextafter(Value x, Value y);
/// x = fraction * 2^exponent with 1/2 <= |fraction| < 1; 0, infinities and NaN are their own fractions, exponent 0.
struct Fraction {
  Value fraction, exponent;  ///< exponent: i32
};
Fraction frexp(Value x);
/// x * 2^exponent, of an integer exponent.
Value ldexp(Value x, Value exponent);
/// The whole number toward 0.
Value trunc(Value x);
/// The greater or the lesser one; of a NaN and a number the number.
Value fmax(Value x, Value y);
Value fmin(Value x, Value y);
/// 0 below 0, 1 above, y at 0.
Value heaviside(Value x, Value y);
/// log2(2^x + 2^y), without overflow.
Value logaddexp2(Value x, Value y);
/// NaN and infinities replaced by numbers; by 0 and the largest of the dtype if left out.
Value nan_to_num(Value x, double nan = 0, std::optional<double> posinf = {}, std::optional<double> neginf = {});

}  // namespace rlx
