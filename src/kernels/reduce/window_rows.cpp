// See the header.
#include "kernels/reduce/window_rows.h"

#include "kernels/vector/highway_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/reduce/window_rows.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/vector/narrow_float-inl.h"

HWY_BEFORE_NAMESPACE();
namespace rlx::kernels {
namespace HWY_NAMESPACE {
namespace {

template <class F>
void for_rows(float* totals, const float* x, int64_t count, F f) {
  const F32Tag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) hn::StoreU(f(hn::LoadU(d, totals + i), hn::LoadU(d, x + i)), d, totals + i);
  if (const auto rest = static_cast<size_t>(count - i); rest > 0)
    store_f32_some(f(load_f32_some(d, totals + i, rest), load_f32_some(d, x + i, rest)), d, totals + i, rest);
}

void combine(ReduceOp op, float* totals, const float* x, int64_t count) {
  const auto kept = [](auto stays, auto total, auto v)
                        HWY_ATTR { return hn::IfThenElse(hn::Or(stays, hn::IsNaN(total)), total, v); };
  switch (op) {
    case ReduceOp::prod: return for_rows(totals, x, count, [](auto a, auto b) HWY_ATTR { return hn::Mul(a, b); });
    case ReduceOp::max:
      return for_rows(totals, x, count, [&](auto a, auto b) HWY_ATTR { return kept(hn::Gt(a, b), a, b); });
    case ReduceOp::min:
      return for_rows(totals, x, count, [&](auto a, auto b) HWY_ATTR { return kept(hn::Lt(a, b), a, b); });
    default: return for_rows(totals, x, count, [](auto a, auto b) HWY_ATTR { return hn::Add(a, b); });
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace rlx::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rlx::kernels {
namespace {
HWY_EXPORT(combine);
}  // namespace

void combine_rows(ReduceOp op, float* totals, const float* x, int64_t count) noexcept {
  HWY_DYNAMIC_DISPATCH(combine)(op, totals, x, count);
}

}  // namespace rlx::kernels
#endif  // HWY_ONCE
