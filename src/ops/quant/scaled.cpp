// Products of codes beside their scales; see the header. Everything is made of other ops: a code is read from a table
// of 256 numbers, and written by arithmetic on the bits of the number.
#include "rlx/ops/scaled.h"

#include <cmath>

#include "ops/quant/block_scales.h"
#include "rlx/ops/elementary.h"
#include "rlx/ops/float_bits.h"
#include "rlx/ops/linear.h"
#include "rlx/ops/take.h"

namespace rlx {

// ---- builders ----
Value scaled_quant_scale(Value x, ScaledQuantScaleAttrs attrs) { return emit(op::scaled_quant_scale, {x}, attrs); }
Value scaled_quantize(Value x, Value scale, ScaledQuantizeAttrs attrs) {
  return emit(op::scaled_quantize, {x, scale}, attrs);
}
Value scaled_dequantize(Value codes, Value scale, ScaledDequantizeAttrs attrs) {
  return emit(op::scaled_dequantize, {codes, scale}, attrs);
}
Value scaled_matmul(Value lhs, Value rhs, Value lhs_scale, Value rhs_scale, Value bias, ScaledMatmulAttrs attrs) {
  std::vector<Value> in = {lhs, rhs, lhs_scale, rhs_scale};
  if (bias) in.push_back(bias);
  attrs.has_bias = bool(bias);
  return emit(op::scaled_matmul, std::move(in), attrs);
}
Value scaled_grouped_matmul(Value lhs, Value rhs, Value lhs_scale, Value rhs_scale, Value index, Value bias,
                            ScaledMatmulAttrs attrs) {
  std::vector<Value> in = {lhs, rhs, lhs_scale, rhs_scale, index};
  if (bias) in.push_back(bias);
  attrs.has_bias = bool(bias);
  return emit(op::scaled_grouped_matmul, std::move(in), attrs);
}
Value scaled_round(Value x, ScaledQuantScaleAttrs attrs) { return emit(op::scaled_round, {x}, attrs); }

namespace {

// ---- types ----
DType scale_dtype(const Type& x, ScaleLayout layout) {
  switch (layout) {
    case ScaleLayout::per_tensor: break;
    case ScaleLayout::mx: return f8e8m0fnu;
    case ScaleLayout::nv: return f8e4m3fn;
  }
  return x.dtype == f64 ? f64 : f32;
}
/// Elements of a row that share a scale, at most its extent; 0: all.
int64_t block_of(const Dims& x, ScaleLayout layout, int64_t block_size) {
  if (block_size < 0) fail(ErrorCode::invalid_argument, "block_size is ", block_size, "; it cannot be negative");
  if (layout == ScaleLayout::per_tensor) {
    if (block_size != 0)
      fail(ErrorCode::invalid_argument, "block_size is ", block_size, ", but one scale stands for the whole tensor; ",
           "blocks are of the layouts mx and nvfp4");
    return 0;
  }
  int64_t block = block_size ? block_size : layout == ScaleLayout::mx ? 32 : 16;
  if (x.empty() || !x.back().is_static()) return block;
  return std::min(block, std::max<int64_t>(x.back().value(), 1));
}
/// The scale of x, whose operand is called `x`.
Type scale_type(const Type& x, ScaleLayout layout, int64_t block_size) {
  int64_t block = block_of(x.dims, layout, block_size);
  return {scale_dtype(x, layout), block ? scale_dims(x, -1, block) : Dims{}};
}
void require_scale(const Type& scale, const Type& x, ScaleLayout layout, int64_t block_size, std::string_view name) {
  Type wanted = scale_type(x, layout, block_size);
  if (layout == ScaleLayout::per_tensor) {
    require_kind(scale, kReal, name);
    wanted.dtype = scale.dtype;
  }
  if (scale != wanted)
    fail(ErrorCode::shape_mismatch, name, " must be ", wanted, " for ", x, " in the layout ",
         names_of(layout)[size_t(layout)], ", got ", scale);
}
void require_codes(const Type& t, const ScaledFormat& format, std::string_view name) {
  if (t.dtype == u8 || t.dtype == format.dtype()) return;
  fail(ErrorCode::invalid_argument, name, " must be u8", format.dtype() ? text_of(" or ", *format.dtype()) : "",
       " for codes of ", format, ", got ", t);
}
void require_result(DType dtype) {
  if (dtype != f64 && dtype != f32 && dtype != f16 && dtype != bf16)
    fail(ErrorCode::invalid_argument, "the result is of f64, f32, f16 or bf16, not ", dtype);
}

// ---- parts ----
DType width_of(DType t) { return t == f64 ? f64 : f32; }

Value largest_of(Value x, int64_t block) {
  Value a = abs(x);
  if (block) {
    Dims split = scale_dims(x.type(), -1, block);
    Dim more = split.back() * Dim(block) - x.dim(-1);
    if (more != Dim(0)) {
      PadAttrs padding{Dims(x.dims().size(), 0), Dims(x.dims().size(), 0), {}};
      padding.high.back() = more;
      a = pad(a, scalar(a.graph(), 0, a.dtype()), padding);
    }
    split.push_back(block);
    a = reduce_max(reshape(a, split), {-1});
  } else {
    a = reduce_max(a, axes_from(0, x.dims().size()));
  }
  return maximum(a, zeros_like(a));  // of no elements, the largest is -infinity
}
/// 2^k as f8e8m0fnu.
Value power_of_two(Value most, double of_format, MxRounding rounding) {
  int format_exponent = 0;
  double format_fraction = std::frexp(of_format, &format_exponent);
  Value finite = minimum(most, full_like(most, 3.4028234663852886e38));
  Fraction of_block = frexp(finite);
  Value k = of_block.exponent - static_cast<double>(format_exponent);
  if (rounding == MxRounding::ceil) {
    Value above = compare(of_block.fraction, full_like(of_block.fraction, format_fraction), Comparison::gt);
    k = k + convert(above, i32);
  }
  Value code = minimum(maximum(k, full_like(k, -127)), full_like(k, 127)) + 127.0;
  code = select(compare(most, zeros_like(most), Comparison::eq), full_like(code, 127), code);
  code = select(is_nan(most), full_like(code, 255), code);
  return bitcast(convert(code, u8), f8e8m0fnu);
}
Value scale_parts(Value x, const ScaledQuantScaleAttrs& a) {
  Value most = largest_of(convert(x, width_of(x.dtype())), block_of(x.dims(), a.layout, a.block_size));
  if (a.layout == ScaleLayout::mx) return power_of_two(most, a.format.largest(), a.rounding);
  Value s = most / full_like(most, a.format.largest());
  // A scale that is 0 would make infinities of what it divides.
  double least = a.layout == ScaleLayout::nv ? 0x1p-9 : s.dtype() == f64 ? 0x1p-1022 : 0x1p-126;
  s = maximum(s, full_like(s, least));
  s = select(compare(most, zeros_like(most), Comparison::eq), full_like(s, 1), s);
  return a.layout == ScaleLayout::nv ? convert(minimum(s, full_like(s, 448)), f8e4m3fn) : s;
}

Value stretched(Value scale, Value x, int64_t block) {
  return block ? repeated(scale, x, -1, block) : broadcast_in_dim(scale, x.dims(), {});
}
/// The codes of y, f32 or f64; see ScaledFormat::encode.
Value encoded(Value y, const ScaledFormat& f) {
  DType t = y.dtype(), integer = t == f64 ? i64 : i32;
  int digits = info(t).mantissa_bits, bias = (1 << (info(t).exponent_bits - 1)) - 1, least = 1 - f.bias();
  auto number = [&](Value like, int64_t n) { return full_like(like, static_cast<double>(n)); };
  Value v = select(is_nan(y), zeros_like(y), y);
  Value a = minimum(abs(v), full_like(v, f.largest()));
  Value bits = bitcast(a, integer);
  Value exponent = maximum(shift_right_logical(bits, number(bits, digits)) - double(bias), number(bits, least));
  // The distance of the format's numbers about a: a power of two, so the quotient is exact and is rounded once.
  Value step = bitcast(shift_left(exponent + double(bias - f.mantissa_bits()), number(bits, digits)), t);
  Value code = convert(round_nearest_even(a / step), integer) +
               shift_left(exponent - double(least), number(bits, f.mantissa_bits()));
  Value negative = signbit(v);
  if (!f.has_minus_zero()) negative = bitwise_and(negative, compare(code, zeros_like(code), Comparison::ne));
  return convert(select(negative, code + double(1 << (f.bits() - 1)), code), u8);
}
/// What the codes mean, f32 or f64.
Value decoded(Value codes, const ScaledFormat& f, DType dtype) {
  if (is_float(codes.dtype())) return convert(codes, dtype);
  Array<double> table({256});
  for (size_t code = 0; code < 256; ++code) table.data[code] = f.decode(static_cast<uint8_t>(code));
  return take(codes.graph().constant(table.rounded_to(dtype)), codes);
}
Value scaled(Value codes, Value scale, const ScaledFormat& f, int64_t block, DType dtype) {
  Value v = decoded(codes, f, dtype);
  return v * stretched(convert(scale, dtype), v, block);
}

/// What both products ask for; `k` is last in both operands.
void require_product(Types in, const ScaledMatmulAttrs& a, bool has_index) {
  require_codes(in[0], a.lhs_format, "lhs");
  require_codes(in[1], a.rhs_format, "rhs");
  require_rank(in[0], has_index ? 2 : 1, has_index ? 2 : SIZE_MAX, "lhs");
  require_rank(in[1], has_index ? 3 : 2, has_index ? 3 : 2, "rhs");
  if (in[0].dims.back() != in[1].dims.back())
    fail(ErrorCode::shape_mismatch, "inner dimensions differ: lhs ", in[0], " has ", in[0].dims.back(), ", rhs ", in[1],
         " has ", in[1].dims.back(), "; k is last in both");
  require_scale(in[2], in[0], a.layout, a.block_size, "lhs_scale");
  require_scale(in[3], in[1], a.layout, a.block_size, "rhs_scale");
  require_result(a.dtype);
  size_t wanted = 4 + size_t{has_index} + size_t{a.has_bias};
  if (in.size() != wanted)
    fail(ErrorCode::invalid_argument, "has_bias is ", a.has_bias ? "true" : "false", ", so there are ", wanted,
         " operands, not ", in.size());
  if (!a.has_bias) return;
  Dims bias(in[1].dims.begin(), in[1].dims.end() - 1);
  if (in.back() != Type{a.dtype, bias})
    fail(ErrorCode::shape_mismatch, "bias must be ", Type{a.dtype, bias}, " for rhs ", in[1], " and a result of ",
         a.dtype, ", got ", in.back());
}
ScaledQuantizeAttrs codes_of(const ScaledQuantScaleAttrs& a) { return {a.format, a.layout, a.block_size}; }

}  // namespace

OpDef define_scaled_quant_scale() {
  using A = ScaledQuantScaleAttrs;
  return define<A>({
      .name = "scaled_quant_scale",
      .doc =
          "with what x is divided to fit `format`: the largest |x| of the tensor, or of each block along the last "
          "dim, over the largest number of the format; of the layout mx a power of two. 1 where all are 0, NaN where "
          "one is. A scale is a constant to derivatives",
      .source = "OCP Microscaling 1.0, section 6.3; NVFP4 as cuBLAS has it, without its second scale",
      .operands = {"x"},
      .covers = {"ScaledQuantScale"},
      .differentiable = false,
      .infer =
          [](Types in, const A& a) {
            require_kind(in[0], kReal, "x");
            if (a.rounding != MxRounding::floor && a.layout != ScaleLayout::mx)
              fail(ErrorCode::invalid_argument, "`rounding` is of the powers of two of mx scales; the layout is ",
                   names_of(a.layout)[size_t(a.layout)]);
            return scale_type(in[0], a.layout, a.block_size);
          },
      .decompose = [](Values in, const A& a) { return scale_parts(in[0], a); },
      .samples = {{.dims = {{3, 4}}},
                  {.dims = {{}}, .attrs = A{.format = f4e2m1fn}},
                  {.dims = {{2, 64}}, .attrs = A{.format = f4e2m1fn, .layout = ScaleLayout::mx}},
                  {.dims = {{2, 3, 37}}, .attrs = A{f6e3m2fn, ScaleLayout::mx, 16, MxRounding::ceil}},
                  {.dims = {{3, 33}}, .attrs = A{.format = f4e2m1fn, .layout = ScaleLayout::nv}},
                  {.dims = {{4, 7}}, .dtypes = {bf16}, .attrs = A{.format = ScaledFormat::custom(2, 2)}},
                  {.dims = {{0, 32}}, .attrs = A{.layout = ScaleLayout::mx}}},
  });
}

OpDef define_scaled_quantize() {
  using A = ScaledQuantizeAttrs;
  return define<A>({
      .name = "scaled_quantize",
      .doc = "the codes of x / scale as u8: the nearest number of `format`, ties to the even mantissa (without one, to "
             "the "
             "larger number); what is too large becomes the largest number, NaN 0",
      .source = "OCP 8-bit floating point 1.0 (saturating) and Microscaling 1.0, section 6.3",
      .operands = {"x", "scale"},
      .covers = {"ScaledQuantize"},
      .infer =
          [](Types in, const A& a) {
            require_kind(in[0], kReal, "x");
            require_scale(in[1], in[0], a.layout, a.block_size, "scale");
            return Type{u8, in[0].dims};
          },
      .decompose =
          [](Values in, const A& a) {
            Value x = convert(in[0], width_of(in[0].dtype()));
            Value s = stretched(convert(in[1], x.dtype()), x, block_of(in[0].dims(), a.layout, a.block_size));
            return encoded(x / s, a.format);
          },
      .samples =
          {{.dims = {{3, 4}, {}}, .lo = 0.1},
           {.dims = {{3, 5}, {}}, .dtypes = {f64, f32}, .attrs = A{f8e5m2fnuz}, .lo = 0.01},
           {.dims = {{2, 64}, {2, 2}}, .dtypes = {f64, f8e8m0fnu}, .attrs = A{f4e2m1fn, ScaleLayout::mx}, .lo = 0.1},
           {.dims = {{2, 3, 37}, {2, 3, 3}},
            .dtypes = {f64, f8e4m3fn},
            .attrs = A{f4e2m1fn, ScaleLayout::nv},
            .lo = 0.1},
           {.dims = {{4, 7}, {}}, .dtypes = {bf16, f32}, .attrs = A{ScaledFormat::custom(3, 4)}, .lo = 0.1},
           {.dims = {{}, {}}, .attrs = A{ScaledFormat::custom(7, 0)}, .lo = 0.1},
           {.dims = {{0, 3}, {}}, .attrs = A{f6e2m3fn}}},
  });
}

OpDef define_scaled_dequantize() {
  using A = ScaledDequantizeAttrs;
  return define<A>({
      .name = "scaled_dequantize",
      .doc = "the numbers that codes of `format` stand for, times the scale of the tensor or of their block",
      .source = "OCP 8-bit floating point 1.0, Microscaling 1.0",
      .operands = {"codes", "scale"},
      .covers = {"ScaledDequantize"},
      .infer =
          [](Types in, const A& a) {
            require_codes(in[0], a.format, "codes");
            require_scale(in[1], in[0], a.layout, a.block_size, "scale");
            DType dtype = result_dtype(in[1], a.dtype);
            require_result(dtype);
            return Type{dtype, in[0].dims};
          },
      .decompose =
          [](Values in, const A& a) {
            DType dtype = result_dtype(in[1].type(), a.dtype);
            Value y = scaled(in[0], in[1], a.format, block_of(in[0].dims(), a.layout, a.block_size), width_of(dtype));
            return convert(y, dtype);
          },
      .samples = {{.dims = {{3, 4}, {}}, .dtypes = {u8, f64}, .attrs = A{f6e2m3fn}, .lo = 0, .hi = 256},
                  {.dims = {{5, 3}, {}}, .dtypes = {u8, f64}, .attrs = A{f8e4m3fn}, .lo = 0, .hi = 256},
                  {.dims = {{2, 64}, {2, 2}},
                   .dtypes = {u8, f8e8m0fnu},
                   .attrs = A{f4e2m1fn, ScaleLayout::mx},
                   .lo = 0.5,
                   .hi = 16},
                  {.dims = {{2, 3, 37}, {2, 3, 3}},
                   .dtypes = {f4e2m1fn, f8e4m3fn},
                   .attrs = A{.format = f4e2m1fn, .layout = ScaleLayout::nv, .dtype = bf16},
                   .lo = 0.5,
                   .hi = 16},
                  {.dims = {{4, 7}, {}},
                   .dtypes = {u8, f32},
                   .attrs = A{.format = ScaledFormat::custom(1, 6), .dtype = f16},
                   .lo = 0,
                   .hi = 256},
                  {.dims = {{}, {}}, .dtypes = {u8, f64}, .attrs = A{ScaledFormat::custom(2, 0)}, .lo = 0, .hi = 8},
                  {.dims = {{0, 3}, {}}, .dtypes = {u8, f64}}},
  });
}

OpDef define_scaled_matmul() {
  using A = ScaledMatmulAttrs;
  return define<A>({
      .name = "scaled_matmul",
      .doc =
          "lhs[..., k] times the transposed rhs[n, k], codes with scales, plus bias[n], as `dtype`; sums are in f32, "
          "or f64 for it. Scales and bias have derivatives; codes, being integers, have none (see scaled_round)",
      .source = "scaled_dequantize, dot_general",
      .operands = {"lhs", "rhs", "lhs_scale", "rhs_scale", "bias?"},
      .covers = {"ScaledMatMul"},
      .infer =
          [](Types in, const A& a) {
            require_product(in, a, false);
            Type t{a.dtype, in[0].dims};
            t.dims.back() = in[1].dims[0];
            return t;
          },
      .decompose =
          [](Values in, const A& a) {
            DType work = width_of(a.dtype);
            int64_t block = block_of(in[0].dims(), a.layout, a.block_size), k = in[0].rank() - 1;
            Value lhs = scaled(in[0], in[2], a.lhs_format, block, work);
            Value y = dot_general(lhs, scaled(in[1], in[3], a.rhs_format, block, work), {{}, {}, {k}, {1}});
            if (a.has_bias) y = y + broadcast_to(convert(in[4], work), y.dims());
            return convert(y, a.dtype);
          },
      .samples =
          {{.dims = {{3, 4}, {5, 4}, {}, {}},
            .dtypes = {u8, u8, f64, f64},
            .attrs = A{.lhs_format = f6e2m3fn, .rhs_format = f4e2m1fn, .dtype = f64},
            .lo = 0,
            .hi = 3},
           {.dims = {{2, 2, 7}, {3, 7}, {}, {}, {3}},
            .dtypes = {u8, u8, f64, f64, f64},
            .attrs =
                A{.lhs_format = f6e3m2fn, .rhs_format = ScaledFormat::custom(3, 3), .has_bias = true, .dtype = f64},
            .lo = 0,
            .hi = 9},
           {.dims = {{5, 70}, {4, 70}, {5, 3}, {4, 3}, {4}},
            .dtypes = {u8, f4e2m1fn, f8e8m0fnu, f8e8m0fnu, f32},
            .attrs = A{.lhs_format = f4e2m1fn, .rhs_format = f4e2m1fn, .layout = ScaleLayout::mx, .has_bias = true},
            .lo = 0.5,
            .hi = 6},
           {.dims = {{64}, {3, 64}, {4}, {3, 4}, {3}},
            .dtypes = {u8, u8, f8e4m3fn, f8e4m3fn, bf16},
            .attrs = A{.lhs_format = f4e2m1fn,
                       .rhs_format = f4e2m1fn,
                       .layout = ScaleLayout::nv,
                       .has_bias = true,
                       .dtype = bf16},
            .lo = 0.25,
            .hi = 8},
           {.dims = {{0, 4}, {2, 4}, {}, {}}, .dtypes = {u8, u8, f32, f32}},
           {.dims = {{2, 0}, {3, 0}, {}, {}}, .dtypes = {u8, u8, f32, f32}}},
  });
}

OpDef define_scaled_grouped_matmul() {
  using A = ScaledMatmulAttrs;
  return define<A>({
      .name = "scaled_grouped_matmul",
      .doc = "row i of lhs[m, k] times the transposed rhs[index[i]] of rhs[e, n, k], codes with scales, plus "
             "bias[index[i]] of bias[e, n], as `dtype`; NaN where index[i] is not in [0, e)",
      .source = "scaled_dequantize, grouped_matmul",
      .operands = {"lhs", "rhs", "lhs_scale", "rhs_scale", "index", "bias?"},
      .covers = {"ScaledGroupedMatMul"},
      .infer =
          [](Types in, const A& a) {
            require_product(in, a, true);
            require_kind(in[4], kInteger, "index");
            require_dims(in[4], {in[0].dims[0]}, "index");
            return Type{a.dtype, {in[0].dims[0], in[1].dims[1]}};
          },
      .decompose =
          [](Values in, const A& a) {
            DType work = width_of(a.dtype);
            int64_t block = block_of(in[0].dims(), a.layout, a.block_size);
            Value lhs = scaled(in[0], in[2], a.lhs_format, block, work);
            Value rhs = transpose(scaled(in[1], in[3], a.rhs_format, block, work), {0, 2, 1});
            Value y = grouped_matmul(lhs, rhs, in[4]);
            if (a.has_bias) y = y + take(convert(in[5], work), in[4]);
            return convert(y, a.dtype);
          },
      .samples =
          {{.dims = {{4, 3}, {2, 5, 3}, {}, {}, {4}},
            .dtypes = {u8, u8, f64, f64, i32},
            .attrs = A{.lhs_format = f6e2m3fn, .rhs_format = f6e3m2fn, .dtype = f64},
            .lo = 0,
            .hi = 2},
           {.dims = {{5, 7}, {3, 2, 7}, {}, {}, {5}, {3, 2}},
            .dtypes = {u8, u8, f64, f64, i64, f64},
            .attrs =
                A{.lhs_format = ScaledFormat::custom(4, 1), .rhs_format = f4e2m1fn, .has_bias = true, .dtype = f64},
            .lo = 0,
            .hi = 3},
           {.dims = {{3, 64}, {4, 2, 64}, {3, 2}, {4, 2, 2}, {3}},
            .dtypes = {u8, u8, f8e8m0fnu, f8e8m0fnu, i32},
            .attrs = A{.lhs_format = f4e2m1fn, .rhs_format = f4e2m1fn, .layout = ScaleLayout::mx},
            .lo = 0.5,
            .hi = 4},
           {.dims = {{3, 17}, {2, 3, 17}, {3, 2}, {2, 3, 2}, {3}, {2, 3}},
            .dtypes = {u8, u8, f8e4m3fn, f8e4m3fn, i32, f16},
            .attrs = A{.lhs_format = f4e2m1fn,
                       .rhs_format = f4e2m1fn,
                       .layout = ScaleLayout::nv,
                       .has_bias = true,
                       .dtype = f16},
            .lo = 0.25,
            .hi = 2},
           {.dims = {{0, 4}, {2, 3, 4}, {}, {}, {0}}, .dtypes = {u8, u8, f32, f32, i32}}},
  });
}

OpDef define_scaled_round() {
  using A = ScaledQuantScaleAttrs;
  return define<A>({
      .name = "scaled_round",
      .doc =
          "x as its codes have it: scaled_dequantize of scaled_quantize of x with the scale that fits. Its derivative "
          "looks through the rounding: ct",
      .source = "straight-through estimators: Bengio, Leonard, Courville 2013",
      .operands = {"x"},
      .surrogate_gradient = true,
      .infer =
          [](Types in, const A& a) {
            infer_types(op::scaled_quant_scale, in, a);
            return in[0];
          },
      .decompose =
          [](Values in, const A& a) {
            Value scale = scaled_quant_scale(in[0], a), codes = scaled_quantize(in[0], scale, codes_of(a));
            return scaled_dequantize(codes, scale, {a.format, a.layout, a.block_size, in[0].dtype()});
          },
      .vjp = [](Values, Value, Value ct, const A&) { return ct; },
      .samples = {{.dims = {{3, 4}}},
                  {.dims = {{2, 40}}, .attrs = A{.format = f4e2m1fn, .layout = ScaleLayout::mx}},
                  {.dims = {{2, 3, 33}}, .attrs = A{.format = f4e2m1fn, .layout = ScaleLayout::nv}},
                  {.dims = {{4, 7}}, .dtypes = {bf16}, .attrs = A{.format = ScaledFormat::custom(5, 2)}},
                  {.dims = {{}}, .attrs = A{.format = f6e3m2fn}},
                  {.dims = {{0, 3}}, .attrs = A{.format = f8e5m2}}},
  });
}

}  // namespace rlx
