// The IQ super-blocks of 256 elements, whose codes name points of a grid: eight (or four) elements at once, and their
// signs. Layouts: ggml's IQ1_S ... IQ3_S; the grids are ggml's, see scripts/block_grids.py.
#include "tensor/blocks/block_bits.h"

namespace rlx::blocks {
namespace {

#include "tensor/blocks/grids.inc"

/// The points of a grid, spread out: coordinate i of a point is what its i-th code stands for.
template <int kCoordinates, size_t kPoints, size_t kValues>
struct Grid {
  int8_t at[kPoints][kCoordinates];
  constexpr Grid(const uint16_t (&codes)[kPoints], const int8_t (&values)[kValues]) : at() {
    constexpr int kBits = 16 / kCoordinates;
    for (size_t p = 0; p < kPoints; ++p)
      for (int i = 0; i < kCoordinates; ++i) at[p][i] = values[(codes[p] >> (kBits * i)) & ((1 << kBits) - 1)];
  }
};
constexpr int8_t kTernary[] = {-1, 0, 1}, kThree[] = {8, 25, 43}, kEight[] = {4, 12, 20, 28, 36, 44, 52, 62},
                 kOdd[] = {1, 3, 5, 7, 9, 11, 13, 15};
constexpr Grid<8, 2048, 3> kGrid1(kIq1S, kTernary);
constexpr Grid<8, 256, 3> kGrid2xxs(kIq2Xxs, kThree);
constexpr Grid<8, 512, 3> kGrid2xs(kIq2Xs, kThree);
constexpr Grid<8, 1024, 3> kGrid2s(kIq2S, kThree);
constexpr Grid<4, 256, 8> kGrid3xxs(kIq3Xxs, kEight);
constexpr Grid<4, 512, 8> kGrid3s(kIq3S, kOdd);

/// Seven signs are stored, the eighth makes their number even.
uint8_t with_parity(uint32_t seven) {
  seven &= 127;
  return static_cast<uint8_t>(seven | (static_cast<uint32_t>(std::popcount(seven)) & 1) << 7);
}
/// `count` elements of a grid's point; a set bit of `signs` turns one around.
void signed_point(float scale, const int8_t* point, int count, unsigned signs, float*& to) {
  for (int j = 0; j < count; ++j) {
    float v = scale * integer(point[j]);
    *to++ = (signs >> j) & 1 ? -v : v;
  }
}
int nibble(const uint8_t* b, int i) { return (b[i / 2] >> (4 * (i % 2))) & 15; }
constexpr float kDelta = 0.125f;  // by which IQ1's three levels are off centre

}  // namespace

/// d; eight times four grid bytes and, in 32 bits, four groups of signs and a 4-bit scale.
void iq2_xxs(const uint8_t* b, float* to) {
  float d = half_at(b);
  for (int s = 0; s < 8; ++s) {
    const uint8_t* points = b + 2 + 8 * s;
    auto rest = read<uint32_t>(points + 4);
    float ds = d * (0.5f + integer(static_cast<int>(rest >> 28))) * 0.25f;
    for (int g = 0; g < 4; ++g) signed_point(ds, kGrid2xxs.at[points[g]], 8, with_parity(rest >> (7 * g)), to);
  }
}

/// d; 32 times 9 bits of point and 7 of signs; sixteen 4-bit scales.
void iq2_xs(const uint8_t* b, float* to) {
  float d = half_at(b);
  for (int g = 0; g < 32; ++g) {
    float ds = d * (0.5f + integer(nibble(b + 66, g / 2))) * 0.25f;
    auto code = read<uint16_t>(b + 2 + 2 * g);
    signed_point(ds, kGrid2xs.at[code & 511], 8, with_parity(code >> 9), to);
  }
}

/// d; 32 low bytes of points, 32 bytes of signs, 32 times two high bits of points, sixteen 4-bit scales.
void iq2_s(const uint8_t* b, float* to) {
  float d = half_at(b);
  for (int g = 0; g < 32; ++g) {
    float ds = d * (0.5f + integer(nibble(b + 74, g / 2))) * 0.25f;
    int point = b[2 + g] | ((b[66 + g / 4] >> (2 * (g % 4))) & 3) << 8;
    signed_point(ds, kGrid2s.at[point], 8, b[34 + g], to);
  }
}

/// d; 64 points of four, then eight times four groups of signs and a 4-bit scale.
void iq3_xxs(const uint8_t* b, float* to) {
  float d = half_at(b);
  for (int s = 0; s < 8; ++s) {
    auto rest = read<uint32_t>(b + 66 + 4 * s);
    float ds = d * (0.5f + integer(static_cast<int>(rest >> 28))) * 0.5f;
    for (int g = 0; g < 8; ++g) {
      unsigned signs = with_parity(rest >> (7 * (g / 2)));
      signed_point(ds, kGrid3xxs.at[b[2 + 8 * s + g]], 4, signs >> (4 * (g % 2)), to);
    }
  }
}

/// d; 64 low bytes of points of four, their ninth bits, 256 signs, eight 4-bit scales.
void iq3_s(const uint8_t* b, float* to) {
  float d = half_at(b);
  for (int g = 0; g < 64; ++g) {
    float ds = d * integer(1 + 2 * nibble(b + 106, g / 8));
    int point = b[2 + g] | ((b[66 + g / 8] >> (g % 8)) & 1) << 8;
    signed_point(ds, kGrid3s.at[point], 4, b[74 + g / 2] >> (4 * (g % 2)), to);
  }
}

/// d; 32 low bytes of points; eight times four groups of three high bits, a 3-bit scale and the sign of the shift.
void iq1_s(const uint8_t* b, float* to) {
  float d = half_at(b);
  for (int g = 0; g < 32; ++g) {
    auto rest = read<uint16_t>(b + 34 + 2 * (g / 4));
    float ds = d * integer(2 * ((rest >> 12) & 7) + 1), delta = rest & 0x8000 ? -kDelta : kDelta;
    int point = b[2 + g] | ((rest >> (3 * (g % 4))) & 7) << 8;
    for (int j = 0; j < 8; ++j) *to++ = ds * (integer(kGrid1.at[point][j]) + delta);
  }
}

/// 32 low bytes of points; 32 times three high bits and the sign of the shift; four times four 3-bit scales, above
/// which stands a fourth of d.
void iq1_m(const uint8_t* b, float* to) {
  uint16_t scales[4], half = 0;
  for (int i = 0; i < 4; ++i) {
    scales[i] = read<uint16_t>(b + 48 + 2 * i);
    half = static_cast<uint16_t>(half | (scales[i] >> 12) << (4 * i));
  }
  float d = from_half(half);
  for (int g = 0; g < 32; ++g) {
    int s = g / 2, rest = nibble(b + 32, g);
    float ds = d * integer(2 * ((scales[s / 4] >> (3 * (s % 4))) & 7) + 1), delta = rest & 8 ? -kDelta : kDelta;
    int point = b[g] | (rest & 7) << 8;
    for (int j = 0; j < 8; ++j) *to++ = ds * (integer(kGrid1.at[point][j]) + delta);
  }
}

}  // namespace rlx::blocks
