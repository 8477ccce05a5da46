// See the header. Quantized rows lie in memory as the instructions want them: rows of 16-bit integers for pairs, left
// tiles of bytes for tiles and VNNI. Values beyond 127 take two bytes there, 128 high + low with low from 0 to 127,
// which lie in two planes and are multiplied one after the other. VNNI's unsigned operand has 128 added to signed
// bytes: sum (x + 128) w is 128 sum w too large, and the sums of the columns are packed behind the weights. Of outliers
// the bytes hold the lower 8 bits; what is above them stands in a list for each row. It is multiplied by its weights,
// 32 columns at a time, and added to a block's sums after the block's product.
#include "kernels/quant/dynamic_product.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include "base/rounded_up.h"
#include "kernels/gemm/amx/pipelined_blocks.h"
#include "kernels/gemm/amx/tiles.h"
#include "kernels/quant/int8_pairs.h"
#include "kernels/quant/requantized_product.h"
#include "kernels/vector/highway_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/quant/dynamic_product.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/vector/activation-inl.h"
#include "kernels/vector/bf16_pairs-inl.h"
#include "kernels/vector/narrow_float-inl.h"

#ifndef RLX_KERNELS_QUANT_DYNAMIC_PRODUCT_ONCE
#define RLX_KERNELS_QUANT_DYNAMIC_PRODUCT_ONCE
namespace rlx::kernels {
namespace {

/// A quantized value of more than 8 bits.
struct Outlier {
  int32_t at;  ///< byte offset of its weight for the first of 32 packed columns; at % 4 is its place among four weights
  int32_t high;  ///< the value minus its sign-extended lower byte: a multiple of 256
  // The same for instructions that multiply bytes: |high| / 256 in the byte at % 4, and 256 with the sign of `high` in
  // each 16 bits.
  uint32_t quad;
  int32_t factors;

  Outlier() = default;
  Outlier(int32_t at_byte, int32_t above) : at(at_byte), high(above) {
    quad = static_cast<uint32_t>(above < 0 ? -above : above) / 256 << 8 * (at_byte % 4);
    factors = above < 0 ? static_cast<int32_t>(0xff00ff00u) : 0x01000100;
  }
};
constexpr int64_t kQuadBytes = 64;  // four weights of 16 columns
constexpr int32_t kLargestOutlier = 16383;

/// A row to quantize. Its values are written in pieces of `piece`, whose beginnings are `step` bytes apart; pieces are
/// filled up with zeros.
struct RowToQuantize {
  const void* x;
  DType dtype;  ///< of x, f32 or bf16
  int64_t k;
  void* values;
  int64_t piece, step;
  bool is_wide;       ///< values of 16 bits, else of 8
  uint8_t flip;       ///< exclusive-ored to values of 8 bits: 0x80 adds 128
  std::byte* low;     ///< where the low bytes go, as the values; null if values take one byte
  Outlier* outliers;  ///< [kMostOutliers]; null: there are none, or values have 16 bits
};

/// Sums of some rows and columns, and where they end.
struct DynamicTile {
  const int32_t* sums;  ///< rows are `stride` apart; up to a multiple of 16 columns may be read
  const int32_t* low;   ///< of the low bytes, where `sums` are those of the high ones; null: values have one byte
  const uint32_t* column_sums;  ///< 128 times these is subtracted, of values with 128 added; null: nothing is
  int64_t stride, rows, columns;
  const float *x_scale, *w_scale, *bias, *factor;  ///< of the first row or column; bias and factor may be null
  DType dtype;                                     ///< of what follows, f32 or bf16
  const void* residual;                            ///< may be null
  int64_t residual_stride;
  bool residual_first;
  void* y;
  int64_t y_stride;
  // What adds outliers to the sums in the epilogue, where no step of its own did: kMostOutliers of each row, or null,
  // and the packed weights of the first column.
  const Outlier* outliers;
  const char* right;
};

}  // namespace
}  // namespace rlx::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace rlx::kernels {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using DRow = hn::CappedTag<float, 16>;
using DBits = hn::Rebind<int32_t, DRow>;

/// The first `count` elements, and zeros.
template <class X>
HWY_INLINE hn::Vec<DRow> load_some(const X* from, int64_t count) {
  HWY_ALIGN X values[16] = {};
  std::memcpy(values, from, static_cast<size_t>(count) * sizeof(X));
  return load_f32(DRow(), values);
}

using DShort = hn::Repartition<int16_t, DRow>;

