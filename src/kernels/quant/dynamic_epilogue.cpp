// See the header.
#include "kernels/quant/dynamic_epilogue.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "kernels/vector/highway_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/quant/dynamic_epilogue.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/quant/row_vectors-inl.h"
#include "kernels/vector/activation-inl.h"
#include "kernels/vector/bf16_pairs-inl.h"

HWY_BEFORE_NAMESPACE();
namespace rlx::kernels {
namespace HWY_NAMESPACE {
namespace {

template <class T, class Act>
HWY_INLINE void epilogue_of_rows(const DynamicTile& tile, Act act) {
  const DynamicTile t = tile;  // which no store changes
  const DRow d;
  const DBits di;
  const hn::RebindToUnsigned<DBits> du;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t i = 0; i < t.rows; ++i) {
    const auto x_scale = hn::Set(d, t.x_scale[i]);
    const T* residual = t.residual ? static_cast<const T*>(t.residual) + i * t.residual_stride : nullptr;
    T* y = static_cast<T*>(t.y) + i * t.y_stride;
    const auto value = [&](int64_t j, auto load) HWY_ATTR {
      auto sum = hn::LoadU(di, t.sums + i * t.stride + j);
      if (t.column_sums) sum = hn::Sub(sum, hn::BitCast(di, hn::ShiftLeft<7>(hn::LoadU(du, t.column_sums + j))));
      if (t.low) sum = hn::Add(hn::ShiftLeft<7>(sum), hn::LoadU(di, t.low + i * t.stride + j));
      auto v = hn::ConvertTo(d, sum);
      // Not by Min and Max, which drop a NaN on some processors.
      const auto w_scale = load(t.w_scale + j);
      const auto is_w_less = hn::Lt(w_scale, x_scale);
      v = hn::Mul(v, hn::IfThenElse(is_w_less, w_scale, x_scale));
      v = hn::Mul(v, hn::IfThenElse(is_w_less, x_scale, w_scale));
      if (t.bias) v = hn::Add(v, load(t.bias + j));
      if (residual && t.residual_first) v = hn::Add(v, load(residual + j));
      v = act(d, v);
      if (t.factor) v = hn::Mul(v, load(t.factor + j));
      if (t.residual_first) return v;
      return residual ? hn::Add(v, load(residual + j)) : v;
    };
    int64_t j = 0;
    for (; j + lanes <= t.columns; j += lanes)
      store_f32(value(j, [&](const auto* from) HWY_ATTR { return load_f32(d, from); }), d, y + j);
    if (j == t.columns) continue;
    HWY_ALIGN T last[16];
    const int64_t count = t.columns - j;
    store_f32(value(j, [&](const auto* from) HWY_ATTR { return load_some(from, count); }), d, last);
    std::memcpy(y + j, last, static_cast<size_t>(count) * sizeof(T));
  }
}

#if HWY_TARGET == HWY_AVX3 && RLX_HAS_TILES

/// Stores the first `columns` of two vectors, all 32 if kWhole.
template <bool kWhole, bool kRounds>
HWY_INLINE void store_both(hn::Vec<DRow> v0, hn::Vec<DRow> v1, int64_t columns, float* to) {
  const DRow d;
  if constexpr (kWhole) {
    hn::StoreU(v0, d, to), hn::StoreU(v1, d, to + 16);
  } else {
    hn::BlendedStore(v0, hn::FirstN(d, static_cast<size_t>(std::min<int64_t>(columns, 16))), d, to);
    hn::BlendedStore(v1, hn::FirstN(d, static_cast<size_t>(std::max<int64_t>(columns - 16, 0))), d, to + 16);
  }
}
template <bool kWhole, bool kRounds>
HWY_INLINE void store_both(hn::Vec<DRow> v0, hn::Vec<DRow> v1, int64_t columns, BF16* to) {
  const DNarrow d;
  auto out = rounded_to_bf16<kRounds>(v0, v1);
  if constexpr (kRounds) {
    // The instruction makes zeros of subnormal numbers, which other processors round as all others.
    constexpr int kIsSubnormal = 0x20;
    const auto some = _mm512_fpclass_ps_mask(v0.raw, kIsSubnormal) | _mm512_fpclass_ps_mask(v1.raw, kIsSubnormal);
    if (HWY_UNLIKELY(some != 0)) out = rounded_to_bf16<false>(v0, v1);
  }
  auto* const bits = reinterpret_cast<uint16_t*>(to);
  if constexpr (kWhole) hn::StoreU(out, d, bits);
  else hn::BlendedStore(out, hn::FirstN(d, static_cast<size_t>(columns)), d, bits);
}
HWY_INLINE hn::Vec<DRow> load_part(const float* from, hn::Mask<DRow> mask) {
  return hn::MaskedLoad(mask, DRow(), from);
}
HWY_INLINE hn::Vec<DRow> load_part(const BF16* from, hn::Mask<DRow> mask) {
  const DNarrowHalf d;
  return widened(
      hn::MaskedLoad(hn::FirstN(d, hn::CountTrue(DRow(), mask)), d, reinterpret_cast<const uint16_t*>(from)));
}

/// The epilogue of up to 32 columns that VNNI has multiplied; it adds the outliers, too.
template <class T, bool kWhole, bool kRounds, class Act>
class DotsEpilogue {
 public:
  DotsEpilogue(const DynamicTile& tile, Act act) : t_(tile), act_(act) {
    mask_[0] = hn::FirstN(DRow(), static_cast<size_t>(std::min<int64_t>(t_.columns, 16)));
    mask_[1] = hn::FirstN(DRow(), static_cast<size_t>(std::max<int64_t>(t_.columns - 16, 0)));
  }
  HWY_INLINE void run() const {
    if (t_.outliers) rows<true>();
    else rows<false>();
  }

