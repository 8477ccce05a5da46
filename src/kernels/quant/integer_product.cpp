// See the header. Sums of 64 products are computed in f32, where they are exact: a product is at most 383 * 383 in
// magnitude, and 64 of those stay below 2^24. So processors without integer dot products are as fast as they are with
// floats, and all processors give the same results.
#include "kernels/quant/integer_product.h"

#include <algorithm>
#include <cmath>

#include "kernels/vector/highway_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/quant/integer_product.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace rlx::kernels {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::CappedTag<float, 16>;
using DI = hn::Rebind<int32_t, D>;
using V = hn::Vec<D>;
using VI = hn::Vec<DI>;

constexpr int kRows = 4;
constexpr int64_t kExactDepth = 64;

template <class Quantized>
HWY_INLINE VI load_quantized(const Quantized* from) {
  return hn::PromoteTo(DI(), hn::LoadU(hn::Rebind<Quantized, D>(), from));
}

/// Computes one vector of columns for kN rows.
template <class W, class Y, int kN>
HWY_INLINE void multiply_vector(const IntegerProduct& p, int64_t row, int64_t column) {
  const D d;
  const DI di;
  const auto* w = static_cast<const W*>(p.w) + column;
  const float* x = p.x + row * p.k;
  const VI zero = hn::Set(di, p.w_zero_point);
  VI total[kN];
  RLX_UNROLL
  for (int r = 0; r < kN; ++r) total[r] = hn::LoadU(di, p.bias + column);
  for (int64_t begin = 0; begin < p.k; begin += kExactDepth) {
    const int64_t end = HWY_MIN(begin + kExactDepth, p.k);
    V sum[kN];
    RLX_UNROLL
    for (int r = 0; r < kN; ++r) sum[r] = hn::Zero(d);
    for (int64_t i = begin; i < end; ++i) {
      const V q = hn::ConvertTo(d, hn::Sub(load_quantized(w + i * p.n), zero));
      RLX_UNROLL
      for (int r = 0; r < kN; ++r) sum[r] = hn::MulAdd(hn::Set(d, x[r * p.k + i]), q, sum[r]);
    }
    RLX_UNROLL
    for (int r = 0; r < kN; ++r) total[r] = hn::Add(total[r], hn::ConvertTo(di, sum[r]));
  }
  const V multiplier = p.multipliers ? hn::LoadU(d, p.multipliers + column) : hn::Set(d, p.multiplier);
  constexpr float kLow = std::is_same_v<Y, int8_t> ? -128.0f : 0.0f, kHigh = kLow + 255;
  RLX_UNROLL
  for (int r = 0; r < kN; ++r) {
    V v = hn::Round(hn::Mul(hn::ConvertTo(d, total[r]), multiplier));
    v = hn::Add(v, hn::Set(d, static_cast<float>(p.y_zero_point)));
    v = hn::IfThenZeroElse(hn::IsNaN(v), v);  // conversions to integers turn NaN to 0 too
    v = hn::Min(hn::Max(v, hn::Set(d, kLow)), hn::Set(d, kHigh));
    hn::StoreU(hn::DemoteTo(hn::Rebind<Y, D>(), hn::ConvertTo(di, v)), hn::Rebind<Y, D>(),
               static_cast<Y*>(p.y) + (row + r) * p.n + column);
  }
}

template <class W, class Y>
void multiply_columns(const IntegerProduct& p, int64_t begin, int64_t end) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(D()));
  for (int64_t row = 0; row < p.rows;) {
    const int64_t rows = p.rows - row >= kRows ? kRows : 1;
    for (int64_t j = begin; j < end; j += lanes)
      if (rows == kRows) multiply_vector<W, Y, kRows>(p, row, j);
      else multiply_vector<W, Y, 1>(p, row, j);
    row += rows;
  }
}

}  // namespace

/// Computes the columns from `begin` that fill whole vectors; returns where they end.
int64_t multiply_quantized_in_vectors(const IntegerProduct& p, int64_t begin, int64_t end) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(D()));
  const int64_t stop = begin + (end - begin) / lanes * lanes;
  if (p.w_dtype == i8 && p.y_dtype == i8) multiply_columns<int8_t, int8_t>(p, begin, stop);
  else if (p.w_dtype == i8) multiply_columns<int8_t, uint8_t>(p, begin, stop);
  else if (p.y_dtype == i8) multiply_columns<uint8_t, int8_t>(p, begin, stop);
  else multiply_columns<uint8_t, uint8_t>(p, begin, stop);
  return stop;
}

}  // namespace HWY_NAMESPACE
}  // namespace rlx::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rlx::kernels {

HWY_EXPORT(multiply_quantized_in_vectors);

namespace {

int32_t value_at(DType dtype, const void* values, int64_t i) {
  return dtype == i8 ? static_cast<const int8_t*>(values)[i] : static_cast<const uint8_t*>(values)[i];
}

}  // namespace

void multiply_quantized(const IntegerProduct& p, int64_t begin, int64_t end) noexcept {
  const int64_t rest = HWY_DYNAMIC_DISPATCH(multiply_quantized_in_vectors)(p, begin, end);
  const float low = p.y_dtype == i8 ? -128.0f : 0.0f;
  for (int64_t r = 0; r < p.rows; ++r)
    for (int64_t j = rest; j < end; ++j) {
      auto sum = static_cast<uint32_t>(p.bias[j]);  // wraps
      for (int64_t i = 0; i < p.k; ++i)
        sum += static_cast<uint32_t>(static_cast<int32_t>(p.x[r * p.k + i]) *
                                     (value_at(p.w_dtype, p.w, i * p.n + j) - p.w_zero_point));
      float v = std::nearbyint(static_cast<float>(static_cast<int32_t>(sum)) *
                               (p.multipliers ? p.multipliers[j] : p.multiplier));
      v += static_cast<float>(p.y_zero_point);
      v = std::isnan(v) ? 0 : std::clamp(v, low, low + 255);
      if (p.y_dtype == i8) static_cast<int8_t*>(p.y)[r * p.n + j] = static_cast<int8_t>(v);
      else static_cast<uint8_t*>(p.y)[r * p.n + j] = static_cast<uint8_t>(v);
    }
}

void center_values(DType dtype, const void* values, int64_t count, int32_t zero_point, float* to) noexcept {
  for (int64_t i = 0; i < count; ++i) to[i] = static_cast<float>(value_at(dtype, values, i) - zero_point);
}

}  // namespace rlx::kernels
#endif
