// Products of matrix tiles, software-pipelined with vector work: a product of two terms (four tile products) keeps the
// tile multiplier busy for 64 cycles, during which vector instructions can run. The vector instructions must stand
// between the tile instructions: the processor has so few tile registers for renaming that whatever follows a tile
// instruction waits until it gets one. Compiled for AVX-512 alone. Users: amx_attention-inl.h, column_packing.cpp,
// recurrent/tiled_steps-inl.h, and convolutions' narrow_tiles.cpp and int8_tiles.cpp. The operands are as in tiles.h.
#if defined(RLX_KERNELS_GEMM_AMX_INTERLEAVED_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RLX_KERNELS_GEMM_AMX_INTERLEAVED_INL_H_
#undef RLX_KERNELS_GEMM_AMX_INTERLEAVED_INL_H_
#else
#define RLX_KERNELS_GEMM_AMX_INTERLEAVED_INL_H_
#endif

#include <type_traits>

#include "hwy/highway.h"
#include "kernels/gemm/amx/tiles.h"

#if HWY_TARGET == HWY_AVX3 && RLX_HAS_TILES
HWY_BEFORE_NAMESPACE();
namespace rlx::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Registers: 0 to 3 the sums (upper left, upper right, lower left, lower right), 4 and 5 the left operand, 6 and 7 the
// right one. The compiler does not know that they are in use.
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

/// How many products of two terms a step has. If the left operand has one term, all products are computed. Otherwise
/// the right one has three terms, and the smallest products are left out (tiles.h).
constexpr int64_t products_of_terms(TileForm left, TileForm right) {
  if (left == TileForm::one) return static_cast<int64_t>(right);
  return left == TileForm::two ? 5 : 6;
}

template <bool kBoth>
HWY_INLINE void store_products(float* sums, int64_t stride_bytes) {
  asm volatile("tilestored %%tmm0, (%0,%1,1)\n\ttilestored %%tmm1, 64(%0,%1,1)" ::"r"(sums), "r"(stride_bytes)
               : "memory");
  if constexpr (kBoth)
    asm volatile(
        "tilestored %%tmm2, (%0,%1,1)\n\ttilestored %%tmm3, 64(%0,%1,1)" ::"r"(sums + kTileRows * stride_bytes / 4),
        "r"(stride_bytes)
        : "memory");
}
/// As store_products(), but adds to the sums that are there; their `stride` is in elements.
template <bool kBoth>
HWY_INLINE void add_stored_products(float* sums, int64_t stride) {
  const hn::ScalableTag<float> d;
  HWY_ALIGN float partial[2 * kTileRows * kTiledColumns];
  store_products<kBoth>(partial, kTiledColumns * 4);
  for (int64_t i = 0; i < (kBoth ? 2 : 1) * kTileRows; ++i)
    for (int64_t j = 0; j < kTiledColumns; j += kTileRows) {
      float* const to = sums + i * stride + j;
      hn::StoreU(hn::Add(hn::LoadU(d, to), hn::Load(d, partial + i * kTiledColumns + j)), d, to);
    }
}

