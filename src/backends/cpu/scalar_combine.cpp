// See the header.
#include "backends/cpu/scalar_combine.h"

#include <complex>
#include <cstring>

#include "kernels/integer_type.h"
#include "rlx/element.h"

namespace rlx::cpu {
namespace {

/// Elements whose memory is a C++ type.
template <class T>
struct Native {
  using Value = T;
  static T read(const std::byte* at) {
    T v;
    std::memcpy(&v, at, sizeof v);
    return v;
  }
  static void write(std::byte* at, T v) { std::memcpy(at, &v, sizeof v); }
};
/// f16 and bf16, which are combined in f32.
template <DType kDType>
struct Narrow {
  using Value = float;
  static float read(const std::byte* at) {
    uint16_t bits;
    std::memcpy(&bits, at, sizeof bits);
    return static_cast<float>(decode_float(kDType, bits));
  }
  static void write(std::byte* at, float v) {
    auto bits = static_cast<uint16_t>(encode_float(kDType, static_cast<double>(v)));
    std::memcpy(at, &bits, sizeof bits);
  }
};

template <ScatterKind kKind, class T>
T joined(T x, T y) {
  if constexpr (kKind == ScatterKind::update) return y;
  else if constexpr (std::is_same_v<T, bool>)
    return kKind == ScatterKind::add || kKind == ScatterKind::max ? x || y : x && y;
  else if constexpr (kKind == ScatterKind::add || kKind == ScatterKind::mul) {
    if constexpr (std::is_integral_v<T>) {
      auto a = static_cast<uint64_t>(x), b = static_cast<uint64_t>(y);
      return static_cast<T>(kKind == ScatterKind::add ? a + b : a * b);
    } else {
      return kKind == ScatterKind::add ? x + y : x * y;
    }
  } else if constexpr (requires { x < y; }) {
    if (x != x) return x;
    if (y != y) return y;
    return (kKind == ScatterKind::max) == (x < y) ? y : x;
  } else {
    return x;  // complex numbers have no order: `infer` refuses them
  }
}

template <ScatterKind kKind, class Storage>
void combine(std::byte* into, const std::byte* update) {
  Storage::write(into, joined<kKind>(Storage::read(into), Storage::read(update)));
}

template <ScatterKind kKind>
ScalarCombine for_dtype(DType t) {
  if (is_integer(t))
    return kernels::with_integer_type(t, []<class T>() -> ScalarCombine { return combine<kKind, Native<T>>; });
  switch (t) {
    case DType::boolean: return combine<kKind, Native<bool>>;
    case DType::f16: return combine<kKind, Narrow<f16>>;
    case DType::bf16: return combine<kKind, Narrow<bf16>>;
    case DType::f32: return combine<kKind, Native<float>>;
    case DType::f64: return combine<kKind, Native<double>>;
    case DType::c64: return combine<kKind, Native<std::complex<float>>>;
    case DType::c128: return combine<kKind, Native<std::complex<double>>>;
    default: return kKind == ScatterKind::update && byte_size(t) == 1 ? combine<kKind, Native<uint8_t>> : nullptr;
  }
}

}  // namespace

ScalarCombine scalar_combine(ScatterKind kind, DType dtype) {
  switch (kind) {
    case ScatterKind::update: return for_dtype<ScatterKind::update>(dtype);
    case ScatterKind::add: return for_dtype<ScatterKind::add>(dtype);
    case ScatterKind::mul: return for_dtype<ScatterKind::mul>(dtype);
    case ScatterKind::max: return for_dtype<ScatterKind::max>(dtype);
    case ScatterKind::min: return for_dtype<ScatterKind::min>(dtype);
    case ScatterKind::custom: break;
  }
  return nullptr;
}

}  // namespace rlx::cpu
