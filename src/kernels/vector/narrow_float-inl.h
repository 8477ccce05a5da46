// Loads and stores vectors of f32 from and to memory that holds f32, f16 or bf16. Compiled per target (Highway's quick
// reference, "per-target headers"). Stores round to nearest, ties to even, on every target (Highway's own demotions to
// bf16, and to f16 on SSE4, truncate). Neighbour: narrow_float.h, the same for single elements.
#if defined(RLX_KERNELS_VECTOR_NARROW_FLOAT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RLX_KERNELS_VECTOR_NARROW_FLOAT_INL_H_
#undef RLX_KERNELS_VECTOR_NARROW_FLOAT_INL_H_
#else
#define RLX_KERNELS_VECTOR_NARROW_FLOAT_INL_H_
#endif

#include <cstddef>
#include <cstring>

#include "hwy/highway.h"
#include "kernels/vector/narrow_float.h"

HWY_BEFORE_NAMESPACE();
namespace rlx::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using F32Tag = hn::ScalableTag<float>;
using F32Vec = hn::Vec<F32Tag>;

/// The number of vector registers. Sums that do not fit into them are loaded and stored at each addition.
inline constexpr int kVectorRegisters = HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_SSE4 ? 16 : 32;

// `d` is any tag of f32.
template <class DF>
HWY_INLINE hn::Vec<DF> load_f32(DF d, const float* from) {
  return hn::LoadU(d, from);
}
template <class DF>
HWY_INLINE hn::Vec<DF> load_f32(DF d, const BF16* from) {
  const hn::Rebind<uint16_t, DF> du16;
  const hn::RebindToUnsigned<DF> du32;
  const auto half = hn::LoadU(du16, reinterpret_cast<const uint16_t*>(from));
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(du32, half)));
}
template <class DF>
HWY_INLINE hn::Vec<DF> load_f32(DF d, const F16* from) {
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
  const hn::Rebind<hwy::float16_t, DF> df16;
  return hn::PromoteTo(d, hn::LoadU(df16, reinterpret_cast<const hwy::float16_t*>(from)));
#else
  const hn::Rebind<uint16_t, DF> du16;
  const hn::RebindToUnsigned<DF> du32;
  const auto narrow_bits = hn::PromoteTo(du32, hn::LoadU(du16, reinterpret_cast<const uint16_t*>(from)));
  const auto sign = hn::ShiftLeft<16>(hn::And(narrow_bits, hn::Set(du32, 0x8000u)));
  const auto magnitude = hn::ShiftLeft<13>(hn::And(narrow_bits, hn::Set(du32, 0x7fffu)));
  const auto finite = hn::BitCast(du32, hn::Mul(hn::BitCast(d, magnitude), hn::Set(d, 0x1p112f)));
  const auto special = hn::Or(magnitude, hn::Set(du32, 0x7f800000u));
  const auto is_special = hn::Gt(magnitude, hn::Set(du32, 0x0f7fffffu));
  return hn::BitCast(d, hn::Or(sign, hn::IfThenElse(is_special, special, finite)));
#endif
}

HWY_INLINE void store_f32(F32Vec v, F32Tag d, float* to) { hn::StoreU(v, d, to); }
HWY_INLINE void store_f32(F32Vec v, F32Tag, BF16* to) {
  const hn::Rebind<uint16_t, F32Tag> du16;
  const hn::RebindToUnsigned<F32Tag> du32;
  const hn::RebindToSigned<F32Tag> di32;
  const auto bits = hn::BitCast(du32, v);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du32, 1u));
  const auto rounded = hn::Add(bits, hn::Add(odd, hn::Set(du32, 0x7fffu)));
  const auto quiet = hn::Or(bits, hn::Set(du32, 0x400000u));
  const auto is_nan = hn::RebindMask(du32, hn::IsNaN(v));
  const auto narrow_bits = hn::ShiftRight<16>(hn::IfThenElse(is_nan, quiet, rounded));
  hn::StoreU(hn::DemoteTo(du16, hn::BitCast(di32, narrow_bits)), du16, reinterpret_cast<uint16_t*>(to));
}
HWY_INLINE void store_f32(F32Vec v, [[maybe_unused]] F32Tag d, F16* to) {
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
  const hn::Rebind<hwy::float16_t, F32Tag> df16;
  hn::StoreU(hn::DemoteTo(df16, v), df16, reinterpret_cast<hwy::float16_t*>(to));
#else
  const hn::Rebind<uint16_t, F32Tag> du16;
  const hn::RebindToUnsigned<F32Tag> du32;
  const hn::RebindToSigned<F32Tag> di32;
  const auto bits = hn::BitCast(du32, v);
  const auto sign = hn::And(hn::ShiftRight<16>(bits), hn::Set(du32, 0x8000u));
  const auto magnitude = hn::And(bits, hn::Set(du32, 0x7fffffffu));
  const auto half = hn::Set(d, 0.5f);
  const auto subnormal = hn::Sub(hn::BitCast(du32, hn::Add(hn::BitCast(d, magnitude), half)), hn::BitCast(du32, half));
  const auto odd = hn::And(hn::ShiftRight<13>(magnitude), hn::Set(du32, 1u));
  const auto bias = hn::Set(du32, 0xfffu - (112u << 23));
  auto narrow_bits = hn::ShiftRight<13>(hn::Add(magnitude, hn::Add(bias, odd)));
  narrow_bits = hn::IfThenElse(hn::Lt(magnitude, hn::Set(du32, 0x38800000u)), subnormal, narrow_bits);
  narrow_bits = hn::IfThenElse(hn::Gt(magnitude, hn::Set(du32, 0x477fffffu)), hn::Set(du32, 0x7c00u), narrow_bits);
  narrow_bits = hn::IfThenElse(hn::Gt(magnitude, hn::Set(du32, 0x7f800000u)), hn::Set(du32, 0x7e00u), narrow_bits);
  hn::StoreU(hn::DemoteTo(du16, hn::BitCast(di32, hn::Or(sign, narrow_bits))), du16, reinterpret_cast<uint16_t*>(to));
#endif
}

/// Loads only the first `count` elements (fewer than a vector); the other lanes are set to `rest`.
template <class T>
HWY_INLINE F32Vec load_f32_some(F32Tag d, const T* from, size_t count, float rest = 0) {
  HWY_ALIGN float lanes[hn::MaxLanes(F32Tag())];
  for (size_t i = 0; i < hn::Lanes(d); ++i) lanes[i] = i < count ? to_f32(from[i]) : rest;
  return hn::Load(d, lanes);
}
template <class T>
HWY_INLINE void store_f32_some(F32Vec v, F32Tag d, T* to, size_t count) {
  HWY_ALIGN float lanes[hn::MaxLanes(F32Tag())];
  hn::Store(v, d, lanes);
  for (size_t i = 0; i < count; ++i) to[i] = from_f32<T>(lanes[i]);
}
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3  // masked memory access is native
HWY_INLINE F32Vec load_f32_some(F32Tag d, const float* from, size_t count, float rest = 0) {
  const auto mask = hn::FirstN(d, count);
  return hn::IfThenElse(mask, hn::MaskedLoad(mask, d, from), hn::Set(d, rest));
}
HWY_INLINE void store_f32_some(F32Vec v, F32Tag d, float* to, size_t count) {
  hn::BlendedStore(v, hn::FirstN(d, count), d, to);
}
#endif

}  // namespace HWY_NAMESPACE
}  // namespace rlx::kernels
HWY_AFTER_NAMESPACE();

#endif  // RLX_KERNELS_VECTOR_NARROW_FLOAT_INL_H_
