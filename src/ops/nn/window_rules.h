// Derivatives and batches of the window primitives, and what composites of them use of these. The transposes of a
// convolution are convolutions: strides become dilations and the padding what is left over (as in JAX's
// conv_general_dilated). Neighbour: window_geometry.h.
#pragma once

#include "ops/nn/window_geometry.h"

namespace rlx {

/// What the cotangent of a convolution means for its operands.
Value convolution_ct_of_lhs(const Type& lhs, Value rhs, Value ct, const ConvAttrs& attrs);
Value convolution_ct_of_rhs(Value lhs, const Type& rhs, Value ct, const ConvAttrs& attrs);
Many<Value> batched_convolution(Values in, const Mask& batched, const ConvAttrs& attrs);

/// What the cotangent of a reduce_window of a named kind means for x.
Value window_sum_ct(const Type& x, Value ct, const ReduceWindowAttrs& attrs);
Value window_extreme_ct(Value x, Value ct, const ReduceWindowAttrs& attrs);
/// The dims count of windows, extent of the window, count, extent, ...: the elements that each window holds, with
/// `padding` (a scalar) around and between those of x. The window's extents must be numbers.
Value unfolded(Value x, Value padding, const Sliding& windows);
/// For each window of x the element of `values` where the one of x stands that select_and_scatter keeps.
Value kept_elements(Value x, Value values, const SelectAndScatterAttrs& attrs);

/// The same windows over one more dim 0.
ReduceWindowAttrs behind_batch(const ReduceWindowAttrs& attrs);
SelectAndScatterAttrs behind_batch(const SelectAndScatterAttrs& attrs);

}  // namespace rlx
