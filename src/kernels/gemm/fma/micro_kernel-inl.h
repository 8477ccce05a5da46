// The micro-kernels: a tile of up to kTileRows rows by up to 3 vectors of columns is accumulated in registers over all
// of k. Elements of the left operand are broadcast, rows of the right one are loaded as vectors. Compiled per target.
//
// 8 x 3 vectors keep 24 of 32 registers busy and read 11 operands for 24 multiply-adds. On a Zen 4 this runs at 99 %
// of the peak with the left operand unpacked (k = 128 .. 4096), as do 14 x 2 and 6 x 4; but 14 rows that are a power of
// two apart fall into the same cache sets (-20 %), 8 do not. So the left operand is packed only if it needs conversion
// or its elements along k are not adjacent (van Zee and van de Geijn, BLIS, ACM TOMS 41 (2015), always pack it).
#if defined(RLX_KERNELS_GEMM_FMA_MICRO_KERNEL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RLX_KERNELS_GEMM_FMA_MICRO_KERNEL_INL_H_
#undef RLX_KERNELS_GEMM_FMA_MICRO_KERNEL_INL_H_
#else
#define RLX_KERNELS_GEMM_FMA_MICRO_KERNEL_INL_H_
#endif

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "hwy/highway.h"
#include "kernels/gemm/fma/micro_kernels.h"
#include "kernels/partial_sums.h"
#include "kernels/vector/arm_instructions.h"
#include "kernels/vector/narrow_float-inl.h"

// Whether vdpbf16ps, or bfdot, is compiled in; has_bf16_dots() says at run time whether the processor has it.
#undef RLX_KERNELS_BF16_DOTS
#define RLX_KERNELS_BF16_DOTS (HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON)

HWY_BEFORE_NAMESPACE();
namespace rlx::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// x86 before AVX-512 has 16 vector registers: 12 accumulators, 3 for the right operand, 1 for the left.
#undef RLX_KERNELS_TILE_ROWS
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_SSE4 || HWY_TARGET == HWY_SSSE3
#define RLX_KERNELS_TILE_ROWS 4
#else
#define RLX_KERNELS_TILE_ROWS 8
#endif
inline constexpr int kTileRows = RLX_KERNELS_TILE_ROWS;
inline constexpr int kTileVectors = PanelLayout::kVectors;

struct Tile {
  int64_t k;
  const void* lhs;
  int64_t lhs_row, lhs_k;  // strides
  const void* rhs;         // a panel's columns are adjacent
  int64_t rhs_k;
  int64_t rhs_panel;  // stride between panels, for tiles that span several
  void* out;
  int64_t out_row;
  /// Memory that a later tile reads: each step along k prefetches the next `prefetch_cache_lines` cache lines of it.
  const char* prefetch = nullptr;
  int prefetch_cache_lines = 0;
};
constexpr int64_t kCacheLine = 64;
/// How many rows of the right operand's panel are prefetched into the first-level cache before they are multiplied. A
/// panel streams through that cache for each tile of rows. With tiles of 4 rows, which leave less time between the
/// loads, 24 rows are worth 2 to 3 % (AVX2: products of 1024 and 2048, MiniLM 1 x 128); with tiles of 8 rows nothing.
constexpr int64_t kPrefetchedRows = kTileRows == 4 ? 24 : 0;

// A sum over k is the sum of partial sums over kPartialSumTerms elements each. BLAS libraries do the same, for their
// caches: a single running sum had up to ten times their error at k = 4096. The division depends on k alone, so that a
// row's result does not depend on how many rows there are.

// Tags for bf16 packed in pairs of rows: BF16Pairs are widened to f32; BF16Dots are multiplied by pairs of a bf16 left
// operand with vdpbf16ps or bfdot.
struct BF16Pairs {};
struct BF16Dots {};

template <class D>
HWY_INLINE hn::Vec<D> load_rhs(D d, const double* from) {
  return hn::LoadU(d, from);
}
template <class D, class T>
HWY_INLINE hn::Vec<D> load_rhs(D d, const T* from) {
  return load_f32(d, from);
}

// The j-th vector of a row of the right operand, which spans one panel or several; `panel` is the stride between them.
template <class Element>
HWY_INLINE const Element* vector_at(const Element* row, int j, size_t lanes, int64_t panel) {
  return row + (j / kTileVectors) * panel + static_cast<size_t>(j % kTileVectors) * lanes;
}

template <int kRows, int kVectors, class T>
struct Accumulators {
  using D = hn::ScalableTag<T>;
  using V = hn::Vec<D>;
  V sum[kRows][kVectors];

