// See the header. A division takes as long as all the rest: x is multiplied by the reciprocal, and where the quotient
// is so near a tie that its error might decide, it is divided after all.
#include "kernels/quantize.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/highway_targets.h"
#include "kernels/index.h"
#include "kernels/narrow_float.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/quantize.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/narrow_float-inl.h"

#ifndef RLX_KERNELS_QUANTIZE_ONCE
#define RLX_KERNELS_QUANTIZE_ONCE
namespace rlx::kernels {
namespace {

/// As a conversion to f32 has it, from u64 too.
float zero_point_of(const QuantizeArgs& a, int64_t feature) {
  if (!a.zero_point) return 0;
  if (a.zero_dtype == u64) return static_cast<float>(static_cast<const uint64_t*>(a.zero_point)[feature]);
  return static_cast<float>(read_index(a.zero_point, a.zero_dtype, feature));
}

template <class T, class Code>
Code code_of(T x, T scale, float zero_point) {
  const float y = std::nearbyint(to_f32(x) / to_f32(scale)) + zero_point;
  if (y != y) return 0;
  constexpr auto low = static_cast<float>(std::numeric_limits<Code>::min());
  constexpr auto high = static_cast<float>(std::numeric_limits<Code>::max());
  return static_cast<Code>(std::clamp(y, low, high));
}

}  // namespace
}  // namespace rlx::kernels
#endif  // RLX_KERNELS_QUANTIZE_ONCE

HWY_BEFORE_NAMESPACE();
namespace rlx::kernels {
namespace HWY_NAMESPACE {
namespace {

/// Elements that share their scale and zero point.
template <class T, class Code>
void run(const T* x, Code* y, int64_t n, T scale, float zero_point) {
  const F32Tag d;
  const hn::RebindToSigned<F32Tag> di;
  const hn::Rebind<Code, F32Tag> dc;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const float s = to_f32(scale), inverse = 1 / s;
  // Quotients beyond these bounds saturate; within them the error of x times 1 / s is less than bound / 2^22.
  const float bound = static_cast<float>(std::numeric_limits<Code>::max()) * 2 + std::abs(zero_point) + 2;
  const float safe = 0.5f - bound * 0x1p-22f;
  int64_t i = 0;
  if (std::abs(s) > 0x1p-60f && std::abs(s) < 0x1p60f && safe > 0) {
    const F32Vec factor = hn::Set(d, inverse), divisor = hn::Set(d, s), zero = hn::Set(d, zero_point);
    const F32Vec high = hn::Set(d, bound), low = hn::Set(d, -bound), limit = hn::Set(d, safe);
    for (; i + lanes <= n; i += lanes) {
      const F32Vec v = load_f32(d, x + i);
      // The bounds first: x86's min and max return the second operand if one is NaN.
      const F32Vec q = hn::Max(low, hn::Min(high, hn::Mul(v, factor)));
      F32Vec rounded = hn::Round(q);
      if (!hn::AllTrue(d, hn::Le(hn::Abs(hn::Sub(q, rounded)), limit))) {  // or NaN
        rounded = hn::Round(hn::Max(low, hn::Min(high, hn::Div(v, divisor))));
        const F32Vec sum = hn::Add(rounded, zero);
        const auto codes = hn::IfThenZeroElse(hn::RebindMask(di, hn::IsNaN(v)), hn::ConvertTo(di, sum));
        hn::StoreU(hn::DemoteTo(dc, codes), dc, y + i);
        continue;
      }
      hn::StoreU(hn::DemoteTo(dc, hn::ConvertTo(di, hn::Add(rounded, zero))), dc, y + i);
    }
  }
  for (; i < n; ++i) y[i] = code_of<T, Code>(x[i], scale, zero_point);
}

template <class T, class Code>
void typed(const QuantizeArgs& a, int64_t begin, int64_t end) {
  const auto* x = static_cast<const T*>(a.x);
  const auto* scale = static_cast<const T*>(a.scale);
  auto* y = static_cast<Code*>(a.y);
  for (int64_t i = begin; i < end;) {
    const int64_t feature = i / a.inner % a.features, count = std::min(end - i, a.inner - i % a.inner);
    const float zero_point = zero_point_of(a, feature);
    if (count == 1) y[i] = code_of<T, Code>(x[i], scale[feature], zero_point);
    else run(x + i, y + i, count, scale[feature], zero_point);
    i += count;
  }
}
template <class T>
void by_code(const QuantizeArgs& a, int64_t begin, int64_t end) {
  switch (a.code_dtype) {
    case DType::i8: return typed<T, int8_t>(a, begin, end);
    case DType::u8: return typed<T, uint8_t>(a, begin, end);
    case DType::i16: return typed<T, int16_t>(a, begin, end);
    default: return typed<T, uint16_t>(a, begin, end);
  }
}
void codes(const QuantizeArgs& a, int64_t begin, int64_t end) {
  if (a.dtype == f16) by_code<F16>(a, begin, end);
  else if (a.dtype == bf16) by_code<BF16>(a, begin, end);
  else by_code<float>(a, begin, end);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace rlx::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rlx::kernels {

HWY_EXPORT(codes);
void quantize(const QuantizeArgs& args, int64_t begin, int64_t end) noexcept {
  HWY_DYNAMIC_DISPATCH(codes)(args, begin, end);
}

}  // namespace rlx::kernels
#endif  // HWY_ONCE
