// Loads, stores, rounding and conversion of the element-wise machine's registers, for every byte-sized dtype. The
// vectorized loops for f16 and bf16 are in f32.cpp.
#include <array>
#include <bit>
#include <cmath>
#include <complex>
#include <cstring>
#include <limits>
#include <type_traits>

#include "kernels/elementwise/loops.h"
#include "kernels/integer_type.h"
#include "kernels/vector/narrow_float.h"
#include "rlx/element.h"
#include "tensor/round_to_odd.h"

namespace rlx::kernels::elementwise {
namespace {

/// Calls f.operator()<T>() with the type of a register: float, double, int64_t or uint64_t, bool, complex.
template <class F>
auto with_register(DType dtype, F f) {
  switch (domain_of(dtype)) {
    case Domain::f32: return f.template operator()<float>();
    case Domain::f64: return f.template operator()<double>();
    case Domain::boolean: return f.template operator()<bool>();
    case Domain::c64: return f.template operator()<std::complex<float>>();
    case Domain::c128: return f.template operator()<std::complex<double>>();
    case Domain::integer: break;
  }
  return kind_of(dtype) == Kind::unsigned_int ? f.template operator()<uint64_t>() : f.template operator()<int64_t>();
}

/// The register type that an integer element widens to.
template <class I>
using Wide = std::conditional_t<std::is_signed_v<I>, int64_t, uint64_t>;

template <class I>
void load_integer(void* dst, const void* a, const void*, const void*, int64_t n) noexcept {
  for (int64_t i = 0; i < n; ++i) static_cast<Wide<I>*>(dst)[i] = static_cast<Wide<I>>(static_cast<const I*>(a)[i]);
}
template <class I>
void store_integer(void* dst, const void* a, const void*, const void*, int64_t n) noexcept {
  for (int64_t i = 0; i < n; ++i) static_cast<I*>(dst)[i] = static_cast<I>(static_cast<const uint64_t*>(a)[i]);
}
template <class I>
void wrap_integer(void* dst, const void* a, const void*, const void*, int64_t n) noexcept {
  for (int64_t i = 0; i < n; ++i)
    static_cast<Wide<I>*>(dst)[i] = static_cast<Wide<I>>(static_cast<I>(static_cast<const uint64_t*>(a)[i]));
}

/// The values of an 8-bit float format by their bits.
template <DType kDType>
const std::array<float, 256>& values_of_f8() {
  static const std::array<float, 256> table = [] {
    std::array<float, 256> values{};
    for (size_t bits = 0; bits < 256; ++bits) values[bits] = static_cast<float>(decode_float(kDType, bits));
    return values;
  }();
  return table;
}
template <DType kDType>
void load_f8(void* dst, const void* a, const void*, const void*, int64_t n) noexcept {
  const auto& values = values_of_f8<kDType>();
  for (int64_t i = 0; i < n; ++i) static_cast<float*>(dst)[i] = values[static_cast<const uint8_t*>(a)[i]];
}
template <DType kDType>
void store_f8(void* dst, const void* a, const void*, const void*, int64_t n) noexcept {
  for (int64_t i = 0; i < n; ++i)
    static_cast<uint8_t*>(dst)[i] =
        static_cast<uint8_t>(encode_float(kDType, static_cast<double>(static_cast<const float*>(a)[i])));
}
template <DType kDType>
void narrow_f8(void* dst, const void* a, const void*, const void*, int64_t n) noexcept {
  const auto& values = values_of_f8<kDType>();
  for (int64_t i = 0; i < n; ++i)
    static_cast<float*>(dst)[i] =
        values[encode_float(kDType, static_cast<double>(static_cast<const float*>(a)[i])) & 0xff];
}
struct F8Kernels {
  Kernel load, store, narrow;
};
template <DType kDType>
F8Kernels kernels_of_f8() {
  values_of_f8<kDType>();  // builds the table now instead of in the first run
  return {load_f8<kDType>, store_f8<kDType>, narrow_f8<kDType>};
}
F8Kernels find_f8(DType dtype) {
  switch (dtype) {
    case DType::f8e4m3fn: return kernels_of_f8<DType::f8e4m3fn>();
    case DType::f8e5m2: return kernels_of_f8<DType::f8e5m2>();
    case DType::f8e4m3fnuz: return kernels_of_f8<DType::f8e4m3fnuz>();
    case DType::f8e5m2fnuz: return kernels_of_f8<DType::f8e5m2fnuz>();
    case DType::f8e8m0fnu: return kernels_of_f8<DType::f8e8m0fnu>();
    default: return {nullptr, nullptr, nullptr};
  }
}

template <class To, class From>
To saturated(From v) {  // truncates; values out of range become To's min or max, NaN becomes 0
  using Limits = std::numeric_limits<To>;
  if (v != v) return 0;
  // 2^digits, one more than the largest integer, is exact in every float type.
  const From end = std::ldexp(From(1), Limits::digits);
  if (v >= end) return Limits::max();
  if (Limits::is_signed ? v < -end : v <= From(-1)) return Limits::min();
  return static_cast<To>(v);
}

// To f32 by rounding to odd, so that a second rounding, to f16 or narrower, gives the correctly rounded result.
using rlx::rounded_to_odd;
inline float rounded_to_odd(uint64_t v) {
  const int dropped = 64 - std::countl_zero(v) - 24;
  if (dropped <= 0) return static_cast<float>(v);
  const uint64_t lost = v & ((uint64_t{1} << dropped) - 1);
  return std::ldexp(static_cast<float>((v >> dropped) | (lost != 0 ? 1 : 0)), dropped);
}
inline float rounded_to_odd(int64_t v) {
  const auto bits = static_cast<uint64_t>(v);
  return v < 0 ? -rounded_to_odd(-bits) : rounded_to_odd(bits);
}

template <class To, class From>
To converted(From v) {
  if constexpr (std::is_same_v<To, bool>) {
    return v != From(0);
  } else if constexpr (std::is_same_v<To, std::complex<float>> || std::is_same_v<To, std::complex<double>>) {
    using R = typename To::value_type;
    if constexpr (std::is_same_v<From, std::complex<float>> || std::is_same_v<From, std::complex<double>>)
      return To(static_cast<R>(v.real()), static_cast<R>(v.imag()));
    else return To(static_cast<R>(v), R(0));
  } else if constexpr (std::is_same_v<From, std::complex<float>> || std::is_same_v<From, std::complex<double>>) {
    return converted<To>(v.real());
  } else if constexpr (std::is_integral_v<To> && std::is_floating_point_v<From>) {
    return saturated<To>(v);
  } else {
    return static_cast<To>(v);
  }
}

template <class To, class From>
void convert(void* dst, const void* a, const void*, const void*, int64_t n) noexcept {
  if constexpr (std::is_same_v<To, From>) std::memmove(dst, a, static_cast<size_t>(n) * sizeof(To));
  else
    for (int64_t i = 0; i < n; ++i) static_cast<To*>(dst)[i] = converted<To>(static_cast<const From*>(a)[i]);
}
/// Converts to a float narrower than f32; find_narrow's loop still has to round the result.
template <class From>
void convert_to_odd(void* dst, const void* a, const void*, const void*, int64_t n) noexcept {
  for (int64_t i = 0; i < n; ++i) static_cast<float*>(dst)[i] = rounded_to_odd(static_cast<const From*>(a)[i]);
}
/// Converts a float to an integer dtype, saturating at that dtype's min and max.
template <class I, class From>
void convert_to_integer(void* dst, const void* a, const void*, const void*, int64_t n) noexcept {
  for (int64_t i = 0; i < n; ++i)
    static_cast<Wide<I>*>(dst)[i] = static_cast<Wide<I>>(converted<I>(static_cast<const From*>(a)[i]));
}

}  // namespace

Kernel find_convert(DType from, DType to) {
  return with_register(from, [&]<class From>() -> Kernel {
    constexpr bool from_integer = std::is_same_v<From, int64_t> || std::is_same_v<From, uint64_t>;
    if constexpr (!from_integer && !std::is_same_v<From, bool>) {
      if (is_integer(to)) return with_integer_type(to, []<class I>() -> Kernel { return convert_to_integer<I, From>; });
    }
    if constexpr (from_integer || std::is_same_v<From, double>) {
      if (is_low_precision(to)) return convert_to_odd<From>;
    }
    return with_register(to, []<class To>() -> Kernel { return convert<To, From>; });
  });
}

Kernel find_narrow(DType dtype) {
  if (dtype == f16 || dtype == bf16) return find_narrow_f16(dtype);
  if (is_low_precision(dtype)) return find_f8(dtype).narrow;
  if (!is_integer(dtype) || byte_size(dtype) == 8) return nullptr;
  return with_integer_type(dtype, []<class I>() -> Kernel { return wrap_integer<I>; });
}
Kernel find_load(DType dtype) {
  if (dtype == f16 || dtype == bf16) return find_load_f16(dtype);
  if (is_low_precision(dtype)) return find_f8(dtype).load;
  if (!is_integer(dtype) || byte_size(dtype) == 8) return nullptr;
  return with_integer_type(dtype, []<class I>() -> Kernel { return load_integer<I>; });
}
Kernel find_store(DType dtype) {
  if (dtype == f16 || dtype == bf16) return find_store_f16(dtype);
  if (is_low_precision(dtype)) return find_f8(dtype).store;
  if (!is_integer(dtype) || byte_size(dtype) == 8) return nullptr;
  return with_integer_type(dtype, []<class I>() -> Kernel { return store_integer<I>; });
}

namespace {
template <class T>
void select_typed(void* dst, const void* a, const void* b, const void* c, int64_t n) noexcept {
  const auto* pred = static_cast<const uint8_t*>(a);
  for (int64_t i = 0; i < n; ++i)
    static_cast<T*>(dst)[i] = pred[i] ? static_cast<const T*>(b)[i] : static_cast<const T*>(c)[i];
}
}  // namespace

Kernel find_select(size_t element_bytes) {
  switch (element_bytes) {
    case 1: return select_typed<uint8_t>;
    case 4: return find_f32(ElementwiseOp::select);
    case 8: return select_typed<uint64_t>;
    default: return select_typed<std::array<uint64_t, 2>>;
  }
}

}  // namespace rlx::kernels::elementwise
