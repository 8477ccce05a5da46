// See the header. 6 rows by 16 columns are 12 sums of AVX2's 16 registers; 2 hold the columns, 1 a row's pair, 1 a
// product (pmaddwd). A step of 192 multiply-adds takes 12 multiplications, 12 additions and 2 widening loads, some 6.5
// cycles where f32 takes 12.
#include "kernels/quant/int8_pairs.h"

#include <algorithm>
#include <cstring>

#include "kernels/vector/highway_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/quant/int8_pairs.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace rlx::kernels {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using DSum = hn::CappedTag<int32_t, 8>;
using DPair = hn::Repartition<int16_t, DSum>;
using DCode = hn::Rebind<int8_t, DPair>;

constexpr int kPairVectors = static_cast<int>(kPairColumns / hn::MaxLanes(DSum()));
constexpr int kPairRows = kPairVectors == 2 ? 6 : 2;

#if HWY_ARCH_X86
/// Pairs of 16 bits, as pmaddwd multiplies and adds them: of columns, and of a row, in all lanes.
struct Pairs {
  hn::Vec<DPair> both;
  static HWY_INLINE Pairs of_columns(const int8_t* from) { return {hn::PromoteTo(DPair(), hn::LoadU(DCode(), from))}; }
  static HWY_INLINE Pairs of_row(const int16_t* from) {
    int32_t pair;
    std::memcpy(&pair, from, sizeof pair);
    return {hn::BitCast(DPair(), hn::Set(DSum(), pair))};
  }
  HWY_INLINE hn::Vec<DSum> plus_product(hn::Vec<DSum> sum, const Pairs& w) const {
    auto unused = hn::Zero(DSum());
    return hn::ReorderWidenMulAccumulate(DSum(), both, w.both, sum, unused);
  }
};
#else
/// Where no instruction adds the products of neighbors: both values of a pair, as 32 bits.
struct Pairs {
  hn::Vec<DSum> first, second;
  static HWY_INLINE Pairs of_columns(const int8_t* from) {
    const auto both = hn::BitCast(DSum(), hn::PromoteTo(DPair(), hn::LoadU(DCode(), from)));
    return {hn::ShiftRight<16>(hn::ShiftLeft<16>(both)), hn::ShiftRight<16>(both)};
  }
  static HWY_INLINE Pairs of_row(const int16_t* from) { return {hn::Set(DSum(), from[0]), hn::Set(DSum(), from[1])}; }
  HWY_INLINE hn::Vec<DSum> plus_product(hn::Vec<DSum> sum, const Pairs& w) const {
    return hn::Add(hn::Add(sum, hn::Mul(first, w.first)), hn::Mul(second, w.second));
  }
};
#endif

/// Writes the sums, or with `adds` adds to those that are there.
template <int kRows>
void multiply_pair_rows(int64_t pairs, const int16_t* left, int64_t stride, const int8_t* panel, int32_t* sums,
                        bool adds) {
  const DSum d;
  constexpr int64_t lanes = kPairColumns / kPairVectors;
  hn::Vec<DSum> sum[kRows][kPairVectors];
  RLX_UNROLL
  for (int i = 0; i < kRows; ++i) {
    RLX_UNROLL
    for (int v = 0; v < kPairVectors; ++v) sum[i][v] = hn::Zero(d);
  }
  for (int64_t p = 0; p < pairs; ++p, left += 2, panel += 2 * kPairColumns) {
    Pairs w[kPairVectors];
    RLX_UNROLL
    for (int v = 0; v < kPairVectors; ++v) w[v] = Pairs::of_columns(panel + v * 2 * lanes);
    RLX_UNROLL
    for (int i = 0; i < kRows; ++i) {
      const Pairs x = Pairs::of_row(left + i * stride);
      RLX_UNROLL
      for (int v = 0; v < kPairVectors; ++v) sum[i][v] = x.plus_product(sum[i][v], w[v]);
    }
  }
  RLX_UNROLL
  for (int i = 0; i < kRows; ++i) {
    RLX_UNROLL
    for (int v = 0; v < kPairVectors; ++v) {
      int32_t* to = sums + i * kPairColumns + v * lanes;
      hn::StoreU(adds ? hn::Add(sum[i][v], hn::LoadU(d, to)) : sum[i][v], d, to);
    }
  }
}

template <int kRows = kPairRows>
HWY_INLINE void multiply_some_pair_rows(int64_t rows, int64_t pairs, const int16_t* left, int64_t stride,
                                        const int8_t* panel, int32_t* sums, bool adds) {
  if constexpr (kRows > 0) {
    if (rows == kRows) multiply_pair_rows<kRows>(pairs, left, stride, panel, sums, adds);
    else multiply_some_pair_rows<kRows - 1>(rows, pairs, left, stride, panel, sums, adds);
  }
}

}  // namespace

void multiply_pair_panel(int64_t pairs, int64_t rows, const int16_t* left, int64_t stride, const char* panel,
                         int32_t* sums) {
  // A piece of the panel and six rows of it stay in the first-level cache.
  constexpr int64_t kPairsAtOnce = 512;
  const int64_t groups = (rows + kPairRows - 1) / kPairRows;  // of nearly equal size, as the pieces are
  const int64_t pieces = std::max<int64_t>(1, rows > kPairRows ? (pairs + kPairsAtOnce - 1) / kPairsAtOnce : 1);
  for (int64_t c = 0; c < pieces; ++c) {
    const int64_t first = pairs * c / pieces, count = pairs * (c + 1) / pieces - first;
    for (int64_t g = 0; g < groups; ++g) {
      const int64_t row = rows * g / groups;
      multiply_some_pair_rows(rows * (g + 1) / groups - row, count, left + row * stride + 2 * first, stride,
                              reinterpret_cast<const int8_t*>(panel) + first * 2 * kPairColumns,
                              sums + row * kPairColumns, c > 0);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace rlx::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rlx::kernels {

HWY_EXPORT(multiply_pair_panel);

void pack_pair_panel(const int8_t* w, int64_t k, int64_t k_stride, int64_t n_stride, int64_t columns,
                     char* out) noexcept {
  std::memset(out, 0, static_cast<size_t>(pair_panel_bytes(k)));
  for (int64_t j = 0; j < columns; ++j)
    for (int64_t p = 0; p < k; ++p)
      out[(p / 2 * kPairColumns + j) * 2 + p % 2] = static_cast<char>(w[p * k_stride + j * n_stride]);
}

void multiply_int8_pairs(int64_t k, int64_t rows, const int16_t* left, int64_t stride, const char* panel,
                         int32_t* sums) noexcept {
  HWY_DYNAMIC_DISPATCH(multiply_pair_panel)(pair_count(k), rows, left, stride, panel, sums);
}

}  // namespace rlx::kernels
#endif
