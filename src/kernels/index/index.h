// Reads an index, a label or a zero point from memory: an integer of any byte-sized dtype.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "rlx/dtype.h"

namespace rlx::kernels {

/// The integer at an address of any alignment. A u64 beyond i64 becomes INT64_MAX, which is out of range of any tensor.
inline int64_t read_index(const std::byte* at, DType t) {
  auto as = [&]<class T>() {
    T v;
    std::memcpy(&v, at, sizeof v);
    return v;
  };
  switch (t) {
    case DType::i8: return as.operator()<int8_t>();
    case DType::i16: return as.operator()<int16_t>();
    case DType::i32: return as.operator()<int32_t>();
    case DType::u8: return as.operator()<uint8_t>();
    case DType::u16: return as.operator()<uint16_t>();
    case DType::u32: return as.operator()<uint32_t>();
    case DType::u64: {
      auto v = as.operator()<uint64_t>();
      return v > uint64_t{INT64_MAX} ? INT64_MAX : static_cast<int64_t>(v);
    }
    default: return as.operator()<int64_t>();
  }
}
/// The integer at index `i` of an array.
inline int64_t read_index(const void* indices, DType t, int64_t i) {
  return read_index(static_cast<const std::byte*>(indices) + i * static_cast<int64_t>(byte_size(t)), t);
}

}  // namespace rlx::kernels
