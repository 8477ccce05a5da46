// Adds one contiguous run of elements to another: the inner loop of a scatter that adds. Neighbour: elementwise.h, for
// additions of whole arrays.
#pragma once

#include <cstdint>

#include "rlx/dtype.h"

namespace rlx::kernels {

/// into[i] += from[i] for i < count. Integers wrap, booleans are combined by or.
using AddRun = void (*)(void* into, const void* from, int64_t count) noexcept;
/// The function for a dtype. Null for f16, bf16 and narrower floats, which should be summed in f32, and for packed
/// dtypes.
AddRun add_run(DType dtype);

}  // namespace rlx::kernels
