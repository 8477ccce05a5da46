// Combines an update with an element, by dtype, as a scatter does. f16 and bf16 are rounded after each update.
#pragma once

#include <cstddef>

#include "rlx/ops/index.h"

namespace rlx::cpu {

using ScalarCombine = void (*)(std::byte* into, const std::byte* update);
/// The function for a kind of scatter and a dtype. Null for `custom`, whose combiner is a sub-graph (body_call.h), and
/// for dtypes without arithmetic.
ScalarCombine scalar_combine(ScatterKind kind, DType dtype);

}  // namespace rlx::cpu
