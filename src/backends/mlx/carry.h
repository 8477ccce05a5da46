// Between tensors and MLX's arrays. A dtype that MLX has is carried as it is. One that it lacks (c128, floats of 8 bits
// and fewer, packed integers, blocks) is carried as the flat list of its bytes, and only the host computes in it.
#pragma once

#include <mlx/array.h>

#include <optional>

#include "rlx/tensor.h"

namespace rlx::mlx_backend {

namespace mx = mlx::core;

/// The dtype of MLX's with the same elements; nothing if there is none.
std::optional<mx::Dtype> own_dtype(DType dtype);
inline bool has_dtype(DType dtype) { return own_dtype(dtype).has_value(); }

/// The dtype and the shape in which a value of that type is carried. Fails (unsupported) where an extent has more than
/// 31 bits, and for a type with symbols.
mx::Dtype carried_dtype(DType dtype);
mx::Shape carried_shape(DType dtype, const Shape& shape);
mx::Shape carried_shape(const Type& type);
/// An extent as MLX counts them.
int extent_of(int64_t extent);

/// A copy of the elements.
mx::array to_array(const Tensor& t);
/// The elements where they are, if MLX's allocator wraps that memory (Metal's does where it begins with a page), else a
/// copy (its allocator on the CPU wraps no memory but its own). MLX writes nothing over them.
mx::array lent_array(const Tensor& t);
/// Copies the elements of an array that was computed, and is dense in row-major order.
void copy_out(const mx::array& from, std::byte* to);

}  // namespace rlx::mlx_backend
