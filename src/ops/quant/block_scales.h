// Scales that stand for several elements along an axis each: their extents, and their way back to the elements'.
#pragma once

#include "ops/core/composite_rules.h"

namespace rlx {

/// The extents of the scales of q's elements: `block_size` of them along `axis` share one, all of them if it is 0. Of a
/// symbolic extent, block_size must divide the symbol's factors.
Dims scale_dims(const Type& q, int64_t axis, int64_t block_size);
/// Each element of s `block_size` times along `axis`, cut to q's extent.
Value repeated(Value s, Value q, int64_t axis, int64_t block_size);
/// The dtype of what codes with such scales become, if none is asked for: that of the scales, if one computes with it.
inline DType result_dtype(const Type& scale, const std::optional<DType>& wanted) {
  return wanted.value_or(has_arithmetic(scale.dtype) ? scale.dtype : f32);
}

}  // namespace rlx
