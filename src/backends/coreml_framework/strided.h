// The memory of an MLMultiArray as a tensor: its strides are Core ML's choice. Outputs of the neural engine are padded,
// rows to multiples of 64 bytes for one, so that a copy of `count` elements from the front would be wrong.
#pragma once

#include "rlx/tensor.h"

namespace rlx::coreml_framework {

/// The elements at `data`, which has them at these strides (in elements, none negative), as a dense tensor. Fails if
/// shape and strides differ in rank, or if the last element would end beyond `byte_count`.
Tensor dense_from(const void* data, size_t byte_count, DType dtype, const Shape& shape, const Shape& strides);
/// The other way: a dense tensor written to memory with these strides. What lies between is left alone.
void copy_to(const Tensor& tensor, void* data, size_t byte_count, const Shape& strides);

}  // namespace rlx::coreml_framework
