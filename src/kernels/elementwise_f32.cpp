// The element-wise ops on f32 that are worth vectors; elementwise_float.cpp has the plain form of all of them.
#include <algorithm>
#include <cmath>

#include "kernels/elementwise_kernels.h"
#include "kernels/highway_targets.h"
#include "kernels/narrow_float.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/elementwise_f32.cpp"
#include "hwy/cache_control.h"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/elementary-inl.h"
#include "kernels/narrow_float-inl.h"

HWY_BEFORE_NAMESPACE();
namespace rlx::kernels {
namespace HWY_NAMESPACE {
namespace {

using Op = ElementwiseOp;
using elementwise::BusyKernel;
using elementwise::Kernel;
using BoolTag = hn::Rebind<uint8_t, F32Tag>;
using I32Tag = hn::RebindToSigned<F32Tag>;

template <class F>
HWY_INLINE void map(void* dst, const void* a, int64_t n, F f) {
  const F32Tag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const float* x = static_cast<const float*>(a);
  float* y = static_cast<float*>(dst);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(f(d, hn::LoadU(d, x + i)), d, y + i);
  if (const auto rest = static_cast<size_t>(n - i)) store_f32_some(f(d, load_f32_some(d, x + i, rest)), d, y + i, rest);
}
template <class F>
HWY_INLINE void map(void* dst, const void* a, const void* b, int64_t n, F f) {
  const F32Tag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const float* x = static_cast<const float*>(a);
  const float* z = static_cast<const float*>(b);
  float* y = static_cast<float*>(dst);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(f(d, hn::LoadU(d, x + i), hn::LoadU(d, z + i)), d, y + i);
  if (const auto rest = static_cast<size_t>(n - i))
    store_f32_some(f(d, load_f32_some(d, x + i, rest), load_f32_some(d, z + i, rest)), d, y + i, rest);
}
template <class F>
HWY_INLINE void map(void* dst, const void* a, const void* b, const void* c, int64_t n, F f) {
  const F32Tag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const float* p = static_cast<const float*>(a);
  const float* q = static_cast<const float*>(b);
  const float* r = static_cast<const float*>(c);
  float* y = static_cast<float*>(dst);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes)
    hn::StoreU(f(d, hn::LoadU(d, p + i), hn::LoadU(d, q + i), hn::LoadU(d, r + i)), d, y + i);
  if (const auto rest = static_cast<size_t>(n - i)) {
    const F32Vec v = f(d, load_f32_some(d, p + i, rest), load_f32_some(d, q + i, rest), load_f32_some(d, r + i, rest));
    store_f32_some(v, d, y + i, rest);
  }
}

template <class F>
HWY_INLINE void map_busy(void* dst, const void* a, int64_t n, const TrafficLines& lines, F f) {
  const F32Tag d;
  const hn::CappedTag<uint8_t, 64> bytes;
  constexpr int64_t kLine = 64, kFloats = kLine / 4;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d)), width = static_cast<int64_t>(hn::Lanes(bytes));
  const float* x = static_cast<const float*>(a);
  float* y = static_cast<float*>(dst);
  const auto move = [&](int64_t line) HWY_ATTR {
    if (line < lines.reads) __builtin_prefetch(lines.read + line * kLine);
    if (line >= lines.writes) return;
    for (int64_t k = line * kLine; k < (line + 1) * kLine; k += width)
      hn::Stream(hn::Load(bytes, reinterpret_cast<const uint8_t*>(lines.from) + k), bytes,
                 reinterpret_cast<uint8_t*>(lines.to) + k);
  };
  int64_t i = 0, line = 0;
  for (; i + kFloats <= n; ++line) {
    move(line);
    for (const int64_t end = i + kFloats; i < end; i += lanes) hn::StoreU(f(d, hn::LoadU(d, x + i)), d, y + i);
  }
  if (i < n) map(y + i, x + i, n - i, f);
  for (; line < std::max(lines.reads, lines.writes); ++line) move(line);
}

// An op written as an expression in the tag `d` and the vectors x, y, z.
#define RLX_UNARY(name, ...)                                                          \
  void name(void* dst, const void* a, const void*, const void*, int64_t n) noexcept { \
    map(dst, a, n, [](F32Tag d, F32Vec x) HWY_ATTR { return (void)d, __VA_ARGS__; }); \
  }
