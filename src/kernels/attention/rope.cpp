// See the header.
#include "kernels/attention/rope.h"

#include <cstring>
#include <type_traits>

#include "kernels/vector/highway_targets.h"
#include "kernels/vector/narrow_float.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention/rope.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/vector/narrow_float-inl.h"

HWY_BEFORE_NAMESPACE();
namespace rlx::kernels {
namespace HWY_NAMESPACE {
namespace {

struct Rotated {
  F32Vec left, right;
};
/// Rounds each product, as the ops of rope's decomposition do; other libraries give the same numbers.
HWY_INLINE Rotated rotated(F32Vec left, F32Vec right, F32Vec cosine, F32Vec sine) {
  return {hn::Sub(hn::Mul(left, cosine), hn::Mul(right, sine)), hn::Add(hn::Mul(right, cosine), hn::Mul(left, sine))};
}

/// The pairs of one head; U is the element of the tables.
template <class T, class U>
HWY_INLINE void rotate_halves(const T* x, T* y, size_t pairs, const U* cosines, const U* sines) {
  const F32Tag d;
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + lanes <= pairs; i += lanes) {
    const Rotated t =
        rotated(load_f32(d, x + i), load_f32(d, x + pairs + i), load_f32(d, cosines + i), load_f32(d, sines + i));
    store_f32(t.left, d, y + i), store_f32(t.right, d, y + pairs + i);
  }
  if (const size_t rest = pairs - i; rest > 0) {
    const Rotated t = rotated(load_f32_some(d, x + i, rest), load_f32_some(d, x + pairs + i, rest),
                              load_f32_some(d, cosines + i, rest), load_f32_some(d, sines + i, rest));
    store_f32_some(t.left, d, y + i, rest), store_f32_some(t.right, d, y + pairs + i, rest);
  }
}
template <class T, class U>
HWY_INLINE void rotate_neighbours(const T* x, T* y, size_t pairs, const U* cosines, const U* sines) {
  const F32Tag d;
  const size_t lanes = hn::Lanes(d);
  HWY_ALIGN float memory[2 * HWY_MAX_BYTES / sizeof(float)];  // pairs of 16-bit numbers are deinterleaved as f32
  size_t i = 0;
  for (; i + lanes <= pairs; i += lanes) {
    const float* from = nullptr;
    float* to = memory;
    if constexpr (std::is_same_v<T, float>) {
      from = x + 2 * i, to = y + 2 * i;
    } else {
      hn::Store(load_f32(d, x + 2 * i), d, memory), hn::Store(load_f32(d, x + 2 * i + lanes), d, memory + lanes);
      from = memory;
    }
    F32Vec left, right;
    hn::LoadInterleaved2(d, from, left, right);
    const Rotated t = rotated(left, right, load_f32(d, cosines + i), load_f32(d, sines + i));
    hn::StoreInterleaved2(t.left, t.right, d, to);
    if constexpr (!std::is_same_v<T, float>)
      store_f32(hn::Load(d, memory), d, y + 2 * i), store_f32(hn::Load(d, memory + lanes), d, y + 2 * i + lanes);
  }
  for (; i < pairs; ++i) {
    const float left = to_f32(x[2 * i]), right = to_f32(x[2 * i + 1]);
    const float cosine = to_f32(cosines[i]), sine = to_f32(sines[i]);
    y[2 * i] = from_f32<T>(left * cosine - right * sine);
    y[2 * i + 1] = from_f32<T>(right * cosine + left * sine);
  }
}

template <class T, class U>
void rotate_typed(const RopeArgs& a, int64_t begin, int64_t end) {
  const int64_t outer = a.heads_first ? a.heads : a.positions, inner = a.heads_first ? a.positions : a.heads;
  const auto pairs = static_cast<size_t>(a.pairs);
  int64_t batch = begin / (outer * inner), first = begin / inner % outer, second = begin % inner;
  for (int64_t row = begin; row < end; ++row) {
    const T* const x = static_cast<const T*>(a.x) + row * a.width;
    T* const y = static_cast<T*>(a.y) + row * a.width;
    const int64_t at = batch * a.table_batch_stride + (a.heads_first ? second : first) * a.table_stride;
    const U *const cosines = static_cast<const U*>(a.cosines) + at, *const sines = static_cast<const U*>(a.sines) + at;
    if (a.side_by_side) rotate_neighbours(x, y, pairs, cosines, sines);
    else rotate_halves(x, y, pairs, cosines, sines);
    if (const int64_t rest = a.width - 2 * a.pairs; rest > 0 && x != y)
      std::memcpy(y + 2 * a.pairs, x + 2 * a.pairs, static_cast<size_t>(rest) * sizeof(T));
    if (++second < inner) continue;
    second = 0;
    if (++first == outer) first = 0, ++batch;
  }
}

void rotate_rows(const RopeArgs& a, int64_t begin, int64_t end) {
  const auto rotate_as = [&]<class T>(T) {
    if (a.table_dtype == f32) rotate_typed<T, float>(a, begin, end);
    else rotate_typed<T, T>(a, begin, end);
  };
  if (a.dtype == f16) rotate_as(F16());
  else if (a.dtype == bf16) rotate_as(BF16());
  else rotate_as(float());
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace rlx::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rlx::kernels {

HWY_EXPORT(rotate_rows);

void rotate_rows(const RopeArgs& args, int64_t begin, int64_t end) noexcept {
  if (begin < end) HWY_DYNAMIC_DISPATCH(rotate_rows)(args, begin, end);
}

}  // namespace rlx::kernels
#endif  // HWY_ONCE