 private:
  using Tag = hn::UnrolledTag<DRow, 2>;  // both vectors of a row
  using Floats = hn::Unrolled<hn::Vec<DRow>, 2>;
  using Ints = hn::Unrolled<hn::Vec<DBits>, 2>;

  /// 32 columns, of which those that are not there are 0.
  template <class X>
  HWY_INLINE Floats load(const X* from) const {
    if constexpr (kWhole) return {{load_f32(DRow(), from), load_f32(DRow(), from + 16)}};
    else return {{load_part(from, mask_[0]), load_part(from + 16, mask_[1])}};
  }
  HWY_INLINE static Ints load_sums(const int32_t* from) {
    return {{hn::Load(DBits(), from), hn::Load(DBits(), from + 16)}};
  }
  template <bool kOutliers>
  HWY_INLINE void rows() const {
    const Tag d;
    const hn::RebindToSigned<Tag> di;
    // What is not there adds -0, which changes no number, and multiplies by 1.
    const Floats w_scale = load(t_.w_scale), bias = t_.bias ? load(t_.bias) : hn::Set(d, -0.0f);
    const Floats factor = t_.factor ? load(t_.factor) : hn::Set(d, 1.0f);
    Ints shift = hn::Zero(di);
    if (t_.column_sums) shift = hn::ShiftLeft<7>(hn::BitCast(di, load(reinterpret_cast<const float*>(t_.column_sums))));
    const T* residual = static_cast<const T*>(t_.residual);
    T* y = static_cast<T*>(t_.y);
    const Outlier* outlier = t_.outliers;
    for (int64_t i = 0; i < t_.rows; ++i, y += t_.y_stride) {
      Ints sum = hn::Sub(load_sums(t_.sums + i * t_.stride), shift);
      if (t_.low) sum = hn::Add(hn::ShiftLeft<7>(sum), load_sums(t_.low + i * t_.stride));
      if constexpr (kOutliers) {
        __m512i sum0 = sum.v[0].raw, sum1 = sum.v[1].raw;
        RLX_UNROLL
        for (int o = 0; o < kMostOutliers; ++o, ++outlier) {
          // One byte of a quad times its weight, in 16 bits; the other products are 0.
          const __m512i left = _mm512_set1_epi32(static_cast<int32_t>(outlier->quad));
          const __m512i factors = _mm512_set1_epi32(outlier->factors);
          const char* const weights = t_.right + (outlier->at & ~3);
          const __m512i high0 = _mm512_maddubs_epi16(left, _mm512_load_si512(weights));
          const __m512i high1 = _mm512_maddubs_epi16(left, _mm512_load_si512(weights + kTileBytes));
          asm("vpdpwssd %2, %1, %0" : "+v"(sum0) : "v"(high0), "v"(factors));
          asm("vpdpwssd %2, %1, %0" : "+v"(sum1) : "v"(high1), "v"(factors));
        }
        sum.v[0].raw = sum0, sum.v[1].raw = sum1;
      }
      // Not by Min and Max, which drop a NaN.
      const Floats x_scale = hn::Set(d, t_.x_scale[i]);
      const auto is_w_less = hn::Lt(w_scale, x_scale);
      Floats v = hn::Mul(hn::ConvertTo(d, sum), hn::IfThenElse(is_w_less, w_scale, x_scale));
      v = hn::Add(hn::Mul(v, hn::IfThenElse(is_w_less, x_scale, w_scale)), bias);
      if (residual && t_.residual_first) v = hn::Add(v, load(residual));
      v = hn::Mul(act_(d, v), factor);
      if (residual && !t_.residual_first) v = hn::Add(v, load(residual));
      if (residual) residual += t_.residual_stride;
      store_both<kWhole, kRounds>(v.v[0], v.v[1], t_.columns, y);
    }
  }

