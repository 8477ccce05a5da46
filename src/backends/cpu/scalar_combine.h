// Combines one element into another, by dtype: what scatter does with an update. f16 and bf16 are rounded after each
// update.
#pragma once

#include <cstddef>

#include "rlx/ops/index.h"

namespace rlx::cpu {

using ScalarCombine = void (*)(std::byte* into, const std::byte* update);
/// Returns null for `custom`, whose combiner is a sub-graph (body_call.h), and for dtypes without arithmetic.
ScalarCombine scalar_combine(ScatterKind kind, DType dtype);

}  // namespace rlx::cpu
