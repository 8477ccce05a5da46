// Requantization, the last step of qmatmul and qconv2d: from the sums of a product of quantized values to quantized
// values.
#pragma once

#include "rlx/ops/quantize.h"

namespace rlx {

struct Requantization {
  double multiplier = 1;
  Value multipliers = {};  ///< if not absent, one multiplier for each channel instead
  int64_t axis = 0;        ///< the axis of the channels
  int64_t zero_point = 0;
  DType dtype = i8;

  /// Reads the attributes and the optional fourth operand of qmatmul or qconv2d.
  template <class A>
  Requantization(Values in, const A& a, int64_t channel_axis)
      : multiplier(a.multiplier), multipliers(in.size() > 3 ? in[3] : Value{}), axis(channel_axis),
        zero_point(a.out_zero_point), dtype(in[0].dtype()) {}
};
/// clamp(round(f32(acc) multiplier) + zero_point) as `dtype`, ties to even.
Value requantized(Value acc, const Requantization& r);

}  // namespace rlx
