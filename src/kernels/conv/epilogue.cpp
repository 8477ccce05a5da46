// See the header.
#include "kernels/conv/epilogue.h"

#include "kernels/vector/highway_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/conv/epilogue.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/vector/activation-inl.h"
#include "kernels/vector/narrow_float-inl.h"

HWY_BEFORE_NAMESPACE();
namespace rlx::kernels {
namespace HWY_NAMESPACE {
namespace {

template <class Act>
void epilogue_with(const EpilogueRows& r, Act act) {
  const F32Tag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t i = 0; i < r.rows; ++i) {
    float* y = r.y + i * r.y_row;
    const float* sums = r.from ? r.from + i * r.from_row : y;
    const float* residual = r.residual ? r.residual + i * r.residual_row : nullptr;
    const auto of_row = hn::Set(d, r.bias && r.bias_of_row ? r.bias[i] : 0.0F);
    const float* bias = r.bias_of_row ? nullptr : r.bias;
    const auto result = [&](auto v, auto load, int64_t j) HWY_ATTR {
      v = hn::Add(v, bias ? load(bias + j) : of_row);
      if (residual) v = hn::Add(v, load(residual + j));
      return act(d, v);
    };
    int64_t j = 0;
    const auto whole = [&](const float* at) HWY_ATTR { return hn::LoadU(d, at); };
    for (; j + lanes <= r.cols; j += lanes) hn::StoreU(result(hn::LoadU(d, sums + j), whole, j), d, y + j);
    if (const auto rest = static_cast<size_t>(r.cols - j); rest > 0) {
      const auto rest_lanes = [&](const float* at) HWY_ATTR { return load_f32_some(d, at, rest); };
      store_f32_some(result(rest_lanes(sums + j), rest_lanes, j), d, y + j, rest);
    }
  }
}

void apply(const EpilogueRows& r) {
  with_activation(r.activation, [&](auto act) HWY_ATTR { epilogue_with(r, act); });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace rlx::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rlx::kernels {
namespace {
HWY_EXPORT(apply);
}  // namespace

ClampedEpilogue clamped_epilogue(const ConvolutionEpilogue& epilogue) {
  ClampedEpilogue c;
  const bool is_clamp = epilogue.activation == Activation::none || epilogue.activation == Activation::relu ||
                        epilogue.activation == Activation::relu6;
  c.is_all = is_clamp;
  if (!c.is_all) return c;
  c.bias = epilogue.bias, c.residual = epilogue.residual;
  if (epilogue.activation != Activation::none) c.low = 0;
  if (epilogue.activation == Activation::relu6) c.high = 6;
  return c;
}

void apply_epilogue_rows(const EpilogueRows& rows) noexcept { HWY_DYNAMIC_DISPATCH(apply)(rows); }

}  // namespace rlx::kernels
#endif  // HWY_ONCE