// The same beside memory's work.
#define RLX_COSTLY(name, ...)                                                                     \
  RLX_UNARY(do_##name, __VA_ARGS__)                                                               \
  void busy_##name(void* dst, const void* a, int64_t n, const TrafficLines& lines) noexcept {     \
    map_busy(dst, a, n, lines, [](F32Tag d, F32Vec x) HWY_ATTR { return (void)d, __VA_ARGS__; }); \
  }
#define RLX_BINARY(name, ...)                                                                      \
  void name(void* dst, const void* a, const void* b, const void*, int64_t n) noexcept {            \
    map(dst, a, b, n, [](F32Tag d, F32Vec x, F32Vec y) HWY_ATTR { return (void)d, __VA_ARGS__; }); \
  }

// x86 passes on a NaN in the second operand only.
HWY_INLINE F32Vec max_or_nan(F32Vec x, F32Vec y) { return hn::IfThenElse(hn::IsNaN(x), x, hn::Max(x, y)); }
HWY_INLINE F32Vec min_or_nan(F32Vec x, F32Vec y) { return hn::IfThenElse(hn::IsNaN(x), x, hn::Min(x, y)); }
HWY_INLINE F32Vec half_away_from_zero(F32Tag d, F32Vec x) {
  const F32Vec t = hn::Trunc(x);
  const auto up = hn::Ge(hn::Abs(hn::Sub(x, t)), hn::Set(d, 0.5f));
  return hn::CopySign(hn::IfThenElse(up, hn::Add(t, hn::CopySign(hn::Set(d, 1.0f), x)), t), x);
}
HWY_INLINE F32Vec sign_of(F32Tag d, F32Vec x) {
  const auto is_itself = hn::Or(hn::Eq(x, hn::Zero(d)), hn::IsNaN(x));
  return hn::IfThenElse(is_itself, x, hn::CopySign(hn::Set(d, 1.0f), x));
}

HWY_INLINE F32Vec one_plus_exp_of_minus(F32Tag d, F32Vec x) {
  return hn::Add(hn::Set(d, 1.0f), ExpFast(d, hn::Neg(x)));
}
HWY_INLINE F32Vec logistic(F32Tag d, F32Vec x) { return sigmoid_of(d, x, ExpFast(d, hn::Neg(hn::Abs(x)))); }
/// x / (1 + e^-x). Below 0 it is x m / (1 + e) 2^n with e = m 2^n = e^x: e has few bits left where the result is still
/// a normal number, or rounds to 0 where the result does not.
HWY_INLINE F32Vec silu(F32Tag d, F32Vec x) {
  const F32Vec lowest = hn::Set(d, -125.0f), zero = hn::Zero(d), one = hn::Set(d, 1.0f);
  F32Vec n;
  const F32Vec m = exp_in_parts(d, hn::Max(lowest, hn::Neg(hn::Abs(x))), n);
  const auto negative = hn::Lt(x, zero);
  const F32Vec y = hn::Mul(x, over_one_plus(d, hn::IfThenElse(negative, m, one), ScaleByPowerOfTwo(d, m, n)));
  const F32Vec scaled = ScaleByPowerOfTwo(d, y, hn::IfThenElseZero(negative, n));
  return hn::IfThenElse(hn::Lt(x, lowest), hn::Mul(x, zero), scaled);  // NaN of -infinity
}
/// x (1 + tanh u) / 2 = x logistic(2u), u = sqrt(2 / pi) (x + 0.044715 x^3) (Hendrycks and Gimpel 2016).
HWY_INLINE F32Vec gelu_tanh(F32Tag d, F32Vec x) {
  const F32Vec c = hn::MulAdd(hn::Mul(x, x), hn::Set(d, 0.0713548162f), hn::Set(d, 1.59576912f));
  return hn::Div(x, one_plus_exp_of_minus(d, hn::Mul(c, x)));
}

