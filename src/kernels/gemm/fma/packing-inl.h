// Packing: a panel of columns becomes k rows of `width` adjacent elements, converted and padded with zeros. The left
// operand is packed as panels of its transpose. Compiled per target.
#if defined(RLX_KERNELS_GEMM_FMA_PACKING_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RLX_KERNELS_GEMM_FMA_PACKING_INL_H_
#undef RLX_KERNELS_GEMM_FMA_PACKING_INL_H_
#else
#define RLX_KERNELS_GEMM_FMA_PACKING_INL_H_
#endif

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "hwy/highway.h"
#include "kernels/gemm/fma/micro_kernels.h"
#include "kernels/vector/narrow_float-inl.h"

HWY_BEFORE_NAMESPACE();
namespace rlx::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class Out, class In>
HWY_INLINE Out converted(In v) {
  if constexpr (std::is_same_v<Out, In>) return v;
  else return static_cast<Out>(to_f32(v));
}

// Loads a vector of In, converted to f32 if d is for float, else unchanged.
template <class D, class In>
HWY_INLINE hn::Vec<D> load_converted(D d, const In* from) {
  if constexpr (std::is_same_v<hn::TFromD<D>, float>) return load_f32(d, from);
  else return hn::LoadU(d, reinterpret_cast<const hn::TFromD<D>*>(from));
}

// The lane type for copying T: f16 and bf16 that are not converted are copied as 16-bit integers.
template <class T>
using LaneOf = std::conditional_t<std::is_same_v<T, F16> || std::is_same_v<T, BF16>, uint16_t, T>;

// Copies or converts one row of a panel. It is too short for memcpy: the call would cost as much as the copy.
template <class Out, class In>
HWY_INLINE void copy_row(const In* from, int64_t count, Out* to) {
  using Lane = LaneOf<Out>;
  const hn::ScalableTag<Lane> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) hn::StoreU(load_converted(d, from + i), d, reinterpret_cast<Lane*>(to + i));
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
  // Panels of the left operand are about eight rows wide: half a vector, or less than one.
  if constexpr (std::is_same_v<Out, float> && std::is_same_v<In, float>) {
    const hn::Half<decltype(d)> half;
    if (count - i == lanes / 2) {
      hn::StoreU(hn::LoadU(half, from + i), half, to + i);
    } else if (i < count) {
      const auto mask = hn::FirstN(d, static_cast<size_t>(count - i));
      hn::BlendedStore(hn::MaskedLoad(mask, d, from + i), mask, d, to + i);
    }
    return;
  }
#endif
  for (; i < count; ++i) to[i] = converted<Out>(from[i]);
}

// Packs four columns whose elements are adjacent along k: vectors of the four are interleaved, and each group of four
// elements is stored in its row. Returns how many rows are done, a multiple of the vector.
template <class Out, class In>
int64_t transpose_four(const In* from, int64_t column_stride, int64_t k, int64_t width, Out* out) {
  using Lane = LaneOf<Out>;
  const hn::ScalableTag<Lane> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  HWY_ALIGN Lane groups[4 * hn::MaxLanes(d)];
  int64_t done = 0;
  for (; done + lanes <= k; done += lanes) {
    hn::StoreInterleaved4(load_converted(d, from + done), load_converted(d, from + column_stride + done),
                          load_converted(d, from + 2 * column_stride + done),
                          load_converted(d, from + 3 * column_stride + done), d, groups);
    for (int64_t i = 0; i < lanes; ++i) std::memcpy(out + (done + i) * width, groups + 4 * i, 4 * sizeof(Lane));
  }
  return done;
}

#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
// Packs as many columns as a vector has lanes, each adjacent along k, four rows at a time: four elements of column
// 4 b + v are loaded into the 128-bit block b of vector v, and each block is transposed as 4 x 4. Returns how many rows
// are done, a multiple of four.
template <class In>
int64_t transpose_vectors(const In* from, int64_t column_stride, int64_t k, int64_t width, float* out) {
  const F32Tag d;
  const hn::Full128<float> d4;
  const hn::RepartitionToWide<F32Tag> d64;
  int64_t done = 0;
  for (; done + 4 <= k; done += 4) {
    F32Vec v[4];
    for (int c = 0; c < 4; ++c) {
      const In* column = from + c * column_stride + done;
      const auto block = [&](int64_t b) HWY_ATTR { return hn::LoadU(d4, column + 4 * b * column_stride); };
#if HWY_TARGET == HWY_AVX3
      const hn::Half<F32Tag> half;
      v[c] = hn::Combine(d, hn::Combine(half, block(3), block(2)), hn::Combine(half, block(1), block(0)));
#else
      v[c] = hn::Combine(d, block(1), block(0));
#endif
    }
    const auto low01 = hn::BitCast(d64, hn::InterleaveLower(d, v[0], v[1]));
    const auto high01 = hn::BitCast(d64, hn::InterleaveUpper(d, v[0], v[1]));
    const auto low23 = hn::BitCast(d64, hn::InterleaveLower(d, v[2], v[3]));
    const auto high23 = hn::BitCast(d64, hn::InterleaveUpper(d, v[2], v[3]));
    float* to = out + done * width;
    hn::StoreU(hn::BitCast(d, hn::InterleaveLower(d64, low01, low23)), d, to);
    hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(d64, low01, low23)), d, to + width);
    hn::StoreU(hn::BitCast(d, hn::InterleaveLower(d64, high01, high23)), d, to + 2 * width);
    hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(d64, high01, high23)), d, to + 3 * width);
  }
  return done;
}
#endif