/// round(x) + kOffset, ties to even, in the lower 16 bits of each lane, for |x| below 2^15: beside 1.5 * 2^23, the last
/// bit of an f32 is worth 1. A conversion to integers would also have to care for larger numbers.
template <int kOffset = 0>
HWY_INLINE hn::Vec<DBits> rounded_to_short(hn::Vec<DRow> x) {
  return hn::BitCast(DBits(), hn::Add(x, hn::Set(DRow(), 0x1.8p23f + kOffset)));
}
/// The next values of a row, as many as a vector of i16 has: round(x * factor) + kOffset, ties to even.
template <int kOffset = 0>
HWY_INLINE hn::Vec<DShort> next_values(const float* x, hn::Vec<DRow> factor) {
  const DRow d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto first = rounded_to_short<kOffset>(hn::Mul(hn::LoadU(d, x), factor));
  const auto second = rounded_to_short<kOffset>(hn::Mul(hn::LoadU(d, x + lanes), factor));
  return hn::ConcatEven(DShort(), hn::BitCast(DShort(), second), hn::BitCast(DShort(), first));
}
template <int kOffset = 0>
HWY_INLINE hn::Vec<DShort> next_values(const BF16* x, hn::Vec<DRow> factor) {
  const DRow d;
  const DBits di;
  // Of each two numbers the second is the upper half of an f32, whose other bits are cleared, and so is the first when
  // it is shifted up. What they give is put back in the same way, so that nothing is moved between lanes.
  const auto pairs =
      hn::BitCast(di, hn::LoadU(hn::Repartition<uint16_t, DRow>(), reinterpret_cast<const uint16_t*>(x)));
  const auto upper = hn::BitCast(d, hn::And(pairs, hn::Set(di, -0x10000)));
  const auto lower = hn::BitCast(d, hn::ShiftLeft<16>(pairs));
  const auto odd = rounded_to_short<kOffset>(hn::Mul(upper, factor)),
             even = rounded_to_short<kOffset>(hn::Mul(lower, factor));
  return hn::OddEven(hn::BitCast(DShort(), hn::ShiftLeft<16>(odd)), hn::BitCast(DShort(), even));
}

/// The values of a piece that need more than 8 bits: bit i is of value i.
struct Marks {
  uint64_t bits = 0;
  bool is_wanted = false;
};
/// What the value of x, the p-th of its row, has above its lower byte.
template <class X>
HWY_INLINE Outlier outlier_of(X x, float factor, int64_t p) {
  float number;
  if constexpr (std::is_same_v<X, BF16>) number = to_f32(x);
  else number = x;
  const auto value = static_cast<int16_t>(std::bit_cast<int32_t>(number * factor + 0x1.8p23f));  // as above
  const int64_t quad = p / kTileInt8 * 2 * kTileBytes + p % kTileInt8 / 4 * kQuadBytes;
  return {static_cast<int32_t>(quad + p % 4), value - static_cast<int8_t>(value)};
}
/// Notes what the values that are marked have above their lower byte. `first`: the number of x[0] in its row. There is
/// room for all of them, as no other values than outliers are larger than 127.
template <class X>
void note_outliers(const X* x, float factor, uint64_t marks, int64_t first, Outlier*& to) {
  for (; marks != 0; marks &= marks - 1) {
    const int64_t i = std::countr_zero(marks);
    *to++ = outlier_of(x[i], factor, first + i);
  }
}

/// Writes the values of whole vectors, and returns how many there are.
template <class X>
HWY_INLINE int64_t write_whole_vectors(const X* x, int64_t count, hn::Vec<DRow> factor, uint8_t, int16_t* to, int16_t*,
                                       Marks&) {
  const DShort d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) hn::StoreU(next_values(x + i, factor), d, to + i);
  return i;
}
template <class X>
HWY_INLINE int64_t write_whole_vectors(const X* x, int64_t count, hn::Vec<DRow> factor, uint8_t flip, int8_t* to,
                                       int8_t* low, Marks& marks) {
  const DShort d16;
  const hn::Rebind<int8_t, DShort> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    auto values = next_values(x + i, factor);
    if (marks.is_wanted) {
      const auto lower = hn::ShiftRight<8>(hn::ShiftLeft<8>(values));
      HWY_ALIGN uint8_t bits[8] = {};
      hn::StoreMaskBits(d16, hn::Ne(values, lower), bits);
      uint32_t some;
      std::memcpy(&some, bits, sizeof some);
      marks.bits |= static_cast<uint64_t>(some) << i;
      values = lower;
    }
    if (low) {
      hn::StoreU(hn::DemoteTo(d, hn::And(values, hn::Set(d16, int16_t{127}))), d, low + i);
      values = hn::ShiftRight<7>(values);
    }
    hn::StoreU(hn::Xor(hn::DemoteTo(d, values), hn::Set(d, static_cast<int8_t>(flip))), d, to + i);
  }
  return i;
}

/// T: of the values; X: of x.
template <class T, class X>
HWY_INLINE void write_values(const RowToQuantize& row, float factor) {
  const DRow d;
  const hn::Rebind<T, DRow> dc;
  const DBits di;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto flip = hn::Set(dc, static_cast<T>(static_cast<int8_t>(row.flip)));
  auto* piece = static_cast<std::byte*>(row.values);
  std::byte* low = row.low;
  Outlier* outliers = row.outliers;
  for (int64_t first = 0; first < row.k; first += row.piece, piece += row.step) {
    const int64_t count = std::min(row.piece, row.k - first);
    const X* from = static_cast<const X*>(row.x) + first;
    T *const to = reinterpret_cast<T*>(piece), *const low_to = reinterpret_cast<T*>(low);
    Marks marks{0, outliers != nullptr};
    // The rest of the piece: what there is, and zeros.
    for (int64_t i = write_whole_vectors(from, count, hn::Set(d, factor), row.flip, to, low_to, marks); i < row.piece;
         i += lanes) {
      const auto bytes = static_cast<size_t>(std::min(lanes, row.piece - i)) * sizeof(T);
      const auto store = [&](auto v, T* at) HWY_ATTR {
        HWY_ALIGN T last[16];
        hn::Store(v, dc, last);
        std::memcpy(at, last, bytes);
      };
      const auto x = load_some(from + i, std::clamp<int64_t>(count - i, 0, lanes));
      auto value = hn::NearestInt(hn::Mul(x, hn::Set(d, factor)));
      if (outliers) {
        const auto lower = hn::ShiftRight<24>(hn::ShiftLeft<24>(value));
        HWY_ALIGN uint8_t bits[8] = {};
        hn::StoreMaskBits(di, hn::Ne(value, lower), bits);
        uint32_t some;
        std::memcpy(&some, bits, sizeof some);
        marks.bits |= static_cast<uint64_t>(some & ((1u << lanes) - 1)) << i;
        value = lower;
      }
      if (low) {
        store(hn::DemoteTo(dc, hn::And(value, hn::Set(di, 127))), low_to + i);
        value = hn::ShiftRight<7>(value);
      }
      store(hn::Xor(hn::DemoteTo(dc, value), flip), to + i);
    }
    if (low) low += row.step;
    if (marks.bits != 0) note_outliers(from, factor, marks.bits, first, outliers);
  }
}

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

