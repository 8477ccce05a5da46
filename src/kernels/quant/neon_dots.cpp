// 8-bit dot products (vnni.h) by the instructions of Arm's processors: sdot, which multiplies groups of four along k,
// and smmla, which multiplies 2 x 8 by 8 x 2 at a time, twice as many. Both take i8 for either operand: values of u8
// are shifted by 128 when they are packed. The instructions stand in kernels/vector/arm_instructions.h.
#if defined(__aarch64__) && !defined(__AARCH64EB__)
#include <arm_neon.h>

#include <algorithm>

#include "kernels/gemm/amx/tiles.h"
#include "kernels/quant/vnni.h"
#include "kernels/vector/arm_instructions.h"
#include "kernels/vector/highway_targets.h"
#include "kernels/vector/instruction_set.h"

namespace rlx::kernels {
namespace {

constexpr int64_t kVectorBytes = 16;  // 16 values of a row, or four of each of four columns
constexpr int64_t kGroupBytes = 64;   // four values of each of 16 columns
constexpr int kVectorsPerGroup = 4;   // of 16 columns
constexpr int kColumnPairs = 8;       // of 16 columns

inline int8x16_t load(const char* from) { return vld1q_s8(reinterpret_cast<const int8_t*>(from)); }

template <int kRows, int kGroup>
inline void add_group(int32x4_t (&sums)[kRows][kVectorsPerGroup], const int8x16_t (&rows)[kRows], const char* columns) {
  RLX_UNROLL
  for (int c = 0; c < kVectorsPerGroup; ++c) {
    const int8x16_t column = load(columns + kGroup * kGroupBytes + c * kVectorBytes);
    RLX_UNROLL
    for (int i = 0; i < kRows; ++i) add_dots<kGroup>(sums[i][c], column, rows[i]);
  }
}

/// The 32 columns are computed in two halves: 5 rows by 16 columns take 20 of the 32 registers.
constexpr int kDotRows = 5;
template <int kRows>
void multiply_by_dots(int64_t steps, const char* left, const char* right, int32_t* sums, int64_t stride) {
  for (int half = 0; half < 2; ++half) {
    int32x4_t sums_of[kRows][kVectorsPerGroup];
    RLX_UNROLL
    for (int i = 0; i < kRows; ++i) RLX_UNROLL
    for (int c = 0; c < kVectorsPerGroup; ++c) sums_of[i][c] = vdupq_n_s32(0);
    const char *x = left, *w = right + half * kTileBytes;
    for (int64_t s = 0; s < steps; ++s, x += kTileBytes, w += 2 * kTileBytes)
      for (int64_t at = 0; at < kTileInt8; at += kVectorBytes) {
        int8x16_t rows[kRows];
        RLX_UNROLL
        for (int i = 0; i < kRows; ++i) rows[i] = load(x + i * kTileInt8 + at);
        const char* columns = w + at / 4 * kGroupBytes;
        add_group<kRows, 0>(sums_of, rows, columns);
        add_group<kRows, 1>(sums_of, rows, columns);
        add_group<kRows, 2>(sums_of, rows, columns);
        add_group<kRows, 3>(sums_of, rows, columns);
      }
    RLX_UNROLL
    for (int i = 0; i < kRows; ++i) RLX_UNROLL
    for (int c = 0; c < kVectorsPerGroup; ++c) vst1q_s32(sums + i * stride + half * kTileRows + c * 4, sums_of[i][c]);
  }
}

inline int8x16_t first_halves(int8x16_t a, int8x16_t b) {
  return vreinterpretq_s8_s64(vzip1q_s64(vreinterpretq_s64_s8(a), vreinterpretq_s64_s8(b)));
}
inline int8x16_t second_halves(int8x16_t a, int8x16_t b) {
  return vreinterpretq_s8_s64(vzip2q_s64(vreinterpretq_s64_s8(a), vreinterpretq_s64_s8(b)));
}

/// Rows in pairs. Behind an odd last one, the next of its tile is read, which is zeros or another's, and not stored.
constexpr int kPairedRows = 6;
template <int kPairs>
void multiply_by_pairs(int64_t steps, int64_t rows, const char* left, const char* right, int32_t* sums,
                       int64_t stride) {
  for (int half = 0; half < 2; ++half) {
    int32x4_t sums_of[kPairs][kColumnPairs];
    RLX_UNROLL
    for (int i = 0; i < kPairs; ++i) RLX_UNROLL
    for (int c = 0; c < kColumnPairs; ++c) sums_of[i][c] = vdupq_n_s32(0);
    const char *x = left, *w = right + half * kTileBytes;
    for (int64_t s = 0; s < steps; ++s, x += kTileBytes, w += 2 * kTileBytes)
      for (int64_t at = 0; at < kTileInt8; at += 8) {
        int8x16_t pairs[kPairs];
        RLX_UNROLL
        for (int i = 0; i < kPairs; ++i) {
          const auto* row = reinterpret_cast<const int8_t*>(x + 2 * i * kTileInt8 + at);
          pairs[i] = vcombine_s8(vld1_s8(row), vld1_s8(row + kTileInt8));
        }
        const char* columns = w + at / 4 * kGroupBytes;
        RLX_UNROLL
        for (int c = 0; c < kVectorsPerGroup; ++c) {
          // Four of k of four columns, and the next four: exchanged, they are eight of k of two columns each.
          const int32x4_t one = vreinterpretq_s32_s8(load(columns + c * kVectorBytes)),
                          next = vreinterpretq_s32_s8(load(columns + kGroupBytes + c * kVectorBytes));
          const int8x16_t lower = vreinterpretq_s8_s32(vzip1q_s32(one, next)),
                          upper = vreinterpretq_s8_s32(vzip2q_s32(one, next));
          RLX_UNROLL
          for (int i = 0; i < kPairs; ++i) {
            add_2x2_products(sums_of[i][2 * c], pairs[i], lower);
            add_2x2_products(sums_of[i][2 * c + 1], pairs[i], upper);
          }
        }
      }
    RLX_UNROLL
    for (int i = 0; i < kPairs; ++i) RLX_UNROLL
    for (int c = 0; c < kVectorsPerGroup; ++c) {
      const int8x16_t lower = vreinterpretq_s8_s32(sums_of[i][2 * c]),
                      upper = vreinterpretq_s8_s32(sums_of[i][2 * c + 1]);
      int32_t* to = sums + 2 * i * stride + half * kTileRows + c * 4;
      vst1q_s32(to, vreinterpretq_s32_s8(first_halves(lower, upper)));
      if (2 * i + 1 < rows) vst1q_s32(to + stride, vreinterpretq_s32_s8(second_halves(lower, upper)));
    }
  }
}

}  // namespace

bool has_int8_dot_isa(Int8DotIsa isa) {
  static const bool has_dots = processor_has(ArmExtension::dotprod), has_pairs = processor_has(ArmExtension::i8mm);
  switch (isa) {
    case Int8DotIsa::pairs: return true;
    case Int8DotIsa::neon_dot: return has_dots && is_permitted(InstructionSet::neon_dot);
    case Int8DotIsa::neon_i8mm: return has_pairs && is_permitted(InstructionSet::neon_i8mm);
    default: return false;
  }
}

void multiply_int8_dots(Int8DotIsa isa, int64_t steps, int64_t rows, const char* upper, const char* lower,
                        const char* right, int32_t* sums, int64_t stride, ComingWeights*) noexcept {
  using ByDots = void (*)(int64_t, const char*, const char*, int32_t*, int64_t);
  static constexpr ByDots kByDots[kDotRows] = {multiply_by_dots<1>, multiply_by_dots<2>, multiply_by_dots<3>,
                                               multiply_by_dots<4>, multiply_by_dots<5>};
  using ByPairs = void (*)(int64_t, int64_t, const char*, const char*, int32_t*, int64_t);
  static constexpr ByPairs kByPairs[kPairedRows / 2] = {multiply_by_pairs<1>, multiply_by_pairs<2>,
                                                        multiply_by_pairs<3>};
  const bool in_pairs = isa == Int8DotIsa::neon_i8mm;
  const int64_t max_rows = in_pairs ? kPairedRows : kDotRows;
  for (int64_t begin = 0; begin < rows;) {
    const bool is_upper = begin < kTileRows;
    const int64_t end = is_upper ? std::min(rows, kTileRows) : rows, count = std::min(max_rows, end - begin);
    const char* left = is_upper ? upper + begin * kTileInt8 : lower + (begin - kTileRows) * kTileInt8;
    int32_t* to = sums + begin * stride;
    if (in_pairs) kByPairs[(count - 1) / 2](steps, count, left, right, to, stride);
    else kByDots[count - 1](steps, left, right, to, stride);
    begin += count;
  }
}

}  // namespace rlx::kernels
#endif
