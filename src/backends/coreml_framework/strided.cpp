// See the header.
#include "backends/coreml_framework/strided.h"

#include <cstring>
#include <limits>

namespace rlx::coreml_framework {
namespace {

/// Fails unless every element lies within the memory.
void check(size_t byte_count, DType dtype, const Shape& shape, const Shape& strides) {
  if (shape.size() != strides.size())
    fail(ErrorCode::shape_mismatch, "an array of rank ", shape.size(), " has ", strides.size(), " strides");
  if (!is_byte_sized(dtype)) fail(ErrorCode::unsupported, "no array of ", dtype, " is handed over");
  uint64_t last = 0;  // of the elements
  bool empty = false;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] < 0 || strides[d] < 0)
      fail(ErrorCode::shape_mismatch, "an array has the extent ", shape[d], " at the stride ", strides[d]);
    if (shape[d] == 0) empty = true;
    uint64_t reach = 0;
    if (shape[d] > 1 &&
        __builtin_mul_overflow(static_cast<uint64_t>(shape[d] - 1), static_cast<uint64_t>(strides[d]), &reach))
      reach = std::numeric_limits<uint64_t>::max();
    if (__builtin_add_overflow(last, reach, &last)) last = std::numeric_limits<uint64_t>::max();
  }
  uint64_t room = byte_count / byte_size(dtype);
  if (!empty && last >= room)
    fail(ErrorCode::shape_mismatch, "an array's last element is its ", last, "th, and its memory holds ", room);
}

/// Calls f(offset of a row in the array, offset in the dense tensor, elements, stride) for each run along the last
/// dims.
template <class F>
void for_each_row(const Shape& shape, const Shape& strides, F f) {
  for (int64_t d : shape)
    if (d == 0) return;
  if (shape.empty()) return f(int64_t{0}, int64_t{0}, int64_t{1}, int64_t{1});
  // Dims from the back that lie dense behind each other are one.
  size_t outer = shape.size() - 1;
  int64_t length = shape[outer], stride = strides[outer];
  if (length == 1) stride = 1;
  while (outer > 0 && stride == 1 && (strides[outer - 1] == length || shape[outer - 1] == 1)) length *= shape[--outer];
  Shape index(outer, 0);
  for (int64_t dense = 0;; dense += length) {
    int64_t offset = 0;
    for (size_t d = 0; d < outer; ++d) offset += index[d] * strides[d];
    f(offset, dense, length, stride);
    size_t d = outer;
    while (d > 0 && ++index[d - 1] == shape[d - 1]) index[--d] = 0;
    if (d == 0) return;
  }
}

}  // namespace

Tensor dense_from(const void* data, size_t byte_count, DType dtype, const Shape& shape, const Shape& strides) {
  check(byte_count, dtype, shape, strides);
  Tensor out = Tensor::uninitialized(dtype, shape);
  size_t size = byte_size(dtype);
  auto* to = static_cast<std::byte*>(out.mutable_data());
  const auto* from = static_cast<const std::byte*>(data);
  for_each_row(shape, strides, [&](int64_t offset, int64_t dense, int64_t length, int64_t stride) {
    const std::byte* source = from + static_cast<size_t>(offset) * size;
    std::byte* target = to + static_cast<size_t>(dense) * size;
    if (stride == 1) std::memcpy(target, source, static_cast<size_t>(length) * size);
    else
      for (int64_t i = 0; i < length; ++i)
        std::memcpy(target + static_cast<size_t>(i) * size, source + static_cast<size_t>(i * stride) * size, size);
  });
  return out;
}

void copy_to(const Tensor& tensor, void* data, size_t byte_count, const Shape& strides) {
  check(byte_count, tensor.dtype(), tensor.shape(), strides);
  size_t size = byte_size(tensor.dtype());
  const auto* from = static_cast<const std::byte*>(static_cast<const void*>(tensor.data()));
  auto* to = static_cast<std::byte*>(data);
  for_each_row(tensor.shape(), strides, [&](int64_t offset, int64_t dense, int64_t length, int64_t stride) {
    const std::byte* source = from + static_cast<size_t>(dense) * size;
    std::byte* target = to + static_cast<size_t>(offset) * size;
    if (stride == 1) std::memcpy(target, source, static_cast<size_t>(length) * size);
    else
      for (int64_t i = 0; i < length; ++i)
        std::memcpy(target + static_cast<size_t>(i * stride) * size, source + static_cast<size_t>(i) * size, size);
  });
}

}  // namespace rlx::coreml_framework
