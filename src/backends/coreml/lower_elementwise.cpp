// Element by element. Operands that were only repeated along some dims are used as they were before: the operations
// broadcast. Where one is missing it is composed, with the error of its parts kept small near zero.
#include <cmath>

#include "backends/coreml/lowerings.h"
#include "rlx/ops.h"

namespace rlx::coreml {

namespace when {
std::optional<std::string> can_compare(const Question& q) {
  if (q.node.attrs.as<CompareAttrs>().total_order && q.operands[0].dtype == f64)
    return "a total order is one of the bits of floats, and f64 is carried as f32";
  return std::nullopt;
}
}  // namespace when

namespace {

struct Name {
  const OpDef* op;
  std::string_view type;
};
const Name kNames[] = {
    {&op::abs, "abs"},           {&op::sign, "sign"},     {&op::floor, "floor"},
    {&op::ceil, "ceil"},         {&op::exp, "exp"},       {&op::round_nearest_even, "round"},
    {&op::sqrt, "sqrt"},         {&op::sin, "sin"},       {&op::cos, "cos"},
    {&op::tan, "tan"},           {&op::tanh, "tanh"},     {&op::logistic, "sigmoid"},
    {&op::erf, "erf"},           {&op::exp2, "exp2"},     {&op::asin, "asin"},
    {&op::acos, "acos"},         {&op::atan, "atan"},     {&op::atanh, "atanh"},
    {&op::sinh, "sinh"},         {&op::cosh, "cosh"},     {&op::relu, "relu"},
    {&op::relu6, "relu6"},       {&op::silu, "silu"},     {&op::softplus, "softplus"},
    {&op::softsign, "softsign"}, {&op::square, "square"}, {&op::add, "add"},
    {&op::sub, "sub"},           {&op::mul, "mul"},       {&op::maximum, "maximum"},
    {&op::minimum, "minimum"},   {&op::pow, "pow"},
};
std::string_view name_in_mil(const OpDef* op) {
  for (const Name& row : kNames)
    if (row.op == op) return row.type;
  fail(ErrorCode::internal, op->name, " has no name in ML Programs");
}

/// Operands as they were before they were repeated, unless all were: one then has the shape of the result.
std::vector<Var> loose_operands(Lowering& l) {
  std::vector<Var> all;
  Shape joint;
  for (size_t i = 0; i < l.types.size(); ++i) {
    all.push_back(l.loose(i));
    joint = broadcast_shape(joint, all.back().shape);
  }
  if (joint != l.shape()) all[0] = l.operand(0);
  return all;
}

/// x < 0, or x is -0.
Var is_negative(Emitter& e, const Var& x) {
  Var reciprocal = e.binary("real_div", e.number(x.dtype, 1), x);
  return e.either(e.test("less", x, 0.0), e.test("less", reciprocal, 0.0));
}

/// Bits of a float as a number that orders as IEEE 754-2019's totalOrder does: x's own for a positive one.
Var total_order_key(Emitter& e, const Var& x, DType dtype) {
  Var code = code_of(e, x, dtype);
  int bits = info(dtype).bits;
  if (bits < 32)
    code = e.sub(code,
                 e.mul(e.cast(e.test("greater_equal", code, std::ldexp(1.0, bits - 1)), i32), std::ldexp(1.0, bits)));
  // The least number less the magnitude.
  double least = -std::ldexp(1.0, bits - 1);
  return e.select(e.test("less", code, 0.0), e.sub(e.sub(e.number(i32, least), code), 1.0), code);
}

}  // namespace

Lowered lower_unary(Lowering& l) {
  Emitter& e = l.e;
  DType dtype = l.types[0].dtype;
  Var x = l.operand(0);
  if (l.node.op == &op::sign && is_wide_unsigned(dtype)) return {e.cast(e.test("not_equal", x, 0.0), i32)};
  return {wrapped(e, e.unary(name_in_mil(l.node.op), x), dtype)};
}

Lowered lower_gelu(Lowering& l) {
  Var x = l.operand(0);
  std::string_view mode = l.node.op == &op::gelu ? "EXACT" : "TANH_APPROXIMATION";
  return {l.e.emit("gelu", {{"x", x}, {"mode", l.e.text(mode)}}, x.dtype, x.shape)};
}

Lowered lower_neg(Lowering& l) { return {wrapped(l.e, l.e.mul(l.operand(0), -1.0), l.types[0].dtype)}; }

Lowered lower_round_afz(Lowering& l) {
  Emitter& e = l.e;
  Var x = l.operand(0), magnitude = e.unary("abs", x), below = e.unary("floor", magnitude);
  // |x| - floor(|x|) is exact, where |x| + 0.5 is not.
  Var up = e.cast(e.test("greater_equal", e.sub(magnitude, below), 0.5), x.dtype);
  return {e.mul(e.add(below, up), e.unary("sign", x))};
}

Lowered lower_expm1(Lowering& l) {
  Emitter& e = l.e;
  Var x = l.operand(0);
  // 2t / (1 - t) with t = tanh(x / 2) loses nothing near zero.
  Var t = e.unary("tanh", e.mul(x, 0.5));
  Var near_zero = e.binary("real_div", e.mul(t, 2.0), e.sub(e.number(x.dtype, 1), t));
  Var far = e.sub(e.unary("exp", x), 1.0);
  return {e.select(e.test("less", e.unary("abs", x), 0.5), near_zero, far)};
}

Lowered lower_log(Lowering& l) { return {l.e.log(l.operand(0))}; }

Lowered lower_log1p(Lowering& l) {
  Emitter& e = l.e;
  Var x = l.operand(0);
  // 2 atanh(x / (2 + x)) loses nothing near zero.
  Var small = e.test("less", e.unary("abs", x), 0.5);
  Var safe = e.select(small, x, e.number(x.dtype, 0));
  Var near_zero = e.mul(e.unary("atanh", e.binary("real_div", safe, e.add(safe, 2.0))), 2.0);
  return {e.select(small, near_zero, e.log(e.add(x, 1.0)))};
}

Lowered lower_rsqrt(Lowering& l) {
  Var x = l.operand(0);
  return {l.e.emit("rsqrt", {{"x", x}, {"epsilon", l.e.number(x.dtype, 0)}}, x.dtype, x.shape)};
}

Lowered lower_cbrt(Lowering& l) {
  Emitter& e = l.e;
  Var x = l.operand(0);
  return {e.mul(e.unary("sign", x), e.binary("pow", e.unary("abs", x), e.number(x.dtype, 1.0 / 3)))};
}

Lowered lower_is_finite(Lowering& l) {
  Var x = l.operand(0);
  double largest = x.dtype == f16 ? 65504 : static_cast<double>(std::numeric_limits<float>::max());
  return {l.e.test("less_equal", l.e.unary("abs", x), largest)};
}

Lowered lower_arithmetic(Lowering& l) {
  auto in = loose_operands(l);
  DType dtype = l.types[0].dtype;
  bool orders = l.node.op == &op::maximum || l.node.op == &op::minimum;
  if (orders)
    for (Var& v : in) v = ordered(l.e, v, dtype);
  Var r = l.e.binary(name_in_mil(l.node.op), in[0], in[1]);
  return {wrapped(l.e, orders ? ordered(l.e, r, dtype) : r, dtype)};
}

Lowered lower_div(Lowering& l) {
  auto in = loose_operands(l);
  if (in[0].dtype != i32) return {l.e.binary("real_div", in[0], in[1])};
  DType dtype = l.types[0].dtype;
  return {wrapped(l.e, integer_quotient(l.e, in[0], in[1], dtype), dtype)};
}

Lowered lower_rem(Lowering& l) {
  Emitter& e = l.e;
  auto in = loose_operands(l);
  if (in[0].dtype == i32) {  // by zero x is left
    Var none = e.test("equal", in[1], 0.0), safe = e.select(none, e.integer(1), in[1]);
    Var rest = e.sub(in[0], e.mul(integer_quotient(e, in[0], safe, l.types[0].dtype), safe));
    return {e.select(none, in[0], rest)};
  }
  // The sign of the dividend, where the operation has that of the divisor.
  Var magnitude = e.binary("mod", e.unary("abs", in[0]), e.unary("abs", in[1]));
  return {e.mul(magnitude, e.unary("sign", in[0]))};
}

Lowered lower_atan2(Lowering& l) {
  Emitter& e = l.e;
  auto in = loose_operands(l);
  Var y = in[0], x = in[1];
  DType dtype = y.dtype;
  Var size_y = e.unary("abs", y), size_x = e.unary("abs", x);
  // The angle in the first octant, mirrored into the others.
  Var large = e.binary("maximum", size_y, size_x), small = e.binary("minimum", size_y, size_x);
  Var none = e.test("equal", large, 0.0);
  Var ratio = e.binary("real_div", small, e.select(none, e.number(dtype, 1), large));
  Var both_infinite = e.test("greater", small, dtype == f16 ? 65504.0 : 3.4028234663852886e38);
  Var angle = e.unary("atan", e.select(both_infinite, e.number(dtype, 1), ratio));
  constexpr double kHalfPi = 1.5707963267948966;
  angle = e.select(e.test("greater", size_y, size_x), e.sub(e.number(dtype, kHalfPi), angle), angle);
  angle = e.select(is_negative(e, x), e.sub(e.number(dtype, 2 * kHalfPi), angle), angle);
  return {e.select(is_negative(e, y), e.mul(angle, -1.0), angle)};
}

Lowered lower_fma(Lowering& l) { return {l.e.add(l.e.mul(l.operand(0), l.operand(1)), l.operand(2))}; }

Lowered lower_logical(Lowering& l) {
  auto in = loose_operands(l);
  const OpDef* op = l.node.op;
  bool is_and = op == &op::bitwise_and || op == &op::minimum;
  return {l.e.test(is_and ? "logical_and" : op == &op::bitwise_xor ? "logical_xor" : "logical_or", in[0], in[1])};
}

Lowered lower_not(Lowering& l) { return {l.e.negated(l.operand(0))}; }

Lowered lower_compare(Lowering& l) {
  auto in = loose_operands(l);
  constexpr std::string_view kTypes[] = {"equal", "not_equal", "less", "less_equal", "greater", "greater_equal"};
  DType dtype = l.types[0].dtype;
  bool total = l.attrs<CompareAttrs>().total_order && is_float(dtype);
  for (Var& v : in) {
    if (v.dtype == boolean) v = l.e.cast(v, i32);
    else v = total ? total_order_key(l.e, v, dtype) : ordered(l.e, v, dtype);
  }
  return {l.e.test(kTypes[static_cast<size_t>(l.attrs<CompareAttrs>().direction)], in[0], in[1])};
}

Lowered lower_select(Lowering& l) {
  auto in = loose_operands(l);
  return {l.e.select(in[0], in[1], in[2])};
}

Lowered lower_convert(Lowering& l) {
  Emitter& e = l.e;
  DType from = l.types[0].dtype, to = l.result().dtype;
  Var x = l.operand(0);
  if (to == boolean && x.dtype != boolean) return {e.test("not_equal", x, 0.0)};
  if (is_float(from) && is_integer(to)) {
    // Saturated first: what a cast makes of a number out of range is not defined. NaN fails every comparison.
    int bits = std::min(info(to).bits, 32);
    bool is_signed = kind_of(to) == Kind::signed_int;
    if (is_wide_unsigned(to)) {  // what is beyond i32 is moved by 2^31 twice
      Var wide = e.cast(x, f32), number = e.test("equal", wide, wide), half = e.number(f32, std::ldexp(1.0, 31));
      Var cut = e.clamp(e.select(number, wide, e.number(f32, 0)), 0, std::ldexp(1.0, 32) - 256);
      Var large = e.test("greater_equal", cut, std::ldexp(1.0, 31));
      Var whole = e.cast(e.select(large, e.sub(cut, half), cut), i32);
      whole = e.select(large, e.add(whole, -std::ldexp(1.0, 31)), whole);
      return {e.select(e.test("greater_equal", wide, std::ldexp(1.0, 32)), e.integer(-1), whole)};
    }
    double low = is_signed ? -std::ldexp(1.0, bits - 1) : 0, high = std::ldexp(1.0, is_signed ? bits - 1 : bits) - 1;
    Var wide = e.cast(x, f32), number = e.test("equal", wide, wide);
    Var cut = e.clamp(e.select(number, wide, e.number(f32, 0)), low, bits == 32 ? 2147483520.0 : high);
    Var whole = e.cast(cut, i32);
    if (bits < 32) return {whole};
    return {e.select(e.test("greater_equal", wide, 2147483648.0), e.number(i32, 2147483647), whole)};
  }
  if (is_wide_unsigned(from) && is_float(to)) return {e.cast(real_of_unsigned(e, x), l.dtype())};
  Var converted = e.cast(x, l.dtype());
  if (is_integer(from) && is_integer(to) && info(to).bits < 32 &&
      (info(from).bits > info(to).bits || kind_of(from) != kind_of(to)))
    converted = wrapped(e, converted, to);
  return {converted};
}

Lowered lower_same(Lowering& l) {
  Lowered same;
  for (size_t i = 0; i < l.types.size(); ++i) same.push_back(l.operand(i));
  return same;
}

}  // namespace rlx::coreml
