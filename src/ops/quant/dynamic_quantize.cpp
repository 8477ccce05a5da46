// Quantization whose scales come from the numbers themselves, and products of floats in 8-bit integers.
#include "rlx/ops/dynamic_quantize.h"

#include <limits>

#include "ops/control/subgraph_rules.h"
#include "ops/core/composite_rules.h"
#include "ops/nn/linear_rules.h"
#include "rlx/ops/sort.h"

namespace rlx {

// ---- builders ----
DynamicQuantized dynamic_quantize(Value x, Axes axes, int64_t largest, int64_t outliers) {
  const auto both = x.graph().emit(op::dynamic_quantize, {x}, DynamicQuantizeAttrs{std::move(axes), largest, outliers});
  return {both[0], both[1]};
}
Value dynamic_quantize_matmul(Value x, Value w, Value w_scale, const DynamicEpilogue& e, bool transpose_rhs,
                              int64_t x_largest, int64_t x_outliers) {
  std::vector<Value> in = {x, w, w_scale};
  if (e.bias) in.push_back(e.bias);
  if (e.factor) in.push_back(e.factor);
  if (e.residual) in.push_back(e.residual);
  return emit(op::dynamic_quantize_matmul, std::move(in),
              DynamicQuantizeMatmulAttrs{transpose_rhs, bool(e.bias), bool(e.factor), bool(e.residual), e.activation,
                                         x_largest, x_outliers});
}
Value dynamic_quantize_conv(Value x, Value w, Value w_scale, const DynamicEpilogue& e, DynamicQuantizeConvAttrs attrs) {
  if (e.factor) fail(ErrorCode::invalid_argument, "a convolution in integers takes no factor; multiply its result");
  attrs.has_bias = bool(e.bias), attrs.has_residual = bool(e.residual), attrs.activation = e.activation;
  std::vector<Value> in = {x, w, w_scale};
  if (e.bias) in.push_back(e.bias);
  if (e.residual) in.push_back(e.residual);
  return emit(op::dynamic_quantize_conv, std::move(in), std::move(attrs));
}

FusedConvAttrs as_fused_conv(const DynamicQuantizeConvAttrs& a) {
  return {.stride = a.stride,
          .padding = a.padding,
          .dilation = a.dilation,
          .padding_high = a.padding_high,
          .groups = a.groups,
          .has_bias = a.has_bias,
          .has_residual = a.has_residual,
          .activation = a.activation,
          .channels_last = a.channels_last};
}
DynamicQuantizeConvAttrs as_dynamic_quantize_conv(const FusedConvAttrs& a, int64_t x_largest) {
  return {.stride = a.stride,
          .padding = a.padding,
          .dilation = a.dilation,
          .padding_high = a.padding_high,
          .groups = a.groups,
          .has_bias = a.has_bias,
          .has_residual = a.has_residual,
          .activation = a.activation,
          .channels_last = a.channels_last,
          .x_largest = x_largest};
}

namespace {

void require_f32_or_f64(const Type& x) {
  if (x.dtype != f32 && x.dtype != f64)
    fail(ErrorCode::invalid_argument, "x must be f32 or f64, which scales are exact enough in, got ", x,
         "; convert it first");
}

void require_largest(int64_t largest, std::string_view name) {
  if (largest < 1 || largest > 32767)
    fail(ErrorCode::invalid_argument, name, " is the largest code, from 1 to 32767, and is ", largest);
}

void require_outliers(int64_t outliers, int64_t largest, std::string_view name) {
  if (outliers < 0 || outliers > 32767)
    fail(ErrorCode::invalid_argument, name, " is a number of elements, from 0 to 32767, and is ", outliers);
  if (outliers > 0 && largest > kLargestOutlier)
    fail(ErrorCode::invalid_argument, "the codes of outliers are at most ", kLargestOutlier,
         ", and those of the others are to be at most ", largest, "; give no outliers");
}

DType codes_of(const DynamicQuantizeAttrs& a) { return a.largest <= 127 && a.outliers == 0 ? i8 : i16; }

/// The place-th largest number along `axes`, counted from 0; 0 where there are not as many.
Value nth_largest(Value x, const Axes& axes, int64_t place) {
  Axes order, others;
  for (int64_t d = 0; d < x.rank(); ++d)
    if (std::find(axes.begin(), axes.end(), d) == axes.end()) others.push_back(d);
  order = others;
  order.insert(order.end(), axes.begin(), axes.end());
  Dims rows;
  Dim count = 1;
  for (int64_t d : others) rows.push_back(x.dims()[static_cast<size_t>(d)]);
  for (int64_t d : axes) count = count * x.dims()[static_cast<size_t>(d)];
  Dims dims = rows;
  dims.push_back(count);
  PadAttrs zeros{Dims(dims.size(), 0), Dims(dims.size(), 0), {}};  // behind the numbers, so that there are enough
  zeros.high.back() = place + 1;
  const Value padded = pad(reshape(transpose(x, order), dims), scalar(x.graph(), 0, x.dtype()), zeros);
  return reshape(slice_axis(top_k(padded, place + 1).values, -1, place, place + 1), rows);
}

/// `v`, which has the dims of `x` but for `axes`, along x.
Value stretched(Value v, Value x, const Axes& axes) {
  Axes others;
  for (int64_t d = 0; d < x.rank(); ++d)
    if (std::find(axes.begin(), axes.end(), d) == axes.end()) others.push_back(d);
  return broadcast_in_dim(v, x.dims(), others);
}

bool is_half(DType t) { return t == f16 || t == bf16; }
Value converted(Value v, DType to) { return v.dtype() == to ? v : convert(v, to); }
/// As f32, if it is f16 or bf16.
Value widened(Value v) { return is_half(v.dtype()) ? convert(v, f32) : v; }

template <class A>
bool has_factor(const A& a) {
  if constexpr (requires { a.has_factor; }) return a.has_factor;
  else return false;
}
/// The checks of dtypes and the number of operands that both products share: beside x of f16 or bf16, w_scale, bias and
/// factor are f32, and the residual is of x's dtype.
template <class A>
void require_codes_and_scales(Types in, const A& a) {
  require_largest(a.x_largest, "x_largest");
  if constexpr (requires { a.x_outliers; }) require_outliers(a.x_outliers, a.x_largest, "x_outliers");
  if (in[1].dtype != i8) fail(ErrorCode::invalid_argument, "w must be i8, got ", in[1]);
  const std::string factor = has_factor(a) ? flag_text("has_factor", true) + " and " : "";
  require_operands(in.size(), size_t{3} + a.has_bias + has_factor(a) + a.has_residual,
                   flag_text("has_bias", a.has_bias) + " and " + factor + flag_text("has_residual", a.has_residual));
  const DType scales = is_half(in[0].dtype) ? f32 : in[0].dtype;
  for (size_t i = 2; i < in.size(); ++i) {
    const bool is_residual = i == size_t{3} + a.has_bias + has_factor(a);
    if (in[i].dtype == (is_residual ? in[0].dtype : scales)) continue;
    if (scales == in[0].dtype)
      fail(ErrorCode::invalid_argument, "w_scale, bias", has_factor(a) ? ", factor" : "",
           " and residual must be of x's dtype ", in[0].dtype, ", got ", in[i]);
    fail(ErrorCode::invalid_argument,
         i == 2                        ? "w_scale"
         : is_residual                 ? "the residual"
         : i == size_t{2} + a.has_bias ? "the bias"
                                       : "the factor",
         " must be of ", is_residual ? in[0].dtype : scales, " beside x of ", in[0].dtype, ", got ", in[i]);
  }
}

/// What a sum of products of codes stands for. Both scales have its dims.
Value scaled_sum(Value sum, Value w_scale, Value x_scale) {
  // The lesser scale first: the other order may be infinite before it is small.
  Value is_w_less = compare(w_scale, x_scale, Comparison::lt);
  Value y = convert(sum, w_scale.dtype()) * select(is_w_less, w_scale, x_scale);
  return y * select(is_w_less, x_scale, w_scale);
}

/// The cotangents of a product in integers: those of `product`, of floats, with what the codes of w stand for, as if x
/// were not rounded, in f32 where x is f16 or bf16. `outputs`: the dim of w that has the scales.
Many<Value> straight_through(Values in, Values cts, const Transforms& t, int64_t outputs,
                             const std::function<Value(Values)>& product) {
  const Value x = widened(in[0]), codes = convert(in[1], x.dtype());
  std::vector<Value> floats = {x, codes * broadcast_in_dim(in[2], codes.dims(), {outputs})};
  for (size_t i = 3; i < in.size(); ++i) floats.push_back(widened(in[i]));
  std::vector<Type> types;
  for (const Value& v : floats) types.push_back(v.type());
  const Graph body = trace(types, [&](Graph&, Values v) { return Many<Value>{product(v)}; });
  const std::vector<Value> given = {widened(cts[0])};
  const auto d = inlined(in[0].graph(), t.vjp(body, Mask(floats.size(), true), {true}), joined(floats, given));
  Axes others = axes_from(0, codes.dims().size());
  others.erase(others.begin() + outputs);
  Many<Value> all = {converted(d[0], in[0].dtype()), Value{}, reduce_sum(d[1] * codes, others)};
  for (size_t i = 2; i < d.size(); ++i) all.push_back(converted(d[i], in[i + 1].dtype()));
  return all;
}

}  // namespace

OpDef define_dynamic_quantize() {
  using A = DynamicQuantizeAttrs;
  return define<A>({
      .name = "dynamic_quantize",
      .doc =
          "codes (i8, or i16 where `largest` is above 127 or there are outliers) and their scales, of which elements "
          "along `axes` share one: scale = max(|x|) / largest, at least 2^-126, codes = round(x (1 / scale)), ties to "
          "even. The `outliers` largest magnitudes may have larger codes, up to 16383: scale is then the greater of "
          "the next largest magnitude / largest and max(|x|) / 16383, at least 2^-126. Where an element is infinite or "
          "NaN the scale is NaN and the codes are 0",
      .source = "dynamic quantization without a zero point: PyTorch, torch.ao.quantization, per-channel symmetric",
      .operands = {"x"},
      .infer = [](Types in, const A& a) -> Many<Type> {
        require_f32_or_f64(in[0]);
        require_largest(a.largest, "largest");
        require_outliers(a.outliers, a.largest, "outliers");
        return {Type{codes_of(a), in[0].dims},
                Type{in[0].dtype, reduced_dims(in[0].dims, valid_axes(a.axes, in[0].rank()), false)}};
      },
      .decompose = [](Graph& g, Values in, const A& a) -> Many<Value> {
        Value x = in[0];
        const Axes axes = valid_axes(a.axes, x.dims().size());
        const auto number = [&](double v) { return scalar(g, v, x.dtype()); };
        // (Over no elements the largest is -infinity.)
        Value largest = maximum(reduce_max(abs(x), axes), number(0));
        Value step = largest / static_cast<double>(a.outliers > 0 ? kLargestOutlier : a.largest);
        if (a.outliers > 0)
          step = maximum(step, nth_largest(abs(x), axes, a.outliers) / static_cast<double>(a.largest));
        // Down to the least normal number, so that 1 / scale is finite, and no row of zeros is special.
        Value scale = select(is_finite(largest), maximum(step, number(0x1p-126)),
                             full_like(largest, std::numeric_limits<double>::quiet_NaN()));
        Value codes = convert(round_nearest_even(x * stretched(1.0 / scale, x, axes)), codes_of(a));  // NaN becomes 0
        return {codes, scale};
      },
      .samples = {{.dims = {{3, 4}}, .attrs = A{{1}}},
                  {.dims = {{5, 37}}, .dtypes = {f32}, .attrs = A{{-1}}, .lo = -30, .hi = 9},
                  {.dims = {{4, 3, 2}}, .dtypes = {f32}, .attrs = A{{1, 2}}},
                  {.dims = {{6, 70}}, .dtypes = {f32}, .attrs = A{{1}, 1023}, .lo = -4, .hi = 5},
                  {.dims = {{7, 3}}, .attrs = A{{0}, 32767}},
                  {.dims = {{5, 37}}, .attrs = A{{1}, 127, 3}, .lo = -30, .hi = 9},
                  {.dims = {{4, 3, 2}}, .dtypes = {f32}, .attrs = A{{2, 0}, 30, 1}},
                  {.dims = {{2, 2}}, .attrs = A{{1}, 127, 5}},
                  {.dims = {{2, 3}}, .attrs = A{{0, 1}}},
                  {.dims = {{}}},
                  {.dims = {{2, 0}}, .attrs = A{{1}}},
                  {.dims = {{0, 3}}, .attrs = A{{1}}}},
  });
}

OpDef define_dynamic_quantize_matmul() {
  using A = DynamicQuantizeMatmulAttrs;
  return define<A>({
      .name = "dynamic_quantize_matmul",
      .doc =
          "fused_matmul in 8-bit integers: activation(f32(sum) w_scale x_scale + bias) factor + residual, the lesser "
          "scale multiplied first, where sum is the product, in i32, of codes w[k, n] ([n, k] if transpose_rhs) with "
          "the codes of x[..., k], which dynamic_quantize makes by row, up to x_largest, with x_outliers outliers. "
          "w_scale[n], bias[n] if has_bias, factor[n] if has_factor, residual[..., n] if has_residual. Beside x of "
          "f16 or bf16, w_scale, bias and factor are f32, as all between is, and the result is rounded once. Sums "
          "are exact while 127 (x_largest k + 16383 x_outliers) is below 2^31, and wrap beyond. Its derivative "
          "looks through the rounding of x: that of fused_matmul with w w_scale",
      .source = "LLM.int8, Dettmers et al., NeurIPS 2022, section 3.1: vector-wise quantization; ONNX Runtime, "
                "com.microsoft DynamicQuantizeMatMul, with a scale for each row and no zero points",
      .operands = {"x", "w", "w_scale", "bias?", "factor?", "residual?"},
      .surrogate_gradient = true,
      .infer =
          [](Types in, const A& a) {
            if (!is_half(in[0].dtype)) require_f32_or_f64(in[0]);
            require_codes_and_scales(in, a);
            Type t{in[0].dtype, product_dims(in[0], in[1], a.transpose_rhs)};
            require_dims(in[2], {t.dims.back()}, "w_scale");
            if (a.has_bias) require_dims(in[3], {t.dims.back()}, "bias");
            if (a.has_factor) require_dims(in[size_t{3} + a.has_bias], {t.dims.back()}, "factor");
            if (a.has_residual) require_dims(in.back(), t.dims, "residual");
            return t;
          },
      .decompose =
          [](Values in, const A& a) {
            const int64_t rows = in[0].rank() - 1;
            const DynamicQuantized x = dynamic_quantize(widened(in[0]), {rows}, a.x_largest, a.x_outliers);
            Value sum =
                dot_general(convert(x.codes, i32), convert(in[1], i32), {{}, {}, {rows}, {a.transpose_rhs ? 1 : 0}});
            Value y = scaled_sum(sum, broadcast_in_dim(in[2], sum.dims(), {rows}), stretched(x.scale, sum, {rows}));
            if (a.has_bias) y = y + broadcast_in_dim(in[3], y.dims(), {rows});
            y = activate(y, a.activation);
            if (a.has_factor) y = y * broadcast_in_dim(in[size_t{3} + a.has_bias], y.dims(), {rows});
            return converted(a.has_residual ? y + widened(in.back()) : y, in[0].dtype());
          },
      .vjp = [](Values in, Values, Values cts, const A& a, const Transforms& t) -> Many<Value> {
        return straight_through(in, cts, t, a.transpose_rhs ? 0 : 1, [&](Values v) {
          Value y = fused_matmul(v[0], v[1], a.has_bias ? v[2] : Value(), {}, a.activation, a.transpose_rhs);
          if (a.has_factor) y = y * broadcast_in_dim(v[size_t{2} + a.has_bias], y.dims(), {y.rank() - 1});
          return a.has_residual ? y + v.back() : y;
        });
      },
      .samples = {{.dims = {{3, 4}, {4, 2}, {2}}, .dtypes = {f64, i8, f64}, .lo = -127, .hi = 127},
                  {.dims = {{5, 70}, {19, 70}, {19}, {19}},
                   .dtypes = {f32, i8, f32, f32},
                   .attrs =
                       A{.transpose_rhs = true, .has_bias = true, .activation = Activation::relu, .x_largest = 1023},
                   .lo = -9,
                   .hi = 9},
                  {.dims = {{2, 3, 33}, {33, 40}, {40}, {40}, {2, 3, 40}},
                   .dtypes = {f32, i8, f32, f32, f32},
                   .attrs = A{.has_bias = true, .has_residual = true, .activation = Activation::relu6},
                   .lo = -9,
                   .hi = 9},
                  {.dims = {{3, 4}, {2, 4}, {2}, {3, 2}},
                   .dtypes = {f64, i8, f64, f64},
                   .attrs =
                       A{.transpose_rhs = true, .has_residual = true, .activation = Activation::gelu, .x_largest = 300},
                   .lo = -2,
                   .hi = 2},
                  {.dims = {{5, 70}, {19, 70}, {19}, {19}, {5, 19}},
                   .dtypes = {bf16, i8, f32, f32, bf16},
                   .attrs = A{.transpose_rhs = true,
                              .has_bias = true,
                              .has_residual = true,
                              .activation = Activation::relu,
                              .x_largest = 1023},
                   .lo = -9,
                   .hi = 9},
                  {.dims = {{5, 70}, {19, 70}, {19}, {19}},
                   .dtypes = {f32, i8, f32, f32},
                   .attrs = A{.transpose_rhs = true, .has_bias = true, .x_outliers = 3},
                   .lo = -9,
                   .hi = 9},
                  {.dims = {{3, 20}, {17, 20}, {17}, {17}, {17}, {3, 17}},
                   .dtypes = {f64, i8, f64, f64, f64, f64},
                   .attrs = A{.transpose_rhs = true,
                              .has_bias = true,
                              .has_factor = true,
                              .has_residual = true,
                              .activation = Activation::gelu,
                              .x_outliers = 1},
                   .lo = -2,
                   .hi = 2},
                  {.dims = {{5, 64}, {64, 33}, {33}, {33}},
                   .dtypes = {bf16, i8, f32, f32},
                   .attrs = A{.has_factor = true, .x_outliers = 3},
                   .lo = -2,
                   .hi = 2},
                  {.dims = {{2, 2, 65}, {65, 18}, {18}},
                   .dtypes = {bf16, i8, f32},
                   .attrs = A{.x_largest = 15, .x_outliers = 2},
                   .lo = -9,
                   .hi = 9},
                  {.dims = {{2, 33}, {33, 40}, {40}}, .dtypes = {f16, i8, f32}, .lo = -2, .hi = 2},
                  {.dims = {{7}, {7, 3}, {3}}, .dtypes = {f64, i8, f64}, .lo = -20, .hi = 20},
                  {.dims = {{0, 4}, {4, 2}, {2}}, .dtypes = {f64, i8, f64}, .lo = -9, .hi = 9},
                  {.dims = {{3, 0}, {0, 2}, {2}, {2}},
                   .dtypes = {f64, i8, f64, f64},
                   .attrs = A{.has_bias = true},
                   .lo = -9,
                   .hi = 9}},
  });
}

OpDef define_dynamic_quantize_conv() {
  using A = DynamicQuantizeConvAttrs;
  return define<A>({
      .name = "dynamic_quantize_conv",
      .doc =
          "fused_conv in 8-bit integers: activation(f32(sum) w_scale x_scale + bias + residual), the lesser scale "
          "multiplied first, where sum is the convolution, in i32, of codes w[O, C / groups, kernel...] with the "
          "codes of x[N, C, spatial...] ([N, spatial..., C] with channels_last), which dynamic_quantize makes with a "
          "scale for each image, up to x_largest. w_scale[O], bias[O] if "
          "has_bias, residual of the result's dims if "
          "has_residual. Beside x of f16 or bf16, w_scale and bias are f32, and the result is rounded once. Sums are "
          "exact while 127 x_largest (C / groups) taps is below 2^31, and wrap beyond. Its "
          "derivative looks through the rounding of x: that of fused_conv with w w_scale",
      .source = "ONNX: DynamicQuantizeLinear and ConvInteger, with a scale for each image and output channel and no "
                "zero points; Krishnamoorthi, arXiv:1806.08342, 2018, section 3.1: kernels by output channel",
      .operands = {"x", "w", "w_scale", "bias?", "residual?"},
      .surrogate_gradient = true,
      .infer =
          [](Types in, const A& a) {
            if (!is_half(in[0].dtype)) require_f32_or_f64(in[0]);
            require_codes_and_scales(in, a);
            std::vector<Type> floats = {in[0], Type{in[0].dtype, in[1].dims}};
            for (size_t i = 3; i < in.size(); ++i) floats.push_back({in[0].dtype, in[i].dims});
            Type t = infer_types(op::fused_conv, floats, as_fused_conv(a))[0];
            require_dims(in[2], {in[1].dims[0]}, "w_scale");
            return t;
          },
      .decompose =
          [](Values in, const A& a) {
            const auto rank = in[0].dims().size();
            const DynamicQuantized x = dynamic_quantize(widened(in[0]), axes_from(1, rank - 1), a.x_largest);
            Value sum = convolution(convert(x.codes, i32), convert(in[1], i32), as_convolution(as_fused_conv(a), rank));
            const int64_t channels = a.channels_last ? static_cast<int64_t>(rank) - 1 : 1;
            Value y = scaled_sum(sum, broadcast_in_dim(in[2], sum.dims(), {channels}),
                                 broadcast_in_dim(x.scale, sum.dims(), {0}));
            if (a.has_bias) y = y + broadcast_in_dim(in[3], y.dims(), {channels});
            if (a.has_residual) y = y + widened(in.back());
            return converted(activate(y, a.activation), in[0].dtype());
          },
      .vjp = [](Values in, Values, Values cts, const A& a, const Transforms& t) -> Many<Value> {
        return straight_through(in, cts, t, 0, [&](Values v) {
          return v[0].graph().emit(op::fused_conv, {v.begin(), v.end()}, as_fused_conv(a))[0];
        });
      },
      // Of numbers up to 9 the second one's sums are of terms of some thousands: near 0, where silu bends, half a unit
      // of x in f32 moves the gradient by up to 1e-3. The first one has no activation for that reason.
      .samples = {{.dims = {{2, 3, 5, 4}, {4, 3, 3, 3}, {4}, {4}},
                   .dtypes = {f64, i8, f64, f64},
                   .attrs = A{.padding = {1, 1}, .has_bias = true},
                   .lo = -9,
                   .hi = 9},
                  {.dims = {{2, 3, 5, 4}, {4, 3, 3, 3}, {4}, {4}},
                   .dtypes = {f64, i8, f64, f64},
                   .attrs = A{.padding = {1, 1}, .has_bias = true, .activation = Activation::silu},
                   .lo = -3,
                   .hi = 3},
                  {.dims = {{1, 4, 6}, {6, 2, 3}, {6}, {6}, {1, 6, 3}},
                   .dtypes = {f64, i8, f64, f64, f64},
                   .attrs = A{.stride = {2},
                              .padding = {1},
                              .groups = 2,
                              .has_bias = true,
                              .has_residual = true,
                              .activation = Activation::tanh,
                              .x_largest = 300},
                   .lo = -2,
                   .hi = 2},
                  {.dims = {{2, 7, 6, 17}, {20, 17, 3, 2}, {20}, {20}, {2, 4, 5, 20}},
                   .dtypes = {f32, i8, f32, f32, f32},
                   .attrs = A{.stride = {2, 1},
                              .padding = {1, 0},
                              .padding_high = {1, 0},
                              .has_bias = true,
                              .has_residual = true,
                              .activation = Activation::relu,
                              .channels_last = true,
                              .x_largest = 1023},
                   .lo = -9,
                   .hi = 9},
                  {.dims = {{2, 7, 6, 17}, {20, 17, 3, 2}, {20}, {20}, {2, 4, 5, 20}},
                   .dtypes = {bf16, i8, f32, f32, bf16},
                   .attrs = A{.stride = {2, 1},
                              .padding = {1, 0},
                              .padding_high = {1, 0},
                              .has_bias = true,
                              .has_residual = true,
                              .activation = Activation::relu,
                              .channels_last = true,
                              .x_largest = 1023},
                   .lo = -9,
                   .hi = 9},
                  {.dims = {{3, 35, 4, 5}, {18, 35, 1, 1}, {18}},
                   .dtypes = {f32, i8, f32},
                   .attrs = A{.stride = {1, 2}, .x_largest = 1023},
                   .lo = -9,
                   .hi = 9},
                  {.dims = {{1, 2, 3, 4, 3}, {2, 2, 2, 1, 2}, {2}},
                   .dtypes = {f64, i8, f64},
                   .attrs = A{.dilation = {1, 1, 2}},
                   .lo = -20,
                   .hi = 20},
                  {.dims = {{0, 2, 3}, {1, 2, 1}, {1}}, .dtypes = {f64, i8, f64}, .lo = -9, .hi = 9},
                  {.dims = {{2, 0, 3}, {2, 0, 3}, {2}, {2}},
                   .dtypes = {f64, i8, f64, f64},
                   .attrs = A{.padding = {1}, .has_bias = true},
                   .lo = -9,
                   .hi = 9}},
  });
}

}  // namespace rlx
