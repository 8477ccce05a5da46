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

template <bool kMax, class T>
void extreme(const void* const* rows, int64_t count, int64_t n, T* y) {
  const F32Tag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto of_all = [&](auto load) HWY_ATTR {
    auto total = load(static_cast<const T*>(rows[0]));
    for (int64_t r = 1; r < count; ++r) {
      const auto v = load(static_cast<const T*>(rows[r]));
      const auto stays = kMax ? hn::Gt(total, v) : hn::Lt(total, v);
      total = hn::IfThenElse(hn::Or(stays, hn::IsNaN(total)), total, v);
    }
    return total;
  };
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes)
    store_f32(of_all([&](const T* row) HWY_ATTR { return load_f32(d, row + i); }), d, y + i);
  if (const auto rest = static_cast<size_t>(n - i); rest > 0)
    store_f32_some(of_all([&](const T* row) HWY_ATTR { return load_f32_some(d, row + i, rest); }), d, y + i, rest);
}
void extreme_any(bool is_max, DType dtype, const void* const* rows, int64_t count, int64_t n, void* y) {
  if (dtype == f32 && is_max) extreme<true>(rows, count, n, static_cast<float*>(y));
  else if (dtype == f32) extreme<false>(rows, count, n, static_cast<float*>(y));
  else if (is_max) extreme<true>(rows, count, n, static_cast<BF16*>(y));
  else extreme<false>(rows, count, n, static_cast<BF16*>(y));
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace rlx::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rlx::kernels {
namespace {
HWY_EXPORT(combine);
HWY_EXPORT(extreme_any);
}  // namespace

void combine_rows(ReduceOp op, float* totals, const float* x, int64_t count) noexcept {
  HWY_DYNAMIC_DISPATCH(combine)(op, totals, x, count);
}

void extreme_of_rows(bool is_max, DType dtype, const void* const* rows, int64_t count, int64_t n, void* y) noexcept {
  HWY_DYNAMIC_DISPATCH(extreme_any)(is_max, dtype, rows, count, n, y);
}

}  // namespace rlx::kernels
#endif  // HWY_ONCE
