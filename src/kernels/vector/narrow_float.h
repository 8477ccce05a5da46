// f16 and bf16 as storage types, one element at a time: portable conversions to f32 (exact) and from it (rounded to
// nearest, ties to even). Neighbours: narrow_float-inl.h converts vectors of them, rlx/element.h any float format.
#pragma once

#include <bit>
#include <cstdint>

namespace rlx::kernels {

struct F16 {
  uint16_t bits;
};
struct BF16 {
  uint16_t bits;
};

inline float to_f32(float v) { return v; }
inline float to_f32(BF16 v) { return std::bit_cast<float>(static_cast<uint32_t>(v.bits) << 16); }
inline float to_f32(F16 v) {
  const uint32_t sign = static_cast<uint32_t>(v.bits & 0x8000u) << 16;
  // With exponent and mantissa shifted to where f32 has them, the value is too small by a factor of 2^(127 - 15), also
  // if it is subnormal.
  const uint32_t magnitude = static_cast<uint32_t>(v.bits & 0x7fffu) << 13;
  if (magnitude >= 0x0f800000u) return std::bit_cast<float>(sign | magnitude | 0x7f800000u);  // inf, NaN
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) * 0x1p112f));
}

inline BF16 to_bf16(float v) {
  const auto bits = std::bit_cast<uint32_t>(v);
  // Rounding could turn a NaN into infinity, if only low bits of its mantissa are set. So a NaN is truncated and its
  // quiet bit set.
  if ((bits & 0x7fffffffu) > 0x7f800000u) return {static_cast<uint16_t>((bits >> 16) | 0x40u)};
  return {static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16)};
}
inline F16 to_f16(float v) {
  const auto bits = std::bit_cast<uint32_t>(v);
  const auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
  const uint32_t magnitude = bits & 0x7fffffffu;
  uint32_t narrow_bits = 0;
  if (magnitude > 0x7f800000u) {
    narrow_bits = 0x7e00u;
  } else if (magnitude >= 0x47800000u) {  // 2^16 and more
    narrow_bits = 0x7c00u;
  } else if (magnitude < 0x38800000u) {
    // Subnormal in f16: after adding 0.5 the last bit of the f32 is the last bit of the f16, so the addition rounds.
    narrow_bits = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - std::bit_cast<uint32_t>(0.5f);
  } else {
    // A carry out of the mantissa correctly increments the exponent, and turns the largest number into infinity.
    narrow_bits = (magnitude - (112u << 23) + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
  }
  return {static_cast<uint16_t>(sign | narrow_bits)};
}

template <class T>
T from_f32(float v);
template <>
inline float from_f32<float>(float v) {
  return v;
}
template <>
inline F16 from_f32<F16>(float v) {
  return to_f16(v);
}
template <>
inline BF16 from_f32<BF16>(float v) {
  return to_bf16(v);
}

}  // namespace rlx::kernels
