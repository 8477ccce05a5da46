// From a dtype to the C++ type of its elements, for kernels that have a loop for each integer.
#pragma once

#include <cstdint>

#include "rlx/dtype.h"

namespace rlx::kernels {

/// Calls f.operator()<T>() with the type of an integer dtype's elements, which must have a whole number of bytes.
template <class F>
auto with_integer_type(DType dtype, F f) {
  switch (dtype) {
    case DType::i8: return f.template operator()<int8_t>();
    case DType::i16: return f.template operator()<int16_t>();
    case DType::i32: return f.template operator()<int32_t>();
    case DType::u8: return f.template operator()<uint8_t>();
    case DType::u16: return f.template operator()<uint16_t>();
    case DType::u32: return f.template operator()<uint32_t>();
    case DType::u64: return f.template operator()<uint64_t>();
    default: return f.template operator()<int64_t>();
  }
}

}  // namespace rlx::kernels
