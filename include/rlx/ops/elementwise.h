// Element-wise ops. The ops themselves take operands of equal dims; the builders here broadcast as NumPy does
// (right-aligned, extent 1 stretches) and refuse unequal dtypes: convert first.
#pragma once

#include "rlx/ops/op.h"

namespace rlx {

namespace op {
extern const OpDef compare, select, convert, bitcast;
}  // namespace op

/// x repeated to `dims`: right-aligned, extents of 1 stretch. Fails if it does not fit.
Value broadcast_to(Value x, const Dims& dims);
/// The dims to which all of these broadcast. Fails if there are none.
Dims broadcast_dims(Values values);

Value emit_unary(const OpDef& op, Value x);
Value emit_binary(const OpDef& op, Value lhs, Value rhs);

/// An element-wise op without attributes: its handle and its builder.
#define RLX_UNARY(name)    \
  namespace op {           \
  extern const OpDef name; \
  }                        \
  inline Value name(Value x) { return emit_unary(op::name, x); }
#define RLX_BINARY(name)   \
  namespace op {           \
  extern const OpDef name; \
  }                        \
  inline Value name(Value lhs, Value rhs) { return emit_binary(op::name, lhs, rhs); }
// clang-format off
RLX_UNARY(abs)
RLX_UNARY(neg)
RLX_UNARY(sign)
RLX_UNARY(floor)
RLX_UNARY(ceil)
RLX_UNARY(round_nearest_even)
RLX_UNARY(round_nearest_afz)
RLX_UNARY(exp)
RLX_UNARY(expm1)
RLX_UNARY(log)
RLX_UNARY(log1p)
RLX_UNARY(sqrt)
RLX_UNARY(rsqrt)
RLX_UNARY(cbrt)
RLX_UNARY(sin)
RLX_UNARY(cos)
RLX_UNARY(tan)
RLX_UNARY(tanh)
RLX_UNARY(logistic)
RLX_UNARY(erf)
RLX_UNARY(is_finite)
RLX_UNARY(bitwise_not)
RLX_UNARY(popcnt)
RLX_UNARY(clz)
RLX_UNARY(real)
RLX_UNARY(imag)
RLX_BINARY(complex)
RLX_BINARY(add)
RLX_BINARY(sub)
RLX_BINARY(mul)
RLX_BINARY(div)
RLX_BINARY(rem)
RLX_BINARY(pow)
RLX_BINARY(maximum)
RLX_BINARY(minimum)
RLX_BINARY(atan2)
RLX_BINARY(bitwise_and)
RLX_BINARY(bitwise_or)
RLX_BINARY(bitwise_xor)
RLX_BINARY(shift_left)
RLX_BINARY(shift_right_logical)
RLX_BINARY(shift_right_arithmetic)
// clang-format on

/// A constant scalar of that dtype; an error if the dtype cannot hold `value`.
Value scalar(Graph&, double value, DType dtype);
/// A constant scalar, broadcast.
Value full(Graph&, double value, const Type& type);
inline Value full_like(Value x, double value) { return full(x.graph(), value, x.type()); }
inline Value zeros_like(Value x) { return full_like(x, 0); }

inline Value operator-(Value x) { return neg(x); }
inline Value operator+(Value x, Value y) { return add(x, y); }
inline Value operator-(Value x, Value y) { return sub(x, y); }
inline Value operator*(Value x, Value y) { return mul(x, y); }
inline Value operator/(Value x, Value y) { return div(x, y); }
inline Value operator+(Value x, double y) { return add(x, scalar(x.graph(), y, x.dtype())); }
inline Value operator-(Value x, double y) { return sub(x, scalar(x.graph(), y, x.dtype())); }
inline Value operator*(Value x, double y) { return mul(x, scalar(x.graph(), y, x.dtype())); }
inline Value operator/(Value x, double y) { return div(x, scalar(x.graph(), y, x.dtype())); }
inline Value operator+(double x, Value y) { return add(scalar(y.graph(), x, y.dtype()), y); }
inline Value operator-(double x, Value y) { return sub(scalar(y.graph(), x, y.dtype()), y); }
inline Value operator*(double x, Value y) { return mul(scalar(y.graph(), x, y.dtype()), y); }
inline Value operator/(double x, Value y) { return div(scalar(y.graph(), x, y.dtype()), y); }

enum class Comparison { eq, ne, lt, le, gt, ge };
constexpr std::array<std::string_view, 6> names_of(Comparison) { return {"eq", "ne", "lt", "le", "gt", "ge"}; }
struct CompareAttrs {
  Comparison direction = Comparison::eq;
  bool total_order = false;  ///< of floats: -NaN < -inf < ... < -0 < 0 < ... < inf < NaN, instead of IEEE 754's
  RLX_FIELDS(CompareAttrs, field("direction", &CompareAttrs::direction),
             field("total_order", &CompareAttrs::total_order));
};
Value compare(Value lhs, Value rhs, Comparison direction, bool total_order = false);
/// `condition` is bool.
Value select(Value condition, Value on_true, Value on_false);

struct ConvertAttrs {
  DType dtype = DType::f32;
  RLX_FIELDS(ConvertAttrs, field("dtype", &ConvertAttrs::dtype));
};
/// The nearest value of `dtype`: see op::convert. x itself if it has that dtype already.
Value convert(Value x, DType dtype);
/// The same bits as another dtype; of another width, the last dim grows or shrinks accordingly.
Value bitcast(Value x, DType dtype);

}  // namespace rlx
