// The sum of the products of two vectors, each read once.
#pragma once

#include <cstdint>

namespace rlx::kernels {

/// In f32 over pieces of some thousand elements, whose sums are added in f64.
double dot(const float* a, const float* b, int64_t count) noexcept;

}  // namespace rlx::kernels