/// As multiply_tiles(), with forms as in products_of_terms(); with `adds`, it adds to `sums`. right_of(step) returns
/// the address of the right operand's tiles of a step, and is called before they are read. between(product) is called
/// after each product of two terms, products_of_terms() times a step.
template <TileForm kLeft, TileForm kRight, bool kBoth, class RightOf, class Between>
HWY_INLINE void multiply_terms(int64_t steps, const char* upper, const char* lower, RightOf right_of, float* sums,
                               int64_t stride, bool adds, Between between) {
  constexpr auto kTerms = static_cast<int64_t>(kLeft);
  for (int64_t begin = 0; begin < steps; begin += kSumTileSteps) {
    asm volatile("tilezero %%tmm0\n\ttilezero %%tmm1\n\ttilezero %%tmm2\n\ttilezero %%tmm3" ::: "memory");
    const int64_t end = steps - begin > kSumTileSteps ? begin + kSumTileSteps : steps;
    for (int64_t i = begin; i < end; ++i) {
      const char* const right = right_of(i);
      const auto left = [&](int64_t term) HWY_ATTR __attribute__((always_inline)) {
        load_left(upper + term * kTileBytes, kBoth ? lower + term * kTileBytes : nullptr);
      };
      const auto multiply = [&](int64_t product) HWY_ATTR __attribute__((always_inline)) {
        add_products<kBoth>(), between(product);
      };
      // High, middle and low terms are 0, 1 and 2. Each product shares an operand with the one before it.
      static_assert(kRight == TileForm::three || kLeft == TileForm::one);
      if constexpr (kRight == TileForm::one) {
        left(0);
      } else if constexpr (kRight == TileForm::two) {
        left(0), load_right(right + 2 * kTileBytes), multiply(0);
      } else if constexpr (kLeft == TileForm::three) {
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
      if constexpr (kLeft != TileForm::two) load_right(right), multiply(products_of_terms(kLeft, kRight) - 1);
      upper += kTerms * kTileBytes;
      if constexpr (kBoth) lower += kTerms * kTileBytes;
    }
    if (adds || begin > 0) add_stored_products<kBoth>(sums, stride);
    else store_products<kBoth>(sums, stride * 4);
  }
}

/// As multiply_tiles_at(), for one or two left tiles; between() is called after each product.
template <TileValues kValues, bool kBoth, class Between>
HWY_INLINE void multiply_tiles_beside(const TilesAt& t, void* sums, Between between) {
  constexpr bool kIsBf16 = kValues == TileValues::bf16;
  const int64_t right_bytes = t.k_bytes * kTileRows, row_bytes = 64;
  // Sums of i32 are exact in any parts.
  const int64_t at_once = kIsBf16 ? kSumTileSteps : t.steps;
  const char *right = t.right, *prefetch = t.prefetch;
#define RLX_LOAD_AT(tile, at, stride) asm volatile("tileloadd (%0,%1,1), %%tmm" tile ::"r"(at), "r"(stride) : "memory")
#define RLX_ADD_AT(right, left, to)                                                                      \
  if constexpr (kIsBf16) asm volatile("tdpbf16ps %%tmm" right ", %%tmm" left ", %%tmm" to ::: "memory"); \
  else if constexpr (kValues == TileValues::i8)                                                          \
    asm volatile("tdpbssd %%tmm" right ", %%tmm" left ", %%tmm" to ::: "memory");                        \
  else asm volatile("tdpbusd %%tmm" right ", %%tmm" left ", %%tmm" to ::: "memory");                     \
  between()
  for (int64_t begin = 0; begin < t.steps; begin += at_once) {
    asm volatile("tilezero %%tmm0\n\ttilezero %%tmm1\n\ttilezero %%tmm2\n\ttilezero %%tmm3" ::: "memory");
    const int64_t end = t.steps - begin > at_once ? begin + at_once : t.steps;
    for (int64_t i = begin; i < end; ++i, right += 2 * right_bytes) {
      RLX_LOAD_AT("4", t.upper + t.offsets[i], t.stride);
      RLX_LOAD_AT("6", right, row_bytes);
      RLX_ADD_AT("6", "4", "0");
      if constexpr (kBoth) {
        RLX_LOAD_AT("5", t.lower + t.offsets[i], t.stride);
        RLX_ADD_AT("6", "5", "2");
      }
      RLX_LOAD_AT("7", right + right_bytes, row_bytes);
      RLX_ADD_AT("7", "4", "1");
      if constexpr (kBoth) {
        RLX_ADD_AT("7", "5", "3");
      }
      for (int64_t at = 0; at < t.prefetch_bytes; at += 64, prefetch += 64) __builtin_prefetch(prefetch, 0, 2);
    }
    if (begin == 0) store_products<kBoth>(static_cast<float*>(sums), kTiledColumns * 4);
    else add_stored_products<kBoth>(static_cast<float*>(sums), kTiledColumns);
  }
#undef RLX_LOAD_AT
#undef RLX_ADD_AT
}

/// The same beside the rows of an epilogue, 16 for each of its tiles: epilogue(begin, end) is called for all of them in
/// turn, a few at a time.
template <TileValues kValues, class Epilogue>
HWY_INLINE void multiply_tiles_beside_rows(const TilesAt& t, void* sums, int64_t rows, Epilogue epilogue) {
  constexpr int64_t kTogether = 4;
  const int64_t products = t.steps * (t.lower ? 4 : 2), batches = rows / kTogether;
  int64_t done = 0, due = 0;
  const auto between = [&]() HWY_ATTR {
    for (due += batches; due >= products; due -= products, done += kTogether) epilogue(done, done + kTogether);
  };
  if (t.lower) multiply_tiles_beside<kValues, true>(t, sums, between);
  else multiply_tiles_beside<kValues, false>(t, sums, between);
  if (done < rows) epilogue(done, rows);
}

/// One of the tile products of multiply_row_block(): tile kTile of a step's columns, which is loaded to registers 5 to
/// 7 in turn.
template <int kTile>
HWY_INLINE void add_row_product(const char* right) {
  const int64_t stride = 64;
#define RLX_ROW_PRODUCT(sums, at)                                       \
  asm volatile("tileloadd (%0,%1,1), %%tmm" at "\n\ttdpbf16ps %%tmm" at \
               ", %%tmm4, %%tmm" sums ::"r"(right + kTile * 1024),      \
               "r"(stride)                                              \
               : "memory")
  if constexpr (kTile == 0) RLX_ROW_PRODUCT("0", "5");
  else if constexpr (kTile == 1) RLX_ROW_PRODUCT("1", "6");
  else if constexpr (kTile == 2) RLX_ROW_PRODUCT("2", "7");
  else RLX_ROW_PRODUCT("3", "5");
#undef RLX_ROW_PRODUCT
}

/// Products of 16 rows of bf16, `stride` bytes apart, with three or four tiles of columns of one term: those of a step
/// along k lie one behind the other at `right`, then those of the next. sums[tile][row][column] is dense.
/// between(step, tile), the tile as an integral_constant, is called after each product.
template <int kTiles, class Between>
HWY_INLINE void multiply_row_block(int64_t steps, const char* rows, int64_t stride, const char* right, float* sums,
                                   Between between) {
  static_assert(kTiles == 3 || kTiles == 4);
  constexpr int64_t kFloats = kTileRows * kTileRows;
  for (int64_t begin = 0; begin < steps; begin += kSumTileSteps) {
    asm volatile("tilezero %%tmm0\n\ttilezero %%tmm1\n\ttilezero %%tmm2\n\ttilezero %%tmm3" ::: "memory");
    const int64_t end = steps - begin > kSumTileSteps ? begin + kSumTileSteps : steps;
    for (int64_t i = begin; i < end; ++i, rows += 64, right += kTiles * kTileBytes) {
      asm volatile("tileloadd (%0,%1,1), %%tmm4" ::"r"(rows), "r"(stride) : "memory");
      const auto multiply = [&](auto tile) HWY_ATTR __attribute__((always_inline)) {
        add_row_product<tile.value>(right), between(i, tile);
      };
      multiply(std::integral_constant<int, 0>()), multiply(std::integral_constant<int, 1>());
      multiply(std::integral_constant<int, 2>());
      if constexpr (kTiles == 4) multiply(std::integral_constant<int, 3>());
    }
    HWY_ALIGN float partial[kTiles * kFloats];
    float* const to = begin == 0 ? sums : partial;
    const int64_t row_bytes = 64;
    asm volatile(
        "tilestored %%tmm0, (%0,%1,1)\n\ttilestored %%tmm1, 1024(%0,%1,1)\n\ttilestored %%tmm2, 2048(%0,%1,1)" ::"r"(
            to),
        "r"(row_bytes)
        : "memory");
    if constexpr (kTiles == 4) asm volatile("tilestored %%tmm3, 3072(%0,%1,1)" ::"r"(to), "r"(row_bytes) : "memory");
    const hn::ScalableTag<float> d;
    for (int64_t j = 0; begin > 0 && j < kTiles * kFloats; j += kTileRows)
      hn::Store(hn::Add(hn::Load(d, sums + j), hn::Load(d, partial + j)), d, sums + j);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace rlx::kernels
HWY_AFTER_NAMESPACE();
#endif

#endif  // RLX_KERNELS_GEMM_AMX_INTERLEAVED_INL_H_
