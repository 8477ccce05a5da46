// Running sums along rows of f32, in f64, a vector at a time. A prefix sum within a vector takes log2(lanes) shifted
// additions; from vector to vector there is one dependent addition. Neighbour: cumulate.cpp, for everything else.
#include "kernels/reduce/cumulate.h"
#include "kernels/vector/highway_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/reduce/cumulate_sums.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace rlx::kernels {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

using F64Tag = hn::ScalableTag<double>;
using F64Vec = hn::Vec<F64Tag>;

/// v shifted up by kLanes lanes, zeros in the lowest ones. `indices` are those of the shift.
template <int kLanes, class Indices>
HWY_INLINE F64Vec shifted_up(F64Tag d, F64Vec v, Indices indices) {
  return hn::IfThenZeroElse(hn::FirstN(d, kLanes), hn::TableLookupLanes(v, indices));
}

void sums_of_row(const float* x, float* y, int64_t extent) {
  const F64Tag d;
  const hn::Rebind<float, F64Tag> half;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  // Lane indices: of shifts by 1, 2 and 4 lanes, and of the last lane for all lanes.
  HWY_ALIGN int64_t from[4][hn::MaxLanes(F64Tag())];
  for (int64_t i = 0; i < lanes; ++i) {
    for (int64_t step = 0; step < 3; ++step) {
      const int64_t source = i - (int64_t{1} << step);
      from[step][i] = source < 0 ? 0 : source;
    }
    from[3][i] = lanes - 1;
  }
  const auto by_1 = hn::SetTableIndices(d, from[0]), by_2 = hn::SetTableIndices(d, from[1]),
             by_4 = hn::SetTableIndices(d, from[2]), last = hn::SetTableIndices(d, from[3]);
  F64Vec before = hn::Zero(d);
  int64_t i = 0;
  for (; i + lanes <= extent; i += lanes) {
    F64Vec v = hn::PromoteTo(d, hn::LoadU(half, x + i));
    if constexpr (hn::MaxLanes(F64Tag()) > 1) v = hn::Add(v, shifted_up<1>(d, v, by_1));
    if constexpr (hn::MaxLanes(F64Tag()) > 2) v = hn::Add(v, shifted_up<2>(d, v, by_2));
    if constexpr (hn::MaxLanes(F64Tag()) > 4) v = hn::Add(v, shifted_up<4>(d, v, by_4));
    hn::StoreU(hn::DemoteTo(half, hn::Add(before, v)), half, y + i);
    before = hn::Add(before, hn::TableLookupLanes(v, last));
  }
  double sum = hn::GetLane(before);
  for (; i < extent; ++i) y[i] = static_cast<float>(sum += static_cast<double>(x[i]));
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace rlx::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rlx::kernels {
namespace {
HWY_EXPORT(sums_of_row);
}  // namespace

void cumulate_row_sums(const float* x, float* y, int64_t rows, int64_t extent) noexcept {
  for (int64_t r = 0; r < rows; ++r) HWY_DYNAMIC_DISPATCH(sums_of_row)(x + r * extent, y + r * extent, extent);
}

}  // namespace rlx::kernels
#endif  // HWY_ONCE