  HWY_INLINE Accumulators() {
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 24
      for (int j = 0; j < kVectors; ++j) sum[i][j] = hn::Zero(D());
  }
  HWY_INLINE void add(const T* lhs, int64_t lhs_row, const V (&right)[kVectors]) {
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i) {
      const V left = hn::Set(D(), lhs[i * lhs_row]);
#pragma GCC unroll 24
      for (int j = 0; j < kVectors; ++j) sum[i][j] = hn::MulAdd(left, right[j], sum[i][j]);
    }
  }
  /// Stores the sums; with `adds`, adds them to the partial sums that are stored there.
  HWY_INLINE void store(T* out, int64_t out_row, bool adds) {
    if (HWY_UNLIKELY(adds)) {
#pragma GCC unroll 8
      for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 24
        for (int j = 0; j < kVectors; ++j)
          sum[i][j] = hn::Add(hn::LoadU(D(), out + i * out_row + j * hn::Lanes(D())), sum[i][j]);
    }
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 24
      for (int j = 0; j < kVectors; ++j) hn::StoreU(sum[i][j], D(), out + i * out_row + j * hn::Lanes(D()));
  }
};

template <int kRows, int kVectors, class T, class Rhs>
void compute_tile(const Tile& tile) {
  const hn::ScalableTag<T> d;
  const T* lhs = static_cast<const T*>(tile.lhs);
  const Rhs* rhs = static_cast<const Rhs*>(tile.rhs);
  const int64_t lhs_row = tile.lhs_row, lhs_k = tile.lhs_k, rhs_k = tile.rhs_k, panel = tile.rhs_panel;
  const char* prefetch = tile.prefetch;
  const int prefetch_cache_lines = tile.prefetch_cache_lines;
  int64_t done = 0;
  do {
    Accumulators<kRows, kVectors, T> sums;
    for (int64_t k = std::min(tile.k - done, kPartialSumTerms); k > 0; --k) {
      if constexpr (kRows >
                    kTileRows / 2)  // smaller tiles are of products of few rows, which read several panels at once
        for (int i = 0; i < prefetch_cache_lines; ++i, prefetch += kCacheLine) __builtin_prefetch(prefetch, 0, 2);
      if constexpr (kPrefetchedRows > 0 && kRows > kTileRows / 2 && kVectors == kTileVectors)
        for (size_t i = 0; i < kVectors * hn::Lanes(d) * sizeof(Rhs); i += kCacheLine)
          __builtin_prefetch(reinterpret_cast<const char*>(rhs + kPrefetchedRows * rhs_k) + i);
      hn::Vec<decltype(d)> right[kVectors];
#pragma GCC unroll 24
      for (int j = 0; j < kVectors; ++j) right[j] = load_rhs(d, vector_at(rhs, j, hn::Lanes(d), panel));
      sums.add(lhs, lhs_row, right);
      lhs += lhs_k;
      rhs += rhs_k;
    }
    sums.store(static_cast<T*>(tile.out), tile.out_row, done > 0);
    done += kPartialSumTerms;
  } while (done < tile.k);
}

// As compute_tile for BF16Pairs. A bf16 is the upper half of an f32: the even row's elements are shifted up, the odd
// row's are masked.
template <int kRows, int kVectors>
void compute_tile_of_pairs(const Tile& tile) {
  const F32Tag d;
  const hn::RebindToUnsigned<F32Tag> du;
  const float* lhs = static_cast<const float*>(tile.lhs);
  const uint32_t* rhs = static_cast<const uint32_t*>(tile.rhs);
  const int64_t lhs_row = tile.lhs_row, lhs_k = tile.lhs_k, panel = tile.rhs_panel;
  int64_t done = 0;
  do {
    Accumulators<kRows, kVectors, float> sums;
    for (int64_t k = std::min(tile.k - done, kPartialSumTerms); k > 0; k -= 2) {
      F32Vec even[kVectors], odd[kVectors];
#pragma GCC unroll 24
      for (int j = 0; j < kVectors; ++j) {
        const auto pair = hn::LoadU(du, vector_at(rhs, j, hn::Lanes(d), panel));
        even[j] = hn::BitCast(d, hn::ShiftLeft<16>(pair));
        odd[j] = hn::BitCast(d, hn::And(pair, hn::Set(du, 0xffff0000u)));
      }
      sums.add(lhs, lhs_row, even);
      if (k > 1) sums.add(lhs + lhs_k, lhs_row, odd);
      lhs += 2 * lhs_k;
      rhs += std::min(kVectors, kTileVectors) * hn::Lanes(d);
    }
    sums.store(static_cast<float*>(tile.out), tile.out_row, done > 0);
    done += kPartialSumTerms;
  } while (done < tile.k);
}

