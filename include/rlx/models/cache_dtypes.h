// The element types that a cache of keys and values may have: the one list that options, profiles, programs and
// bindings go by.
#pragma once

#include <span>

#include "rlx/dtype.h"

namespace rlx {

/// f32, to which nothing is rounded; f16 and bf16; and blocks of 32 elements of a head as llama.cpp's --cache-type-k
/// and -v have them, q8_0 and q4_0.
std::span<const DType> cache_dtypes();

}  // namespace rlx
