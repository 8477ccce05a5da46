// What products with a matrix of weights share: linear.cpp, and quantize_blocks.cpp, whose weights are codes.
#pragma once

#include "ops/core/composite_rules.h"

namespace rlx {

/// x[..., k] by a matrix w[k, n], or [n, k] if `transposed`: the result's dims.
Dims product_dims(const Type& x, const Type& w, bool transposed);

}  // namespace rlx
