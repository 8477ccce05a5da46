// Two vectors of f32 from and to one of bf16, for kernels beside matrix tiles: compiled for AVX-512 alone. Neighbour:
// narrow_float-inl.h, for one vector on every target.
#if defined(RLX_KERNELS_VECTOR_BF16_PAIRS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RLX_KERNELS_VECTOR_BF16_PAIRS_INL_H_
#undef RLX_KERNELS_VECTOR_BF16_PAIRS_INL_H_
#else
#define RLX_KERNELS_VECTOR_BF16_PAIRS_INL_H_
#endif

#include "hwy/highway.h"
#include "kernels/gemm/amx/tiles.h"

#if HWY_TARGET == HWY_AVX3 && RLX_HAS_TILES
HWY_BEFORE_NAMESPACE();
namespace rlx::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using DWide = hn::ScalableTag<float>;
using DWideBits = hn::ScalableTag<uint32_t>;
using DNarrow = hn::ScalableTag<uint16_t>;
using DNarrowHalf = hn::Half<DNarrow>;

HWY_INLINE hn::Vec<DWide> widened(hn::Vec<DNarrowHalf> v) {
  return hn::BitCast(DWide(), hn::ShiftLeft<16>(hn::PromoteTo(DWideBits(), v)));
}
/// To nearest, ties to even; NaN stays one.
HWY_INLINE hn::Vec<DNarrowHalf> rounded_to_bf16(hn::Vec<DWide> v) {
  const DWideBits d;
  const auto bits = hn::BitCast(d, v);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(d, 1u));
  const auto to_even = hn::Add(bits, hn::Add(odd, hn::Set(d, 0x7fffu)));
  const auto quiet = hn::Or(bits, hn::Set(d, 0x400000u));
  const auto narrow = hn::ShiftRight<16>(hn::IfThenElse(hn::RebindMask(d, hn::IsNaN(v)), quiet, to_even));
  return hn::DemoteTo(DNarrowHalf(), hn::BitCast(hn::RebindToSigned<DWideBits>(), narrow));
}
/// `low` becomes the lower lanes. kRounds, only if tiles_round_to_bf16(): by that instruction, subnormal numbers as 0.
template <bool kRounds>
HWY_INLINE hn::Vec<DNarrow> rounded_to_bf16(hn::Vec<DWide> low, hn::Vec<DWide> high) {
  if constexpr (kRounds) {
    hn::Vec<DNarrow> out;
    asm("vcvtne2ps2bf16 %2, %1, %0" : "=v"(out.raw) : "v"(high.raw), "v"(low.raw));
    return out;
  } else {
    return hn::Combine(DNarrow(), rounded_to_bf16(high), rounded_to_bf16(low));
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace rlx::kernels
HWY_AFTER_NAMESPACE();
#endif

#endif  // RLX_KERNELS_VECTOR_BF16_PAIRS_INL_H_
