// Weights of 16 bits for params of f32.
#pragma once

#include "rlx/tensor.h"

namespace rlx::models {

/// A tensor of f16 or bf16 as f32.
Tensor widened(const Tensor& halves);

}  // namespace rlx::models
