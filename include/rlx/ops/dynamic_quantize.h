// Products and convolutions of floats that are computed in integers: weights of 8 bits, and x of up to 16 bits, which
// gets its scales in each run from its own numbers (dynamic quantization). `compute = int8` makes them
// (src/passes/quantize_products.h). Neighbour: quantize.h, for codes whose scales are known before.
#pragma once

#include "rlx/ops/fused_blocks.h"
#include "rlx/ops/linear.h"

namespace rlx {

namespace op {
extern const OpDef dynamic_quantize, dynamic_quantize_matmul, dynamic_quantize_conv;
}  // namespace op

struct DynamicQuantizeAttrs {
  Axes axes = {};         ///< elements along them share a scale; empty: each element has its own
  int64_t largest = 127;  ///< the largest magnitude of a code, 1 to 32767; codes are i8 if it is at most 127 and there
                          ///< are no outliers, else i16
  /// How many of the elements that share a scale may have codes beyond `largest`, up to kLargestOutlier.
  int64_t outliers = 0;
  RLX_FIELDS(DynamicQuantizeAttrs, field("axes", &DynamicQuantizeAttrs::axes),
             field("largest", &DynamicQuantizeAttrs::largest), field("outliers", &DynamicQuantizeAttrs::outliers));
};
/// The largest magnitude of an outlier's code.
inline constexpr int64_t kLargestOutlier = 16383;
struct DynamicQuantized {
  Value codes;  ///< i8 or i16, of x's dims
  Value scale;  ///< of x's dtype and of its dims without `axes`
};
/// scale = max(|x|) / largest over `axes`, at least 2^-126; codes = round(x (1 / scale)), ties to even. Where an
/// element is infinite or NaN, all that share its scale get NaN for a scale and codes of 0.
///
/// With `outliers` = o above 0, the o largest magnitudes do not make the scale. Let a be the (o + 1)-th largest |x|, or
/// 0 where there are not as many elements: the scale is the greatest of 2^-126, a / largest and max(|x|) /
/// kLargestOutlier.
///
/// x is f32 or f64; another dtype, an invalid axis or `largest`, outliers below 0 or above 32767, and outliers beside a
/// `largest` above kLargestOutlier are invalid_argument. |codes * scale - x| is at
/// most scale / 2 + 2^-23 |x| (f64: 2^-52 |x|), for the roundings of 1 / scale and of the product. This bound holds for
/// scales up to 2^126 (f64: 2^1022), whose reciprocals are normal numbers. Where `axes` have no elements, the scale is
/// 2^-126. Codes have no
/// derivative: unlike through the products below, a gradient reaches x through the scale alone.
DynamicQuantized dynamic_quantize(Value x, Axes axes, int64_t largest = 127, int64_t outliers = 0);

struct DynamicQuantizeMatmulAttrs {
  bool transpose_rhs = false;  ///< w is [n, k] instead of [k, n]
  bool has_bias = false, has_factor = false, has_residual = false;
  Activation activation = Activation::none;
  int64_t x_largest = 127;  ///< the largest magnitude of a code of x, as `largest` of dynamic_quantize
  int64_t x_outliers = 0;   ///< how many codes of a row of x may be larger, as `outliers` of dynamic_quantize
  RLX_FIELDS(DynamicQuantizeMatmulAttrs, field("transpose_rhs", &DynamicQuantizeMatmulAttrs::transpose_rhs),
             field("has_bias", &DynamicQuantizeMatmulAttrs::has_bias),
             field("has_factor", &DynamicQuantizeMatmulAttrs::has_factor),
             field("has_residual", &DynamicQuantizeMatmulAttrs::has_residual),
             field("activation", &DynamicQuantizeMatmulAttrs::activation),
             field("x_largest", &DynamicQuantizeMatmulAttrs::x_largest),
             field("x_outliers", &DynamicQuantizeMatmulAttrs::x_outliers));
};
/// What follows the sums; an empty Value means none. `bias` and `factor` have one element for each output channel, in
/// f32 beside x of f16 or bf16, else in x's dtype; `residual` has the result's dims and x's dtype. A product adds the
/// residual after the activation, whose result it multiplies by the factor; a convolution adds it before the
/// activation, and takes no factor.
struct DynamicEpilogue {
  Value bias = {}, residual = {};
  Activation activation = Activation::none;
  Value factor = {};
};
/// activation(sum * w_scale[n] * x_scale[row] + bias) * factor + residual. The smaller scale is multiplied first, so
/// that nothing overflows on the way to a smaller number. It is computed in x's dtype, f32 or f64, or in f32, rounded
/// once, for x of f16 or bf16. x[..., k] has a scale for each row (along k); w is i8, [k, n], with `transpose_rhs` [n,
/// k]; w_scale[n], the bias and the factor are of the dtype computed in, the residual of x's. `sum` is the product of
/// the codes in i32: exact while 127 * (x_largest * k + kLargestOutlier * x_outliers) < 2^31 (codes of w from -127 to
/// 127); beyond that bound it wraps. The builder sets has_bias, has_factor and has_residual. The gradient looks through
/// the rounding of x (straight-through): it is that of fused_matmul with w * w_scale. Errors: invalid_argument for
/// dtypes, `x_largest` and `x_outliers`, shape_mismatch where ranks are wrong or dims do not fit.
Value dynamic_quantize_matmul(Value x, Value w, Value w_scale, const DynamicEpilogue& epilogue = {},
                              bool transpose_rhs = false, int64_t x_largest = 127, int64_t x_outliers = 0);

struct DynamicQuantizeConvAttrs {
  Axes stride = {}, padding = {}, dilation = {};  ///< all but x_largest are those of FusedConvAttrs
  Axes padding_high = {};
  int64_t groups = 1;
  bool has_bias = false, has_residual = false;
  Activation activation = Activation::none;
  bool channels_last = false;
  int64_t x_largest = 127;  ///< the largest magnitude of a code of x, as `largest` of dynamic_quantize
  RLX_FIELDS(DynamicQuantizeConvAttrs, field("stride", &DynamicQuantizeConvAttrs::stride),
             field("padding", &DynamicQuantizeConvAttrs::padding),
             field("padding_high", &DynamicQuantizeConvAttrs::padding_high),
             field("dilation", &DynamicQuantizeConvAttrs::dilation), field("groups", &DynamicQuantizeConvAttrs::groups),
             field("has_bias", &DynamicQuantizeConvAttrs::has_bias),
             field("has_residual", &DynamicQuantizeConvAttrs::has_residual),
             field("activation", &DynamicQuantizeConvAttrs::activation),
             field("channels_last", &DynamicQuantizeConvAttrs::channels_last),
             field("x_largest", &DynamicQuantizeConvAttrs::x_largest));
};
/// The same convolution in floats, without x_largest, and back.
FusedConvAttrs as_fused_conv(const DynamicQuantizeConvAttrs& attrs);
DynamicQuantizeConvAttrs as_dynamic_quantize_conv(const FusedConvAttrs& attrs, int64_t x_largest);
/// activation(sum * w_scale[o] * x_scale[image] + bias[o] + residual), each operation rounded to x's dtype, f32 or f64,
/// the product with the lesser scale first. Beside x of f16 or bf16, w_scale and bias are f32, as all between is, and
/// the result is rounded once to x's dtype, which the residual has, too. As in fused_conv, and not as in
/// dynamic_quantize_matmul, the residual is added before the activation. `sum` is the convolution in i32 of the codes
/// w, i8 [O, C / groups, kernel...], with those of x [N, C, spatial...] (channels_last: [N, spatial..., C]), which
/// dynamic_quantize makes with a scale for each of the N images: an image's result does not depend on the others.
/// Padding is codes of 0. An image with an infinity or a NaN gives NaN in all of its results. Sums are exact while 127
/// * x_largest * (C / groups) * taps < 2^31, beyond which they wrap. The builder sets has_bias, has_residual and
/// activation by `epilogue`, whatever `attrs` says. The gradient looks through the rounding of x (straight-through): it
/// is that of fused_conv with w * w_scale. Errors: invalid_argument for dtypes and `x_largest`, those of fused_conv.
Value dynamic_quantize_conv(Value x, Value w, Value w_scale, const DynamicEpilogue& epilogue = {},
                            DynamicQuantizeConvAttrs attrs = {});

}  // namespace rlx
