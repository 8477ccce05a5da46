// See the header. A row of f32, f16 or bf16 is read twice: for its extreme, without the place, and for where that is;
// columns keep a vector of places. Everything else is one plain loop.
#include "kernels/extreme.h"

#include <algorithm>
#include <limits>

#include "kernels/highway_targets.h"
#include "kernels/narrow_float.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/extreme.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/narrow_float-inl.h"

HWY_BEFORE_NAMESPACE();
namespace rlx::kernels {
namespace HWY_NAMESPACE {
namespace {

using F32Mask = hn::Mask<F32Tag>;

template <bool kLargest>
HWY_INLINE F32Mask beats(F32Vec v, F32Vec best) {
  return kLargest ? hn::Gt(v, best) : hn::Lt(v, best);
}
template <bool kLargest>
bool beats(float v, float best) {
  return kLargest ? v > best : v < best;
}

/// From the first NaN on nothing is better.
template <bool kLargest, class T>
int64_t first_place(const T* x, int64_t n, int64_t stride) {
  int64_t best = 0;
  float most = to_f32(x[0]);
  for (int64_t i = 1; i < n && most == most; ++i) {
    const float v = to_f32(x[i * stride]);
    if (v != v || beats<kLargest>(v, most)) best = i, most = v;
  }
  return best;
}

template <bool kLargest, class T>
int64_t row_place(const T* x, int64_t n) {
  const F32Tag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const float worst = kLargest ? -std::numeric_limits<float>::infinity() : std::numeric_limits<float>::infinity();
  F32Vec m[4];
  RLX_UNROLL for (int k = 0; k < 4; ++k) m[k] = hn::Set(d, worst);
  F32Mask nan = hn::IsNaN(m[0]);
  const auto take = [&](F32Vec& best, F32Vec v) HWY_ATTR {
    best = hn::IfThenElse(beats<kLargest>(v, best), v, best);
    nan = hn::Or(nan, hn::IsNaN(v));
  };
  int64_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes)
    RLX_UNROLL for (int k = 0; k < 4; ++k) take(m[k], load_f32(d, x + i + k * lanes));
  for (; i + lanes <= n; i += lanes) take(m[0], load_f32(d, x + i));
  if (i < n) take(m[1], load_f32_some(d, x + i, static_cast<size_t>(n - i), worst));
  if (!hn::AllFalse(d, nan)) {
    int64_t at = 0;
    while (to_f32(x[at]) == to_f32(x[at])) ++at;
    return at;
  }
  take(m[0], m[1]), take(m[2], m[3]), take(m[0], m[2]);
  const F32Vec extreme = kLargest ? hn::MaxOfLanes(d, m[0]) : hn::MinOfLanes(d, m[0]);
  for (i = 0; i + lanes <= n; i += lanes)
    if (const int64_t at = hn::FindFirstTrue(d, hn::Eq(load_f32(d, x + i), extreme)); at >= 0) return i + at;
  const float value = hn::GetLane(extreme);
  while (i < n - 1 && to_f32(x[i]) != value) ++i;
  return i;
}

/// A vector of neighbouring columns.
template <bool kLargest, class T>
void column_places(const T* x, int64_t n, int64_t stride, int32_t* places) {
  const F32Tag d;
  const hn::RebindToSigned<F32Tag> di;
  F32Vec best = load_f32(d, x);
  auto place = hn::Zero(di);
  for (int64_t i = 1; i < n; ++i) {
    const F32Vec v = load_f32(d, x + i * stride);
    const F32Mask better = hn::AndNot(hn::IsNaN(best), hn::Or(beats<kLargest>(v, best), hn::IsNaN(v)));
    best = hn::IfThenElse(better, v, best);
    place = hn::IfThenElse(hn::RebindMask(di, better), hn::Set(di, static_cast<int32_t>(i)), place);
  }
  hn::StoreU(place, di, places);
}

template <bool kLargest, class T>
void places_typed(const ExtremeArgs& a, int64_t begin, int64_t end) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(F32Tag()));
  const auto* x = static_cast<const T*>(a.x);
  for (int64_t i = begin; i < end;) {
    const int64_t column = i % a.inner;
    const T* from = x + i / a.inner * a.extent * a.inner + column;
    if (a.inner == 1) {
      a.places[i++] = static_cast<int32_t>(row_place<kLargest>(from, a.extent));
    } else if (a.inner - column >= lanes && end - i >= lanes) {
      column_places<kLargest>(from, a.extent, a.inner, a.places + i);
      i += lanes;
    } else {
      a.places[i++] = static_cast<int32_t>(first_place<kLargest>(from, a.extent, a.inner));
    }
  }
}

template <class T>
void places_of(const ExtremeArgs& a, int64_t begin, int64_t end) {
  if (a.largest) places_typed<true, T>(a, begin, end);
  else places_typed<false, T>(a, begin, end);
}
void places_f32(const ExtremeArgs& a, int64_t begin, int64_t end) {
  if (a.dtype == f16) places_of<F16>(a, begin, end);
  else if (a.dtype == bf16) places_of<BF16>(a, begin, end);
  else places_of<float>(a, begin, end);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace rlx::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rlx::kernels {
namespace {

HWY_EXPORT(places_f32);

template <class T>
void plain(const ExtremeArgs& a, int64_t begin, int64_t end) {
  for (int64_t line = begin; line < end; ++line) {
    const T* x = static_cast<const T*>(a.x) + line / a.inner * a.extent * a.inner + line % a.inner;
    T best = x[0];
    int64_t place = 0;
    for (int64_t i = 1; i < a.extent && best == best; ++i) {
      const T v = x[i * a.inner];
      if (v != v || (a.largest ? v > best : v < best)) best = v, place = i;
    }
    a.places[line] = static_cast<int32_t>(place);
  }
}

}  // namespace

void extreme_places(const ExtremeArgs& args, int64_t begin, int64_t end) noexcept {
  if (args.extent == 0) return;
  switch (args.dtype) {
    case DType::f32:
    case DType::f16:
    case DType::bf16: return HWY_DYNAMIC_DISPATCH(places_f32)(args, begin, end);
    case DType::f64: return plain<double>(args, begin, end);
    case DType::boolean:
    case DType::u8: return plain<uint8_t>(args, begin, end);
    case DType::u16: return plain<uint16_t>(args, begin, end);
    case DType::u32: return plain<uint32_t>(args, begin, end);
    case DType::u64: return plain<uint64_t>(args, begin, end);
    case DType::i8: return plain<int8_t>(args, begin, end);
    case DType::i16: return plain<int16_t>(args, begin, end);
    case DType::i32: return plain<int32_t>(args, begin, end);
    case DType::i64: return plain<int64_t>(args, begin, end);
    default: return;
  }
}

}  // namespace rlx::kernels
#endif  // HWY_ONCE
