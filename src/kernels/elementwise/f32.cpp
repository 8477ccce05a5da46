// Vectorized loops over tiles: the f32 ops of f32-inl.h, and conversions between f32 and f16 or bf16. float.cpp has the
// scalar reference loops of all float ops.
#include <cstring>

#include "kernels/elementwise/loops.h"
#include "kernels/vector/highway_targets.h"
#include "kernels/vector/narrow_float.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/elementwise/f32.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/elementwise/f32-inl.h"
#include "kernels/memory/memory_traffic-inl.h"

HWY_BEFORE_NAMESPACE();
namespace rlx::kernels {
namespace HWY_NAMESPACE {
namespace {

using elementwise::InterleavedKernel;
using elementwise::Kernel;

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

/// Does the memory traffic of one cache line before the arithmetic of each 16 elements.
template <Op op>
void interleaved_kernel(void* dst, const void* a, int64_t n, const MemoryTraffic::CacheLines& cache_lines) noexcept {
  const F32Tag d;
  constexpr auto kFloats = static_cast<int64_t>(MemoryTraffic::kCacheLine / sizeof(float));
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const float* x = static_cast<const float*>(a);
  float* y = static_cast<float*>(dst);
  int64_t i = 0;
  for (int64_t cache_line = 0; i + kFloats <= n; ++cache_line) {
    move_cache_line(cache_lines, cache_line);
    for (const int64_t end = i + kFloats; i < end; i += lanes) hn::StoreU(unary<op>(d, hn::LoadU(d, x + i)), d, y + i);
  }
  if (i < n) map(y + i, x + i, n - i, [](F32Tag, F32Vec v) HWY_ATTR { return unary<op>(F32Tag(), v); });
}

template <Op op>
void unary_kernel(void* dst, const void* a, const void*, const void*, int64_t n) noexcept {
  map(dst, a, n, [](F32Tag d, F32Vec x) HWY_ATTR { return unary<op>(d, x); });
}
template <Op op>
void binary_kernel(void* dst, const void* a, const void* b, const void*, int64_t n) noexcept {
  map(dst, a, b, n, [](F32Tag, F32Vec x, F32Vec y) HWY_ATTR { return binary<op>(x, y); });
}
void do_clamp(void* dst, const void* a, const void* b, const void* c, int64_t n) noexcept {
  map(dst, a, b, c, n, [](F32Tag, F32Vec low, F32Vec x, F32Vec high) HWY_ATTR { return clamp(low, x, high); });
}
#if HWY_NATIVE_FMA
void do_fma(void* dst, const void* a, const void* b, const void* c, int64_t n) noexcept {
  map(dst, a, b, c, n, [](F32Tag, F32Vec x, F32Vec y, F32Vec z) HWY_ATTR { return hn::MulAdd(x, y, z); });
}
#endif

template <Op op>
void compare_kernel(void* dst, const void* a, const void* b, const void*, int64_t n) noexcept {
  const F32Tag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const float* x = static_cast<const float*>(a);
  const float* y = static_cast<const float*>(b);
  auto* out = static_cast<uint8_t*>(dst);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) store_mask(compare<op>(hn::LoadU(d, x + i), hn::LoadU(d, y + i)), out + i);
  if (const auto rest = static_cast<size_t>(n - i)) {
    HWY_ALIGN uint8_t bits[hn::MaxLanes(BoolTag())];
    store_mask(compare<op>(load_f32_some(d, x + i, rest), load_f32_some(d, y + i, rest)), bits);
    std::memcpy(out + i, bits, rest);
  }
}

void select_4(void* dst, const void* a, const void* b, const void* c, int64_t n) noexcept {
  const F32Tag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto* pred = static_cast<const uint8_t*>(a);
  const float* x = static_cast<const float*>(b);
  const float* y = static_cast<const float*>(c);
  float* out = static_cast<float*>(dst);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes)
    hn::StoreU(hn::IfThenElse(load_mask(pred + i), hn::LoadU(d, x + i), hn::LoadU(d, y + i)), d, out + i);
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
  map(dst, a, n, [](F32Tag d, F32Vec x) HWY_ATTR { return narrowed<T>(d, x); });
}

template <Op... ops>
Kernel find_unary(OpList<ops...>, Op op) {
  Kernel found = nullptr;
  ((op == ops ? void(found = unary_kernel<ops>) : void()), ...);
  return found;
}
template <Op... ops>
Kernel find_binary(OpList<ops...>, Op op) {
  Kernel found = nullptr;
  ((op == ops ? void(found = binary_kernel<ops>) : void()), ...);
  return found;
}
template <Op... ops>
Kernel find_compare(OpList<ops...>, Op op) {
  Kernel found = nullptr;
  ((op == ops ? void(found = compare_kernel<ops>) : void()), ...);
  return found;
}
template <Op... ops>
InterleavedKernel find_interleaved(OpList<ops...>, Op op) {
  InterleavedKernel found = nullptr;
  ((op == ops ? void(found = interleaved_kernel<ops>) : void()), ...);
  return found;
}
InterleavedKernel f32_interleaved_kernel(Op op) { return find_interleaved(LongOps(), op); }
Kernel f32_kernel(Op op) {
  switch (op) {
    case Op::select: return select_4;
    case Op::clamp: return do_clamp;
#if HWY_NATIVE_FMA
    case Op::fma: return do_fma;
#endif
    default: break;
  }
  if (const Kernel found = find_unary(UnaryOps(), op)) return found;
  if (const Kernel found = find_unary(LongOps(), op)) return found;
  if (const Kernel found = find_binary(BinaryOps(), op)) return found;
  return find_compare(CompareOps(), op);
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
HWY_EXPORT(f32_interleaved_kernel);
HWY_EXPORT(load_kernel);
HWY_EXPORT(store_kernel);
HWY_EXPORT(narrow_kernel);
}  // namespace
namespace elementwise {

Kernel find_f32(ElementwiseOp op) { return HWY_DYNAMIC_DISPATCH(f32_kernel)(op); }
InterleavedKernel find_f32_interleaved(ElementwiseOp op) { return HWY_DYNAMIC_DISPATCH(f32_interleaved_kernel)(op); }
Kernel find_load_f16(DType t) { return HWY_DYNAMIC_DISPATCH(load_kernel)(t == f16); }
Kernel find_store_f16(DType t) { return HWY_DYNAMIC_DISPATCH(store_kernel)(t == f16); }
Kernel find_narrow_f16(DType t) { return HWY_DYNAMIC_DISPATCH(narrow_kernel)(t == f16); }

}  // namespace elementwise
}  // namespace rlx::kernels
#endif  // HWY_ONCE