  const DynamicTile t_;  // which no store changes
  const Act act_;
  hn::Mask<DRow> mask_[2];
};

#endif

}  // namespace

void add_outlier_products_here(const Outlier* outliers, int64_t count, int64_t rows, const char* right, int32_t* sums,
                               int64_t stride) {
  const DBits d;
  constexpr auto kVectors = static_cast<int>(kTiledColumns / hn::MaxLanes(DBits()));
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t i = 0; i < rows; ++i, outliers += kMostOutliers, sums += stride) {
    hn::Vec<DBits> sum[kVectors];
    RLX_UNROLL
    for (int v = 0; v < kVectors; ++v) sum[v] = hn::LoadU(d, sums + v * lanes);
    for (int64_t o = 0; o < count; ++o) {
      const int32_t at = outliers[o].at, byte = at % 4;
      const auto high = hn::Set(d, outliers[o].high);
      RLX_UNROLL
      for (int v = 0; v < kVectors; ++v) {
        const char* quads = right + (at - byte) + v * lanes / kTileRows * kTileBytes + v * lanes % kTileRows * 4;
        const auto w = hn::ShiftLeftSame(hn::LoadU(d, reinterpret_cast<const int32_t*>(quads)), 24 - 8 * byte);
        sum[v] = hn::Add(sum[v], hn::Mul(hn::ShiftRight<24>(w), high));
      }
    }
    RLX_UNROLL
    for (int v = 0; v < kVectors; ++v) hn::StoreU(sum[v], d, sums + v * lanes);
  }
}

void apply_dynamic_epilogue_here(const DynamicTile& tile, Activation activation) {
  with_activation(activation, [&](auto act) HWY_ATTR {
    if (tile.dtype == bf16) epilogue_of_rows<BF16>(tile, act);
    else epilogue_of_rows<float>(tile, act);
  });
}

void apply_dots_epilogue_here([[maybe_unused]] const DynamicTile& tile, [[maybe_unused]] Activation activation,
                              [[maybe_unused]] bool rounds) {
#if HWY_TARGET == HWY_AVX3 && RLX_HAS_TILES
  with_activation(activation, [&](auto act) HWY_ATTR {
    const bool is_whole = tile.columns == kTiledColumns;
    using Act = decltype(act);
    if (tile.dtype == f32 && is_whole) DotsEpilogue<float, true, false, Act>(tile, act).run();
    else if (tile.dtype == f32) DotsEpilogue<float, false, false, Act>(tile, act).run();
    else if (rounds && is_whole) DotsEpilogue<BF16, true, true, Act>(tile, act).run();
    else if (rounds) DotsEpilogue<BF16, false, true, Act>(tile, act).run();
    else DotsEpilogue<BF16, false, false, Act>(tile, act).run();
  });
#endif
}

}  // namespace HWY_NAMESPACE
}  // namespace rlx::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rlx::kernels {

HWY_EXPORT(add_outlier_products_here);
HWY_EXPORT(apply_dynamic_epilogue_here);
HWY_EXPORT(apply_dots_epilogue_here);

void apply_dynamic_epilogue(const DynamicTile& tile, Activation activation) {
  HWY_DYNAMIC_DISPATCH(apply_dynamic_epilogue_here)(tile, activation);
}
void apply_dots_epilogue(const DynamicTile& tile, Activation activation, bool rounds) {
  HWY_DYNAMIC_DISPATCH(apply_dots_epilogue_here)(tile, activation, rounds);
}
void add_outlier_products(const Outlier* outliers, int64_t count, int64_t rows, const char* right, int32_t* sums,
                          int64_t stride) {
  HWY_DYNAMIC_DISPATCH(add_outlier_products_here)(outliers, count, rows, right, sums, stride);
}

}  // namespace rlx::kernels
#endif
