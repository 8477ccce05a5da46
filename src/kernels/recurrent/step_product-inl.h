// The product of a recurrence's step: a few rows, one for each sequence, times a matrix that is the same in all steps.
// The matrix is packed into panels of a few vectors of columns, row after row; all sequences use a piece of a panel
// while it is in the L1 cache. Included once per target by a file that uses foreach_target.
#if defined(RLX_KERNELS_RECURRENT_STEP_PRODUCT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RLX_KERNELS_RECURRENT_STEP_PRODUCT_INL_H_
#undef RLX_KERNELS_RECURRENT_STEP_PRODUCT_INL_H_
#else
#define RLX_KERNELS_RECURRENT_STEP_PRODUCT_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>

#include "base/rounded_up.h"
#include "kernels/partial_sums.h"

HWY_BEFORE_NAMESPACE();
namespace rlx::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Vectors have at most 16 lanes here and panels 4 vectors, so packed columns are padded to a multiple of 64.
template <class T>
using StepTag = hn::CappedTag<T, 16>;
inline constexpr size_t kPanelVectors = 4;
template <class T>
HWY_INLINE int64_t panel_width() {
  return static_cast<int64_t>(kPanelVectors * hn::Lanes(StepTag<T>()));
}
// Rows of a tile, which share a load of the matrix: as many as there are registers for sums.
inline constexpr int kStepRows = HWY_MAX_BYTES >= 64 ? 6 : 3;

/// to[row, panel] = from[row, panel] + x[row, 0 .. depth) * panel for `Rows` rows; a null `from` stands for zeros. The
/// product is summed up before it is added to `from`, so that a sum over several pieces consists of partial sums
/// (partial_sums.h).
template <int Rows, class T>
HWY_INLINE void multiply_tile(const T* panel, int64_t depth, const T* x, int64_t x_stride, const T* from,
                              int64_t from_stride, T* to, int64_t to_stride) {
  const StepTag<T> d;
  const size_t lanes = hn::Lanes(d);
  using V = hn::Vec<StepTag<T>>;
  // One row has too few sums to hide the latency of an addition: it sums even and odd k separately.
  constexpr int kPartialSums = Rows == 1 ? 2 : 1;
  V sum[Rows * kPartialSums][kPanelVectors];
  RLX_UNROLL
  for (int r = 0; r < Rows; ++r) RLX_UNROLL
  for (size_t v = 0; v < kPanelVectors; ++v) {
    sum[r][v] = hn::Zero(d);
    if (kPartialSums == 2) sum[kPartialSums - 1][v] = hn::Zero(d);
  }
  int64_t k = 0;
  if constexpr (kPartialSums == 2) {
    for (; k + 2 <= depth; k += 2) {
      const V first = hn::Set(d, x[k]), second = hn::Set(d, x[k + 1]);
      RLX_UNROLL
      for (size_t v = 0; v < kPanelVectors; ++v) {
        sum[0][v] = hn::MulAdd(first, hn::Load(d, panel + v * lanes), sum[0][v]);
        sum[1][v] = hn::MulAdd(second, hn::Load(d, panel + (kPanelVectors + v) * lanes), sum[1][v]);
      }
      panel += 2 * kPanelVectors * lanes;
    }
  }
  for (; k < depth; ++k) {
    V w[kPanelVectors];
    RLX_UNROLL
    for (size_t v = 0; v < kPanelVectors; ++v) w[v] = hn::Load(d, panel + v * lanes);
    RLX_UNROLL
    for (int r = 0; r < Rows; ++r) {
      const V scale = hn::Set(d, x[r * x_stride + k]);
      RLX_UNROLL
      for (size_t v = 0; v < kPanelVectors; ++v) sum[r][v] = hn::MulAdd(scale, w[v], sum[r][v]);
    }
    panel += kPanelVectors * lanes;
  }
  RLX_UNROLL
  for (int r = 0; r < Rows; ++r) RLX_UNROLL
  for (size_t v = 0; v < kPanelVectors; ++v) {
    V total = sum[r][v];
    if (kPartialSums == 2) total = hn::Add(total, sum[kPartialSums - 1][v]);
    if (from) total = hn::Add(hn::LoadU(d, from + r * from_stride + v * lanes), total);
    hn::StoreU(total, d, to + r * to_stride + v * lanes);
  }
}

/// to[rows, columns] = from[rows, columns] + x[rows, depth] * the packed matrix. `from` may be `to`, or null for zeros.
template <class T>
void multiply_step(const T* packed, int64_t depth, int64_t columns, const T* x, int64_t x_stride, const T* from,
                   int64_t from_stride, T* to, int64_t to_stride, int64_t rows) {
  const int64_t width = panel_width<T>();
  // The depth of a piece of a panel is such that the piece fits the L1 cache beside the rows of x. All pieces are
  // nearly equal.
  constexpr int64_t kPieceBytes = 32 << 10;
  const int64_t max_depth = std::min(kPartialSumTerms, kPieceBytes / (width * static_cast<int64_t>(sizeof(T))));
  const int64_t pieces = std::max<int64_t>(1, divided_up(depth, max_depth)), piece = divided_up(depth, pieces);
  for (int64_t panel = 0; panel < columns; panel += width, packed += depth * width)
    for (int64_t k = 0; k < depth || k == 0; k += std::max<int64_t>(piece, 1)) {
      const T* first = k == 0 ? from : to;
      const int64_t first_stride = k == 0 ? from_stride : to_stride;
      int64_t r = 0;
      auto tile = [&]<int kRows>() {
        multiply_tile<kRows>(packed + k * width, std::min(piece, depth - k), x + r * x_stride + k, x_stride,
                             first ? first + r * first_stride + panel : nullptr, first_stride,
                             to + r * to_stride + panel, to_stride);
        r += kRows;
      };
      // Tiles of nearly equal height: otherwise the last tile of 16 rows would be a single row, which waits for its
      // sums.
      while (r < rows) {
        const int64_t remaining = rows - r;
        switch (divided_up(remaining, divided_up(remaining, int64_t{kStepRows}))) {
          case 1: tile.template operator()<1>(); break;
          case 2: tile.template operator()<2>(); break;
          case 3: tile.template operator()<3>(); break;
#if HWY_MAX_BYTES >= 64
          case 4: tile.template operator()<4>(); break;
          case 5: tile.template operator()<5>(); break;
          default: tile.template operator()<6>(); break;
#endif
        }
      }
    }
}

}  // namespace rlx::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
