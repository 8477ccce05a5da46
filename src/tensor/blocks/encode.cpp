// See the header. Of the formats before the K ones a block's scale comes from its largest element; what rounding does
// to it is not looked back upon. f32 throughout, in ggml's order: the bytes are those that gguf writes. So a NaN makes
// the scale NaN, and with it the block; MXFP4 has no such scale, and the K formats take it for 0. The K formats
// are searched: each sub-block for the scale (and min) of least squared error, first as numbers, then as the few bits
// that they are stored with.
#include "tensor/blocks/encode.h"

#include <algorithm>
#include <cmath>
#include <cstring>

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
/// The largest element by magnitude, the first of equals, with its sign; a NaN if there is one, as NumPy's argmax has
/// it.
float extreme(const float* x, int count) {
  float found = x[0];
  for (int j = 1; j < count && !std::isnan(found); ++j)
    if (!(std::abs(x[j]) <= std::abs(found))) found = x[j];
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
  float least = x[0], largest = x[0];
  for (int j = 1; j < 32; ++j) {  // a NaN is the least and the largest
    if (!(least <= x[j]) && !std::isnan(least)) least = x[j];
    if (!(largest >= x[j]) && !std::isnan(largest)) largest = x[j];
  }
  float d = (largest - least) / static_cast<float>(most);
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

namespace {

constexpr int kElements = 256;

/// 0 also for a number so small that the quotient is infinite.
float inverse_of(float d) {
  const float inverse = 1 / d;
  return std::isfinite(inverse) ? inverse : 0;
}
int nearest_code(float v, int least, int most) {
  if (!(v > integer(least))) return least;
  return v < integer(most) ? static_cast<int>(v - integer(least) + 0.5f) + least : most;
}

/// x is nearly scale q - min, q from 0 to `most`, both at least 0.
struct Affine {
  float scale = 0, min = 0;
};
double affine_error(const float* x, int count, int most, Affine a) {
  const float inverse = inverse_of(a.scale);
  double error = 0;
  for (int j = 0; j < count; ++j) {
    const float e = a.scale * integer(nearest_code((x[j] + a.min) * inverse, 0, most)) - a.min - x[j];
    error += static_cast<double>(e) * static_cast<double>(e);
  }
  return error;
}
/// Codes of many scales around that which spans the block, and for each the scale and min of least squares; the best of
/// them once more.
Affine fit_affine(const float* x, int count, int most) {
  float low = 0, high = x[0];
  double sum_x = 0, sum_xx = 0;
  for (int j = 0; j < count; ++j) {
    low = std::min(low, x[j]), high = std::max(high, x[j]);
    sum_x += static_cast<double>(x[j]), sum_xx += static_cast<double>(x[j]) * static_cast<double>(x[j]);
  }
  if (!(high > low)) return {0, -low};
  Affine best;
  double least = INFINITY;
  const auto attempt = [&](float inverse, float min) {
    double sum_q = 0, sum_qq = 0, sum_qx = 0;
    for (int j = 0; j < count; ++j) {
      const double q = nearest_code((x[j] + min) * inverse, 0, most);
      sum_q += q, sum_qq += q * q, sum_qx += q * static_cast<double>(x[j]);
    }
    const double spread = count * sum_qq - sum_q * sum_q;
    if (!(spread > 0)) return;
    double scale = (count * sum_qx - sum_q * sum_x) / spread, shift = (sum_q * sum_qx - sum_qq * sum_x) / spread;
    if (shift < 0) scale = sum_qx / sum_qq, shift = 0;
    const double error = sum_xx - scale * sum_qx + shift * sum_x;  // what is left is orthogonal to the codes and to 1
    if (scale > 0 && error < least) least = error, best = {static_cast<float>(scale), static_cast<float>(shift)};
  };
  for (int step = -12; step <= 18; ++step)
    attempt((integer(most) + 0.1f * integer(step)) * inverse_of(high - low), -low);
  if (best.scale == 0) return {(high - low) / integer(most), -low};
  for (int again = 0; again < 2; ++again) attempt(inverse_of(best.scale), best.min);
  return best;
}

double symmetric_error(const float* x, int count, int half, float scale) {
  const float inverse = inverse_of(scale);
  double error = 0;
  for (int j = 0; j < count; ++j) {
    const float e = scale * integer(nearest_code(x[j] * inverse, -half, half - 1)) - x[j];
    error += static_cast<double>(e) * static_cast<double>(e);
  }
  return error;
}
/// x is nearly scale q, q from -half to half - 1; the scale may be negative.
float fit_symmetric(const float* x, int count, int half) {
  const float most = extreme(x, count);
  double best = 0, largest = 0;
  const auto attempt = [&](float inverse) {
    double sum_qq = 0, sum_qx = 0;
    for (int j = 0; j < count; ++j) {
      const double q = nearest_code(x[j] * inverse, -half, half - 1);
      sum_qq += q * q, sum_qx += q * static_cast<double>(x[j]);
    }
    if (!(sum_qq > 0)) return;
    // The squared error is that of zeros less sum_qx^2 / sum_qq.
    if (const double gain = sum_qx * sum_qx / sum_qq; gain > largest) largest = gain, best = sum_qx / sum_qq;
  };
  for (int sign : {-1, 1})
    for (int step = -12; step <= 12; ++step)
      attempt(integer(sign) * (integer(half) + 0.1f * integer(step)) * inverse_of(most));
  if (best != 0) attempt(inverse_of(static_cast<float>(best)));
  return static_cast<float>(best);
}

/// `v` as the f16 that it is stored as, the largest one for what is beyond.
float stored(float v, uint8_t* to) {
  put_half(to, std::clamp(v, -65504.0f, 65504.0f));
  return half_at(to);
}

/// Sub-blocks of `size` elements with codes 0 to `most`, whose scales and mins are codes 0 to `most_scale` of d and
/// dmin, which are stored at `to`.
struct AffineCodes {
  int scale[16] = {}, min[16] = {}, code[kElements] = {};
};
AffineCodes affine_codes(const float* x, int size, int most, int most_scale, uint8_t* d_at, uint8_t* dmin_at) {
  const int subs = kElements / size;
  Affine fit[16];
  float scale = 0, min = 0;
  for (int s = 0; s < subs; ++s) {
    fit[s] = fit_affine(x + s * size, size, most);
    scale = std::max(scale, fit[s].scale), min = std::max(min, fit[s].min);
  }
  const float d = stored(scale / static_cast<float>(most_scale), d_at);
  const float dmin = stored(min / static_cast<float>(most_scale), dmin_at);
  AffineCodes made;
  for (int s = 0; s < subs; ++s) {
    const float* from = x + s * size;
    const int near_scale = nearest_code(fit[s].scale * inverse_of(d), 0, most_scale);
    const int near_min = nearest_code(fit[s].min * inverse_of(dmin), 0, most_scale);
    double least = INFINITY;
    for (int i = std::max(near_scale - 1, 0); i <= std::min(near_scale + 1, most_scale); ++i)
      for (int j = std::max(near_min - 1, 0); j <= std::min(near_min + 1, most_scale); ++j) {
        const Affine tried{d * integer(i), dmin * integer(j)};
        if (const double error = affine_error(from, size, most, tried); error < least)
          least = error, made.scale[s] = i, made.min[s] = j;
      }
    const Affine a{d * integer(made.scale[s]), dmin * integer(made.min[s])};
    const float inverse = inverse_of(a.scale);
    for (int j = 0; j < size; ++j) made.code[s * size + j] = nearest_code((from[j] + a.min) * inverse, 0, most);
  }
  return made;
}

/// Sixteen sub-blocks with codes -half to half - 1, whose scales are codes -half_scale to half_scale - 1 of d.
struct SymmetricCodes {
  int scale[16] = {}, code[kElements] = {};
};
SymmetricCodes symmetric_codes(const float* x, int half, int half_scale, uint8_t* d_at) {
  float fit[16];
  for (int s = 0; s < 16; ++s) fit[s] = fit_symmetric(x + 16 * s, 16, half);
  const float d = stored(extreme(fit, 16) / static_cast<float>(-half_scale), d_at), inverse = inverse_of(d);
  SymmetricCodes made;
  for (int s = 0; s < 16; ++s) {
    const float* from = x + 16 * s;
    const int near = nearest_code(fit[s] * inverse, -half_scale, half_scale - 1);
    double least = INFINITY;
    for (int i = std::max(near - 1, -half_scale); i <= std::min(near + 1, half_scale - 1); ++i)
      if (const double error = symmetric_error(from, 16, half, d * integer(i)); error < least)
        least = error, made.scale[s] = i;
    const float scale = inverse_of(d * integer(made.scale[s]));
    for (int j = 0; j < 16; ++j) made.code[16 * s + j] = nearest_code(from[j] * scale, -half, half - 1);
  }
  return made;
}

/// Undoes `scale_and_min`.
void put_scales(const AffineCodes& c, uint8_t* b) {
  for (int j = 0; j < 4; ++j) {
    b[j] = static_cast<uint8_t>(c.scale[j] | (c.scale[j + 4] >> 4) << 6);
    b[j + 4] = static_cast<uint8_t>(c.min[j] | (c.min[j + 4] >> 4) << 6);
    b[j + 8] = static_cast<uint8_t>((c.scale[j + 4] & 15) | (c.min[j + 4] & 15) << 4);
  }
}
/// A number that no code stands for, an infinity or a NaN, becomes 0 before anything is fitted to it.
struct Finite {
  float x[kElements];
  explicit Finite(const float* from) {
    for (int j = 0; j < kElements; ++j) x[j] = std::isfinite(from[j]) ? from[j] : 0;
  }
};

}  // namespace

void encode_q2_k(const float* from, int64_t count, std::byte* to) {
  for (int64_t i = 0; i < count; ++i) {
    uint8_t* b = out(to) + 84 * i;
    const AffineCodes c = affine_codes(Finite(from + kElements * i).x, 16, 3, 15, b + 80, b + 82);
    for (int s = 0; s < 16; ++s) b[s] = static_cast<uint8_t>(c.scale[s] | c.min[s] << 4);
    for (int half = 0; half < 2; ++half)
      for (int j = 0; j < 32; ++j) {
        int byte = 0;
        for (int pair = 0; pair < 4; ++pair) byte |= c.code[128 * half + 32 * pair + j] << (2 * pair);
        b[16 + 32 * half + j] = static_cast<uint8_t>(byte);
      }
  }
}
void encode_q3_k(const float* from, int64_t count, std::byte* to) {
  for (int64_t i = 0; i < count; ++i) {
    uint8_t* b = out(to) + 110 * i;
    const SymmetricCodes c = symmetric_codes(Finite(from + kElements * i).x, 4, 32, b + 108);
    std::memset(b, 0, 108);
    for (int e = 0; e < kElements; ++e) {
      const int half = e / 128, pair = e % 128 / 32, j = e % 32, code = c.code[e] + 4;
      b[j] = static_cast<uint8_t>(b[j] | (code >> 2) << (4 * half + pair));
      b[32 + 32 * half + j] = static_cast<uint8_t>(b[32 + 32 * half + j] | (code & 3) << (2 * pair));
    }
    for (int s = 0; s < 16; ++s) {
      const int scale = c.scale[s] + 32;
      uint8_t &low = b[96 + s % 8], &high = b[104 + s % 4];
      low = static_cast<uint8_t>(low | (scale & 15) << (4 * (s / 8)));
      high = static_cast<uint8_t>(high | (scale >> 4) << (2 * (s / 4)));
    }
  }
}
void encode_q4_k(const float* from, int64_t count, std::byte* to) {
  for (int64_t i = 0; i < count; ++i) {
    uint8_t* b = out(to) + 144 * i;
    const AffineCodes c = affine_codes(Finite(from + kElements * i).x, 32, 15, 63, b, b + 2);
    put_scales(c, b + 4);
    for (int j = 0; j < 128; ++j) {
      const int* run = c.code + 64 * (j / 32) + j % 32;
      b[16 + j] = static_cast<uint8_t>(run[0] | run[32] << 4);
    }
  }
}
void encode_q5_k(const float* from, int64_t count, std::byte* to) {
  for (int64_t i = 0; i < count; ++i) {
    uint8_t* b = out(to) + 176 * i;
    const AffineCodes c = affine_codes(Finite(from + kElements * i).x, 32, 31, 63, b, b + 2);
    put_scales(c, b + 4);
    for (int j = 0; j < 32; ++j) {
      int high = 0;
      for (int s = 0; s < 8; ++s) high |= (c.code[32 * s + j] >> 4) << s;
      b[16 + j] = static_cast<uint8_t>(high);
    }
    for (int j = 0; j < 128; ++j) {
      const int* run = c.code + 64 * (j / 32) + j % 32;
      b[48 + j] = static_cast<uint8_t>((run[0] & 15) | (run[32] & 15) << 4);
    }
  }
}
void encode_q6_k(const float* from, int64_t count, std::byte* to) {
  for (int64_t i = 0; i < count; ++i) {
    uint8_t* b = out(to) + 210 * i;
    const SymmetricCodes c = symmetric_codes(Finite(from + kElements * i).x, 32, 128, b + 208);
    std::memset(b, 0, 192);
    for (int e = 0; e < kElements; ++e) {
      const int half = e / 128, run = e % 128 / 32, j = e % 32, code = c.code[e] + 32;
      uint8_t &low = b[64 * half + 32 * (run % 2) + j], &high = b[128 + 32 * half + j];
      low = static_cast<uint8_t>(low | (code & 15) << (4 * (run / 2)));
      high = static_cast<uint8_t>(high | (code >> 4) << (2 * run));
    }
    for (int s = 0; s < 16; ++s) b[192 + s] = static_cast<uint8_t>(static_cast<int8_t>(c.scale[s]));
  }
}

}  // namespace rlx::blocks
