// Element-wise arithmetic, comparisons, logic, casts.
#include "frontends/mil/handlers.h"
#include "rlx/element.h"

namespace rlx::mlprogram {
namespace {

/// On integers: by way of f32, truncated again, as MIL's reference does with NumPy.
template <class F>
Results through_floats(Call& op, F f) {
  Value x = op("x");
  if (is_float(x.dtype())) return one(f(x));
  return one(convert(f(convert(x, f32)), x.dtype()));
}

double rounded_to(double v, DType dtype) { return is_float(dtype) ? decode_float(dtype, encode_float(dtype, v)) : v; }

/// The default of an epsilon is a number of x's dtype; a given one is taken by its value.
double epsilon(Call& op, DType dtype, double otherwise) {
  return op.has("epsilon") ? op.number("epsilon") : rounded_to(otherwise, dtype);
}

/// x's dtype as the program has it: a wide handler sees f32 for f16.
DType given_dtype(Call& op, const std::string& name) {
  ItemPtr item = op.item(name);
  return item->constant ? item->constant->dtype() : item->value ? item->value.dtype() : f32;
}

Results compared(Call& op, Comparison direction) { return one(compare(op("x"), op("y"), direction)); }

}  // namespace

DType dtype_of_word(const std::string& word) {
  static const std::map<std::string, DType> kNames = {
      {"fp16", f16},     {"float16", f16}, {"half", f16},    {"fp32", f32},   {"float32", f32}, {"float", f32},
      {"fp64", f64},     {"double", f64},  {"float64", f64}, {"int8", i8},    {"uint8", u8},    {"int16", i16},
      {"uint16", u16},   {"int32", i32},   {"int", i32},     {"uint32", u32}, {"int64", i64},   {"uint64", u64},
      {"bool", boolean}, {"int4", i4},     {"uint4", u4},    {"uint1", u1},   {"uint2", u2},    {"uint3", u3},
      {"uint6", u6},     {"i32", i32},     {"i8", i8},       {"u8", u8}};
  auto it = kNames.find(word);
  if (it == kNames.end()) fail(ErrorCode::invalid_argument, "'", word, "' is no dtype of MIL's");
  return it->second;
}

#define MIL_UNARY(name, f) \
  MIL_OP(name) { return one(f(op("x"))); }
#define MIL_FLOAT_UNARY(name, f)                             \
  MIL_OP(name) {                                             \
    return through_floats(op, [](Value x) { return f(x); }); \
  }
#define MIL_BINARY(name, f) \
  MIL_OP(name) { return one(f(op("x"), op("y"))); }

MIL_UNARY(abs, rlx::abs)
MIL_UNARY(sign, rlx::sign)
MIL_UNARY(square, rlx::square)
MIL_UNARY(ceil, rlx::ceil)
MIL_UNARY(floor, rlx::floor)
MIL_UNARY(round, rlx::round_nearest_even)
MIL_FLOAT_UNARY(acos, rlx::acos)
MIL_FLOAT_UNARY(asin, rlx::asin)
MIL_FLOAT_UNARY(atan, rlx::atan)
MIL_FLOAT_UNARY(atanh, rlx::atanh)
MIL_FLOAT_UNARY(cos, rlx::cos)
MIL_FLOAT_UNARY(cosh, rlx::cosh)
MIL_FLOAT_UNARY(erf, rlx::erf)
MIL_FLOAT_UNARY(exp, rlx::exp)
MIL_FLOAT_UNARY(exp2, rlx::exp2)
MIL_FLOAT_UNARY(sin, rlx::sin)
MIL_FLOAT_UNARY(sinh, rlx::sinh)
MIL_FLOAT_UNARY(sqrt, rlx::sqrt)
MIL_FLOAT_UNARY(tan, rlx::tan)
MIL_FLOAT_UNARY(tanh, rlx::tanh)

MIL_BINARY(add, rlx::add)
MIL_BINARY(sub, rlx::sub)
MIL_BINARY(mul, rlx::mul)
MIL_BINARY(real_div, rlx::div)  // of integers: the quotient, truncated
MIL_BINARY(floor_div, rlx::floor_div)
MIL_BINARY(mod, rlx::floor_mod)
MIL_BINARY(maximum, rlx::maximum)
MIL_BINARY(minimum, rlx::minimum)
MIL_BINARY(pow, rlx::pow)
MIL_BINARY(logical_and, rlx::logical_and)
MIL_BINARY(logical_or, rlx::logical_or)
MIL_BINARY(logical_xor, rlx::logical_xor)
MIL_UNARY(logical_not, rlx::logical_not)

MIL_OP(equal) { return compared(op, Comparison::eq); }
MIL_OP(not_equal) { return compared(op, Comparison::ne); }
MIL_OP(less) { return compared(op, Comparison::lt); }
MIL_OP(less_equal) { return compared(op, Comparison::le); }
MIL_OP(greater) { return compared(op, Comparison::gt); }
MIL_OP(greater_equal) { return compared(op, Comparison::ge); }

MIL_OP(log) { return one(rlx::log(op("x") + epsilon(op, given_dtype(op, "x"), 1e-45))); }
MIL_OP(rsqrt) { return one(rlx::rsqrt(op("x") + epsilon(op, given_dtype(op, "x"), 1e-12))); }
MIL_OP(inverse) { return one(reciprocal(op("x") + epsilon(op, given_dtype(op, "x"), 1e-4))); }

MIL_OP(clip) {
  double low = op.number("alpha"), high = op.number("beta");
  return one(clamp(op("x"), low, high));
}
MIL_OP(threshold) {
  Value x = op("x");
  return one(maximum(x, scalar(op.graph(), op.number("alpha"), x.dtype())));
}

MIL_OP(cast) {
  DType to = op.dtype(dtype_of_word(op.word("dtype")));
  return one(convert(op("x"), to));
}

MIL_OP(select) {
  Value condition = op("cond");
  if (condition.dtype() != boolean) condition = convert(condition, boolean);
  if (!op.has("a") || !op.has("b")) op.refuse("select without a and b, which lists places, is `non_zero` since iOS 15");
  return one(rlx::select(condition, op("a"), op("b")));
}

}  // namespace rlx::mlprogram
