// See the header. A row (inner = 1) of f32, f16 or bf16 is read twice: once for its maximum, once for the index of
// that. For inner > 1 a vector of columns keeps a vector of indices. All other dtypes run one scalar loop.
#include "kernels/reduce/argmax.h"

#include <algorithm>
#include <limits>

#include "kernels/integer_type.h"
#include "kernels/vector/highway_targets.h"
#include "kernels/vector/narrow_float.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/reduce/argmax.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/vector/narrow_float-inl.h"

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

/// Stops at the first NaN: nothing beats it.
template <bool kLargest, class T>
int64_t scalar_argmax(const T* x, int64_t n, int64_t stride) {
  int64_t best = 0;
  float best_value = to_f32(x[0]);
  for (int64_t i = 1; i < n && best_value == best_value; ++i) {
    const float v = to_f32(x[i * stride]);
    if (v != v || beats<kLargest>(v, best_value)) best = i, best_value = v;
  }
  return best;
}

template <bool kLargest, class T>
int64_t row_argmax(const T* x, int64_t n) {
  const F32Tag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const float worst = kLargest ? -std::numeric_limits<float>::infinity() : std::numeric_limits<float>::infinity();
  F32Vec m[4];
  RLX_UNROLL for (int k = 0; k < 4; ++k) m[k] = hn::Set(d, worst);
  F32Mask nan = hn::IsNaN(m[0]);
  const auto update = [&](F32Vec& best, F32Vec v) HWY_ATTR {
    best = hn::IfThenElse(beats<kLargest>(v, best), v, best);
    nan = hn::Or(nan, hn::IsNaN(v));
  };
  int64_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes)
    RLX_UNROLL for (int k = 0; k < 4; ++k) update(m[k], load_f32(d, x + i + k * lanes));
  for (; i + lanes <= n; i += lanes) update(m[0], load_f32(d, x + i));
  if (i < n) update(m[1], load_f32_some(d, x + i, static_cast<size_t>(n - i), worst));
  if (!hn::AllFalse(d, nan)) {
    int64_t at = 0;
    while (to_f32(x[at]) == to_f32(x[at])) ++at;
    return at;
  }
  update(m[0], m[1]), update(m[2], m[3]), update(m[0], m[2]);
  const F32Vec max_vector = kLargest ? hn::MaxOfLanes(d, m[0]) : hn::MinOfLanes(d, m[0]);
  for (i = 0; i + lanes <= n; i += lanes)
    if (const int64_t at = hn::FindFirstTrue(d, hn::Eq(load_f32(d, x + i), max_vector)); at >= 0) return i + at;
  const float value = hn::GetLane(max_vector);
  while (i < n - 1 && to_f32(x[i]) != value) ++i;
  return i;
}

/// argmax of each of a vector of neighbouring columns.
template <bool kLargest, class T>
void columns_argmax(const T* x, int64_t n, int64_t stride, int32_t* indices) {
  const F32Tag d;
  const hn::RebindToSigned<F32Tag> di;
  F32Vec best = load_f32(d, x);
  auto best_index = hn::Zero(di);
  for (int64_t i = 1; i < n; ++i) {
    const F32Vec v = load_f32(d, x + i * stride);
    const F32Mask better = hn::AndNot(hn::IsNaN(best), hn::Or(beats<kLargest>(v, best), hn::IsNaN(v)));
    best = hn::IfThenElse(better, v, best);
    best_index = hn::IfThenElse(hn::RebindMask(di, better), hn::Set(di, static_cast<int32_t>(i)), best_index);
  }
  hn::StoreU(best_index, di, indices);
}

template <bool kLargest, class T>
void argmax_typed(const ArgmaxArgs& a, int64_t begin, int64_t end) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(F32Tag()));
  const auto* x = static_cast<const T*>(a.x);
  for (int64_t i = begin; i < end;) {
    const int64_t column = i % a.inner;
    const T* from = x + i / a.inner * a.extent * a.inner + column;
    if (a.inner == 1) {
      a.indices[i++] = static_cast<int32_t>(row_argmax<kLargest>(from, a.extent));
    } else if (a.inner - column >= lanes && end - i >= lanes) {
      columns_argmax<kLargest>(from, a.extent, a.inner, a.indices + i);
      i += lanes;
    } else {
      a.indices[i++] = static_cast<int32_t>(scalar_argmax<kLargest>(from, a.extent, a.inner));
    }
  }
}

template <class T>
void argmax_of(const ArgmaxArgs& a, int64_t begin, int64_t end) {
  if (a.largest) argmax_typed<true, T>(a, begin, end);
  else argmax_typed<false, T>(a, begin, end);
}
void argmax_f32(const ArgmaxArgs& a, int64_t begin, int64_t end) {
  if (a.dtype == f16) argmax_of<F16>(a, begin, end);
  else if (a.dtype == bf16) argmax_of<BF16>(a, begin, end);
  else argmax_of<float>(a, begin, end);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace rlx::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rlx::kernels {
namespace {

HWY_EXPORT(argmax_f32);

template <class T>
void argmax_loop(const ArgmaxArgs& a, int64_t begin, int64_t end) {
  for (int64_t result = begin; result < end; ++result) {
    const T* x = static_cast<const T*>(a.x) + result / a.inner * a.extent * a.inner + result % a.inner;
    T best = x[0];
    int64_t best_index = 0;
    for (int64_t i = 1; i < a.extent && best == best; ++i) {
      const T v = x[i * a.inner];
      if (v != v || (a.largest ? v > best : v < best)) best = v, best_index = i;
    }
    a.indices[result] = static_cast<int32_t>(best_index);
  }
}

}  // namespace

void argmax_indices(const ArgmaxArgs& args, int64_t begin, int64_t end) noexcept {
  if (args.extent == 0) return;
  if (is_integer(args.dtype))
    return with_integer_type(args.dtype, [&]<class T>() { argmax_loop<T>(args, begin, end); });
  switch (args.dtype) {
    case DType::f32:
    case DType::f16:
    case DType::bf16: return HWY_DYNAMIC_DISPATCH(argmax_f32)(args, begin, end);
    case DType::f64: return argmax_loop<double>(args, begin, end);
    case DType::boolean: return argmax_loop<uint8_t>(args, begin, end);
    default: return;
  }
}

}  // namespace rlx::kernels
#endif  // HWY_ONCE
