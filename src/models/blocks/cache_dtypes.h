// What caches of keys and values may be made of, for everything that is told such a dtype.
#pragma once

#include <string>

#include "rlx/models/transformer.h"

namespace rlx {

/// KeyValueCache::dtypes() for messages: "f32, f16, ... and q4_0", with the given last conjunction.
std::string names_of_cache_dtypes(std::string_view conjunction);
/// Fails unless heads of so many elements can be kept as `dtype`.
void check_cache_dtype(DType dtype, const Dim& head_dim);

}  // namespace rlx
