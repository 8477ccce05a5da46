// A tensor: dtype, shape and elements, dense and row-major. Copies share the elements; who writes gets its own.
#pragma once

#include <atomic>
#include <complex>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>

#include "rlx/type.h"

namespace rlx {

/// The bits of an IEEE 754 binary16 number.
struct Half {
  uint16_t bits = 0;
  bool operator==(const Half&) const = default;
};
/// The upper half of an IEEE 754 binary32 number.
struct BFloat16 {
  uint16_t bits = 0;
  bool operator==(const BFloat16&) const = default;
};

template <class T>
constexpr DType dtype_of() {
  using U = std::remove_cv_t<T>;
  if constexpr (std::is_same_v<U, bool>) return boolean;
  else if constexpr (std::is_same_v<U, int8_t>) return i8;
  else if constexpr (std::is_same_v<U, int16_t>) return i16;
  else if constexpr (std::is_same_v<U, int32_t>) return i32;
  else if constexpr (std::is_same_v<U, int64_t>) return i64;
  else if constexpr (std::is_same_v<U, uint8_t>) return u8;
  else if constexpr (std::is_same_v<U, uint16_t>) return u16;
  else if constexpr (std::is_same_v<U, uint32_t>) return u32;
  else if constexpr (std::is_same_v<U, uint64_t>) return u64;
  else if constexpr (std::is_same_v<U, Half>) return f16;
  else if constexpr (std::is_same_v<U, BFloat16>) return bf16;
  else if constexpr (std::is_same_v<U, float>) return f32;
  else if constexpr (std::is_same_v<U, double>) return f64;
  else if constexpr (std::is_same_v<U, std::complex<float>>) return c64;
  else {
    static_assert(std::is_same_v<U, std::complex<double>>, "no dtype has this C++ type");
    return c128;
  }
}

class Tensor {
 public:
  /// f32[0].
  Tensor();
  /// Zero-filled, 64-byte aligned. Fails if the byte count overflows or memory is out.
  Tensor(DType dtype, Shape shape);
  /// The same without the zeros.
  static Tensor uninitialized(DType dtype, Shape shape);
  /// A copy of `values` in row-major order.
  template <class T>
  static Tensor of(Shape shape, std::span<const T> values) {
    Tensor t = uninitialized(dtype_of<T>(), std::move(shape));
    t.expect_count(values.size());
    if (!values.empty()) std::memcpy(t.mutable_data(), values.data(), values.size_bytes());
    return t;
  }
  template <class T>
  static Tensor of(Shape shape, std::initializer_list<T> values) {
    return of(std::move(shape), std::span<const T>(values.begin(), values.size()));
  }
  template <class T>
  static Tensor of(Shape shape, const std::vector<T>& values) {
    return of(std::move(shape), std::span<const T>(values));
  }
  template <class T>
  static Tensor scalar(T value) {
    return of<T>({}, {value});
  }
  /// Shares `bytes`, which must stay as they are for as long as `owner` or this call's user keeps them.
  static Tensor borrow(DType dtype, Shape shape, std::span<const std::byte> bytes,
                       std::shared_ptr<const void> owner = nullptr);
  /// The same for elements that are not in memory yet, for example those of a file: the first data() calls `read`,
  /// which writes them to `bytes`. Several threads may call it at once. If it throws, data() throws the same, and the
  /// next data() calls it again.
  static Tensor borrow_unread(DType dtype, Shape shape, std::span<const std::byte> bytes,
                              std::shared_ptr<const void> owner, std::function<void()> read);
  /// A dense copy of elements at `data`, `strides` bytes apart in each dim.
  static Tensor from_strided(DType dtype, Shape shape, const void* data, std::span<const int64_t> strides);

  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  size_t rank() const { return shape_.size(); }
  size_t element_count() const { return count_; }
  size_t byte_count() const { return bytes_; }
  Type type() const { return {dtype_, Dims(shape_.begin(), shape_.end())}; }

  /// The elements. Fails only if they have to be read first (`borrow_unread`) and cannot be.
  const std::byte* data() const {
    if (unread_ && !unread_->is_read.load(std::memory_order_acquire)) read_elements();
    return static_cast<const std::byte*>(data_.get());
  }
  std::span<const std::byte> bytes() const { return {data(), bytes_}; }
  /// Where the elements stand, or will stand when they are read. Only data() and bytes() read them.
  std::span<const std::byte> place() const { return {static_cast<const std::byte*>(data_.get()), bytes_}; }
  /// The bytes to write to. Copies them first if they are shared or borrowed.
  std::byte* mutable_data();
  /// The elements; fails unless T is the C++ type of the dtype.
  template <class T>
  std::span<const T> values() const {
    expect_dtype(dtype_of<T>());
    return {reinterpret_cast<const T*>(data()), count_};
  }
  template <class T>
  std::span<T> mutable_values() {
    expect_dtype(dtype_of<T>());
    return {reinterpret_cast<T*>(mutable_data()), count_};
  }
  /// The same elements under another shape of equally many; shares them.
  Tensor reshaped(Shape shape) const;
  /// No other tensor has these elements, and they are not borrowed: they can be written in place.
  bool is_unshared() const { return !borrowed_ && data_.use_count() == 1; }
  /// What keeps the elements alive; null when the caller of `borrow` does.
  const std::shared_ptr<const void>& owner() const { return data_; }

  /// Same dtype, shape and bits.
  bool operator==(const Tensor&) const;

 private:
  Tensor(DType dtype, Shape shape, std::shared_ptr<const void> data, bool borrowed);
  void expect_count(size_t given) const;
  void expect_dtype(DType wanted) const;
  void read_elements() const;
  struct Unread {  // shared by all copies
    std::function<void()> read;
    std::atomic<bool> is_read = false;
  };
  DType dtype_;
  bool borrowed_;
  Shape shape_;
  size_t count_, bytes_;
  std::shared_ptr<const void> data_;
  std::shared_ptr<Unread> unread_;  // null for elements that were there from the start
};

// ---- as an attribute: `f32[2] [1, 2.5]`, or `f32[512, 512] @"name"` for elements that stand elsewhere ----
void print(std::ostream&, const Tensor&);
void parse(Scanner&, Tensor&);
size_t hash_of(const Tensor&);
inline void map(Tensor&, const AttrMapper&) {}
inline std::string kind_name(const Tensor&) { return "tensor"; }

/// While it lives, constants of at least `least_bytes` printed to `out` are handed to `take`, which names them.
class ConstantsElsewhere {
 public:
  ConstantsElsewhere(std::ostream& out, size_t least_bytes, std::function<std::string(const Tensor&)> take);
  ~ConstantsElsewhere();
  ConstantsElsewhere(const ConstantsElsewhere&) = delete;
  ConstantsElsewhere& operator=(const ConstantsElsewhere&) = delete;
  size_t least_bytes;
  std::function<std::string(const Tensor&)> take;

 private:
  std::ostream& out_;
};

}  // namespace rlx
