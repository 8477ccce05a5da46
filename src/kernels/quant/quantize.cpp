// See the header. A division takes as long as all other steps together, so x is multiplied by the reciprocal of the
// scale. x is divided only where the product is so close to a tie that its error could change the rounding.
#include "kernels/quant/quantize.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/index/index.h"
#include "kernels/vector/highway_targets.h"
#include "kernels/vector/narrow_float.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/quant/quantize.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/vector/narrow_float-inl.h"

#ifndef RLX_KERNELS_QUANTIZE_ONCE
#define RLX_KERNELS_QUANTIZE_ONCE
namespace rlx::kernels {
namespace {

/// The zero point of a feature as f32, from any integer dtype.
float zero_point_of(const QuantizeArgs& a, int64_t feature) {
  if (!a.zero_point) return 0;
  if (a.zero_dtype == u64) return static_cast<float>(static_cast<const uint64_t*>(a.zero_point)[feature]);
  return static_cast<float>(read_index(a.zero_point, a.zero_dtype, feature));
}

template <class T, class Quantized>
Quantized quantized_of(T x, T scale, float zero_point) {
  const float y = std::nearbyint(to_f32(x) / to_f32(scale)) + zero_point;
  if (y != y) return 0;
  constexpr auto low = static_cast<float>(std::numeric_limits<Quantized>::min());
  constexpr auto high = static_cast<float>(std::numeric_limits<Quantized>::max());
  return static_cast<Quantized>(std::clamp(y, low, high));
}

}  // namespace
}  // namespace rlx::kernels
#endif  // RLX_KERNELS_QUANTIZE_ONCE

HWY_BEFORE_NAMESPACE();
namespace rlx::kernels {
namespace HWY_NAMESPACE {
namespace {

/// Quantizes n consecutive elements that share their scale and zero point.
template <class T, class Quantized>
void quantize_run(const T* x, Quantized* y, int64_t n, T scale, float zero_point) {
  const F32Tag d;
  const hn::RebindToSigned<F32Tag> di;
  const hn::Rebind<Quantized, F32Tag> dq;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const float s = to_f32(scale), reciprocal = 1 / s;
  // Quotients beyond +-bound saturate; within them the error of x times 1 / s is less than bound / 2^22.
  const float bound = static_cast<float>(std::numeric_limits<Quantized>::max()) * 2 + std::abs(zero_point) + 2;
  const float safe = 0.5f - bound * 0x1p-22f;
  int64_t i = 0;
  if (std::abs(s) > 0x1p-60f && std::abs(s) < 0x1p60f && safe > 0) {
    const F32Vec factor = hn::Set(d, reciprocal), divisor = hn::Set(d, s), zero = hn::Set(d, zero_point);
    const F32Vec high = hn::Set(d, bound), low = hn::Set(d, -bound), limit = hn::Set(d, safe);
    for (; i + lanes <= n; i += lanes) {
      const F32Vec v = load_f32(d, x + i);
      // The bounds are the first operands: x86's min and max return the second operand if either is NaN.
      const F32Vec q = hn::Max(low, hn::Min(high, hn::Mul(v, factor)));
      F32Vec rounded = hn::Round(q);
      if (!hn::AllTrue(d, hn::Le(hn::Abs(hn::Sub(q, rounded)), limit))) {  // near a tie, or NaN
        rounded = hn::Round(hn::Max(low, hn::Min(high, hn::Div(v, divisor))));
        const F32Vec sum = hn::Add(rounded, zero);
        const auto q_int = hn::IfThenZeroElse(hn::RebindMask(di, hn::IsNaN(v)), hn::ConvertTo(di, sum));
        hn::StoreU(hn::DemoteTo(dq, q_int), dq, y + i);
        continue;
      }
      hn::StoreU(hn::DemoteTo(dq, hn::ConvertTo(di, hn::Add(rounded, zero))), dq, y + i);
    }
  }
  for (; i < n; ++i) y[i] = quantized_of<T, Quantized>(x[i], scale, zero_point);
}

template <class T, class Quantized>
void quantize_as(const QuantizeArgs& a, int64_t begin, int64_t end) {
  const auto* x = static_cast<const T*>(a.x);
  const auto* scale = static_cast<const T*>(a.scale);
  auto* y = static_cast<Quantized*>(a.y);
  for (int64_t i = begin; i < end;) {
    const int64_t feature = i / a.inner % a.features, count = std::min(end - i, a.inner - i % a.inner);
    const float zero_point = zero_point_of(a, feature);
    if (count == 1) y[i] = quantized_of<T, Quantized>(x[i], scale[feature], zero_point);
    else quantize_run(x + i, y + i, count, scale[feature], zero_point);
    i += count;
  }
}
template <class T>
void quantize_to(const QuantizeArgs& a, int64_t begin, int64_t end) {
  switch (a.quantized_dtype) {
    case DType::i8: return quantize_as<T, int8_t>(a, begin, end);
    case DType::u8: return quantize_as<T, uint8_t>(a, begin, end);
    case DType::i16: return quantize_as<T, int16_t>(a, begin, end);
    default: return quantize_as<T, uint16_t>(a, begin, end);
  }
}
void quantize_any(const QuantizeArgs& a, int64_t begin, int64_t end) {
  if (a.dtype == f16) quantize_to<F16>(a, begin, end);
  else if (a.dtype == bf16) quantize_to<BF16>(a, begin, end);
  else quantize_to<float>(a, begin, end);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace rlx::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rlx::kernels {

HWY_EXPORT(quantize_any);
void quantize(const QuantizeArgs& args, int64_t begin, int64_t end) noexcept {
  HWY_DYNAMIC_DISPATCH(quantize_any)(args, begin, end);
}

}  // namespace rlx::kernels
#endif  // HWY_ONCE
