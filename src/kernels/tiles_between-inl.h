// Products of matrix tiles with other work in between: a product of parts keeps the tiles busy for 64 cycles, in which
// the vectors can do something else. The processor finds that by itself only where it stands between the instructions:
// it has hardly more tiles than their names, so that all that follows waits for one to become free. Compiled for
// AVX-512 alone; users: attention_by_tiles-inl.h, tiled_columns.cpp. Neighbour: matrix_tiles.h, whose packed operands
// these are.
#if defined(RLX_KERNELS_TILES_BETWEEN_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RLX_KERNELS_TILES_BETWEEN_INL_H_
#undef RLX_KERNELS_TILES_BETWEEN_INL_H_
#else
#define RLX_KERNELS_TILES_BETWEEN_INL_H_
#endif

#include "hwy/highway.h"
#include "kernels/matrix_tiles.h"

#if HWY_TARGET == HWY_AVX3 && RLX_HAS_TILES
HWY_BEFORE_NAMESPACE();
namespace rlx::kernels {
namespace HWY_NAMESPACE {

// Registers: 0 to 3 the sums (upper left, upper right, lower left, lower right), 4 and 5 the left operand, 6 and 7 the
// right one. The compiler knows nothing of them.
HWY_INLINE void load_left(const char* upper, const char* lower) {
  asm volatile("tileloadd (%0,%1,1), %%tmm4" ::"r"(upper), "r"(int64_t{64}) : "memory");
  if (lower) asm volatile("tileloadd (%0,%1,1), %%tmm5" ::"r"(lower), "r"(int64_t{64}) : "memory");
}
HWY_INLINE void load_right(const char* right) {
  asm volatile("tileloadd (%0,%1,1), %%tmm6\n\ttileloadd 1024(%0,%1,1), %%tmm7" ::"r"(right), "r"(int64_t{64})
               : "memory");
}
template <bool kBoth>
HWY_INLINE void add_products() {
  asm volatile("tdpbf16ps %%tmm6, %%tmm4, %%tmm0\n\ttdpbf16ps %%tmm7, %%tmm4, %%tmm1" ::: "memory");
  if constexpr (kBoth)
    asm volatile("tdpbf16ps %%tmm6, %%tmm5, %%tmm2\n\ttdpbf16ps %%tmm7, %%tmm5, %%tmm3" ::: "memory");
}

/// Products of parts that make one: those below 2^-24 of it are left out.
constexpr int64_t products_by_three(TileForm left) { return left == TileForm::one ? 3 : left == TileForm::two ? 5 : 6; }

/// As multiply_tiles(), of a right operand in three parts whatever form the left one has, and with `adds` to what is in
/// `sums`. `right_of` tells where a step's tiles of the right operand are, before they are read. `between` is called
/// after each product of parts, products_by_three() times a step, with the number of that product.
template <TileForm kLeft, bool kBoth, class RightOf, class Between>
HWY_INLINE void multiply_by_three(int64_t steps, const char* upper, const char* lower, RightOf right_of, float* sums,
                                  int64_t stride, bool adds, Between between) {
  constexpr auto kParts = static_cast<int64_t>(kLeft);
  const int64_t bytes = stride * 4;
  float* const below = sums + kTileLines * stride;
  if (adds) {
    asm volatile("tileloadd (%0,%1,1), %%tmm0\n\ttileloadd 64(%0,%1,1), %%tmm1" ::"r"(sums), "r"(bytes) : "memory");
    if constexpr (kBoth)
      asm volatile("tileloadd (%0,%1,1), %%tmm2\n\ttileloadd 64(%0,%1,1), %%tmm3" ::"r"(below), "r"(bytes) : "memory");
  } else {
    asm volatile("tilezero %%tmm0\n\ttilezero %%tmm1\n\ttilezero %%tmm2\n\ttilezero %%tmm3" ::: "memory");
  }
  for (int64_t i = 0; i < steps; ++i) {
    const char* const right = right_of(i);
    const auto left = [&](int64_t part) HWY_ATTR __attribute__((always_inline)) {
      load_left(upper + part * kTileBytes, kBoth ? lower + part * kTileBytes : nullptr);
    };
    const auto multiply = [&](int64_t product) HWY_ATTR __attribute__((always_inline)) {
      add_products<kBoth>(), between(product);
    };
    // High, middle and low parts are 0, 1 and 2. Each product shares an operand with the one before it.
    if constexpr (kLeft == TileForm::three) {
      left(2), load_right(right), multiply(0);
      left(1), multiply(1);
      load_right(right + 2 * kTileBytes), multiply(2);
      left(0), multiply(3);
      load_right(right + 4 * kTileBytes), multiply(4);
    } else {
      left(0), load_right(right + 4 * kTileBytes), multiply(0);
      load_right(right + 2 * kTileBytes), multiply(1);
      if constexpr (kLeft == TileForm::two) {
        left(1), multiply(2);
        load_right(right), multiply(3);
        left(0), multiply(4);
      }
    }
    if constexpr (kLeft != TileForm::two) load_right(right), multiply(products_by_three(kLeft) - 1);
    upper += kParts * kTileBytes;
    if constexpr (kBoth) lower += kParts * kTileBytes;
  }
  asm volatile("tilestored %%tmm0, (%0,%1,1)\n\ttilestored %%tmm1, 64(%0,%1,1)" ::"r"(sums), "r"(bytes) : "memory");
  if constexpr (kBoth)
    asm volatile("tilestored %%tmm2, (%0,%1,1)\n\ttilestored %%tmm3, 64(%0,%1,1)" ::"r"(below), "r"(bytes) : "memory");
}

}  // namespace HWY_NAMESPACE
}  // namespace rlx::kernels
HWY_AFTER_NAMESPACE();
#endif

#endif  // RLX_KERNELS_TILES_BETWEEN_INL_H_
