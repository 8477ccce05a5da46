// Checks and messages about cache_dtypes(), for everything that is told such a dtype.
#pragma once

#include <string>
#include <string_view>

#include "rlx/models/cache_dtypes.h"
#include "rlx/type.h"

namespace rlx {

/// For messages: "f32, f16, bf16, q8_0 and q4_0", or with another conjunction.
std::string names_of_cache_dtypes(std::string_view conjunction);
/// Fails unless heads of so many elements can be kept as `dtype`.
void check_cache_dtype(DType dtype, const Dim& head_dim);

}  // namespace rlx
