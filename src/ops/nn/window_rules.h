// Derivatives and batch rules of the window primitives, and those of them that composites use. The transposes of a
// convolution are convolutions: strides become dilations, and the padding is what the windows left over (as in JAX's
// conv_general_dilated). Neighbour: window_geometry.h.
#pragma once

#include "ops/nn/window_geometry.h"

namespace rlx {

/// The cotangents of a convolution's operands, from that of its result.
Value convolution_ct_of_lhs(const Type& lhs, Value rhs, Value ct, const ConvAttrs& attrs);
Value convolution_ct_of_rhs(Value lhs, const Type& rhs, Value ct, const ConvAttrs& attrs);
Many<Value> batched_convolution(Values in, const Mask& batched, const ConvAttrs& attrs);

/// The cotangent of x, from that of a reduce_window of a named kind.
Value window_sum_ct(const Type& x, Value ct, const ReduceWindowAttrs& attrs);
Value window_extreme_ct(Value x, Value ct, const ReduceWindowAttrs& attrs);
/// The elements of each window of x, with `padding` (a scalar) for elements that are missing. The dims are, for each
/// dim of x, the number of windows and the window's extent. The extents must be numbers.
Value unfolded(Value x, Value padding, const Sliding& windows);
/// For each window of x, the element of `values` at the index of that element of x which select_and_scatter selects.
Value kept_elements(Value x, Value values, const SelectAndScatterAttrs& attrs);

/// The same windows for operands with a batch as dim 0.
ReduceWindowAttrs behind_batch(const ReduceWindowAttrs& attrs);
SelectAndScatterAttrs behind_batch(const SelectAndScatterAttrs& attrs);

}  // namespace rlx
