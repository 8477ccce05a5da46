// Comparing tensors in tests: what differs, as a sentence.
#pragma once

#include <string>

#include "rlx/element.h"
#include "rlx/graph.h"

namespace rlx {

/// Empty if the tensors have one type and their elements are within `tolerance` (of the dtype, if negative); infinities
/// must be equal, NaN matches NaN.
std::string difference(const Tensor& got, const Tensor& wanted, double tolerance = -1);
std::string difference(Tensors got, Tensors wanted, double tolerance = -1);

/// Elements drawn from [lo, hi); bools from {0, 1}; complex parts from [lo, hi) each; blocks from random bytes, the
/// largest elements within a factor of 8 of the largest of lo and hi. Equal seeds give equal tensors.
Tensor random_tensor(DType dtype, const Shape& shape, uint64_t seed, double lo = -2, double hi = 2);

/// A golden tensor of that type: what safetensors has no dtype for, packed integers, blocks and c128, is stored as
/// bytes.
Tensor golden_tensor(const Type& type, Tensor stored);

}  // namespace rlx
