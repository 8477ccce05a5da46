// See the header, and for the public functions dynamic_product.h. Values beyond 127 take two bytes, 128 high + low with
// low from 0 to 127, which lie in two planes. VNNI's unsigned operand has 128 added to signed bytes. Of outliers the
// bytes hold the lower 8 bits; what is above them stands in the row's list. The file is longer than others because it
// is compiled once per instruction set, and a second such file would instantiate the loops over numbers again.
#include "kernels/quant/quantized_rows.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <type_traits>

#include "kernels/vector/highway_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/quant/quantized_rows.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/quant/row_vectors-inl.h"
#include "kernels/vector/bf16_pairs-inl.h"

#ifndef RLX_KERNELS_QUANT_QUANTIZED_ROWS_ONCE
#define RLX_KERNELS_QUANT_QUANTIZED_ROWS_ONCE
namespace rlx::kernels {
namespace {

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

}  // namespace
}  // namespace rlx::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace rlx::kernels {
namespace HWY_NAMESPACE {
namespace {

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

}  // namespace HWY_NAMESPACE
}  // namespace rlx::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rlx::kernels {

HWY_EXPORT(largest_magnitude_bits);
HWY_EXPORT(largest_bits_beside_outliers);
HWY_EXPORT(quantize_beside_outliers);
HWY_EXPORT(write_row_values);

namespace {

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

}  // namespace rlx::kernels
#endif
