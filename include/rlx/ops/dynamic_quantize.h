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
  Axes axes = {};  ///< elements along them share a scale
  RLX_FIELDS(DynamicQuantizeAttrs, field("axes", &DynamicQuantizeAttrs::axes));
};
struct DynamicQuantized {
  Value codes;  ///< i8, of x's dims; from -127 to 127
  Value scale;  ///< of x's dtype and of its dims without `axes`
};
/// scale = max(|x|) / 127 over `axes`, at least 2^-126; codes = round(x (1 / scale)), ties to even. Where an element is
/// infinite or NaN, all that share its scale get NaN for a scale and codes of 0.
///
/// x is codes times scale within half a scale (and 2^-16 of one, for the rounding of 1 / scale).
DynamicQuantized dynamic_quantize(Value x, Axes axes);

/// fused_matmul of x[..., k] and w's codes times their scales: activation(sum (w_scale[n] x_scale[...]) + bias) +
/// residual, where sum is the product of codes, exact in i32, and x is quantized by row. Rounded in that order:
/// f32(sum) times w_scale, times x_scale. The attributes say which operands there are; the builder sets them.
Value dynamic_quantize_matmul(Value x, Value w, Value w_scale, Value bias = {}, Value residual = {},
                              Activation activation = Activation::none, bool transpose_rhs = false);

}  // namespace rlx
