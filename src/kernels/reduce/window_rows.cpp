// See the header.
#include "kernels/reduce/window_rows.h"

#include <cstring>

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

template <class T, class F>
void for_rows(float* totals, const T* x, int64_t count, F f) {
  const F32Tag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) hn::StoreU(f(hn::LoadU(d, totals + i), load_f32(d, x + i)), d, totals + i);
  if (const auto rest = static_cast<size_t>(count - i); rest > 0)
    store_f32_some(f(load_f32_some(d, totals + i, rest), load_f32_some(d, x + i, rest)), d, totals + i, rest);
}

template <class T>
void combine(ReduceOp op, float* totals, const T* x, int64_t count) {
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

void combine_any(ReduceOp op, DType dtype, float* totals, const void* x, int64_t count) {
  if (dtype == f32) combine(op, totals, static_cast<const float*>(x), count);
  else if (dtype == bf16) combine(op, totals, static_cast<const BF16*>(x), count);
  else combine(op, totals, static_cast<const F16*>(x), count);
}

template <class T>
void widen(const T* x, int64_t count, float* to) {
  const F32Tag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) hn::StoreU(load_f32(d, x + i), d, to + i);
  if (const auto rest = static_cast<size_t>(count - i); rest > 0)
    store_f32_some(load_f32_some(d, x + i, rest), d, to + i, rest);
}
void widen_any(DType dtype, const void* x, int64_t count, float* to) {
  if (dtype == bf16) widen(static_cast<const BF16*>(x), count, to);
  else widen(static_cast<const F16*>(x), count, to);
}

template <bool kMax>
void extreme(const void* const* rows, int64_t count, int64_t n, float* y) {
  const F32Tag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto of_all = [&](auto load) HWY_ATTR {
    auto total = load(static_cast<const float*>(rows[0]));
    for (int64_t r = 1; r < count; ++r) {
      const auto v = load(static_cast<const float*>(rows[r]));
      const auto stays = kMax ? hn::Gt(total, v) : hn::Lt(total, v);
      total = hn::IfThenElse(hn::Or(stays, hn::IsNaN(total)), total, v);
    }
    return total;
  };
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes)
    hn::StoreU(of_all([&](const float* row) HWY_ATTR { return hn::LoadU(d, row + i); }), d, y + i);
  if (const auto rest = static_cast<size_t>(n - i); rest > 0)
    store_f32_some(of_all([&](const float* row) HWY_ATTR { return load_f32_some(d, row + i, rest); }), d, y + i, rest);
}
/// The same of 16-bit floats, by their bits, of which those of an infinity are `infinite`. Of zeros +0 is the larger.
template <bool kMax>
void extreme_of_bits(const void* const* rows, int64_t count, int64_t n, int16_t infinite, int16_t* y) {
  const hn::ScalableTag<int16_t> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto magnitude = hn::Set(d, int16_t{0x7fff});
  // Bits that are ordered as their numbers are; applied again, it gives back the number.
  const auto ordered = [&](auto v) HWY_ATTR { return hn::Xor(v, hn::And(hn::ShiftRight<15>(v), magnitude)); };
  const auto of_all = [&](auto load) HWY_ATTR {
    auto v = load(static_cast<const int16_t*>(rows[0]));
    auto total = ordered(v), most = hn::And(v, magnitude);
    for (int64_t r = 1; r < count; ++r) {
      v = load(static_cast<const int16_t*>(rows[r]));
      total = kMax ? hn::Max(total, ordered(v)) : hn::Min(total, ordered(v));
      most = hn::Max(most, hn::And(v, magnitude));
    }
    const auto is_nan = hn::Gt(most, hn::Set(d, infinite));  // of any of them, whose sign says nothing
    return hn::IfThenElse(is_nan, magnitude, ordered(total));
  };
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes)
    hn::StoreU(of_all([&](const int16_t* row) HWY_ATTR { return hn::LoadU(d, row + i); }), d, y + i);
  if (const auto rest = static_cast<size_t>(n - i) * sizeof(int16_t); rest > 0) {
    HWY_ALIGN int16_t some[HWY_MAX_BYTES / sizeof(int16_t)] = {};
    const auto result = of_all([&](const int16_t* row) HWY_ATTR {
      std::memcpy(some, row + i, rest);
      return hn::Load(d, some);
    });
    hn::Store(result, d, some);
    std::memcpy(y + i, some, rest);
  }
}
void extreme_any(bool is_max, DType dtype, const void* const* rows, int64_t count, int64_t n, void* y) {
  if (dtype == f32)
    return is_max ? extreme<true>(rows, count, n, static_cast<float*>(y))
                  : extreme<false>(rows, count, n, static_cast<float*>(y));
  const int16_t infinite = dtype == bf16 ? 0x7f80 : 0x7c00;
  auto* const bits = static_cast<int16_t*>(y);
  if (is_max) extreme_of_bits<true>(rows, count, n, infinite, bits);
  else extreme_of_bits<false>(rows, count, n, infinite, bits);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace rlx::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rlx::kernels {
namespace {
HWY_EXPORT(combine_any);
HWY_EXPORT(widen_any);
HWY_EXPORT(extreme_any);
}  // namespace

void combine_rows(ReduceOp op, DType dtype, float* totals, const void* x, int64_t count) noexcept {
  HWY_DYNAMIC_DISPATCH(combine_any)(op, dtype, totals, x, count);
}

void widen_row(DType dtype, const void* x, int64_t count, float* to) noexcept {
  HWY_DYNAMIC_DISPATCH(widen_any)(dtype, x, count, to);
}

void extreme_of_rows(bool is_max, DType dtype, const void* const* rows, int64_t count, int64_t n, void* y) noexcept {
  HWY_DYNAMIC_DISPATCH(extreme_any)(is_max, dtype, rows, count, n, y);
}

}  // namespace rlx::kernels
#endif  // HWY_ONCE
