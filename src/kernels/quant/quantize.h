// Quantizes floats to integers of 8 or 16 bits: y = clamp(round(x / scale) + zero_point); ties round to even, NaN
// becomes 0. x is f32, f16 or bf16; the arithmetic is f32. Neighbours: convert.cpp (conversions, which truncate),
// blocks.h (block formats).
#pragma once

#include <cstdint>

#include "rlx/dtype.h"

namespace rlx::kernels {

struct QuantizeArgs {
  DType dtype = f32;           ///< of x and scale
  DType quantized_dtype = i8;  ///< i8, u8, i16 or u16
  DType zero_dtype = i8;       ///< any integer of whole bytes
  const void* x = nullptr;
  const void* scale = nullptr;       ///< [features]
  const void* zero_point = nullptr;  ///< [features], or null for zeros
  void* y = nullptr;
  int64_t features = 1, inner = 1;  ///< x is [outer, features, inner]
};

/// Quantizes elements [begin, end) of x.
void quantize(const QuantizeArgs& args, int64_t begin, int64_t end) noexcept;

}  // namespace rlx::kernels