RLX_UNARY(do_abs, hn::Abs(x))
RLX_UNARY(do_neg, hn::Neg(x))
RLX_UNARY(do_sign, sign_of(d, x))
RLX_UNARY(do_floor, hn::Floor(x))
RLX_UNARY(do_ceil, hn::Ceil(x))
RLX_UNARY(do_trunc, hn::Trunc(x))
RLX_UNARY(do_round_nearest_even, hn::Round(x))
RLX_UNARY(do_round_nearest_afz, half_away_from_zero(d, x))
RLX_COSTLY(exp, ExpFast(d, x))
RLX_UNARY(do_expm1, Expm1(d, x))
RLX_COSTLY(log, Log(d, x))
RLX_UNARY(do_log1p, Log1p(d, x))
RLX_UNARY(do_sqrt, hn::Sqrt(x))
RLX_UNARY(do_rsqrt, hn::Div(hn::Set(d, 1.0f), hn::Sqrt(x)))
RLX_UNARY(do_reciprocal, hn::Div(hn::Set(d, 1.0f), x))
RLX_COSTLY(tanh, TanhFast(d, x))
RLX_COSTLY(erf, Erf(d, x))
RLX_UNARY(do_lgamma, Lgamma(d, x))
RLX_COSTLY(logistic, logistic(d, x))
RLX_COSTLY(gelu_erf, GeluErfFast(d, x))
RLX_COSTLY(gelu_tanh, gelu_tanh(d, x))
RLX_COSTLY(silu, silu(d, x))
RLX_UNARY(do_relu, hn::Max(hn::Zero(d), x))
RLX_BINARY(do_add, hn::Add(x, y))
RLX_BINARY(do_sub, hn::Sub(x, y))
RLX_BINARY(do_mul, hn::Mul(x, y))
RLX_BINARY(do_div, hn::Div(x, y))
RLX_BINARY(do_max, max_or_nan(x, y))
RLX_BINARY(do_min, min_or_nan(x, y))

// Two binary ops in one pass, each rounded by itself: (a op b) op2 c, or c - (a op b).
#define RLX_PAIR(name, ...)                                                                          \
  void name(void* dst, const void* a, const void* b, const void* c, int64_t n) noexcept {            \
    map(dst, a, b, c, n, [](F32Tag, F32Vec x, F32Vec y, F32Vec z) HWY_ATTR { return __VA_ARGS__; }); \
  }
RLX_PAIR(add_add, hn::Add(hn::Add(x, y), z))
RLX_PAIR(add_sub, hn::Sub(hn::Add(x, y), z))
RLX_PAIR(add_mul, hn::Mul(hn::Add(x, y), z))
RLX_PAIR(add_from, hn::Sub(z, hn::Add(x, y)))
RLX_PAIR(sub_add, hn::Add(hn::Sub(x, y), z))
RLX_PAIR(sub_sub, hn::Sub(hn::Sub(x, y), z))
RLX_PAIR(sub_mul, hn::Mul(hn::Sub(x, y), z))
RLX_PAIR(sub_from, hn::Sub(z, hn::Sub(x, y)))
RLX_PAIR(mul_add, hn::Add(hn::Mul(x, y), z))
RLX_PAIR(mul_sub, hn::Sub(hn::Mul(x, y), z))
RLX_PAIR(mul_mul, hn::Mul(hn::Mul(x, y), z))
RLX_PAIR(mul_from, hn::Sub(z, hn::Mul(x, y)))

void do_clamp(void* dst, const void* a, const void* b, const void* c, int64_t n) noexcept {
  map(dst, a, b, c, n,
      [](F32Tag, F32Vec low, F32Vec x, F32Vec high) HWY_ATTR { return min_or_nan(max_or_nan(low, x), high); });
}
#if HWY_NATIVE_FMA
void do_fma(void* dst, const void* a, const void* b, const void* c, int64_t n) noexcept {
  map(dst, a, b, c, n, [](F32Tag, F32Vec x, F32Vec y, F32Vec z) HWY_ATTR { return hn::MulAdd(x, y, z); });
}
#endif

// Lanes whose argument is too large for the fast reduction, or not finite, are done by libm.
template <class Fast, class Exact>
HWY_INLINE F32Vec trig(F32Tag d, F32Vec x, Fast fast, Exact exact) {
  const F32Vec y = fast(SinCos(d, x));
  const auto in_range = hn::Le(hn::Abs(x), hn::Set(d, kTrigLimit));
  if (HWY_LIKELY(hn::AllTrue(d, in_range))) return y;
  HWY_ALIGN float from[hn::MaxLanes(F32Tag())];
  HWY_ALIGN float to[hn::MaxLanes(F32Tag())];
  hn::Store(x, d, from);
  hn::Store(y, d, to);
  for (size_t i = 0; i < hn::Lanes(d); ++i)
    if (!(std::abs(from[i]) <= kTrigLimit)) to[i] = exact(from[i]);
  return hn::Load(d, to);
}
using Both = SinCosResult<F32Vec>;
RLX_UNARY(do_sin, trig(
                      d, x, [](Both v) HWY_ATTR { return v.sin; }, [](float v) { return std::sin(v); }))
