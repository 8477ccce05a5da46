// See the header.
#include "kernels/convolution_finish.h"

#include "kernels/highway_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/convolution_finish.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/activation-inl.h"
#include "kernels/narrow_float-inl.h"

HWY_BEFORE_NAMESPACE();
namespace rlx::kernels {
namespace HWY_NAMESPACE {
namespace {

template <class Act>
void finish_with(const FinishRows& r, Act act) {
  const F32Tag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t i = 0; i < r.rows; ++i) {
    float* y = r.y + i * r.y_row;
    const float* sums = r.from ? r.from + i * r.from_row : y;
    const float* residual = r.residual ? r.residual + i * r.residual_row : nullptr;
    const auto of_row = hn::Set(d, r.bias && r.bias_of_row ? r.bias[i] : 0.0F);
    const float* bias = r.bias_of_row ? nullptr : r.bias;
    const auto finished = [&](auto v, auto load, int64_t j) HWY_ATTR {
      v = hn::Add(v, bias ? load(bias + j) : of_row);
      if (residual) v = hn::Add(v, load(residual + j));
      return act(d, v);
    };
    int64_t j = 0;
    const auto whole = [&](const float* at) HWY_ATTR { return hn::LoadU(d, at); };
    for (; j + lanes <= r.cols; j += lanes) hn::StoreU(finished(hn::LoadU(d, sums + j), whole, j), d, y + j);
    if (const auto rest = static_cast<size_t>(r.cols - j); rest > 0) {
      const auto part = [&](const float* at) HWY_ATTR { return load_f32_some(d, at, rest); };
      store_f32_some(finished(part(sums + j), part, j), d, y + j, rest);
    }
  }
}

void finish(const FinishRows& r) {
  with_activation(r.activation, [&](auto act) HWY_ATTR { finish_with(r, act); });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace rlx::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rlx::kernels {
namespace {
HWY_EXPORT(finish);
}  // namespace

ClampedFinish clamped_finish(const ConvolutionFinish& finish) {
  ClampedFinish c;
  const bool is_clamp = finish.activation == Activation::none || finish.activation == Activation::relu ||
                        finish.activation == Activation::relu6;
  c.is_all = is_clamp;
  if (!c.is_all) return c;
  c.bias = finish.bias, c.residual = finish.residual;
  if (finish.activation != Activation::none) c.low = 0;
  if (finish.activation == Activation::relu6) c.high = 6;
  return c;
}

void finish_rows(const FinishRows& rows) noexcept { HWY_DYNAMIC_DISPATCH(finish)(rows); }

}  // namespace rlx::kernels
#endif  // HWY_ONCE
