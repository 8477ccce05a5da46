// Encoding and decoding of elements. One routine serves every float format narrower than f64: it differs only in
// its exponent and mantissa bits and in which codes stand for infinity and NaN.
#include "rlx/element.h"

#include <bit>
#include <cmath>

namespace rlx {
namespace {

/// Which codes are special: OCP 8-bit floating point 1.0 (e4m3fn, e5m2), OCP Microscaling 1.0 (e8m0, e2m3, e3m2,
/// e2m1), and the "fnuz" formats of Noune et al. 2022 (one NaN in place of minus zero).
struct FloatFormat {
  int exponent_bits, mantissa_bits, bias;
  bool is_signed = true, has_infinity = true, has_nan = true, fnuz = false;
};

FloatFormat format_of(DType t) {
  const DTypeInfo& i = info(t);
  FloatFormat f{i.exponent_bits, i.mantissa_bits, (1 << (i.exponent_bits - 1)) - 1};
  switch (t) {
    case DType::f8e4m3fn: f.has_infinity = false; break;
    case DType::f8e4m3fnuz:
    case DType::f8e5m2fnuz: f.has_infinity = false, f.fnuz = true, ++f.bias; break;
    case DType::f8e8m0fnu: f.is_signed = false, f.has_infinity = false; break;
    case DType::f6e2m3fn:
    case DType::f6e3m2fn:
    case DType::f4e2m1fn: f.has_infinity = false, f.has_nan = false; break;
    default: break;
  }
  return f;
}

/// The largest finite code, without sign.
uint64_t largest_code(const FloatFormat& f) {
  uint64_t all = (uint64_t{1} << (f.exponent_bits + f.mantissa_bits)) - 1;
  if (f.has_infinity) return all - (uint64_t{1} << f.mantissa_bits);  // the last exponent is special
  return f.has_nan && !f.fnuz ? all - 1 : all;                        // only the last code is
}

}  // namespace

uint64_t encode_float(DType dtype, double v) {
  if (dtype == f64) return std::bit_cast<uint64_t>(v);
  if (dtype == f32) return std::bit_cast<uint32_t>(static_cast<float>(v));
  FloatFormat f = format_of(dtype);
  if (dtype == f8e8m0fnu) {  // a power of two; zero and below have no code
    if (!(v > 0)) return std::isnan(v) ? 255 : 0;
    if (std::isinf(v)) return 254;
    int exponent = 0;
    double fraction = std::frexp(v, &exponent);  // v = fraction * 2^exponent, fraction in [0.5, 1)
    // Without a mantissa there is no even one: half way goes up, as in ml_dtypes.
    return static_cast<uint64_t>(std::clamp(exponent - 1 + (fraction >= 0.75) + 127, 0, 254));
  }
  uint64_t sign = std::signbit(v) ? uint64_t{1} << (f.exponent_bits + f.mantissa_bits) : 0;
  uint64_t infinity = ((uint64_t{1} << f.exponent_bits) - 1) << f.mantissa_bits;
  if (std::isnan(v)) {
    if (f.fnuz) return uint64_t{1} << (f.exponent_bits + f.mantissa_bits);
    if (f.has_infinity) return sign | infinity | (uint64_t{1} << (f.mantissa_bits - 1));
    return f.has_nan ? sign | infinity | ((uint64_t{1} << f.mantissa_bits) - 1) : 0;
  }
  double magnitude = std::abs(v);
  uint64_t most = largest_code(f), overflow = f.has_infinity ? infinity : most;
  if (std::isinf(v)) return sign | overflow;
  const auto wide = std::bit_cast<uint64_t>(magnitude);
  uint64_t code = 0;
  if (static_cast<int>(wide >> 52) - 1023 >= 1 - f.bias) {
    // A normal number: ties to even where the mantissa ends, and a carry goes into the exponent by itself.
    const int dropped = 52 - f.mantissa_bits;
    const uint64_t rounded = wide + (uint64_t{1} << (dropped - 1)) - 1 + ((wide >> dropped) & 1);
    code = (rounded >> dropped) - (static_cast<uint64_t>(1023 - f.bias) << f.mantissa_bits);
  } else {
    // Below, codes count units of the last place; one more than all of them is the least normal number.
    code = static_cast<uint64_t>(std::nearbyint(std::ldexp(magnitude, f.bias - 1 + f.mantissa_bits)));
  }
  if (code > most) code = overflow;
  if (f.fnuz && code == 0) sign = 0;  // there is no minus zero
  return sign | code;
}

double decode_float(DType dtype, uint64_t bits) {
  if (dtype == f64) return std::bit_cast<double>(bits);
  if (dtype == f32) return static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  FloatFormat f = format_of(dtype);
  if (dtype == f8e8m0fnu) return bits == 255 ? NAN : std::ldexp(1.0, static_cast<int>(bits) - 127);
  uint64_t sign_bit = uint64_t{1} << (f.exponent_bits + f.mantissa_bits);
  uint64_t code = bits & (sign_bit - 1), mantissa = code & ((uint64_t{1} << f.mantissa_bits) - 1);
  bool negative = (bits & sign_bit) != 0;
  if (f.fnuz && negative && code == 0) return NAN;
  // A NaN keeps its sign: a total order tells.
  if (code > largest_code(f))
    return std::copysign(mantissa == 0 && f.has_infinity ? INFINITY : NAN, negative ? -1.0 : 1.0);
  auto exponent = static_cast<int>(code >> f.mantissa_bits);
  double value = exponent == 0 ? std::ldexp(static_cast<double>(mantissa), 1 - f.bias - f.mantissa_bits)
                               : std::ldexp(static_cast<double>(mantissa | (uint64_t{1} << f.mantissa_bits)),
                                            exponent - f.bias - f.mantissa_bits);
  return negative ? -value : value;
}

namespace {

/// The bits of element i; elements narrower than a byte are packed from the low bit up.
uint64_t bits_at(const Tensor& t, size_t i) {
  const DTypeInfo& type = info(t.dtype());
  const std::byte* data = t.data();
  uint64_t bits = 0;
  if (type.bits >= 8) {
    std::memcpy(&bits, data + i * static_cast<size_t>(type.bits / 8), static_cast<size_t>(type.bits / 8));
    return bits;
  }
  size_t first = i * static_cast<size_t>(type.bits);
  for (size_t b = 0; b < static_cast<size_t>(type.bits); ++b)
    bits |= static_cast<uint64_t>((std::to_integer<unsigned>(data[(first + b) / 8]) >> ((first + b) % 8)) & 1u) << b;
  return bits;
}
void set_bits(Tensor& t, size_t i, uint64_t bits) {
  const DTypeInfo& type = info(t.dtype());
  std::byte* data = t.mutable_data();
  if (type.bits >= 8) {
    std::memcpy(data + i * static_cast<size_t>(type.bits / 8), &bits, static_cast<size_t>(type.bits / 8));
    return;
  }
  size_t first = i * static_cast<size_t>(type.bits);
  for (size_t b = 0; b < static_cast<size_t>(type.bits); ++b) {
    std::byte mask{static_cast<unsigned char>(1u << ((first + b) % 8))};
    std::byte& at = data[(first + b) / 8];
    at = (bits >> b) & 1 ? at | mask : at & ~mask;
  }
}

/// The elements' kind is one that is read and written as `type`; integers of either sign go as both 64-bit types.
void check_kind(DType dtype, bool fits, const char* type) {
  if (fits) return;
  fail(ErrorCode::invalid_argument, "elements of ", dtype, " are not read and written as ", type,
       "; use with_element_type(), or load_number() and full() for numbers of any dtype");
}
void check_real(const Tensor& t) { check_kind(t.dtype(), kind_of(t.dtype()) == Kind::real, "double"); }
void check_integer(const Tensor& t) {
  const Kind kind = kind_of(t.dtype());
  check_kind(t.dtype(), kind == Kind::signed_int || kind == Kind::unsigned_int || kind == Kind::boolean, "integers");
}
/// Of floats a uint64_t is the code: what prints and tests them goes by their bits.
void check_bits(const Tensor& t) { check_kind(t.dtype(), kind_of(t.dtype()) != Kind::complex, "uint64_t"); }
void check_complex(const Tensor& t) {
  check_kind(t.dtype(), kind_of(t.dtype()) == Kind::complex, "std::complex<double>");
}

}  // namespace

template <>
double load(const Tensor& t, size_t i) {
  check_real(t);
  return decode_float(t.dtype(), bits_at(t, i));
}
template <>
uint64_t load(const Tensor& t, size_t i) {
  check_bits(t);
  return bits_at(t, i);
}
template <>
int64_t load(const Tensor& t, size_t i) {
  check_integer(t);
  int shift = 64 - info(t.dtype()).bits;
  return static_cast<int64_t>(bits_at(t, i) << shift) >> shift;
}
template <>
Complex load(const Tensor& t, size_t i) {
  check_complex(t);
  if (t.dtype() == c64) {
    std::complex<float> v = t.values<std::complex<float>>()[i];
    return {static_cast<double>(v.real()), static_cast<double>(v.imag())};
  }
  return t.values<Complex>()[i];
}
template <>
void store(Tensor& t, size_t i, double v) {
  check_real(t);
  set_bits(t, i, encode_float(t.dtype(), v));
}
template <>
void store(Tensor& t, size_t i, uint64_t v) {
  check_bits(t);
  set_bits(t, i, t.dtype() == boolean ? v != 0 : v);
}
template <>
void store(Tensor& t, size_t i, int64_t v) {
  check_integer(t);
  set_bits(t, i, static_cast<uint64_t>(v));
}
template <>
void store(Tensor& t, size_t i, Complex v) {
  check_complex(t);
  if (t.dtype() == c64)
    t.mutable_values<std::complex<float>>()[i] = {static_cast<float>(v.real()), static_cast<float>(v.imag())};
  else t.mutable_values<Complex>()[i] = v;
}

double load_number(const Tensor& t, size_t i) {
  return with_element_type(t.dtype(), [&]<class T>() -> double {
    if constexpr (std::is_same_v<T, Complex>) fail(ErrorCode::invalid_argument, "a complex element is no real number");
    else return static_cast<double>(load<T>(t, i));
  });
}
int64_t load_index(const Tensor& t, size_t i) {
  if (!is_integer(t.dtype())) fail(ErrorCode::invalid_argument, "an index must be an integer, not ", t.dtype());
  return kind_of(t.dtype()) == Kind::signed_int ? load<int64_t>(t, i) : static_cast<int64_t>(load<uint64_t>(t, i));
}

Tensor full(DType dtype, Shape shape, double value) {
  Tensor t(dtype, std::move(shape));
  with_element_type(dtype, [&]<class T>() {
    // Through the signed range first: a negative double has no uint64_t value.
    T v = [&] {
      if constexpr (std::is_same_v<T, uint64_t>)
        return dtype == boolean ? uint64_t{value != 0}
               : value < 0      ? static_cast<uint64_t>(static_cast<int64_t>(value))
                                : static_cast<uint64_t>(value);
      else return T(value);
    }();
    for (size_t i = 0; i < t.element_count(); ++i) store<T>(t, i, v);
  });
  return t;
}

size_t offset_of(const Shape& shape, const Axes& index) {
  int64_t at = 0;
  for (size_t d = 0; d < shape.size(); ++d) at = at * shape[d] + index[d];
  return static_cast<size_t>(at);
}

void copy_element(Tensor& to, size_t at, const Tensor& from, size_t i) {
  DType dtype = to.dtype();
  if (is_block(dtype)) fail(ErrorCode::unsupported, "elements of ", dtype, " share scales: none moves alone");
  size_t size = byte_size(dtype);
  if (is_byte_sized(dtype)) std::memcpy(to.mutable_data() + at * size, from.data() + i * size, size);
  else set_bits(to, at, bits_at(from, i));
}

Tensor moved(const Tensor& x, Shape shape, const std::function<int64_t(const Axes&)>& from, const Tensor* otherwise) {
  Tensor y(x.dtype(), std::move(shape));
  size_t i = 0;
  if (is_block(x.dtype())) {  // rows stay whole, so that the first element of a block says where it comes from
    const DTypeInfo& format = info(x.dtype());
    auto length = static_cast<size_t>(format.block_elements), size = static_cast<size_t>(format.block_bytes);
    std::byte* to = y.mutable_data();
    for_each_index(y.shape(), [&](const Axes& index) {
      if (i % length == 0)
        std::memcpy(to + i / length * size, x.data() + static_cast<size_t>(from(index)) / length * size, size);
      ++i;
    });
    return y;
  }
  if (!is_byte_sized(x.dtype())) {
    for_each_index(y.shape(), [&](const Axes& index) {
      int64_t at = from(index);
      if (at >= 0) set_bits(y, i, bits_at(x, static_cast<size_t>(at)));
      else if (otherwise) set_bits(y, i, bits_at(*otherwise, 0));
      ++i;
    });
    return y;
  }
  size_t size = byte_size(x.dtype());
  std::byte* to = y.mutable_data();
  for_each_index(y.shape(), [&](const Axes& index) {
    int64_t at = from(index);
    if (at >= 0) std::memcpy(to + i * size, x.data() + static_cast<size_t>(at) * size, size);
    else if (otherwise) std::memcpy(to + i * size, otherwise->data(), size);
    ++i;
  });
  return y;
}

}  // namespace rlx
