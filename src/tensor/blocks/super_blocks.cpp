// Super-blocks of 256 elements: the K formats, whose sub-blocks have quantized scales of their own, and the ternary
// ones. Layouts: GGUF specification (ggml types Q2_K ... Q8_K, TQ1_0, TQ2_0).
#include "tensor/blocks/block_bits.h"

namespace rlx::blocks {

/// 16 bytes with scale and min of a sub-block each, 64 bytes of 2-bit codes, d, dmin. Bit pair p of 32 bytes is a run
/// of 32 elements: two sub-blocks.
void q2_k(const uint8_t* b, float* to) {
  float d = half_at(b + 80), dmin = half_at(b + 82);
  for (int half = 0; half < 2; ++half)
    for (int pair = 0; pair < 4; ++pair)
      for (int sub = 0; sub < 2; ++sub) {
        int scale = b[8 * half + 2 * pair + sub];
        float ds = d * integer(scale & 15), m = dmin * integer(scale >> 4);
        const uint8_t* q = b + 16 + 32 * half + 16 * sub;
        for (int j = 0; j < 16; ++j) *to++ = ds * integer((q[j] >> (2 * pair)) & 3) - m;
      }
}

/// 32 bytes of high bits, 64 of 2-bit codes as in Q2_K, 12 with sixteen 6-bit scales, d. A high bit that is clear takes
/// 4 away. Scale s: 4 bits in nibble s of the first eight bytes, 2 more in the last four.
void q3_k(const uint8_t* b, float* to) {
  float d = half_at(b + 108);
  const uint8_t* scales = b + 96;
  for (int half = 0; half < 2; ++half)
    for (int pair = 0; pair < 4; ++pair)
      for (int sub = 0; sub < 2; ++sub) {
        int s = 8 * half + 2 * pair + sub;
        int scale = ((scales[s % 8] >> (4 * (s / 8))) & 15) | ((scales[8 + s % 4] >> (2 * (s / 4))) & 3) << 4;
        float ds = d * integer(scale - 32);
        const uint8_t *high = b + 16 * sub, *q = b + 32 + 32 * half + 16 * sub;
        for (int j = 0; j < 16; ++j) {
          int code = (q[j] >> (2 * pair)) & 3, bit = (high[j] >> (4 * half + pair)) & 1;
          *to++ = ds * integer(code - 4 * (1 - bit));
        }
      }
}

/// d, dmin, 12 bytes of scales and mins, 128 of nibbles: 32 bytes are two runs of 32 elements, low nibbles first.
void q4_k(const uint8_t* b, float* to) {
  float d = half_at(b), dmin = half_at(b + 2);
  for (int s = 0; s < 8; ++s) {
    auto [scale, min] = scale_and_min(b + 4, s);
    float ds = d * integer(scale), m = dmin * integer(min);
    const uint8_t* q = b + 16 + 32 * (s / 2);
    for (int j = 0; j < 32; ++j) *to++ = ds * integer((q[j] >> (4 * (s % 2))) & 15) - m;
  }
}

/// Q4_K with 32 bytes of fifth bits in front of the nibbles: bit s of byte j belongs to element j of sub-block s.
void q5_k(const uint8_t* b, float* to) {
  float d = half_at(b), dmin = half_at(b + 2);
  for (int s = 0; s < 8; ++s) {
    auto [scale, min] = scale_and_min(b + 4, s);
    float ds = d * integer(scale), m = dmin * integer(min);
    const uint8_t *high = b + 16, *q = b + 48 + 32 * (s / 2);
    for (int j = 0; j < 32; ++j) *to++ = ds * integer(((q[j] >> (4 * (s % 2))) & 15) | ((high[j] >> s) & 1) << 4) - m;
  }
}

/// 128 bytes of low nibbles, 64 of high bit pairs, 16 signed scales, d. Each half: 64 low nibbles' elements, then 64
/// high.
void q6_k(const uint8_t* b, float* to) {
  float d = half_at(b + 208);
  for (int s = 0; s < 16; ++s) {  // sub-blocks of 16
    int half = s / 8, run = (s % 8) / 2, sub = s % 2;
    float ds = d * integer(static_cast<int8_t>(b[192 + s]));
    const uint8_t *low = b + 64 * half + 32 * (run % 2) + 16 * sub, *high = b + 128 + 32 * half + 16 * sub;
    for (int j = 0; j < 16; ++j) {
      int code = ((low[j] >> (4 * (run / 2))) & 15) | ((high[j] >> (2 * run)) & 3) << 4;
      *to++ = ds * integer(code - 32);
    }
  }
}

/// d as f32, 256 codes; the sums behind them serve products of integers.
void q8_k(const uint8_t* b, float* to) {
  auto d = read<float>(b);
  for (int j = 0; j < 256; ++j) to[j] = d * integer(static_cast<int8_t>(b[4 + j]));
}

namespace {

/// Digit `digit` (from the top) of a byte that holds a fraction in base 3: multiply, keep the low byte, take the carry.
int ternary(uint8_t byte, int digit) {
  constexpr uint8_t kPowers[5] = {1, 3, 9, 27, 81};
  auto shifted = static_cast<uint8_t>(byte * kPowers[digit]);
  return (shifted * 3 >> 8) - 1;
}

}  // namespace

/// 32 bytes of five digits, 16 of five, 4 of four; d. Digit by digit: the first digits of all bytes come first.
void tq1_0(const uint8_t* b, float* to) {
  float d = half_at(b + 52);
  auto run = [&](const uint8_t* bytes, int count, int digits) {
    for (int digit = 0; digit < digits; ++digit)
      for (int j = 0; j < count; ++j) *to++ = d * integer(ternary(bytes[j], digit));
  };
  run(b, 32, 5);
  run(b + 32, 16, 5);
  run(b + 48, 4, 4);
}

/// 64 bytes of 2-bit codes, laid out as in Q2_K; d.
void tq2_0(const uint8_t* b, float* to) {
  float d = half_at(b + 64);
  for (int half = 0; half < 2; ++half)
    for (int pair = 0; pair < 4; ++pair)
      for (int j = 0; j < 32; ++j) *to++ = d * integer(((b[32 * half + j] >> (2 * pair)) & 3) - 1);
}

}  // namespace rlx::blocks