/// The bits of the magnitudes of the next numbers, of f32 those of a vector of them, of bf16 the largest of each two.
HWY_INLINE hn::Vec<DBits> next_magnitudes(const float* x) {
  return hn::And(hn::BitCast(DBits(), hn::LoadU(DRow(), x)), hn::Set(DBits(), 0x7fffffff));
}
HWY_INLINE hn::Vec<DBits> next_magnitudes(const BF16* x) {
  const DBits d;
  const hn::Repartition<uint16_t, DRow> du16;
  const auto pairs = hn::BitCast(d, hn::LoadU(du16, reinterpret_cast<const uint16_t*>(x)));
  return hn::Max(hn::And(pairs, hn::Set(d, 0x7fff0000)), hn::And(hn::ShiftLeft<16>(pairs), hn::Set(d, 0x7fff0000)));
}

/// The bits of the largest magnitude. Magnitudes are ordered as their bits are, with infinity above all numbers and NaN
/// above infinity.
template <class X>
HWY_INLINE uint32_t largest_bits(const X* x, int64_t count) {
  const DBits di;
  const auto lanes = static_cast<int64_t>(hn::Lanes(di)), step = lanes * 4 / static_cast<int64_t>(sizeof(X));
  auto most = hn::Zero(di), most2 = most, most3 = most, most4 = most;
  int64_t i = 0;
  for (; i + 4 * step <= count; i += 4 * step) {
    most = hn::Max(most, next_magnitudes(x + i)), most2 = hn::Max(most2, next_magnitudes(x + i + step));
    most3 = hn::Max(most3, next_magnitudes(x + i + 2 * step)),
    most4 = hn::Max(most4, next_magnitudes(x + i + 3 * step));
  }
  for (; i < count; i += lanes) {
    const auto v = load_some(x + i, std::min(lanes, count - i));
    most = hn::Max(most, hn::And(hn::BitCast(di, v), hn::Set(di, 0x7fffffff)));
  }
  most = hn::Max(hn::Max(most, most2), hn::Max(most3, most4));
  return static_cast<uint32_t>(hn::GetLane(hn::MaxOfLanes(di, most)));
}

/// Of each lane the largest magnitudes, in order.
template <class D>
struct LargestOfLanes {
  hn::Vec<D> place[kMostOutliers + 1];

  HWY_INLINE LargestOfLanes() {
    RLX_UNROLL
    for (auto& v : place) v = hn::Zero(D());
  }
  HWY_INLINE void insert(hn::Vec<D> v) {
    RLX_UNROLL
    for (int i = 0; i < kMostOutliers; ++i) {
      const auto less = hn::Min(place[i], v);
      place[i] = hn::Max(place[i], v), v = less;
    }
    place[kMostOutliers] = hn::Max(place[kMostOutliers], v);
  }
  /// Makes each lane that of the largest of two lanes: of itself and of the one that `exchanged` brings there.
  template <class Exchange>
  HWY_INLINE void merge_with(Exchange exchanged) {
    static_assert(kMostOutliers == 3);
    const hn::Vec<D> others[] = {exchanged(place[0]), exchanged(place[1]), exchanged(place[2]), exchanged(place[3])};
    RLX_UNROLL
    for (int i = 0; i < 4; ++i) place[i] = hn::Max(place[i], others[3 - i]);  // rises, then falls, or the reverse
    order(0, 2), order(1, 3), order(0, 1), order(2, 3);
  }

 private:
  HWY_INLINE void order(int i, int j) {
    const auto less = hn::Min(place[i], place[j]);
    place[i] = hn::Max(place[i], place[j]), place[j] = less;
  }
};
HWY_INLINE LargestOfLanes<DBits> largest_of_lanes(const float* x, int64_t count) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(DBits()));
  LargestOfLanes<DBits> largest;
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) largest.insert(next_magnitudes(x + i));
  if (i < count)
    largest.insert(hn::And(hn::BitCast(DBits(), load_some(x + i, count - i)), hn::Set(DBits(), 0x7fffffff)));
  return largest;
}
HWY_INLINE LargestOfLanes<DShort> largest_of_lanes(const BF16* x, int64_t count) {
  const DShort d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto magnitude = hn::Set(d, int16_t{0x7fff});
  const auto* from = reinterpret_cast<const int16_t*>(x);
  LargestOfLanes<DShort> largest;
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) largest.insert(hn::And(hn::LoadU(d, from + i), magnitude));
  if (i < count) {
    HWY_ALIGN int16_t rest[hn::MaxLanes(d)] = {};
    std::memcpy(rest, from + i, static_cast<size_t>(count - i) * sizeof(int16_t));
    largest.insert(hn::And(hn::Load(d, rest), magnitude));
  }
  return largest;
}

