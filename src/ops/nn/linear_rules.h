// What products with a matrix of weights share. Users: linear.cpp, and quantize_blocks.cpp, whose weights are
// quantized.
#pragma once

#include "ops/core/composite_rules.h"

namespace rlx {

/// The dims of the product of x[..., k] with a matrix w[k, n], or w[n, k] if `transposed`.
Dims product_dims(const Type& x, const Type& w, bool transposed);

}  // namespace rlx
