// Products of floats that are computed in 8-bit integers: x gets its scales in each run, from its own numbers (dynamic
// quantization). `compute = int8` makes them (src/passes/quantize_products.h). Neighbour: quantize.h, for codes whose
// scales are known before.
#pragma once

#include "rlx/ops/linear.h"

namespace rlx {

namespace op {
extern const OpDef dynamic_quantize, dynamic_quantize_matmul;
}  // namespace op

struct DynamicQuantizeAttrs {
  Axes axes = {};         ///< elements along them share a scale
  int64_t largest = 127;  ///< of the codes' magnitudes; up to 127 codes are i8, up to 32767 i16
  RLX_FIELDS(DynamicQuantizeAttrs, field("axes", &DynamicQuantizeAttrs::axes),
             field("largest", &DynamicQuantizeAttrs::largest));
};
struct DynamicQuantized {
  Value codes;  ///< i8 or i16, of x's dims
  Value scale;  ///< of x's dtype and of its dims without `axes`
};
/// scale = max(|x|) / largest over `axes`, at least 2^-126; codes = round(x (1 / scale)), ties to even. Where an
/// element is infinite or NaN, all that share its scale get NaN for a scale and codes of 0.
///
/// x is codes times scale within half a scale (and, for the rounding of 1 / scale, 2^-23 of x).
DynamicQuantized dynamic_quantize(Value x, Axes axes, int64_t largest = 127);

struct DynamicQuantizeMatmulAttrs {
  bool transpose_rhs = false;  ///< w is [n, k] instead of [k, n]
  bool has_bias = false, has_residual = false;
  Activation activation = Activation::none;
  int64_t x_largest = 127;  ///< of the codes of x: as dynamic_quantize's
  RLX_FIELDS(DynamicQuantizeMatmulAttrs, field("transpose_rhs", &DynamicQuantizeMatmulAttrs::transpose_rhs),
             field("has_bias", &DynamicQuantizeMatmulAttrs::has_bias),
             field("has_residual", &DynamicQuantizeMatmulAttrs::has_residual),
             field("activation", &DynamicQuantizeMatmulAttrs::activation),
             field("x_largest", &DynamicQuantizeMatmulAttrs::x_largest));
};
/// What stands beside x and the codes and scales of the weights.
struct DynamicEpilogue {
  Value bias = {}, residual = {};
  Activation activation = Activation::none;
};
/// fused_matmul of x[..., k] and w's codes times their scales: activation(sum (w_scale[n] x_scale[...]) + bias) +
/// residual, where sum is the product of codes, exact in i32, and x is quantized by row. Rounded in that order:
/// f32(sum) times w_scale, times x_scale. Of the attributes, those that say which operands there are are set by the
/// builder.
Value dynamic_quantize_matmul(Value x, Value w, Value w_scale, const DynamicEpilogue& epilogue = {},
                              bool transpose_rhs = false, int64_t x_largest = 127);

}  // namespace rlx
