// What split_blocks.cpp has in common with its kernels for AVX-512 VNNI and for AVX2: a row of x as integers, and
// columns of weights. Internal to this folder.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/quant/blocks.h"
#include "kernels/vector/highway_targets.h"

#if defined(__x86_64__) && defined(__linux__)
#include <xmmintrin.h>

namespace rlx::kernels::split {

inline constexpr int64_t kPiece = 256, kGroups = 4;
/// The sub-blocks of q4_k in the two halves of a group of digits: bytes of weights hold elements of two of them.
inline constexpr int kSubBlocks[kGroups][2] = {{0, 2}, {1, 3}, {4, 6}, {5, 7}};

/// 256 numbers of x. A number is step * sum over d of digits[d] * 256^(kDigits - 1 - d): the first digit is the
/// highest. A kernel reads `numbers` (AVX2, q8_0), or `digits` and the sums of them that its format needs; other fields
/// are not written.
template <int kDigits>
struct alignas(64) Piece {
  static constexpr int kBits = 8 * kDigits - 2;  ///< of a number's magnitude
  int8_t digits[kGroups][kDigits][64];           ///< in order, of q4_k in that of kSubBlocks
  int32_t fours[kGroups][16];     ///< AVX-512, q8_0 and q6_k: the values' offset times the sums of four numbers
  int16_t sixteens[kDigits][16];  ///< AVX2, q6_k: the sums of 16 digits
  int16_t blocks[kDigits][8];     ///< q4_k: the sums of the digits of a sub-block
  int16_t numbers[kPiece];        ///< AVX2, q8_0: the numbers themselves, of two digits
  float step;
  bool is_for_avx2;  ///< which of the two splits made it; where it is multiplied another set might be permitted
};

/// Columns of weights that are multiplied at a time, `row_bytes` apart, so that digits are loaded once for them.
struct Columns {
  const uint8_t* w;
  int64_t row_bytes, pieces;
  const uint8_t* at(int column) const { return w + column * row_bytes; }
};
/// Asks for the columns that come next while these are read: one stream, however many columns are read at a time.
class Prefetch {
 public:
  Prefetch(const Columns& columns, int count)
      : at_(columns.w + (count * columns.row_bytes > kAhead ? count * columns.row_bytes : kAhead)) {}
  template <int64_t kBytes>
  __attribute__((always_inline)) inline void advance() {
    RLX_UNROLL for (int64_t i = 0; i < kBytes; i += 64)
        _mm_prefetch(reinterpret_cast<const char*>(at_ + i), _MM_HINT_T0);
    at_ += kBytes;
  }

 private:
  /// Four pages of a mapped file. With 8 KiB the AVX-512 kernel of q4_k took 1.1 times the time (one row, 1024 x 3072,
  /// one thread, Zen 5).
  static constexpr int64_t kAhead = 16384;
  const uint8_t* at_;
};

/// The exponent e for which all magnitudes, of which `bits` is the largest, are below 2^e; false if it is out of range:
/// the scale and its inverse have to be normal, and so have products with scales of f16.
inline bool exponent_of(uint32_t bits, int& e) {
  constexpr uint32_t kMin = uint32_t{127 - 60} << 23, kMax = uint32_t{127 + 60} << 23;
  e = bits == 0 ? 0 : static_cast<int>(bits >> 23) - 126;
  return bits == 0 || (bits >= kMin && bits < kMax);
}

/// The kernels of one instruction set. Splits as split_row() does, and writes the sums of columns.
bool split_for_avx512(DType format, const float* x, int64_t k, Piece<2>* to);
bool split_for_avx512(DType format, const float* x, int64_t k, Piece<3>* to);
void multiply_by_avx512(DType format, const Piece<2>* x, const Columns& columns, int64_t count, float* to);
void multiply_by_avx512(DType format, const Piece<3>* x, const Columns& columns, int64_t count, float* to);
bool split_for_avx2(DType format, const float* x, int64_t k, Piece<2>* to);
void multiply_by_avx2(DType format, const Piece<2>* x, const Columns& columns, int64_t count, float* to);

}  // namespace rlx::kernels::split
#endif
