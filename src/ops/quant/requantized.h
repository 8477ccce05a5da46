// From the sums of a product of codes to the codes of its result: what qmatmul and qconv2d end with.
#pragma once

#include "rlx/ops/quantize.h"

namespace rlx {

struct Requantization {
  double multiplier = 1;
  Value multipliers = {};  ///< instead, one for each channel, unless absent
  int64_t axis = 0;        ///< of the channels
  int64_t zero_point = 0;
  DType dtype = i8;

  /// What the attributes and the optional fourth operand of qmatmul or qconv2d say.
  template <class A>
  Requantization(Values in, const A& a, int64_t channel_axis)
      : multiplier(a.multiplier), multipliers(in.size() > 3 ? in[3] : Value{}), axis(channel_axis),
        zero_point(a.out_zero_point), dtype(in[0].dtype()) {}
};
/// clamp(round(f32(acc) multiplier) + zero_point) as `dtype`, ties to even.
Value requantized(Value acc, const Requantization& r);

}  // namespace rlx
