// Comparing tensors: what differs, as a sentence.
#pragma once

#include <string>

#include "rlx/element.h"
#include "rlx/graph.h"

namespace rlx {

/// Empty if the tensors have one type and their elements are within `tolerance` (of the dtype, if negative); infinities
/// must be equal, NaN matches NaN.
std::string difference(const Tensor& got, const Tensor& wanted, double tolerance = -1);
std::string difference(Tensors got, Tensors wanted, double tolerance = -1);

/// The largest |got - wanted| / (1 + |wanted|) over the elements of tensors that `difference` may compare; 0 where they
/// are equal, and where both are not finite in the same way.
double largest_difference(Tensors got, Tensors wanted);

/// Elements drawn from [lo, hi); bools from {0, 1}; complex parts from [lo, hi) each; blocks from random bytes, the
/// largest elements within a factor of 8 of the largest of lo and hi. Equal seeds give equal tensors.
Tensor random_tensor(DType dtype, const Shape& shape, uint64_t seed, double lo = -2, double hi = 2);

}  // namespace rlx