RLX_UNARY(do_cos, trig(
                      d, x, [](Both v) HWY_ATTR { return v.cos; }, [](float v) { return std::cos(v); }))
RLX_UNARY(do_tan, trig(
                      d, x, [](Both v) HWY_ATTR { return hn::Div(v.sin, v.cos); }, [](float v) { return std::tan(v); }))

template <class F>
HWY_INLINE void compare(void* dst, const void* a, const void* b, int64_t n, F f) {
  const F32Tag d;
  const I32Tag di;
  const BoolTag db;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const float* x = static_cast<const float*>(a);
  const float* y = static_cast<const float*>(b);
  auto* out = static_cast<uint8_t*>(dst);
  const auto one = hn::Set(di, 1);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto mask = hn::RebindMask(di, f(hn::LoadU(d, x + i), hn::LoadU(d, y + i)));
    hn::StoreU(hn::DemoteTo(db, hn::IfThenElseZero(mask, one)), db, out + i);
  }
  if (const auto rest = static_cast<size_t>(n - i)) {
    const auto mask = hn::RebindMask(di, f(load_f32_some(d, x + i, rest), load_f32_some(d, y + i, rest)));
    HWY_ALIGN int32_t bits[hn::MaxLanes(I32Tag())];
    hn::Store(hn::IfThenElseZero(mask, one), di, bits);
    for (size_t j = 0; j < rest; ++j) out[i + static_cast<int64_t>(j)] = static_cast<uint8_t>(bits[j]);
  }
}
#define RLX_COMPARE(name, ...)                                                          \
  void name(void* dst, const void* a, const void* b, const void*, int64_t n) noexcept { \
    compare(dst, a, b, n, [](F32Vec x, F32Vec y) HWY_ATTR { return __VA_ARGS__; });     \
  }
RLX_COMPARE(do_eq, hn::Eq(x, y))
RLX_COMPARE(do_ne, hn::Not(hn::Eq(x, y)))  // on x86 Ne is false for NaN
RLX_COMPARE(do_lt, hn::Lt(x, y))
RLX_COMPARE(do_le, hn::Le(x, y))
RLX_COMPARE(do_gt, hn::Gt(x, y))
RLX_COMPARE(do_ge, hn::Ge(x, y))

void select_4(void* dst, const void* a, const void* b, const void* c, int64_t n) noexcept {
  const F32Tag d;
  const I32Tag di;
  const BoolTag db;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto* pred = static_cast<const uint8_t*>(a);
  const float* x = static_cast<const float*>(b);
  const float* y = static_cast<const float*>(c);
  float* out = static_cast<float*>(dst);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto bits = hn::PromoteTo(di, hn::LoadU(db, pred + i));
    const auto mask = hn::RebindMask(d, hn::Ne(bits, hn::Zero(di)));
    hn::StoreU(hn::IfThenElse(mask, hn::LoadU(d, x + i), hn::LoadU(d, y + i)), d, out + i);
  }
  for (; i < n; ++i) out[i] = pred[i] ? x[i] : y[i];
}

template <class T>
void load_narrow(void* dst, const void* a, const void*, const void*, int64_t n) noexcept {
  const F32Tag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const T* x = static_cast<const T*>(a);
  float* y = static_cast<float*>(dst);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(load_f32(d, x + i), d, y + i);
  for (; i < n; ++i) y[i] = to_f32(x[i]);
}
template <class T>
void store_narrow(void* dst, const void* a, const void*, const void*, int64_t n) noexcept {
  const F32Tag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const float* x = static_cast<const float*>(a);
  T* y = static_cast<T*>(dst);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) store_f32(hn::LoadU(d, x + i), d, y + i);
  for (; i < n; ++i) y[i] = from_f32<T>(x[i]);
}
template <class T>
void narrow(void* dst, const void* a, const void*, const void*, int64_t n) noexcept {
  map(dst, a, n, [](F32Tag d, F32Vec x) HWY_ATTR {
    HWY_ALIGN T lanes[hn::MaxLanes(F32Tag())];
    store_f32(x, d, lanes);
    return load_f32(d, lanes);
  });
}

