// Codes with scales of their own: quantize, dequantize, integer products. What holds its scales in blocks is in
// quantize_blocks.cpp.
#include "rlx/ops/quantize.h"

#include <cmath>

#include "ops/core/composite_rules.h"
#include "ops/quant/requantized.h"

namespace rlx {

// ---- builders ----
Value quantize(Value x, Value scale, Value zero_point, QuantizeAttrs attrs) {
  std::vector<Value> in = {x, scale};
  if (zero_point) in.push_back(zero_point);
  return emit(op::quantize, std::move(in), attrs);
}
Value dequantize(Value q, Value scale, Value zero_point, std::optional<int64_t> axis) {
  std::vector<Value> in = {q, scale};
  if (zero_point) in.push_back(zero_point);
  return emit(op::dequantize, std::move(in), DequantizeAttrs{axis});
}
Value qmatmul(Value x, Value w, Value bias, QMatmulAttrs attrs, Value multipliers) {
  std::vector<Value> in = {x, w, bias};
  if (multipliers) in.push_back(multipliers);
  return emit(op::qmatmul, std::move(in), attrs);
}
Value qconv2d(Value x, Value w, Value bias, QConv2dAttrs attrs, Value multipliers) {
  std::vector<Value> in = {x, w, bias};
  if (multipliers) in.push_back(multipliers);
  return emit(op::qconv2d, std::move(in), std::move(attrs));
}

namespace {

/// What an integer dtype of at most 32 bits holds.
double lowest(DType t) { return kind_of(t) == Kind::signed_int ? -std::ldexp(1, info(t).bits - 1) : 0; }
double highest(DType t) { return std::ldexp(1, info(t).bits - (kind_of(t) == Kind::signed_int)) - 1; }

/// Scale and zero point fit `x`: one of each, or one for each place along `axis`.
void require_scales(Types in, const std::optional<int64_t>& axis, std::string_view x) {
  Dims wanted;
  if (axis) wanted = {in[0].dims[size_t(valid_axis(*axis, in[0].rank()))]};
  auto explain = [&](std::string_view what, const Type& t) {
    if (t.dims == wanted) return;
    fail(ErrorCode::shape_mismatch, what, " must be ", Type{t.dtype, wanted}, " for ", x, " ", in[0],
         axis ? text_of(" and axis ", *axis) : std::string(" (without an axis there is one of it)"), ", got ", t);
  };
  explain("scale", in[1]);
  if (in.size() < 3) return;
  explain("zero_point", in[2]);
  if (!is_integer(in[2].dtype)) fail(ErrorCode::invalid_argument, "zero_point must be an integer, got ", in[2]);
}
Value along(Value v, Value x, const std::optional<int64_t>& axis) {
  Axes axes;
  if (axis) axes = {valid_axis(*axis, x.dims().size())};
  return broadcast_in_dim(v, x.dims(), axes);
}

/// Codes less their zero point, in i32.
Value centered_codes(Value q, int64_t zero_point) {
  Value wide = convert(q, i32);
  return zero_point == 0 ? wide : wide - static_cast<double>(zero_point);
}
void require_codes(const Type& t, std::string_view what) {
  if (t.dtype != i8 && t.dtype != u8) fail(ErrorCode::invalid_argument, what, " must be i8 or u8, got ", t);
}
void require_zero_point(int64_t zero_point, const Type& t, std::string_view what) {
  auto z = static_cast<double>(zero_point);
  if (z < lowest(t.dtype) || z > highest(t.dtype))
    fail(ErrorCode::invalid_argument, what, " ", zero_point, " is none of the codes of ", t);
}
template <class A>
void require_integer_product(Types in, const A& a) {
  require_codes(in[0], "x");
  require_codes(in[1], "w");
  if (in[2].dtype != i32) fail(ErrorCode::invalid_argument, "bias must be i32, got ", in[2]);
  require_zero_point(a.x_zero_point, in[0], "x_zero_point");
  require_zero_point(a.w_zero_point, in[1], "w_zero_point");
  require_zero_point(a.out_zero_point, in[0], "out_zero_point");
  if (!std::isfinite(a.multiplier))
    fail(ErrorCode::invalid_argument, "the multiplier is ", a.multiplier, "; it must be a finite number");
}
/// `multipliers`, where they are given, are of f32 and one for each of `channels`.
template <class A>
void require_multipliers(Types in, const A& a, const Dim& channels) {
  if (in.size() < 4) return;
  if (in[3] != Type{f32, {channels}})
    fail(ErrorCode::shape_mismatch, "multipliers must be ", Type{f32, {channels}}, ", got ", in[3]);
  if (a.multiplier != 1)
    fail(ErrorCode::invalid_argument, "beside multipliers the attribute multiplier must stay 1, and is ", a.multiplier);
}
}  // namespace

Value requantized(Value acc, const Requantization& r) {
  Value sum = convert(acc, f32);
  Value scaled = r.multipliers ? sum * broadcast_in_dim(r.multipliers, sum.dims(), {r.axis})
                               : sum * static_cast<double>(static_cast<float>(r.multiplier));
  Value y = round_nearest_even(scaled) + static_cast<double>(r.zero_point);
  Graph& g = acc.graph();
  return convert(minimum(maximum(y, scalar(g, lowest(r.dtype), f32)), scalar(g, highest(r.dtype), f32)), r.dtype);
}

OpDef define_quantize() {
  return define<QuantizeAttrs>({
      .name = "quantize",
      .doc = "clamp(round(x / scale) + zero_point) to what `dtype` holds, ties to even; scale and zero_point run along "
             "`axis`, or are scalars. A NaN becomes 0",
      .source = "ONNX, QuantizeLinear",
      .operands = {"x", "scale", "zero_point?"},
      .covers = {"Quantize"},
      .infer =
          [](Types in, const QuantizeAttrs& a) {
            require_dtype(in.first(2), kReal);
            if (!is_integer(a.dtype) || info(a.dtype).bits > 16)
              fail(ErrorCode::invalid_argument, "codes are integers of at most 16 bits, not ", a.dtype);
            require_scales(in, a.axis, "x");
            return Type{a.dtype, in[0].dims};
          },
      .decompose =
          [](Graph& g, Values in, const QuantizeAttrs& a) {
            Value y = round_nearest_even(in[0] / along(in[1], in[0], a.axis));
            DType dtype = in[0].dtype();
            if (in.size() > 2) y = y + along(convert(in[2], dtype), in[0], a.axis);
            y = minimum(maximum(y, scalar(g, lowest(a.dtype), dtype)), scalar(g, highest(a.dtype), dtype));
            return convert(y, a.dtype);
          },
      .samples =
          {{.dims = {{3, 4}, {}}, .lo = 0.1, .hi = 2},
           {.dims = {{3, 4}, {3}, {3}}, .dtypes = {f64, f64, i8}, .attrs = QuantizeAttrs{0}, .lo = 0.1, .hi = 9},
           {.dims = {{2, 3, 2}, {3}, {3}},
            .dtypes = {f64, f64, u8},
            .attrs = QuantizeAttrs{-2, u8},
            .lo = 0.01,
            .hi = 9},
           {.dims = {{}, {}, {}}, .dtypes = {f64, f64, i32}, .attrs = QuantizeAttrs{{}, i16}, .lo = 0.1, .hi = 9},
           {.dims = {{2, 5}, {}}, .attrs = QuantizeAttrs{{}, i4}, .lo = 0.1, .hi = 3},
           {.dims = {{0, 2}, {2}}, .attrs = QuantizeAttrs{1}}},
  });
}

OpDef define_dequantize() {
  return define<DequantizeAttrs>({
      .name = "dequantize",
      .doc = "(q - zero_point) scale, of the scale's dtype; scale and zero_point run along `axis`, or are scalars",
      .source = "ONNX, DequantizeLinear",
      .operands = {"q", "scale", "zero_point?"},
      .covers = {"Dequantize"},
      .infer =
          [](Types in, const DequantizeAttrs& a) {
            if (!is_integer(in[0].dtype)) fail(ErrorCode::invalid_argument, "codes are integers, got ", in[0]);
            require_kind(in[1], kReal, "scale");
            require_scales(in, a.axis, "codes");
            return Type{in[1].dtype, in[0].dims};
          },
      .decompose =
          [](Values in, const DequantizeAttrs& a) {
            Value y = convert(in[0], in[1].dtype());
            if (in.size() > 2) y = y - along(convert(in[2], y.dtype()), y, a.axis);
            return y * along(in[1], y, a.axis);
          },
      .samples =
          {{.dims = {{3, 4}, {}}, .dtypes = {i8, f64}, .lo = -9, .hi = 9},
           {.dims = {{3, 4}, {3}, {3}}, .dtypes = {i8, f64, i8}, .attrs = DequantizeAttrs{0}, .lo = -9, .hi = 9},
           {.dims = {{2, 3, 2}, {3}, {3}}, .dtypes = {u8, f64, u8}, .attrs = DequantizeAttrs{-2}, .lo = 0, .hi = 9},
           {.dims = {{3, 2}, {}}, .dtypes = {u4, f64}, .lo = 0, .hi = 15},
           {.dims = {{}, {}, {}}, .dtypes = {i16, f64, i16}, .lo = -99, .hi = 99},
           {.dims = {{0, 2}, {2}}, .dtypes = {i8, f64}, .attrs = DequantizeAttrs{1}}},
  });
}

OpDef define_qmatmul() {
  return define<QMatmulAttrs>({
      .name = "qmatmul",
      .doc =
          "codes x[..., k] times codes w[k, n], plus bias[n] of i32: acc = bias + sum (x - x_zero_point)(w - "
          "w_zero_point) in i32, which wraps; then clamp(round(f32(acc) multiplier) + out_zero_point), ties to even. "
          "`multipliers` f32[n] stand for the attribute where columns have scales of their own",
      .source = "Jacob et al., CVPR 2018, with the multiplier as an f32",
      .operands = {"x", "w", "bias", "multipliers?"},
      .covers = {"QMatMul"},
      .infer =
          [](Types in, const QMatmulAttrs& a) {
            require_integer_product(in, a);
            require_rank(in[0], 1, SIZE_MAX, "x");
            require_rank(in[1], 2, 2, "w");
            if (in[0].dims.back() != in[1].dims[0])
              fail(ErrorCode::shape_mismatch, "inner dimensions differ: x ", in[0], " has ", in[0].dims.back(), ", w ",
                   in[1], " has ", in[1].dims[0], "; the weight is [k, n]");
            require_dims(in[2], {in[1].dims[1]}, "bias");
            require_multipliers(in, a, in[1].dims[1]);
            Type t = in[0];
            t.dims.back() = in[1].dims[1];
            return t;
          },
      .decompose =
          [](Values in, const QMatmulAttrs& a) {
            Value acc = dot_general(centered_codes(in[0], a.x_zero_point), centered_codes(in[1], a.w_zero_point),
                                    {{}, {}, {in[0].rank() - 1}, {0}});
            return requantized(acc + in[2], Requantization(in, a, acc.rank() - 1));
          },
      .samples = {{.dims = {{3, 4}, {4, 2}, {2}},
                   .dtypes = {i8, i8, i32},
                   .attrs = QMatmulAttrs{.multiplier = 0.01},
                   .lo = -128,
                   .hi = 128},
                  {.dims = {{5, 33}, {33, 70}, {70}},
                   .dtypes = {i8, i8, i32},
                   .attrs = QMatmulAttrs{-3, 5, 7, 0.0017},
                   .lo = -128,
                   .hi = 128},
                  {.dims = {{2, 2, 3}, {3, 4}, {4}},
                   .dtypes = {u8, i8, i32},
                   .attrs = QMatmulAttrs{120, 0, 128, 0.02},
                   .lo = 0,
                   .hi = 127},
                  {.dims = {{7}, {7, 1}, {1}},
                   .dtypes = {u8, u8, i32},
                   .attrs = QMatmulAttrs{0, 128, 3, 0.003},
                   .lo = 0,
                   .hi = 256},
                  {.dims = {{4, 9}, {9, 19}, {19}, {19}},
                   .dtypes = {i8, i8, i32, f32},
                   .attrs = QMatmulAttrs{3, 0, -5},
                   .lo = 0.01,
                   .hi = 9},
                  {.dims = {{0, 4}, {4, 2}, {2}}, .dtypes = {i8, i8, i32}, .lo = -9, .hi = 9},
                  {.dims = {{2, 0}, {0, 3}, {3}}, .dtypes = {i8, i8, i32}, .lo = -9, .hi = 9}},
  });
}

OpDef define_qconv2d() {
  auto as_conv = [](const QConv2dAttrs& a) { return ConvNdAttrs{a.stride, a.padding, a.dilation, a.groups}; };
  return define<QConv2dAttrs>({
      .name = "qconv2d",
      .doc = "codes x[n, c, h, w] with kernels of codes w[o, c / groups, kh, kw], plus bias[o] of i32: sums and "
             "rounding as in qmatmul, multipliers f32[o]; places of the padding add nothing, as if they held the zero "
             "point",
      .source = "Jacob et al., CVPR 2018, with the multiplier as an f32",
      .operands = {"x", "w", "bias", "multipliers?"},
      .covers = {"QConv2d"},
      .infer =
          [as_conv](Types in, const QConv2dAttrs& a) {
            require_integer_product(in, a);
            require_rank(in[0], 4, 4, "x");
            Types codes = in.first(2);
            std::array wide = {Type{i32, codes[0].dims}, Type{i32, codes[1].dims}};
            Type t{in[0].dtype, infer_types(op::conv, wide, as_conv(a))[0].dims};
            require_dims(in[2], {t.dims[1]}, "bias");
            require_multipliers(in, a, t.dims[1]);
            return t;
          },
      .decompose =
          [as_conv](Values in, const QConv2dAttrs& a) {
            Value acc = conv(centered_codes(in[0], a.x_zero_point), centered_codes(in[1], a.w_zero_point), as_conv(a));
            return requantized(acc + broadcast_in_dim(in[2], acc.dims(), {1}), Requantization(in, a, 1));
          },
      .samples = {{.dims = {{1, 2, 5, 4}, {3, 2, 3, 3}, {3}},
                   .dtypes = {i8, i8, i32},
                   .attrs = QConv2dAttrs{.padding = {1, 1}, .multiplier = 0.004},
                   .lo = -128,
                   .hi = 128},
                  {.dims = {{2, 4, 6, 5}, {4, 2, 3, 2}, {4}},
                   .dtypes = {u8, i8, i32},
                   .attrs = QConv2dAttrs{{2, 1}, {1, 0}, {1, 2}, 2, 100, 3, 128, 0.002},
                   .lo = 0,
                   .hi = 127},
                  {.dims = {{1, 3, 1, 7}, {3, 1, 1, 3}, {3}},
                   .dtypes = {i8, i8, i32},
                   .attrs = QConv2dAttrs{.groups = 3, .x_zero_point = -7, .out_zero_point = 5, .multiplier = 0.01},
                   .lo = -128,
                   .hi = 128},
                  {.dims = {{2, 2, 4, 3}, {3, 2, 3, 3}, {3}, {3}},
                   .dtypes = {i8, i8, i32, f32},
                   .attrs = QConv2dAttrs{.padding = {1, 1}, .x_zero_point = 2, .out_zero_point = -4},
                   .lo = 0.01,
                   .hi = 7},
                  {.dims = {{1, 4, 9, 7}, {8, 2, 3, 3}, {8}},
                   .dtypes = {i8, u8, i32},
                   .attrs = QConv2dAttrs{{1, 2}, {2, 1}, {2, 1}, 2, 3, 5, -6, 0.003},
                   .lo = 0,
                   .hi = 127},
                  {.dims = {{2, 3, 20, 17}, {5, 3, 3, 2}, {5}},  // more places than are gathered at once
                   .dtypes = {u8, i8, i32},
                   .attrs =
                       QConv2dAttrs{.padding = {1, 1}, .x_zero_point = 90, .out_zero_point = 7, .multiplier = 0.001},
                   .lo = 0,
                   .hi = 127},
                  {.dims = {{0, 1, 3, 3}, {2, 1, 1, 1}, {2}}, .dtypes = {i8, i8, i32}, .lo = -9, .hi = 9}},
  });
}

}  // namespace rlx