#if RLX_KERNELS_BF16_DOTS
// Adds to each lane of `sum` the two products of a pair of bf16, in f32 (subnormals count as zero: see
// bf16_dots_suffice), at twice the rate of f32. Assembly, because the intrinsic needs a target attribute that clang
// does not combine with Highway's. For Arm: arm_instructions.h.
#if HWY_TARGET == HWY_AVX3
HWY_INLINE void add_bf16_dots(__m512& sum, __m512i left, __m512i right) {
  asm("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(right), "v"(left));
}
#endif

// As compute_tile for BF16Dots. The left operand is bf16 with its elements adjacent along k.
template <int kRows, int kVectors>
void compute_tile_of_dots(const Tile& tile) {
  const F32Tag d;
  const hn::RebindToUnsigned<F32Tag> du;
  const char* lhs = static_cast<const char*>(tile.lhs);
  const uint32_t* rhs = static_cast<const uint32_t*>(tile.rhs);
  const int64_t lhs_row = tile.lhs_row * 2, panel = tile.rhs_panel;
  int64_t done = 0;
  do {
    Accumulators<kRows, kVectors, float> sums;
    for (int64_t k = std::min(tile.k - done, kPartialSumTerms); k > 0; k -= 2) {
      hn::Vec<decltype(du)> right[kVectors];
#pragma GCC unroll 24
      for (int j = 0; j < kVectors; ++j) right[j] = hn::LoadU(du, vector_at(rhs, j, hn::Lanes(d), panel));
#pragma GCC unroll 8
      for (int i = 0; i < kRows; ++i) {
        uint32_t pair = 0;
        if (HWY_LIKELY(k > 1)) std::memcpy(&pair, lhs + i * lhs_row, 4);
        else std::memcpy(&pair, lhs + i * lhs_row, 2);  // nothing is read behind an odd last element
        const auto left = hn::Set(du, pair);
#pragma GCC unroll 24
        for (int j = 0; j < kVectors; ++j) add_bf16_dots(sums.sum[i][j].raw, left.raw, right[j].raw);
      }
      lhs += 4;
      rhs += std::min(kVectors, kTileVectors) * hn::Lanes(d);
    }
    sums.store(static_cast<float*>(tile.out), tile.out_row, done > 0);
    done += kPartialSumTerms;
  } while (done < tile.k);
}
#endif

using TileFunction = void (*)(const Tile&);

template <int kRows, int kVectors, class T, class Rhs>
constexpr TileFunction tile_function() {
#if RLX_KERNELS_BF16_DOTS
  if constexpr (std::is_same_v<Rhs, BF16Dots>) return compute_tile_of_dots<kRows, kVectors>;
  else
#endif
      if constexpr (std::is_same_v<Rhs, BF16Pairs>)
    return compute_tile_of_pairs<kRows, kVectors>;
  else return compute_tile<kRows, kVectors, T, Rhs>;
}

// The micro-kernel for so many rows and vectors of one panel.
template <class T, class Rhs>
TileFunction tile_function(int64_t rows, int64_t vectors) {
  static constexpr TileFunction kFunctions[kTileRows][kTileVectors] = {
#define RLX_TILE(rows) \
  {tile_function<rows, 1, T, Rhs>(), tile_function<rows, 2, T, Rhs>(), tile_function<rows, 3, T, Rhs>()}
    RLX_TILE(1),
    RLX_TILE(2),
    RLX_TILE(3),
    RLX_TILE(4),
#if RLX_KERNELS_TILE_ROWS == 8
    RLX_TILE(5),
    RLX_TILE(6),
    RLX_TILE(7),
    RLX_TILE(8),
#endif
#undef RLX_TILE
  };
  return kFunctions[rows - 1][vectors - 1];
}

// The number of panels that a tile of few rows spans, with the accumulators that the rows leave free. A product of one
// row is limited by reading the weights, and several streams are read faster than one: 34 GB/s with 8 panels, 22 with
// one or two (f32, 4096 x 3840, Zen 4; prefetch instructions made it slower). Of a right operand that is not packed,
// longer runs of each row are read.
constexpr int64_t max_panels(int64_t rows) {
  return rows == 1 ? kTileRows : rows == 2 ? kTileRows / 2 : rows <= 4 ? kTileRows / 4 : 1;
}
template <class T, class Rhs>
TileFunction panels_function(int64_t rows, int64_t panels) {
  if (panels == 1) return tile_function<T, Rhs>(rows, kTileVectors);
#if RLX_KERNELS_TILE_ROWS == 8
  if (rows == 1 && panels == 8) return tile_function<1, 24, T, Rhs>();
  if (rows == 2 && panels == 4) return tile_function<2, 12, T, Rhs>();
  if (rows == 3) return tile_function<3, 6, T, Rhs>();
  if (rows == 4) return tile_function<4, 6, T, Rhs>();
#endif
  if (rows == 2) return tile_function<2, 6, T, Rhs>();
  return panels == 4 ? tile_function<1, 12, T, Rhs>() : tile_function<1, 6, T, Rhs>();
}

}  // namespace HWY_NAMESPACE
}  // namespace rlx::kernels
HWY_AFTER_NAMESPACE();

#endif  // RLX_KERNELS_GEMM_FMA_MICRO_KERNEL_INL_H_
