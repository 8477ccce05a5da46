// How the fields of a block are read: little-endian, wherever they stand. A block is a sequence of bytes, never a
// struct: blocks of 18 or 210 bytes leave every second one unaligned.
#pragma once

#include <bit>
#include <cstring>

#include "rlx/blocks.h"

namespace rlx::blocks {

inline const uint8_t* bytes_of(const std::byte* from) { return reinterpret_cast<const uint8_t*>(from); }

template <class T>
T read(const uint8_t* at) {
  T v;
  std::memcpy(&v, at, sizeof v);
  return v;
}

/// An IEEE binary16 number; infinities and NaNs stay. Nothing is computed with f32 numbers below the normal ones, which
/// take processors a hundred cycles: scales of small weights are subnormal halves.
inline float from_half(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
  const uint32_t magnitude = static_cast<uint32_t>(bits & 0x7fffu) << 13;
  constexpr uint32_t kBias = 112u << 23, kLeastNormal = 113u << 23;  // 2^-14, the least normal half
  if (magnitude >= 0x0f800000u) return std::bit_cast<float>(sign | magnitude | 0x7f800000u);
  if (magnitude >= 0x00800000u) return std::bit_cast<float>(sign | (magnitude + kBias));
  const float subnormal = std::bit_cast<float>(magnitude + kLeastNormal) - std::bit_cast<float>(kLeastNormal);
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(subnormal));
}
inline float half_at(const uint8_t* at) { return from_half(read<uint16_t>(at)); }
inline float integer(int v) { return static_cast<float>(v); }

/// The levels of the non-linear 4-bit code (ggml, IQ4_NL): denser around 0.
constexpr int8_t kNonLinear[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
/// Twice the values of E2M1 (OCP Microscaling 1.0, 5.3.3), so that they are integers.
constexpr int8_t kTwiceE2m1[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
/// 2^(code - 128), half of what an E8M0 scale stands for. Code 255, OCP's NaN, goes on to 2^127, as ggml reads it.
inline float half_of_e8m0(uint8_t code) {
  return std::bit_cast<float>(code < 2 ? 0x00200000u << code : static_cast<uint32_t>(code - 1) << 23);
}
/// An E4M3 scale (bias 7, gradual underflow); the code of a NaN stands for 0, as in ggml.
inline float e4m3(uint8_t code) {
  const uint32_t exponent = (code >> 3) & 15, mantissa = code & 7;
  if ((code & 0x7f) == 0x7f) return 0;
  const float v = exponent == 0 ? static_cast<float>(mantissa) * 0x1p-9f
                                : std::bit_cast<float>((exponent + 120) << 23 | mantissa << 20);
  return code & 0x80 ? -v : v;
}

/// A decoder from a function of one block: `f(const uint8_t* block, float* to)`.
template <int kElements, int kBytes, void (*kBlock)(const uint8_t*, float*)>
void decode_each(const std::byte* from, int64_t count, float* to) {
  for (int64_t i = 0; i < count; ++i) kBlock(bytes_of(from) + i * kBytes, to + i * kElements);
}

// One block each.
void q4_0(const uint8_t*, float*);
void q4_1(const uint8_t*, float*);
void q5_0(const uint8_t*, float*);
void q5_1(const uint8_t*, float*);
void q8_0(const uint8_t*, float*);
void q1_0(const uint8_t*, float*);
void q2_0(const uint8_t*, float*);
void iq4_nl(const uint8_t*, float*);
void iq4_xs(const uint8_t*, float*);
void mxfp4(const uint8_t*, float*);
void nvfp4(const uint8_t*, float*);
void tq1_0(const uint8_t*, float*);
void tq2_0(const uint8_t*, float*);
void q2_k(const uint8_t*, float*);
void q3_k(const uint8_t*, float*);
void q4_k(const uint8_t*, float*);
void q5_k(const uint8_t*, float*);
void q6_k(const uint8_t*, float*);
void q8_k(const uint8_t*, float*);
void iq1_s(const uint8_t*, float*);
void iq1_m(const uint8_t*, float*);
void iq2_xxs(const uint8_t*, float*);
void iq2_xs(const uint8_t*, float*);
void iq2_s(const uint8_t*, float*);
void iq3_xxs(const uint8_t*, float*);
void iq3_s(const uint8_t*, float*);

/// Scale and min of sub-block j of Q4_K and Q5_K: twelve bytes hold eight pairs of 6 bits.
struct ScaleAndMin {
  int scale, min;
};
inline ScaleAndMin scale_and_min(const uint8_t* b, int j) {
  if (j < 4) return {b[j] & 63, b[j + 4] & 63};
  return {(b[j + 4] & 15) | ((b[j - 4] >> 6) << 4), (b[j + 4] >> 4) | ((b[j] >> 6) << 4)};
}

}  // namespace rlx::blocks
