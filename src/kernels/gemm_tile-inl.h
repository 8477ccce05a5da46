// The register tile: up to kTileRows rows by up to 3 vectors of columns, accumulated over all of k. Both operands are
// read where they are: elements of the left one are broadcast, rows of the right one are vectors. Compiled per target.
//
// 8 x 3 vectors keep 24 of 32 registers busy and read 11 operands for 24 multiply-adds. On a Zen 4 this runs at 99 %
// of the peak with the left operand unpacked (k = 128 .. 4096), as do 14 x 2 and 6 x 4; but 14 rows that are a power of
// two apart fall into the same cache sets (-20 %), 8 do not. So the left operand is packed only if it is not f32 or
// has its rows adjacent (van Zee and van de Geijn, BLIS, ACM TOMS 41 (2015), always pack it).
#if defined(RLX_KERNELS_GEMM_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RLX_KERNELS_GEMM_TILE_INL_H_
#undef RLX_KERNELS_GEMM_TILE_INL_H_
#else
#define RLX_KERNELS_GEMM_TILE_INL_H_
#endif

#include "hwy/highway.h"
#include "kernels/gemm_kernels.h"
#include "kernels/narrow_float-inl.h"

HWY_BEFORE_NAMESPACE();
namespace rlx::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// x86 before AVX-512 has 16 vector registers: 12 accumulators, 3 for the right operand, 1 for the left.
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_SSE4 || HWY_TARGET == HWY_SSSE3
inline constexpr int kTileRows = 4;
#else
inline constexpr int kTileRows = 8;
#endif
inline constexpr int kTileVectors = PanelLayout::kVectors;

template <class T>
struct Tile {
  int64_t k;
  const T* lhs;
  int64_t lhs_row, lhs_k;  // strides
  const void* rhs;         // its columns are adjacent
  int64_t rhs_k;
  T* out;
  int64_t out_row;
};

template <class D>
HWY_INLINE hn::Vec<D> load_rhs(D d, const double* from) { return hn::LoadU(d, from); }
template <class D, class T>
HWY_INLINE hn::Vec<D> load_rhs(D d, const T* from) { return load_f32(d, from); }

template <int kRows, int kVectors, class T, class Rhs>
void compute_tile(const Tile<T>& tile) {
  const hn::ScalableTag<T> d;
  using V = hn::Vec<decltype(d)>;
  const size_t lanes = hn::Lanes(d);
  V sum[kRows][kVectors];
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 3
    for (int j = 0; j < kVectors; ++j) sum[i][j] = hn::Zero(d);

  const T* lhs = tile.lhs;
  const Rhs* rhs = static_cast<const Rhs*>(tile.rhs);
  const int64_t lhs_row = tile.lhs_row, lhs_k = tile.lhs_k, rhs_k = tile.rhs_k;
  for (int64_t k = tile.k; k > 0; --k) {
    V right[kVectors];
#pragma GCC unroll 3
    for (int j = 0; j < kVectors; ++j) right[j] = load_rhs(d, rhs + j * lanes);
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i) {
      const V left = hn::Set(d, lhs[i * lhs_row]);
#pragma GCC unroll 3
      for (int j = 0; j < kVectors; ++j) sum[i][j] = hn::MulAdd(left, right[j], sum[i][j]);
    }
    lhs += lhs_k;
    rhs += rhs_k;
  }
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 3
    for (int j = 0; j < kVectors; ++j) hn::StoreU(sum[i][j], d, tile.out + i * tile.out_row + j * lanes);
}

template <class T>
using TileFunction = void (*)(const Tile<T>&);

template <int kVectors, class T, class Rhs>
TileFunction<T> tile_function(int rows) {
  static_assert(kTileRows == 4 || kTileRows == 8);
  switch (rows) {
    case 1: return compute_tile<1, kVectors, T, Rhs>;
    case 2: return compute_tile<2, kVectors, T, Rhs>;
    case 3: return compute_tile<3, kVectors, T, Rhs>;
    case 4: return compute_tile<4, kVectors, T, Rhs>;
#if !(HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_SSE4 || HWY_TARGET == HWY_SSSE3)
    case 5: return compute_tile<5, kVectors, T, Rhs>;
    case 6: return compute_tile<6, kVectors, T, Rhs>;
    case 7: return compute_tile<7, kVectors, T, Rhs>;
    case 8: return compute_tile<8, kVectors, T, Rhs>;
#endif
  }
  return nullptr;
}
template <class T, class Rhs>
TileFunction<T> tile_function(int rows, int64_t vectors) {
  return vectors == 3   ? tile_function<3, T, Rhs>(rows)
         : vectors == 2 ? tile_function<2, T, Rhs>(rows)
                        : tile_function<1, T, Rhs>(rows);
}

}  // namespace HWY_NAMESPACE
}  // namespace rlx::kernels
HWY_AFTER_NAMESPACE();

#endif  // RLX_KERNELS_GEMM_TILE_INL_H_
