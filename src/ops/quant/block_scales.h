// Scales each of which belongs to several elements along an axis: their extents, and how they are repeated for the
// elements.
#pragma once

#include "ops/core/composite_rules.h"

namespace rlx {

/// The extents of the scales of q's elements: `block_size` elements along `axis` share one, or all of them if it is 0.
/// If that extent is symbolic, block_size must divide the symbol's factors.
Dims scale_dims(const Type& q, int64_t axis, int64_t block_size);
/// s, with each element repeated `block_size` times along `axis` and cut to q's extent.
Value repeated(Value s, Value q, int64_t axis, int64_t block_size);
/// The dtype of dequantized values with such scales, unless `wanted` says it: that of the scales if arithmetic is
/// defined for it, else f32.
inline DType result_dtype(const Type& scale, const std::optional<DType>& wanted) {
  return wanted.value_or(has_arithmetic(scale.dtype) ? scale.dtype : f32);
}

}  // namespace rlx
