// See the header. A block's scale comes from its largest element; what rounding does to it is not looked back upon.
// f32 throughout, in ggml's order: the bytes are those that gguf writes.
#include "tensor/blocks/encode.h"

#include <algorithm>
#include <cmath>

#include "rlx/element.h"
#include "tensor/blocks/block_bits.h"

namespace rlx::blocks {
namespace {

uint8_t* out(std::byte* to) { return reinterpret_cast<uint8_t*>(to); }
void put_half(uint8_t* to, float v) {
  uint16_t bits = to_half(static_cast<double>(v)).bits;
  std::memcpy(to, &bits, sizeof bits);
}
float reciprocal(float d) { return d == 0 ? 0 : 1 / d; }
/// The largest element by magnitude, the first of equals, with its sign.
float extreme(const float* x, int count) {
  float found = x[0];
  for (int j = 1; j < count; ++j)
    if (std::abs(x[j]) > std::abs(found)) found = x[j];
  return found;
}
int level(float scaled, float half, int most) {
  float v = std::trunc(scaled + half);
  return v > 0 ? static_cast<int>(std::min(v, static_cast<float>(most))) : 0;  // a NaN is 0
}
/// Half away from zero; what no code stands for becomes the nearest one, a NaN 0.
int rounded(float v, float most) {
  return std::isnan(v) ? 0 : static_cast<int>(std::clamp(std::round(v), -most, most));
}
/// 16 bytes of low nibbles, and the fifth bits if there are any.
void put_codes(const int* code, uint8_t* nibbles, uint8_t* high) {
  for (int j = 0; j < 16; ++j) nibbles[j] = static_cast<uint8_t>((code[j] & 15) | (code[16 + j] & 15) << 4);
  if (!high) return;
  uint32_t bits = 0;
  for (uint32_t j = 0; j < 32; ++j) bits |= static_cast<uint32_t>(code[j] >> 4) << j;
  std::memcpy(high, &bits, sizeof bits);
}

/// Codes of `bits` bits around 0: the extreme element gets the lowest one.
void symmetric(const float* x, int bits, uint8_t* to) {
  int middle = 1 << (bits - 1), code[32];
  float d = extreme(x, 32) / static_cast<float>(-middle), inverse = reciprocal(d);
  for (int j = 0; j < 32; ++j) code[j] = level(x[j] * inverse, static_cast<float>(middle) + 0.5f, 2 * middle - 1);
  put_half(to, d);
  put_codes(code, to + (bits == 5 ? 6 : 2), bits == 5 ? to + 2 : nullptr);
}
/// From the least element up.
void affine(const float* x, int bits, uint8_t* to) {
  int most = (1 << bits) - 1, code[32];
  float least = *std::min_element(x, x + 32), d = (*std::max_element(x, x + 32) - least) / static_cast<float>(most);
  float inverse = reciprocal(d);
  for (int j = 0; j < 32; ++j) code[j] = level((x[j] - least) * inverse, 0.5f, most);
  put_half(to, d);
  put_half(to + 2, least);
  put_codes(code, to + (bits == 5 ? 8 : 4), bits == 5 ? to + 4 : nullptr);
}
/// 256 codes 0, 1, 2 for -d, 0, d.
float ternary_codes(const float* x, int* code) {
  float d = std::abs(extreme(x, 256)), inverse = reciprocal(d);
  for (int j = 0; j < 256; ++j) code[j] = rounded(x[j] * inverse, 1) + 1;
  return d;
}

}  // namespace

void encode_q4_0(const float* from, int64_t count, std::byte* to) {
  for (int64_t i = 0; i < count; ++i) symmetric(from + 32 * i, 4, out(to) + 18 * i);
}
void encode_q4_1(const float* from, int64_t count, std::byte* to) {
  for (int64_t i = 0; i < count; ++i) affine(from + 32 * i, 4, out(to) + 20 * i);
}
void encode_q5_0(const float* from, int64_t count, std::byte* to) {
  for (int64_t i = 0; i < count; ++i) symmetric(from + 32 * i, 5, out(to) + 22 * i);
}
void encode_q5_1(const float* from, int64_t count, std::byte* to) {
  for (int64_t i = 0; i < count; ++i) affine(from + 32 * i, 5, out(to) + 24 * i);
}
void encode_q8_0(const float* from, int64_t count, std::byte* to) {
  for (int64_t i = 0; i < count; ++i) {
    const float* x = from + 32 * i;
    uint8_t* block = out(to) + 34 * i;
    float d = std::abs(extreme(x, 32)) / 127, inverse = reciprocal(d);
    put_half(block, d);
    for (int j = 0; j < 32; ++j) block[2 + j] = static_cast<uint8_t>(rounded(x[j] * inverse, 127));
  }
}

/// The scale puts the largest element between 4 and 8; each element takes the nearest level, the first of two.
void encode_mxfp4(const float* from, int64_t count, std::byte* to) {
  for (int64_t i = 0; i < count; ++i) {
    const float* x = from + 32 * i;
    uint8_t* block = out(to) + 17 * i;
    float most = std::abs(extreme(x, 32));
    int exponent = 0;
    std::frexp(most, &exponent);  // most = fraction * 2^exponent, fraction in [0.5, 1)
    auto code = static_cast<uint8_t>(most > 0 ? std::clamp(exponent - 1 - 2 + 127, 0, 254) : 0);
    float d = half_of_e8m0(code);
    int nearest[32];
    for (int j = 0; j < 32; ++j) {
      float least = INFINITY;
      nearest[j] = 0;
      for (int q = 0; q < 16; ++q)
        if (float error = std::abs(d * integer(kTwiceE2m1[q]) - x[j]); error < least) least = error, nearest[j] = q;
    }
    block[0] = code;
    put_codes(nearest, block + 1, nullptr);
  }
}

void encode_tq1_0(const float* from, int64_t count, std::byte* to) {
  for (int64_t i = 0; i < count; ++i) {
    int code[256];
    uint8_t* block = out(to) + 54 * i;
    put_half(block + 52, ternary_codes(from + 256 * i, code));
    const int* next = code;
    auto run = [&](uint8_t* bytes, int width, int digits) {
      for (int j = 0; j < width; ++j) {
        int number = 0;
        for (int digit = 0; digit < 5; ++digit) number = 3 * number + (digit < digits ? next[digit * width + j] : 0);
        bytes[j] = static_cast<uint8_t>((number * 256 + 242) / 243);  // as a fraction, rounded up
      }
      next += width * digits;
    };
    run(block, 32, 5);
    run(block + 32, 16, 5);
    run(block + 48, 4, 4);
  }
}
void encode_tq2_0(const float* from, int64_t count, std::byte* to) {
  for (int64_t i = 0; i < count; ++i) {
    int code[256];
    uint8_t* block = out(to) + 66 * i;
    put_half(block + 64, ternary_codes(from + 256 * i, code));
    for (int half = 0; half < 2; ++half)
      for (int j = 0; j < 32; ++j) {
        int byte = 0;
        for (int pair = 0; pair < 4; ++pair) byte |= code[128 * half + 32 * pair + j] << (2 * pair);
        block[32 * half + j] = static_cast<uint8_t>(byte);
      }
  }
}

}  // namespace rlx::blocks
