// Storage of tensors. Owned storage is 64-byte aligned: kernels load whole vectors from its start.
#include "rlx/tensor.h"

#include "base/growth_limit.h"
#include "base/spare_memory.h"

namespace rlx {
namespace {

std::shared_ptr<void> allocate(size_t bytes) {
  GrowthLimit::count_bytes(bytes);
  void* data = take_memory(bytes);
  if (!data) fail(ErrorCode::out_of_memory, "no memory for a tensor of ", bytes, " bytes");
  return {data, [bytes](void* p) { give_memory(p, bytes); }};
}

}  // namespace

Tensor::Tensor(DType dtype, Shape shape, std::shared_ptr<const void> data, bool borrowed)
    : dtype_(dtype), borrowed_(borrowed), shape_(std::move(shape)),
      count_(static_cast<size_t>(rlx::element_count(shape_))), bytes_(rlx::byte_count(dtype, shape_)),
      data_(std::move(data)) {}

Tensor::Tensor() : Tensor(f32, {0}, nullptr, true) {}

Tensor::Tensor(DType dtype, Shape shape) : Tensor(uninitialized(dtype, std::move(shape))) {
  std::memset(const_cast<void*>(data_.get()), 0, bytes_);
}

Tensor Tensor::uninitialized(DType dtype, Shape shape) {
  size_t bytes = rlx::byte_count(dtype, shape);
  return {dtype, std::move(shape), allocate(bytes), false};
}

Tensor Tensor::borrow(DType dtype, Shape shape, std::span<const std::byte> bytes, std::shared_ptr<const void> owner) {
  // An aliasing pointer: it points at the bytes and keeps `owner`.
  Tensor t(dtype, std::move(shape), {owner, static_cast<const void*>(bytes.data())}, true);
  if (bytes.size() != t.bytes_)
    fail(ErrorCode::shape_mismatch, "a tensor of type ", t.type(), " needs ", t.bytes_, " bytes, got ", bytes.size());
  return t;
}

Tensor Tensor::borrow_unread(DType dtype, Shape shape, std::span<const std::byte> bytes,
                             std::shared_ptr<const void> owner, std::function<void()> read) {
  Tensor t = borrow(dtype, std::move(shape), bytes, std::move(owner));
  t.unread_ = std::make_shared<Unread>();
  t.unread_->read = std::move(read);
  return t;
}

void Tensor::read_elements() const {
  unread_->read();
  unread_->is_read.store(true, std::memory_order_release);
}

Tensor Tensor::from_strided(DType dtype, Shape shape, const void* data, std::span<const int64_t> strides) {
  Tensor t = uninitialized(dtype, std::move(shape));
  if (!is_byte_sized(dtype) || strides.size() != t.rank())
    fail(ErrorCode::invalid_argument, "strides need a byte-sized dtype and one stride a dim; got ", t.type(), " and ",
         strides.size(), " strides");
  if (t.count_ == 0) return t;
  size_t size = byte_size(dtype);
  std::byte* to = t.mutable_data();
  const auto* from = static_cast<const std::byte*>(data);
  Shape index(t.rank());
  for (size_t i = 0; i < t.count_; ++i, to += size) {
    std::memcpy(to, from, size);
    for (size_t d = t.rank(); d-- > 0;) {
      from += strides[d];
      if (++index[d] < t.shape_[d]) break;
      from -= strides[d] * t.shape_[d];
      index[d] = 0;
    }
  }
  return t;
}

std::byte* Tensor::mutable_data() {
  if (borrowed_ || data_.use_count() > 1) {
    auto copy = allocate(bytes_);
    if (bytes_) std::memcpy(copy.get(), data(), bytes_);
    data_ = std::move(copy);
    unread_.reset();
    borrowed_ = false;
  }
  return static_cast<std::byte*>(const_cast<void*>(data_.get()));
}

Tensor Tensor::reshaped(Shape shape) const {
  Tensor t(dtype_, std::move(shape), data_, borrowed_);
  if (t.count_ != count_ || t.bytes_ != bytes_)
    fail(ErrorCode::shape_mismatch, "a tensor of type ", type(), " has ", count_, " elements, ", t.type(), " has ",
         t.count_);
  t.unread_ = unread_;
  return t;
}

bool Tensor::operator==(const Tensor& o) const {
  return dtype_ == o.dtype_ && shape_ == o.shape_ && (bytes_ == 0 || std::memcmp(data(), o.data(), bytes_) == 0);
}

void Tensor::expect_count(size_t given) const {
  if (given != count_)
    fail(ErrorCode::shape_mismatch, "a tensor of type ", type(), " has ", count_, " elements, got ", given, " values");
}
void Tensor::expect_dtype(DType wanted) const {
  if (dtype_ != wanted)
    fail(ErrorCode::invalid_argument, "this tensor is ", type(), "; its elements cannot be taken for ", wanted);
}

}  // namespace rlx
