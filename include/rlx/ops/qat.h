// Quantization-aware training: numbers are rounded to the multiples of a scale, and a substitute is used for the
// derivative of the rounding, which is 0 almost everywhere. Neighbours: quantize.h, real quantized values;
// rlx/quantization.h, which puts these ops into a model.
//
// All but fake_quantize_affine are symmetric around 0. With `bits` bits the multiples go from -q to q, q = 2^(bits - 1)
// - 1: 127, 7, 1 for 8, 4, 2.
#pragma once

#include "rlx/ops/op.h"

namespace rlx {

namespace op {
extern const OpDef fake_quantize, fake_quantize_backward, fake_quantize_lsq, fake_quantize_lsq_backward_x,
    fake_quantize_lsq_backward_scale, fake_quantize_affine;
}  // namespace op

/// Where the scale comes from: max|x| / q of this x, a moving average of it, or the state alone.
enum class ScaleMode { per_batch, ema, fixed };
constexpr std::array<std::string_view, 3> names_of(ScaleMode) { return {"per_batch", "ema", "fixed"}; }
/// What stands for the derivative of the rounding (a straight-through estimator), s being the scale:
/// 1; 1 where |x| <= q s, else 0; 1 - tanh(x / s)^2; max(0, 1 - |x / (q s)|).
enum class SteKind { identity, clipped_identity, tanh, hard_tanh };
constexpr std::array<std::string_view, 4> names_of(SteKind) {
  return {"identity", "clipped_identity", "tanh", "hard_tanh"};
}

struct FakeQuantizeAttrs {
  int64_t bits = 8;
  Axes axes = {};  ///< there is a scale for each index along these; left out: one for all of x
  SteKind ste = SteKind::identity;
  ScaleMode scale_mode = ScaleMode::per_batch;
  double decay = 0.9;  ///< of `ema`: how much of the old state stays
  RLX_FIELDS(FakeQuantizeAttrs, field("bits", &FakeQuantizeAttrs::bits), field("axes", &FakeQuantizeAttrs::axes),
             field("ste", &FakeQuantizeAttrs::ste), field("scale_mode", &FakeQuantizeAttrs::scale_mode),
             field("decay", &FakeQuantizeAttrs::decay));
};
/// clamp(round(x / s), -q, q) s, s = max(max|x| / q, 1e-12): mode per_batch.
Value fake_quantize(Value x, FakeQuantizeAttrs attrs = {});
/// The same with s = max(state, 1e-12), the state having the extents of x along `attrs.axes`: mode fixed.
Value fake_quantize_fixed(Value x, Value state, FakeQuantizeAttrs attrs = {});
struct FakeQuantized {
  Value y, state;
};
/// The same with s = decay state + (1 - decay) max(max|x| / q, 1e-12), or the latter alone while the state is 0 or
/// less; s is the new state: mode ema.
FakeQuantized fake_quantize_ema(Value x, Value state, FakeQuantizeAttrs attrs = {});

struct FakeQuantizeBackwardAttrs {
  int64_t bits = 8;
  Axes axes = {};
  SteKind ste = SteKind::identity;
  RLX_FIELDS(FakeQuantizeBackwardAttrs, field("bits", &FakeQuantizeBackwardAttrs::bits),
             field("axes", &FakeQuantizeBackwardAttrs::axes), field("ste", &FakeQuantizeBackwardAttrs::ste));
};
/// What the estimator makes of the cotangent `ct`. The scale is that of mode per_batch unless it is given.
Value fake_quantize_backward(Value x, Value ct, FakeQuantizeBackwardAttrs attrs = {}, Value scale = {});

struct FakeQuantizeLsqAttrs {
  int64_t bits = 8;
  Axes axes = {};
  RLX_FIELDS(FakeQuantizeLsqAttrs, field("bits", &FakeQuantizeLsqAttrs::bits),
             field("axes", &FakeQuantizeLsqAttrs::axes));
};
/// clamp(round(x / scale), -q, q) scale with a scale that is learnt: positive, with x's extents along `attrs.axes`.
Value fake_quantize_lsq(Value x, Value scale, FakeQuantizeLsqAttrs attrs = {});
/// ct where |x / scale| <= q, else 0.
Value fake_quantize_lsq_backward_x(Value x, Value scale, Value ct, FakeQuantizeLsqAttrs attrs = {});
/// The sum of ct psi over all but `attrs.axes`: psi = round(z) - z where |z| <= q, else sign(z) q; z = x / scale.
Value fake_quantize_lsq_backward_scale(Value x, Value scale, Value ct, FakeQuantizeLsqAttrs attrs = {});

struct FakeQuantizeAffineAttrs {
  int64_t low = -128, high = 127;           ///< the codes that there are
  Axes axes = {};                           ///< there is a scale for each index along these; left out: one for all of x
  SteKind ste = SteKind::clipped_identity;  ///< identity or clipped_identity
  double gradient_scale = 0;                ///< times what, LSQ's gradient of the scale; 0: the scale is not learnt
  RLX_FIELDS(FakeQuantizeAffineAttrs, field("low", &FakeQuantizeAffineAttrs::low),
             field("high", &FakeQuantizeAffineAttrs::high), field("axes", &FakeQuantizeAffineAttrs::axes),
             field("ste", &FakeQuantizeAffineAttrs::ste),
             field("gradient_scale", &FakeQuantizeAffineAttrs::gradient_scale));
};
/// What dequantize(quantize(x)) gives: (clamp(round(x / s) + zero_point, low, high) - zero_point) s, s = max(scale,
/// 1e-12). `scale` has x's dtype and its extents along `attrs.axes`, zero_point (0 where it is absent) is of integers
/// and has the same. A NaN stays one. Derivatives: of x as `ste` says, 1 everywhere or where no code is clamped; of the
/// scale, times gradient_scale, the sum of ct psi: psi = round(x / s) - x / s where no code is clamped, else the code
/// that it is clamped to, less the zero point.
Value fake_quantize_affine(Value x, Value scale, Value zero_point = {}, FakeQuantizeAffineAttrs attrs = {});

}  // namespace rlx