/// The largest of all lanes. Vectors of more than 128 bits are halved first.
template <class D>
HWY_INLINE auto largest_of_all(LargestOfLanes<D> largest) {
  const D d;
  if constexpr (hn::MaxLanes(D()) * sizeof(hn::TFromD<D>) > 16) {
    const hn::Half<D> half;
    LargestOfLanes<hn::Half<D>> merged;
    RLX_UNROLL
    for (int i = 0; i <= kMostOutliers; ++i) merged.place[i] = hn::LowerHalf(half, largest.place[i]);
    int i = 0;
    merged.merge_with([&](auto) HWY_ATTR { return hn::UpperHalf(half, largest.place[i++]); });
    return largest_of_all(merged);
  } else {
    if constexpr (hn::MaxLanes(D()) >= 8) largest.merge_with([&](auto v) HWY_ATTR { return hn::Reverse(d, v); });
    largest.merge_with([&](auto v) HWY_ATTR { return hn::Reverse4(d, v); });
    largest.merge_with([&](auto v) HWY_ATTR { return hn::Reverse2(d, v); });
    return largest;
  }
}

/// The bits of the largest magnitude, and of the one that has `outliers` before it, 1 to kMostOutliers.
struct LargestBits {
  uint32_t all, beside_outliers;
};
template <class X>
HWY_INLINE LargestBits largest_bits_of(const X* x, int64_t count, int64_t outliers) {
  const auto largest = largest_of_all(largest_of_lanes(x, count));
  constexpr int kShift = 32 - 8 * static_cast<int>(sizeof(X));
  const auto bits = [&](auto v) HWY_ATTR { return static_cast<uint32_t>(hn::GetLane(v)) << kShift; };
  return {bits(largest.place[0]), bits(largest.place[outliers])};
}

#if HWY_TARGET == HWY_AVX3 && RLX_HAS_TILES

/// As quantize_rows() has it.
HWY_INLINE float scale_beside_outliers(LargestBits bits, int32_t x_largest) {
  const float scale = dynamic_scale(bits.all, kLargestOutlier);
  return scale == scale ? std::max(scale, dynamic_scale(bits.beside_outliers, x_largest)) : scale;
}

/// Rows of bytes with outliers, of at most kMostPieces pieces. kOffset: 128 where the bytes have it added.
template <class X, int kOffset>
class RowsBesideOutliers {
 public:
  static constexpr int64_t kMostPieces = 64;

  static void quantize(const X* x, int64_t k, int64_t outliers, int32_t x_largest, const QuantizedRow& to,
                       Outlier* list) {
    const float scale = scale_beside_outliers(largest_bits_of(x, k, outliers), x_largest);
    *to.scale = scale;
    std::fill_n(list, kMostOutliers, Outlier());
    const int64_t pieces = divided_up(k, kTileInt8);
    if (!(scale == scale)) {
      for (int64_t i = 0; i < pieces; ++i) std::memset(to.values + i * to.step, kOffset, kTileInt8);
      return;
    }
    const float factor = 1 / scale;
    const auto factors = hn::Set(DRow(), factor);
    uint64_t marks[kMostPieces], pieces_marked = 0;
    const int64_t whole = k / kTileInt8;
    for (int64_t i = 0; i < whole; ++i) {
      marks[i] = write_piece(x + i * kTileInt8, factors, to.values + i * to.step);
      pieces_marked |= uint64_t{marks[i] != 0} << i;
    }
    if (whole < pieces) {
      alignas(64) X rest[kTileInt8] = {};
      std::memcpy(rest, x + whole * kTileInt8, static_cast<size_t>(k - whole * kTileInt8) * sizeof(X));
      marks[whole] = write_piece(rest, factors, to.values + whole * to.step);
      pieces_marked |= uint64_t{marks[whole] != 0} << whole;
    }
    // All marks of a row at the end, as most rows have as many: where in the row they are cannot be predicted.
    for (; pieces_marked != 0; ++list) {
      const int piece = std::countr_zero(pieces_marked), i = std::countr_zero(marks[piece]);
      marks[piece] &= marks[piece] - 1;
      pieces_marked &= ~(uint64_t{marks[piece] == 0} << piece);
      const int64_t p = piece * kTileInt8 + i;
      *list = outlier_of(x[p], factor, p);
    }
  }

 private:
  /// Writes 64 values, and returns which of them need more than 8 bits.
  HWY_INLINE static uint64_t write_piece(const X* x, hn::Vec<DRow> factors, std::byte* to) {
    return write_half(x, factors, to) | uint64_t{write_half(x + 32, factors, to + 32)} << 32;
  }
  HWY_INLINE static uint32_t write_half(const X* x, hn::Vec<DRow> factors, std::byte* to) {
    const DShort d;
    const hn::RebindToUnsigned<DShort> du;
    const auto values = next_values<kOffset>(x, factors);
    const auto above = kOffset == 128 ? values : hn::Add(values, hn::Set(d, int16_t{128}));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm512_cvtepi16_epi8(values.raw));
    return static_cast<uint32_t>(hn::Gt(hn::BitCast(du, above), hn::Set(du, uint16_t{255})).raw);
  }
};