Kernel f32_kernel(Op op) {
  switch (op) {
// The formatter never settles on a list of macro calls.
// clang-format off
#define RLX_CASE(name) \
  case Op::name: return do_##name;
    RLX_CASE(abs)
    RLX_CASE(neg)
    RLX_CASE(sign)
    RLX_CASE(floor)
    RLX_CASE(ceil)
    RLX_CASE(trunc)
    RLX_CASE(round_nearest_even) RLX_CASE(round_nearest_afz) RLX_CASE(exp) RLX_CASE(expm1) RLX_CASE(log) RLX_CASE(log1p)
        RLX_CASE(sqrt) RLX_CASE(rsqrt) RLX_CASE(reciprocal) RLX_CASE(sin) RLX_CASE(cos) RLX_CASE(tan) RLX_CASE(tanh)
            RLX_CASE(erf) RLX_CASE(lgamma) RLX_CASE(logistic) RLX_CASE(gelu_erf) RLX_CASE(gelu_tanh) RLX_CASE(silu) RLX_CASE(relu)
                RLX_CASE(add) RLX_CASE(sub) RLX_CASE(mul) RLX_CASE(div) RLX_CASE(max) RLX_CASE(min) RLX_CASE(clamp)
                    RLX_CASE(eq) RLX_CASE(ne) RLX_CASE(lt) RLX_CASE(le) RLX_CASE(gt) RLX_CASE(ge)
#if HWY_NATIVE_FMA
                        RLX_CASE(fma)
#endif
#undef RLX_CASE
        // clang-format on
        case Op::select : return select_4;
    default: return nullptr;
  }
}
BusyKernel busy_kernel(Op op) {
  switch (op) {
    case Op::exp: return busy_exp;
    case Op::log: return busy_log;
    case Op::tanh: return busy_tanh;
    case Op::erf: return busy_erf;
    case Op::logistic: return busy_logistic;
    case Op::gelu_erf: return busy_gelu_erf;
    case Op::gelu_tanh: return busy_gelu_tanh;
    case Op::silu: return busy_silu;
    default: return nullptr;
  }
}
Kernel pair_kernel(Op first, Op second, bool first_is_right) {
  const int row = first == Op::add ? 0 : first == Op::sub ? 1 : first == Op::mul ? 2 : -1;
  const int column = second == Op::add ? 0 : second == Op::sub ? (first_is_right ? 3 : 1) : second == Op::mul ? 2 : -1;
  if (row < 0 || column < 0) return nullptr;
  static constexpr Kernel kernels[3][4] = {{add_add, add_sub, add_mul, add_from},
                                           {sub_add, sub_sub, sub_mul, sub_from},
                                           {mul_add, mul_sub, mul_mul, mul_from}};
  return kernels[row][column];
}
enum class Move { load, store, narrow };
Kernel f16_kernel(Move what, bool is_f16) {
  switch (what) {
    case Move::load: return is_f16 ? load_narrow<F16> : load_narrow<BF16>;
    case Move::store: return is_f16 ? store_narrow<F16> : store_narrow<BF16>;
    case Move::narrow: break;
  }
  return is_f16 ? narrow<F16> : narrow<BF16>;
}
Kernel load_kernel(bool is_f16) { return f16_kernel(Move::load, is_f16); }
Kernel store_kernel(bool is_f16) { return f16_kernel(Move::store, is_f16); }
Kernel narrow_kernel(bool is_f16) { return f16_kernel(Move::narrow, is_f16); }

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace rlx::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rlx::kernels {
namespace {
HWY_EXPORT(f32_kernel);
HWY_EXPORT(busy_kernel);
HWY_EXPORT(pair_kernel);
HWY_EXPORT(load_kernel);
HWY_EXPORT(store_kernel);
HWY_EXPORT(narrow_kernel);
}  // namespace
namespace elementwise {

Kernel find_f32(ElementwiseOp op) { return HWY_DYNAMIC_DISPATCH(f32_kernel)(op); }
BusyKernel find_f32_busy(ElementwiseOp op) { return HWY_DYNAMIC_DISPATCH(busy_kernel)(op); }
Kernel find_f32_pair(ElementwiseOp first, ElementwiseOp second, bool first_is_right) {
  return HWY_DYNAMIC_DISPATCH(pair_kernel)(first, second, first_is_right);
}
Kernel find_load_f16(DType t) { return HWY_DYNAMIC_DISPATCH(load_kernel)(t == f16); }
Kernel find_store_f16(DType t) { return HWY_DYNAMIC_DISPATCH(store_kernel)(t == f16); }
Kernel find_narrow_f16(DType t) { return HWY_DYNAMIC_DISPATCH(narrow_kernel)(t == f16); }

}  // namespace elementwise
}  // namespace rlx::kernels
#endif  // HWY_ONCE