/// out[i * width + j] = from[i * k_stride + j * n_stride] for i < k and j < count; 0 for count <= j < width.
template <class Out, class In>
HWY_NOINLINE void pack_panel(const In* from, int64_t k_stride, int64_t n_stride, int64_t k, int64_t count,
                             int64_t width, Out* out) {
  if (n_stride == 1) {
    for (int64_t i = 0; i < k; ++i) {
      copy_row(from + i * k_stride, count, out + i * width);
      for (int64_t j = count; j < width; ++j) out[i * width + j] = Out();
    }
    return;
  }
  int64_t j = 0;
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
  if constexpr (std::is_same_v<Out, float> && std::is_same_v<In, float>) {
    constexpr int64_t kColumns = hn::MaxLanes(F32Tag());
    if (k_stride == 1)
      for (; j + kColumns <= count; j += kColumns)
        for (int64_t i = transpose_vectors(from + j * n_stride, n_stride, k, width, out + j); i < k; ++i)
          for (int64_t c = j; c < j + kColumns; ++c) out[i * width + c] = from[i + c * n_stride];
  }
#endif
  if (k_stride == 1)
    for (; j + 4 <= count; j += 4) {
      int64_t done = transpose_four(from + j * n_stride, n_stride, k, width, out + j);
      for (int64_t i = done; i < k; ++i)
        for (int64_t c = j; c < j + 4; ++c) out[i * width + c] = converted<Out>(from[i + c * n_stride]);
    }
  for (; j < count; ++j)
    for (int64_t i = 0; i < k; ++i) out[i * width + j] = converted<Out>(from[i * k_stride + j * n_stride]);
  for (; j < width; ++j)
    for (int64_t i = 0; i < k; ++i) out[i * width + j] = Out();
}

// Interleaves two rows to pairs; `odd` may be null, for zeros.
inline void interleave_rows(const BF16* even, const BF16* odd, int64_t count, BF16* out) {
  const hn::ScalableTag<uint16_t> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  auto* to = reinterpret_cast<uint16_t*>(out);
  const auto *first = reinterpret_cast<const uint16_t*>(even), *second = reinterpret_cast<const uint16_t*>(odd);
  int64_t i = 0;
  if (odd)
    for (; i + lanes <= count; i += lanes)
      hn::StoreInterleaved2(hn::LoadU(d, first + i), hn::LoadU(d, second + i), d, to + 2 * i);
  for (; i < count; ++i) to[2 * i] = first[i], to[2 * i + 1] = odd ? second[i] : uint16_t{0};
}

/// Packs a bf16 panel in pairs of rows: element (i, j) at out[(i / 2 * width + j) * 2 + i % 2]; see
/// PanelLayout::packed_bytes.
inline HWY_NOINLINE void pack_pairs(const BF16* from, int64_t k_stride, int64_t n_stride, int64_t k, int64_t count,
                                    int64_t width, BF16* out) {
  int64_t columns = 0, pairs = 0;  // that are packed at once
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
  // If k_stride is 1, both elements of a pair are adjacent, so that pairs are transposed as numbers of 32 bits.
  constexpr int64_t kColumns = hn::MaxLanes(F32Tag());
  if (k_stride == 1 && n_stride % 2 == 0)
    for (; columns + kColumns <= count; columns += kColumns)
      pairs = transpose_vectors(reinterpret_cast<const float*>(from + columns * n_stride), n_stride / 2, k / 2, width,
                                reinterpret_cast<float*>(out) + columns);
#endif
  for (int64_t i = 0; i < k; i += 2) {
    BF16* to = out + i * width;
    const BF16* even = from + i * k_stride;
    const BF16* odd = i + 1 < k ? even + k_stride : nullptr;
    if (n_stride == 1) {
      interleave_rows(even, odd, count, to);
    } else {
      for (int64_t j = i / 2 < pairs ? columns : 0; j < count; ++j)
        to[2 * j] = even[j * n_stride], to[2 * j + 1] = odd ? odd[j * n_stride] : BF16{0};
    }
    std::fill(to + 2 * count, to + 2 * width, BF16{0});
  }
}

/// Widens a panel of pairs of rows to f32 rows.
inline HWY_NOINLINE void widen_pairs(const void* pairs, int64_t k, int64_t width, float* out) {
  const F32Tag d;
  const hn::RebindToUnsigned<F32Tag> du;
  const auto* from = static_cast<const uint32_t*>(pairs);
  for (int64_t i = 0; i < k; i += 2, from += width)
    for (int64_t j = 0; j < width; j += static_cast<int64_t>(hn::Lanes(d))) {
      const auto pair = hn::LoadU(du, from + j);
      hn::StoreU(hn::BitCast(d, hn::ShiftLeft<16>(pair)), d, out + i * width + j);
      if (i + 1 < k) hn::StoreU(hn::BitCast(d, hn::And(pair, hn::Set(du, 0xffff0000u))), d, out + (i + 1) * width + j);
    }
}

/// pack_panel() for a dtype that is known at run time; `data` is where the panel begins.
template <class Out>
void pack_panel(const void* data, DType dtype, int64_t k_stride, int64_t n_stride, int64_t k, int64_t count,
                int64_t width, Out* out) {
  auto pack = [&](auto type) {
    using In = decltype(type);
    pack_panel(static_cast<const In*>(data), k_stride, n_stride, k, count, width, out);
  };
  if constexpr (std::is_same_v<Out, double>) pack(double());
  else if (dtype == f32) pack(float());
  else if (dtype == bf16) pack(BF16());
  else pack(F16());
}

}  // namespace HWY_NAMESPACE
}  // namespace rlx::kernels
HWY_AFTER_NAMESPACE();

#endif  // RLX_KERNELS_GEMM_FMA_PACKING_INL_H_