#endif

}  // namespace

void largest_bits_beside_outliers(const void* x, DType dtype, int64_t count, int64_t outliers, uint32_t (&bits)[2]) {
  const LargestBits largest = dtype == bf16 ? largest_bits_of(static_cast<const BF16*>(x), count, outliers)
                                            : largest_bits_of(static_cast<const float*>(x), count, outliers);
  bits[0] = largest.all, bits[1] = largest.beside_outliers;
}

/// Quantizes a row with a list of outliers, whose values lie in one plane of tiles. False: the row is too wide, or this
/// target has no such code, and nothing is written.
bool quantize_beside_outliers([[maybe_unused]] const void* x, [[maybe_unused]] DType dtype, [[maybe_unused]] int64_t k,
                              [[maybe_unused]] int64_t outliers, [[maybe_unused]] int32_t x_largest,
                              [[maybe_unused]] bool adds_128, [[maybe_unused]] const QuantizedRow& to,
                              [[maybe_unused]] Outlier* list) {
#if HWY_TARGET == HWY_AVX3 && RLX_HAS_TILES
  if (k > RowsBesideOutliers<float, 0>::kMostPieces * kTileInt8) return false;
  const auto quantize = [&](const auto* numbers) HWY_ATTR {
    using X = std::remove_cv_t<std::remove_pointer_t<decltype(numbers)>>;
    if (adds_128) RowsBesideOutliers<X, 128>::quantize(numbers, k, outliers, x_largest, to, list);
    else RowsBesideOutliers<X, 0>::quantize(numbers, k, outliers, x_largest, to, list);
  };
  if (dtype == bf16) quantize(static_cast<const BF16*>(x));
  else quantize(static_cast<const float*>(x));
  return true;
#else
  return false;
#endif
}

