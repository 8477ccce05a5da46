// One element combined into another, by dtype: what scatter does where updates meet. Low precision rounds at every
// update, as a chain of single updates would.
#pragma once

#include <cstddef>

#include "rlx/ops/index.h"

namespace rlx::cpu {

using ScalarCombine = void (*)(std::byte* into, const std::byte* update);
/// Null for `custom`.
ScalarCombine scalar_combine(ScatterKind kind, DType dtype);

}  // namespace rlx::cpu
