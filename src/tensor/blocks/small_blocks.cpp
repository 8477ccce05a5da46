// Blocks of 16 to 128 elements with one scale each: Q4_0 ... Q8_0, Q1_0, Q2_0, IQ4_NL, MXFP4, NVFP4. Also IQ4_XS, whose
// codes are IQ4_NL's. Layouts: GGUF specification (ggml types), OCP Microscaling 1.0.
#include "tensor/blocks/block_bits.h"

namespace rlx::blocks {
namespace {

/// `half` bytes: low nibbles are the first half of the elements, high nibbles the second.
template <class F>
void each_nibble(const uint8_t* q, int half, float* to, F value) {
  for (int j = 0; j < half; ++j) to[j] = value(q[j] & 15, j);
  for (int j = 0; j < half; ++j) to[half + j] = value(q[j] >> 4, half + j);
}

}  // namespace

void q4_0(const uint8_t* b, float* to) {
  float d = half_at(b);
  each_nibble(b + 2, 16, to, [d](int q, int) { return d * integer(q - 8); });
}
void q4_1(const uint8_t* b, float* to) {
  float d = half_at(b), m = half_at(b + 2);
  each_nibble(b + 4, 16, to, [=](int q, int) { return d * integer(q) + m; });
}
void q5_0(const uint8_t* b, float* to) {
  float d = half_at(b);
  auto high = read<uint32_t>(b + 2);
  each_nibble(b + 6, 16, to,
              [=](int q, int j) { return d * integer((q | static_cast<int>((high >> j) & 1) << 4) - 16); });
}
void q5_1(const uint8_t* b, float* to) {
  float d = half_at(b), m = half_at(b + 2);
  auto high = read<uint32_t>(b + 4);
  each_nibble(b + 8, 16, to, [=](int q, int j) { return d * integer(q | static_cast<int>((high >> j) & 1) << 4) + m; });
}
void q8_0(const uint8_t* b, float* to) {
  float d = half_at(b);
  for (int j = 0; j < 32; ++j) to[j] = d * integer(static_cast<int8_t>(b[2 + j]));
}
void q1_0(const uint8_t* b, float* to) {
  float d = half_at(b);
  for (int j = 0; j < 128; ++j) to[j] = (b[2 + j / 8] >> (j % 8)) & 1 ? d : -d;
}
void q2_0(const uint8_t* b, float* to) {
  float d = half_at(b);
  for (int j = 0; j < 128; ++j) to[j] = d * integer(((b[2 + j / 4] >> (2 * (j % 4))) & 3) - 1);
}
void iq4_nl(const uint8_t* b, float* to) {
  float d = half_at(b);
  each_nibble(b + 2, 16, to, [d](int q, int) { return d * integer(kNonLinear[q]); });
}
/// d, 2 high bits and 4 low bits of each of eight scales, then eight times 32 elements as in IQ4_NL.
void iq4_xs(const uint8_t* b, float* to) {
  float d = half_at(b);
  auto high = read<uint16_t>(b + 2);
  for (int s = 0; s < 8; ++s) {
    int scale = ((b[4 + s / 2] >> (4 * (s % 2))) & 15) | ((high >> (2 * s)) & 3) << 4;
    float ds = d * integer(scale - 32);
    each_nibble(b + 8 + 16 * s, 16, to + 32 * s, [ds](int q, int) { return ds * integer(kNonLinear[q]); });
  }
}
void mxfp4(const uint8_t* b, float* to) {
  float d = half_of_e8m0(b[0]);
  each_nibble(b + 1, 16, to, [d](int q, int) { return d * integer(kTwiceE2m1[q]); });
}
void nvfp4(const uint8_t* b, float* to) {
  float d = 0.5f * e4m3(b[0]);
  each_nibble(b + 1, 8, to, [d](int q, int) { return d * integer(kTwiceE2m1[q]); });
}

}  // namespace rlx::blocks