/// Adds the products of the outliers of rows, `count` of each, with 32 packed columns to their sums.
void add_outlier_products(const Outlier* outliers, int64_t count, int64_t rows, const char* right, int32_t* sums,
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

uint32_t largest_magnitude_bits(const void* x, DType dtype, int64_t count) {
  if (dtype == bf16) return largest_bits(static_cast<const BF16*>(x), count);
  return largest_bits(static_cast<const float*>(x), count);
}

/// Writes the values for a scale, which may be NaN.
void write_row_values(const RowToQuantize& row, float scale) {
  if (scale == scale) {
    const float factor = 1 / scale;
    const bool is_bf16 = row.dtype == bf16;
    if (row.is_wide && is_bf16) write_values<int16_t, BF16>(row, factor);
    else if (row.is_wide) write_values<int16_t, float>(row, factor);
    else if (is_bf16) write_values<int8_t, BF16>(row, factor);
    else write_values<int8_t, float>(row, factor);
    return;
  }
  const size_t bytes = static_cast<size_t>(row.piece) * (row.is_wide ? 2 : 1);
  auto* piece = static_cast<std::byte*>(row.values);
  for (int64_t first = 0; first < row.k; first += row.piece, piece += row.step) {
    std::memset(piece, row.flip, bytes);
    if (row.low) std::memset(row.low + (piece - static_cast<std::byte*>(row.values)), 0, bytes);
  }
}

void apply_dynamic_epilogue(const DynamicTile& tile, Activation activation) {
  with_activation(activation, [&](auto act) HWY_ATTR {
    if (tile.dtype == bf16) epilogue_of_rows<BF16>(tile, act);
    else epilogue_of_rows<float>(tile, act);
  });
}

/// Of sums that multiply_int8_dots() gave for Int8DotIsa::avx512_vnni, which lie 32 to a row and aligned.
void apply_dots_epilogue([[maybe_unused]] const DynamicTile& tile, [[maybe_unused]] Activation activation,
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

HWY_EXPORT(largest_magnitude_bits);
HWY_EXPORT(largest_bits_beside_outliers);
HWY_EXPORT(quantize_beside_outliers);
HWY_EXPORT(add_outlier_products);
HWY_EXPORT(write_row_values);
HWY_EXPORT(apply_dynamic_epilogue);
HWY_EXPORT(apply_dots_epilogue);

namespace {

// Rows of that many bytes are multiplied with all columns before the next ones: they stay in the
// second-level cache.
constexpr int64_t kRowBytesInCache = 256 << 10;
// Rows of sums between a product and its epilogue: 6 KiB of the first-level cache.
constexpr int64_t kPairBlockRows = 96;
constexpr int64_t kTileBlockRows = 2 * kTileRows;
constexpr int64_t kDotRows = 8;  // that multiply_int8_dots() multiplies together

bool is_in_pairs(const Int8Weights& w) { return w.isa == Int8DotIsa::pairs; }
int64_t pair_stride(int64_t k) { return 2 * pair_count(k); }
/// Whether quantized rows take two planes of bytes.
bool has_planes(const Int8Weights& w) { return !is_in_pairs(w) && w.x_largest > 127; }
int64_t left_tile_bytes(int64_t k) { return divided_up(k, kTileInt8) * kTileBytes; }
PackedQuantizedWeights as_tiles(const Int8Weights& w) {
  PackedQuantizedWeights tiles;
  tiles.k = w.k, tiles.n = w.n, tiles.packed = w.packed, tiles.isa = w.isa;
  return tiles;
}

/// Of all rows, in one plane.
int64_t plane_bytes(const Int8Weights& w, int64_t rows) {
  return rounded_up(rows, kTileBlockRows) / kTileRows * left_tile_bytes(w.k);
}
/// Whether what outliers have above 8 bits stands in lists, behind the scales. Rows without values have no outliers.
bool has_lists(const Int8Weights& w) { return w.x_outliers > 0 && w.k > 0 && !is_in_pairs(w); }
size_t scale_bytes(int64_t rows) { return static_cast<size_t>(aligned(rounded_up(rows, kQuantizedRows) * 4)); }
size_t list_bytes(const Int8Weights& w, int64_t rows) {
  return has_lists(w) ? static_cast<size_t>(aligned(rows * kMostOutliers * static_cast<int64_t>(sizeof(Outlier)))) : 0;
}
const float* scales_of(const void* quantized) { return static_cast<const float*>(quantized); }
/// The list of a row: kMostOutliers, of which those that it does not have are 0.
const Outlier* outliers_of(const void* quantized, int64_t rows, int64_t row) {
  return reinterpret_cast<const Outlier*>(static_cast<const char*>(quantized) + scale_bytes(rows)) +
         row * kMostOutliers;
}
const char* values_of(const Int8Weights& w, const void* quantized, int64_t rows) {
  return static_cast<const char*>(quantized) + scale_bytes(rows) + list_bytes(w, rows);
}

/// What an epilogue needs of these rows and columns.
DynamicTile tile_at(const DynamicProduct& p, int64_t row, int64_t rows, int64_t column, int64_t columns) {
  DynamicTile t{};
  t.rows = rows, t.columns = columns;
  t.x_scale = scales_of(p.x) + row, t.w_scale = p.w_scale + column;
  const auto size = static_cast<int64_t>(byte_size(p.dtype));
  t.dtype = p.dtype, t.bias = p.bias ? p.bias + column : nullptr;
  t.factor = p.factor ? p.factor + column : nullptr;
  t.residual = p.residual ? static_cast<const char*>(p.residual) + (row * p.residual_stride + column) * size : nullptr;
  t.residual_stride = p.residual_stride, t.residual_first = p.residual_first;
  t.y = static_cast<char*>(p.y) + (row * p.y_stride + column) * size, t.y_stride = p.y_stride;
  return t;
}

/// Asks for what the epilogue of a block will read and write while it is multiplied.
void prefetch_outputs(const DynamicTile& t) {
  const auto size = static_cast<int64_t>(byte_size(t.dtype));
  for (int64_t i = 0; i < t.rows; ++i)
    for (int64_t b = 0; b < t.columns * size; b += 64) {
      __builtin_prefetch(static_cast<const char*>(t.y) + i * t.y_stride * size + b, 1, 2);
      if (t.residual) __builtin_prefetch(static_cast<const char*>(t.residual) + i * t.residual_stride * size + b, 0, 2);
    }
}

void multiply_in_pairs(const DynamicProduct& p, int64_t first, int64_t last, int64_t begin, int64_t end) {
  const int64_t k = p.w.k, stride = pair_stride(k);
  const auto* values = reinterpret_cast<const int16_t*>(values_of(p.w, p.x, p.rows));
  const int64_t at_once =
      std::clamp<int64_t>(kRowBytesInCache / std::max<int64_t>(1, 2 * stride) / 6 * 6, 6, kPairBlockRows);
  alignas(64) int32_t sums[kPairBlockRows * kPairColumns];
  const int64_t blocks = divided_up(last - first, at_once);  // of nearly equal size
  for (int64_t b = 0; b < blocks; ++b) {
    const int64_t row = first + (last - first) * b / blocks, rows = first + (last - first) * (b + 1) / blocks - row;
    for (int64_t column = begin; column < end; column += kPairColumns) {
      multiply_int8_pairs(k, rows, values + row * stride, stride,
                          p.w.packed + column / kPairColumns * pair_panel_bytes(k), sums);
      DynamicTile t = tile_at(p, row, rows, column, std::min(kPairColumns, end - column));
      t.sums = sums, t.stride = kPairColumns;
      HWY_DYNAMIC_DISPATCH(apply_dynamic_epilogue)(t, p.activation);
    }
  }
}

/// For AMX tiles (inside a TileScope), VNNI and Arm's dot products.
void multiply_in_tiles(const DynamicProduct& p, int64_t first, int64_t last, int64_t begin, int64_t end) {
  const int64_t k = p.w.k, steps = divided_up(k, kTileInt8), bytes = left_tile_bytes(k);
  const char* values = values_of(p.w, p.x, p.rows);
  const auto* column_sums =
      reinterpret_cast<const uint32_t*>(p.w.packed + divided_up(p.w.n, kTiledColumns) * 2 * steps * kTileBytes);
  const bool is_tiles = p.w.isa == Int8DotIsa::tiles, rounds = tiles_round_to_bf16();
  const bool is_pipelined = is_tiles && kernels::is_pipelined(p.activation, p.dtype);
  const PipelinedTiles kind = has_planes(p.w) ? PipelinedTiles::planes : PipelinedTiles::bytes;
  const int64_t at_once = std::max<int64_t>(1, kRowBytesInCache / std::max<int64_t>(1, 2 * bytes)) * kTileBlockRows;
  constexpr int64_t kSums = kTileBlockRows * kTiledColumns;
  alignas(64) int32_t buffers[2][2 * kSums];  // of the block before and of this one, high and low bytes
  PendingEpilogue pending;
  bool is_pending = false;
  int64_t blocks = 0;
  const auto add_outliers = [&](int64_t row, int64_t rows, const char* right, int32_t* sums) {
    if (has_lists(p.w)) HWY_DYNAMIC_DISPATCH(add_outlier_products)
    (outliers_of(p.x, p.rows, row), p.w.x_outliers, rows, right, sums, kTiledColumns);
  };
  const auto apply_left_epilogue = [&] {
    if (std::exchange(is_pending, false)) apply_pending(kind, pending);
  };
  for (int64_t from = first; from < last; from += at_once)
    for (int64_t column = begin; column < end; column += kTiledColumns) {
      const char* right = p.w.packed + column / kTiledColumns * 2 * steps * kTileBytes;
      const int64_t columns = std::min(kTiledColumns, end - column);
      const int64_t until = std::min(from + at_once, last);
      // The next panel comes to the second-level cache while this one is multiplied, its lines spread over the rows.
      ComingWeights coming;
      if (column + kTiledColumns < end)
        coming.at = right + 2 * steps * kTileBytes, coming.end = coming.at + 2 * steps * kTileBytes;
      coming.step_bytes = rounded_up(divided_up(2 * kTileBytes, divided_up(until - from, kDotRows)), 64);
      for (int64_t row = from; row < until; row += kTileBlockRows, ++blocks) {
        const int64_t rows = std::min(kTileBlockRows, last - row);
        int32_t* const sums = buffers[blocks % 2];
        const char* const high = values + row / kTileRows * bytes;
        DynamicTile t = tile_at(p, row, rows, column, columns);
        if (is_pipelined && columns == kTiledColumns) {
          const TileRows lower{rows > kTileRows ? high + bytes : nullptr, kTileInt8, kTileBytes};
          PipelinedBlock block;
          block.steps = steps, block.sums = sums, block.low_plane = plane_bytes(p.w, p.rows);
          block.upper = {high, kTileInt8, kTileBytes}, block.lower = lower;
          block.first = {right, kTileInt8, 2 * kTileBytes};
          block.second = {right + kTileBytes, kTileInt8, 2 * kTileBytes};
          if (row == from && column + 2 * kTiledColumns <= end) {
            block.next_first = block.first, block.next_second = block.second;
            block.next_first.data += 2 * steps * kTileBytes, block.next_second.data += 2 * steps * kTileBytes;
          }
          multiply_pipelined(kind, block, std::exchange(is_pending, true) ? &pending : nullptr);
          add_outliers(row, rows, right, sums);
          pending.sums = sums, pending.rows = rows, pending.row_scales = t.x_scale, pending.column_scales = t.w_scale;
          pending.bias = t.bias, pending.factor = t.factor, pending.activation = p.activation, pending.dtype = p.dtype;
          pending.residual = t.residual, pending.residual_stride = t.residual_stride;
          pending.residual_first = t.residual_first, pending.y = t.y, pending.y_stride = t.y_stride;
          continue;
        }
        apply_left_epilogue();
        prefetch_outputs(t);
        const auto multiply = [&](const char* upper, int32_t* to) {
          const char* lower = upper + bytes;
          if (!is_tiles) multiply_int8_dots(p.w.isa, steps, rows, upper, lower, right, to, kTiledColumns, &coming);
          else multiply_int8_tiles(i8, i8, steps, upper, rows > kTileRows ? lower : nullptr, right, to, kTiledColumns);
        };
        multiply(high, sums);
        if (has_planes(p.w)) multiply(high + plane_bytes(p.w, p.rows), sums + kSums);
        t.sums = sums, t.stride = kTiledColumns;
        if (has_planes(p.w)) t.low = sums + kSums;
        if (is_left_unsigned(p.w.isa)) t.column_sums = column_sums + column;
        if (p.w.isa == Int8DotIsa::avx512_vnni) {
          if (has_lists(p.w)) t.outliers = outliers_of(p.x, p.rows, row), t.right = right;
          HWY_DYNAMIC_DISPATCH(apply_dots_epilogue)(t, p.activation, rounds);
          continue;
        }
        add_outliers(row, rows, right, sums);
        HWY_DYNAMIC_DISPATCH(apply_dynamic_epilogue)(t, p.activation);
      }
    }
  apply_left_epilogue();
}

void write_row(const Int8Weights& w, const void* x, DType dtype, int64_t count, const QuantizedRow& to, float scale,
               Outlier* outliers = nullptr) {
  RowToQuantize row{};
  row.outliers = outliers;
  row.x = x, row.dtype = dtype, row.k = count, row.values = to.values, row.low = to.low;
  row.is_wide = is_in_pairs(w), row.flip = quantized_zero(w, 0);
  row.piece = to.piece / quantized_value_bytes(w), row.step = to.step;
  HWY_DYNAMIC_DISPATCH(write_row_values)(row, scale);
}

}  // namespace

size_t int8_weights_bytes(const Int8Weights& w) {
  if (is_in_pairs(w)) return static_cast<size_t>(divided_up(w.n, kPairColumns) * pair_panel_bytes(w.k));
  return packed_quantized_bytes(as_tiles(w));
}

void pack_int8_weights(const Int8Weights& w, const int8_t* weights, int64_t k_stride, int64_t n_stride,
                       char* out) noexcept {
  if (!is_in_pairs(w)) return pack_quantized(as_tiles(w), weights, k_stride, n_stride, out);
  if (w.k == 0) return;  // panels of no bytes, and `weights` may be null
  for (int64_t j = 0; j < w.n; j += kPairColumns, out += pair_panel_bytes(w.k))
    pack_pair_panel(weights + j * n_stride, w.k, k_stride, n_stride, std::min(kPairColumns, w.n - j), out);
}

size_t quantized_rows_bytes(const Int8Weights& w, int64_t rows) {
  const int64_t packed = is_in_pairs(w) ? rows * pair_stride(w.k) * 2 : plane_bytes(w, rows) * (has_planes(w) ? 2 : 1);
  return scale_bytes(rows) + list_bytes(w, rows) + static_cast<size_t>(aligned(packed));
}

void quantize_rows(const Int8Weights& w, const void* x, DType dtype, int64_t x_stride, int64_t begin, int64_t end,
                   int64_t rows, void* out) noexcept {
  const int64_t row_bytes = w.k > 0 ? x_stride * static_cast<int64_t>(byte_size(dtype)) : 0;
  for (int64_t i = begin; i < end; ++i) {
    const QuantizedRow to = quantized_row(w, out, rows, i);
    const char* from = static_cast<const char*>(x) + i * row_bytes;
    if (w.x_outliers == 0) {
      *to.scale = dynamic_scale(HWY_DYNAMIC_DISPATCH(largest_magnitude_bits)(from, dtype, w.k), w.x_largest);
      write_row(w, from, dtype, w.k, to, *to.scale);
      continue;
    }
    if (has_lists(w) && HWY_DYNAMIC_DISPATCH(quantize_beside_outliers)(from, dtype, w.k, w.x_outliers, w.x_largest,
                                                                       quantized_zero(w, 0) != 0, to,
                                                                       const_cast<Outlier*>(outliers_of(out, rows, i))))
      continue;
    uint32_t largest[2];  // of all numbers, and of those behind the outliers
    HWY_DYNAMIC_DISPATCH(largest_bits_beside_outliers)(from, dtype, w.k, w.x_outliers, largest);
    *to.scale = dynamic_scale(largest[0], kLargestOutlier);
    if (*to.scale == *to.scale) *to.scale = std::max(*to.scale, dynamic_scale(largest[1], w.x_largest));
    if (!has_lists(w)) {
      write_row(w, from, dtype, w.k, to, *to.scale);
      continue;
    }
    Outlier found[kMostOutliers] = {};
    write_row(w, from, dtype, w.k, to, *to.scale, found);
    std::memcpy(const_cast<Outlier*>(outliers_of(out, rows, i)), found, sizeof found);
  }
}

int quantized_planes(const Int8Weights& w) { return has_planes(w) ? 2 : 1; }
int64_t quantized_value_bytes(const Int8Weights& w) { return is_in_pairs(w) ? 2 : 1; }
uint8_t quantized_zero(const Int8Weights& w, int plane) { return plane == 0 && is_left_unsigned(w.isa) ? 0x80 : 0; }

uint32_t largest_magnitude(const float* x, int64_t count) noexcept {
  return HWY_DYNAMIC_DISPATCH(largest_magnitude_bits)(x, f32, count);
}
float dynamic_scale(uint32_t magnitude, int32_t x_largest) {
  if (magnitude >= 0x7f800000u) return std::numeric_limits<float>::quiet_NaN();
  return std::max(std::bit_cast<float>(magnitude) / static_cast<float>(x_largest), 0x1p-126f);
}
void quantize_numbers(const Int8Weights& w, const float* x, int64_t count, float scale, std::byte* values,
                      std::byte* low) noexcept {
  write_row(w, x, f32, count, {nullptr, values, low, count * quantized_value_bytes(w), 0}, scale);
}
QuantizedRow quantized_row(const Int8Weights& w, void* out, int64_t rows, int64_t row) {
  auto* scales = static_cast<float*>(out);
  std::byte* values = static_cast<std::byte*>(out) + scale_bytes(rows) + list_bytes(w, rows);
  if (is_in_pairs(w)) {
    const int64_t bytes = pair_stride(w.k) * 2;
    return {scales + row, values + row * bytes, nullptr, bytes, bytes};
  }
  values += row / kTileRows * left_tile_bytes(w.k) + row % kTileRows * kTileInt8;
  return {scales + row, values, has_planes(w) ? values + plane_bytes(w, rows) : nullptr, kTileInt8, kTileBytes};
}

void multiply_quantized_rows(const DynamicProduct& p, int64_t first, int64_t last, int64_t begin,
                             int64_t end) noexcept {
  if (is_in_pairs(p.w)) return multiply_in_pairs(p, first, last, begin, end);
  if (p.w.isa != Int8DotIsa::tiles) return multiply_in_tiles(p, first, last, begin, end);
  const TileScope scope;
  multiply_in_tiles(p, first, last, begin, end);
}

}  // namespace rlx::kernels
#endif
