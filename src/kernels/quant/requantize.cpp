// See the header.
#include "kernels/quant/requantize.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "kernels/vector/highway_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/quant/requantize.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace rlx::kernels {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using DScaled = hn::CappedTag<float, 16>;
using DSums = hn::Rebind<int32_t, DScaled>;

/// Returns the first column of those that fill no whole vector.
template <class Y>
int64_t requantize_vectors(const SumsToRequantize& s) {
  const DScaled d;
  const DSums di;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  constexpr float kLow = std::is_same_v<Y, int8_t> ? -128.0f : 0.0f, kHigh = kLow + 255;
  int64_t j = 0;
  for (; j + lanes <= s.columns; j += lanes) {
    const auto bias = hn::LoadU(di, s.bias + j);
    const auto multiplier = s.multipliers ? hn::LoadU(d, s.multipliers + j) : hn::Set(d, s.multiplier);
    for (int64_t i = 0; i < s.rows; ++i) {
      auto sum = hn::Add(hn::LoadU(di, s.sums + i * s.stride + j), bias);
      if (s.row_terms) sum = hn::Sub(sum, hn::Set(di, s.row_terms[i]));
      auto v = hn::Round(hn::Mul(hn::ConvertTo(d, sum), multiplier));
      v = hn::Add(v, hn::Set(d, static_cast<float>(s.y_zero_point)));
      v = hn::IfThenZeroElse(hn::IsNaN(v), v);  // conversions to integers turn NaN to 0 too
      v = hn::Min(hn::Max(v, hn::Set(d, kLow)), hn::Set(d, kHigh));
      hn::StoreU(hn::DemoteTo(hn::Rebind<Y, DScaled>(), hn::ConvertTo(di, v)), hn::Rebind<Y, DScaled>(),
                 static_cast<Y*>(s.y) + i * s.y_stride + j);
    }
  }
  return j;
}

}  // namespace

int64_t requantize_whole_vectors(const SumsToRequantize& s) {
  return s.y_dtype == i8 ? requantize_vectors<int8_t>(s) : requantize_vectors<uint8_t>(s);
}

}  // namespace HWY_NAMESPACE
}  // namespace rlx::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rlx::kernels {

HWY_EXPORT(requantize_whole_vectors);

void requantize_sums(const SumsToRequantize& s) noexcept {
  const int64_t rest = HWY_DYNAMIC_DISPATCH(requantize_whole_vectors)(s);
  const float low = s.y_dtype == i8 ? -128.0f : 0.0f;
  for (int64_t i = 0; i < s.rows; ++i)
    for (int64_t j = rest; j < s.columns; ++j) {
      auto sum = static_cast<uint32_t>(s.sums[i * s.stride + j]) + static_cast<uint32_t>(s.bias[j]);  // wraps
      if (s.row_terms) sum -= static_cast<uint32_t>(s.row_terms[i]);
      float v = std::nearbyint(static_cast<float>(static_cast<int32_t>(sum)) *
                               (s.multipliers ? s.multipliers[j] : s.multiplier));
      v += static_cast<float>(s.y_zero_point);
      v = std::isnan(v) ? 0 : std::clamp(v, low, low + 255);
      if (s.y_dtype == i8) static_cast<int8_t*>(s.y)[i * s.y_stride + j] = static_cast<int8_t>(v);
      else static_cast<uint8_t*>(s.y)[i * s.y_stride + j] = static_cast<uint8_t>(v);
    }
}

}  // namespace rlx::kernels
#endif
