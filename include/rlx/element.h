// Elements of any dtype, read and written in the widest type of their kind: double for floats, int64_t and
// uint64_t for integers (bool is the uint64_t 0 or 1), std::complex<double> for complex numbers. Slow and exact:
// the reference, literals and tests use it; backends have kernels instead.
#pragma once

#include "rlx/tensor.h"

namespace rlx {

using Complex = std::complex<double>;

/// Rounds to the nearest number of a float dtype, ties to even; what is too large becomes infinity where the
/// format has one, else its largest number (OCP 8-bit floating point 1.0, "saturating"); NaN stays NaN if it can.
uint64_t encode_float(DType, double);
double decode_float(DType, uint64_t bits);
inline Half to_half(double v) { return {static_cast<uint16_t>(encode_float(f16, v))}; }
inline BFloat16 to_bfloat16(double v) { return {static_cast<uint16_t>(encode_float(bf16, v))}; }
inline double to_double(Half v) { return decode_float(f16, v.bits); }
inline double to_double(BFloat16 v) { return decode_float(bf16, v.bits); }

/// Element `i` in row-major order, as T, one of the four types above: the one of the dtype's kind.
template <class T>
T load(const Tensor&, size_t i);
/// Writes element `i`: floats are rounded, integers wrap, anything but 0 is true.
template <class T>
void store(Tensor&, size_t i, T value);
template <>
double load(const Tensor&, size_t i);
template <>
int64_t load(const Tensor&, size_t i);
template <>
uint64_t load(const Tensor&, size_t i);
template <>
Complex load(const Tensor&, size_t i);
template <>
void store(Tensor&, size_t i, double value);
template <>
void store(Tensor&, size_t i, int64_t value);
template <>
void store(Tensor&, size_t i, uint64_t value);
template <>
void store(Tensor&, size_t i, Complex value);
/// Element `at` of `to` becomes element `i` of `from`, bit for bit (a NaN keeps its payload); both of one dtype.
void copy_element(Tensor& to, size_t at, const Tensor& from, size_t i);

/// Calls `f.operator()<T>()` with the type in which elements of that dtype are read.
template <class F>
auto with_element_type(DType dtype, F f) {
  switch (kind_of(dtype)) {
    case Kind::real: return f.template operator()<double>();
    case Kind::signed_int: return f.template operator()<int64_t>();
    case Kind::complex: return f.template operator()<Complex>();
    case Kind::boolean:
    case Kind::unsigned_int: break;
    case Kind::block: fail(ErrorCode::unsupported, "elements of ", dtype, " are read by `dequantize` only");
  }
  return f.template operator()<uint64_t>();
}

/// An element as any number: what an index, a scalar attribute or a comparison in a test wants.
double load_number(const Tensor&, size_t i);
int64_t load_index(const Tensor&, size_t i);

/// A tensor with every element equal to `value`, converted to the dtype.
Tensor full(DType, Shape, double value);

/// Row-major position of `index`.
size_t offset_of(const Shape& shape, const Axes& index);
/// Calls `f(index)` for every index of `shape`, in row-major order.
template <class F>
void for_each_index(const Shape& shape, F f) {
  for (int64_t extent : shape)
    if (extent == 0) return;
  Axes index(shape.size());
  for (;;) {
    f(std::as_const(index));
    size_t d = shape.size();
    while (d > 0 && ++index[d - 1] == shape[d - 1]) index[--d] = 0;
    if (d == 0) return;
  }
}

/// All elements at hand, indexed by position: how reference kernels read and write.
template <class T>
struct Array {
  Shape shape;
  std::vector<T> data;

  Array() = default;
  explicit Array(Shape s, T fill = {}) : shape(std::move(s)), data(static_cast<size_t>(element_count(shape)), fill) {}
  explicit Array(const Tensor& t) : Array(t.shape()) {
    for (size_t i = 0; i < data.size(); ++i) data[i] = load<T>(t, i);
  }
  T at(const Axes& index) const { return data[offset_of(shape, index)]; }
  T& at(const Axes& index) { return data[offset_of(shape, index)]; }
  Tensor rounded_to(DType dtype) const {
    Tensor t = Tensor::uninitialized(dtype, shape);
    if (!is_byte_sized(dtype)) t = Tensor(dtype, shape);
    for (size_t i = 0; i < data.size(); ++i) store<T>(t, i, data[i]);
    return t;
  }
};

/// The tensor whose element at `index` is x's element at `from(index)`: for ops that only move elements.
/// `from` returns a row-major position in x, or -1 for `otherwise` (an element of x's dtype; zero if left out).
Tensor moved(const Tensor& x, Shape shape, const std::function<int64_t(const Axes&)>& from,
             const Tensor* otherwise = nullptr);

}  // namespace rlx
