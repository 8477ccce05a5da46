// The dot product of two f32 vectors, each of which is read once.
#pragma once

#include <cstdint>

namespace rlx::kernels {

/// Accumulates in f32 over pieces of 4096 elements, and adds the pieces' sums in f64.
double dot(const float* a, const float* b, int64_t count) noexcept;

}  // namespace rlx::kernels
