// What the kernels over rows share: the maximum of a row, a sum and a map over its elements in f32, and the conversion
// of rows of f16 and bf16 to f32 scratch. Included once per target by a file that uses foreach_target.
#if defined(RLX_KERNELS_NORM_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RLX_KERNELS_NORM_ROWS_INL_H_
#undef RLX_KERNELS_NORM_ROWS_INL_H_
#else
#define RLX_KERNELS_NORM_ROWS_INL_H_
#endif

#include <cstddef>
#include <cstdint>
#include <limits>

#include "hwy/highway.h"
#include "kernels/partial_sums.h"
#include "kernels/vector/narrow_float-inl.h"

HWY_BEFORE_NAMESPACE();
namespace rlx::kernels {
namespace HWY_NAMESPACE {

template <class T>
HWY_INLINE const T* row_of(const void* base, int64_t stride, int64_t row) {
  return static_cast<const T*>(base) + stride * row;
}
template <class T>
HWY_INLINE T* row_of(void* base, int64_t stride, int64_t row) {
  return static_cast<T*>(base) + stride * row;
}

/// The largest element, or -infinity if there is none. It may skip a NaN (on x86, max returns its second operand if one
/// is NaN), so callers check the row for NaN where their sums do not show it.
inline float row_max(const float* x, size_t n) {
  const F32Tag d;
  const size_t lanes = hn::Lanes(d);
  F32Vec m0 = hn::Set(d, -std::numeric_limits<float>::infinity()), m1 = m0, m2 = m0, m3 = m0;
  size_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    m0 = hn::Max(m0, hn::LoadU(d, x + i));
    m1 = hn::Max(m1, hn::LoadU(d, x + i + lanes));
    m2 = hn::Max(m2, hn::LoadU(d, x + i + 2 * lanes));
    m3 = hn::Max(m3, hn::LoadU(d, x + i + 3 * lanes));
  }
  for (; i + lanes <= n; i += lanes) m0 = hn::Max(m0, hn::LoadU(d, x + i));
  if (i < n) m1 = hn::Max(m1, load_f32_some(d, x + i, n - i, -std::numeric_limits<float>::infinity()));
  return hn::GetLane(hn::MaxOfLanes(d, hn::Max(hn::Max(m0, m1), hn::Max(m2, m3))));
}

/// The sum of f(x[i], i) over the row, where `f` maps a vector and its position. The last vector is padded with `rest`,
/// for which `f` must give 0. Long rows are summed in blocks, whose sums are added in double (see partial_sums.h).
template <class F>
HWY_INLINE float row_sum(const float* x, size_t n, float rest, F f) {
  const F32Tag d;
  const size_t lanes = hn::Lanes(d), block = static_cast<size_t>(kPartialSumTerms) * 4 * lanes;
  double total = 0;
  for (size_t i = 0;;) {
    const size_t stop = n - i > block ? i + block : n;
    F32Vec s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
    for (; i + 4 * lanes <= stop; i += 4 * lanes) {
      s0 = hn::Add(s0, f(hn::LoadU(d, x + i), i));
      s1 = hn::Add(s1, f(hn::LoadU(d, x + i + lanes), i + lanes));
      s2 = hn::Add(s2, f(hn::LoadU(d, x + i + 2 * lanes), i + 2 * lanes));
      s3 = hn::Add(s3, f(hn::LoadU(d, x + i + 3 * lanes), i + 3 * lanes));
    }
    for (; i + lanes <= stop; i += lanes) s0 = hn::Add(s0, f(hn::LoadU(d, x + i), i));
    if (i < stop) s1 = hn::Add(s1, f(load_f32_some(d, x + i, stop - i, rest), i));
    total += static_cast<double>(hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(s0, s1), hn::Add(s2, s3)))));
    if (stop == n) return static_cast<float>(total);
    i = stop;
  }
}

/// y[i] = f(x[i], i, count) over the row, where `f` maps a vector, its position and the number of lanes in use.
template <class T, class F>
HWY_INLINE void row_map(const float* x, T* y, size_t n, F f) {
  const F32Tag d;
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) store_f32(f(hn::LoadU(d, x + i), i, lanes), d, y + i);
  if (i < n) store_f32_some(f(load_f32_some(d, x + i, n - i), i, n - i), d, y + i, n - i);
}

/// The row as f32: x itself, or converted into scratch.
HWY_INLINE const float* as_f32(const float* x, size_t, float*) { return x; }
template <class T>
HWY_INLINE const float* as_f32(const T* x, size_t n, float* scratch) {
  const F32Tag d;
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(load_f32(d, x + i), d, scratch + i);
  if (i < n) hn::StoreU(load_f32_some(d, x + i, n - i), d, scratch + i);
  return scratch;
}
/// Where a kernel writes a row as f32 before it is rounded: y itself if that is f32, else scratch.
HWY_INLINE float* f32_target(float* y, float*) { return y; }
template <class T>
HWY_INLINE float* f32_target(T*, float* scratch) {
  return scratch;
}

}  // namespace HWY_NAMESPACE
}  // namespace rlx::kernels
HWY_AFTER_NAMESPACE();

#endif  // RLX_KERNELS_NORM_ROWS_INL_H_
