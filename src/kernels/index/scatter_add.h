// Adds one contiguous run of elements to another: the inner loop of a scatter that adds. Neighbour: elementwise.h, for
// additions at fixed positions.
#pragma once

#include <cstdint>

#include "rlx/dtype.h"

namespace rlx::kernels {

/// add_run() is the function for a dtype: integers wrap, booleans are combined by or. It is null for f16, bf16 and
/// narrower floats, which should be summed in f32, and for packed dtypes.
using AddRun = void (*)(void* into, const void* from, int64_t count) noexcept;
AddRun add_run(DType dtype);

}  // namespace rlx::kernels
