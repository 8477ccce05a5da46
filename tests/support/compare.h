// Comparing tensors in tests, also with those that are kept in files.
#pragma once

#include "judge/compare.h"

namespace rlx {

/// A golden tensor of that type: what safetensors has no dtype for, packed integers, blocks and c128, is stored as
/// bytes.
Tensor golden_tensor(const Type& type, Tensor stored);

}  // namespace rlx
