// See the header.
#include "backends/mlx/carry.h"

#include <cstring>
#include <limits>

namespace rlx::mlx_backend {

std::optional<mx::Dtype> own_dtype(DType dtype) {
  switch (dtype) {
    case boolean: return mx::bool_;
    case i8: return mx::int8;
    case i16: return mx::int16;
    case i32: return mx::int32;
    case i64: return mx::int64;
    case u8: return mx::uint8;
    case u16: return mx::uint16;
    case u32: return mx::uint32;
    case u64: return mx::uint64;
    case f16: return mx::float16;
    case bf16: return mx::bfloat16;
    case f32: return mx::float32;
    case f64: return mx::float64;
    case c64: return mx::complex64;
    default: return std::nullopt;
  }
}

mx::Dtype carried_dtype(DType dtype) { return own_dtype(dtype).value_or(mx::uint8); }

int extent_of(int64_t extent) {
  if (extent > std::numeric_limits<int>::max())
    fail(ErrorCode::unsupported, "an extent of ", extent, ": MLX counts with 31 bits");
  return static_cast<int>(extent);
}

mx::Shape carried_shape(DType dtype, const Shape& shape) {
  if (!has_dtype(dtype)) return {extent_of(static_cast<int64_t>(byte_count(dtype, shape)))};
  mx::Shape all;
  for (int64_t extent : shape) all.push_back(extent_of(extent));
  return all;
}
mx::Shape carried_shape(const Type& type) { return carried_shape(type.dtype, shape_of(type.dims)); }

mx::array to_array(const Tensor& t) {
  mx::Shape shape = carried_shape(t.dtype(), t.shape());
  mx::array made(mx::allocator::malloc(t.byte_count()), std::move(shape), carried_dtype(t.dtype()));
  if (t.byte_count() > 0) std::memcpy(made.data<char>(), t.data(), t.byte_count());
  return made;
}

mx::array lent_array(const Tensor& t) {
  // MLX's type is for what it may free; it takes no memory for a result that it has not allocated itself.
  return mx::array(const_cast<std::byte*>(t.data()), carried_shape(t.dtype(), t.shape()), carried_dtype(t.dtype()),
                   [kept = t](void*) {});
}

void copy_out(const mx::array& from, std::byte* to) {
  if (from.nbytes() > 0) std::memcpy(to, from.data<char>(), from.nbytes());
}

}  // namespace rlx::mlx_backend
