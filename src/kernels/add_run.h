// One run of elements added to another: where updates of a scatter meet rows. Neighbour: elementwise.h, for everything
// that is not one addition at a place that data say.
#pragma once

#include <cstdint>

#include "rlx/dtype.h"

namespace rlx::kernels {

/// Integers wrap, booleans join by or; null for f16, bf16 and what is narrower, whose sums belong in f32, and for
/// packed dtypes.
using AddRun = void (*)(void* into, const void* from, int64_t count) noexcept;
AddRun add_run(DType dtype);

}  // namespace rlx::kernels
