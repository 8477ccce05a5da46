// Elementary functions and arithmetic composed of the element-wise primitives. Those without attributes have
// their builders in rlx/ops/elementwise.h; here stand the others, and what is another name for a primitive.
#pragma once

#include <limits>

#include "rlx/ops/elementwise.h"

namespace rlx {

namespace op {
extern const OpDef fma, clamp;
}  // namespace op

// clang-format off
RLX_UNARY(square)
RLX_UNARY(reciprocal)
RLX_UNARY(exp2)
RLX_UNARY(log2)
RLX_UNARY(log10)
RLX_UNARY(erfc)
RLX_UNARY(asin)
RLX_UNARY(acos)
RLX_UNARY(atan)
RLX_UNARY(sinh)
RLX_UNARY(cosh)
RLX_UNARY(asinh)
RLX_UNARY(acosh)
RLX_UNARY(atanh)
RLX_UNARY(stop_gradient)
RLX_BINARY(floor_mod)
RLX_BINARY(floor_div)
RLX_BINARY(squared_difference)
RLX_BINARY(logaddexp)
// clang-format on

struct ClampAttrs {
  double min = -std::numeric_limits<double>::infinity(), max = std::numeric_limits<double>::infinity();
  RLX_FIELDS(ClampAttrs, field("min", &ClampAttrs::min), field("max", &ClampAttrs::max));
};
Value clamp(Value x, double min, double max);
/// x * y + z, rounded once; the three broadcast.
Value fma(Value x, Value y, Value z);

inline Value cast(Value x, DType dtype) { return convert(x, dtype); }
inline Value round(Value x) { return round_nearest_even(x); }
inline Value is_nan(Value x) { return compare(x, x, Comparison::ne); }
/// |x| is infinite.
Value is_inf(Value x);
/// Of numbers, 0 is false and everything else true.
Value logical_not(Value x);
Value logical_and(Value lhs, Value rhs);
Value logical_or(Value lhs, Value rhs);
Value logical_xor(Value lhs, Value rhs);

}  // namespace rlx
