// See the header. The product gathers sum x q over a block of k in registers, and scales it once:
// scale (sum x q - zero_point sum x) + bias sum x.
#include "kernels/code_weights.h"

#include <algorithm>
#include <cstring>

#include "kernels/highway_targets.h"
#include "rlx/element.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/code_weights.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace rlx::kernels {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::CappedTag<float, 16>;
using DI = hn::Rebind<int32_t, D>;
using DB = hn::Rebind<uint8_t, D>;
using V = hn::Vec<D>;

constexpr int kRows = 4;

/// As many codes as the vector has lanes, from position `at` on; of 4-bit codes an even one.
template <DType kCodes>
HWY_INLINE V load_codes(const uint8_t* w, int64_t at) {
  if constexpr (kCodes == i8)
    return hn::ConvertTo(
        D(), hn::PromoteTo(DI(), hn::LoadU(hn::Rebind<int8_t, D>(), reinterpret_cast<const int8_t*>(w + at))));
  else if constexpr (kCodes == u8) return hn::ConvertTo(D(), hn::PromoteTo(DI(), hn::LoadU(DB(), w + at)));
  else {
    HWY_ALIGN uint8_t bytes[16] = {};  // half a vector: the memory may end behind it
    std::memcpy(bytes, w + at / 2, hn::Lanes(DB()) / 2);
    const auto pairs = hn::Load(DB(), bytes);
    const auto low = hn::And(pairs, hn::Set(DB(), 15)), high = hn::ShiftRight<4>(pairs);
    auto q = hn::PromoteTo(DI(), hn::InterleaveLower(DB(), low, high));
    if constexpr (kCodes == i4) q = hn::Sub(hn::Xor(q, hn::Set(DI(), 8)), hn::Set(DI(), 8));
    return hn::ConvertTo(D(), q);
  }
}

/// One vector of columns from `column` on, for kN rows of x.
template <DType kCodes, int kN>
HWY_INLINE void vector_of_columns(const CodeWeightsProduct& p, int64_t row, int64_t column) {
  const D d;
  const auto* w = static_cast<const uint8_t*>(p.w.data);
  const float* x = p.x + row * p.x_stride;
  V total[kN];
  RLX_UNROLL
  for (int r = 0; r < kN; ++r) total[r] = hn::Zero(d);
  HWY_ALIGN float scales[16], zeros[16], biases[16];
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t g = 0, begin = 0; begin < p.k; ++g, begin += p.block) {
    const int64_t end = HWY_MIN(begin + p.block, p.k);
    V sum[kN];
    float plain[kN];
    RLX_UNROLL
    for (int r = 0; r < kN; ++r) sum[r] = hn::Zero(d), plain[r] = 0;
    for (int64_t i = begin; i < end; ++i) {
      const V q = load_codes<kCodes>(w, i * p.n + column);
      RLX_UNROLL
      for (int r = 0; r < kN; ++r) sum[r] = hn::MulAdd(hn::Set(d, x[r * p.x_stride + i]), q, sum[r]);
    }
    p.scale.read(g * p.n + column, lanes, scales);
    if (p.zero_point.data || p.bias.data) {
      for (int r = 0; r < kN; ++r)
        for (int64_t i = begin; i < end; ++i) plain[r] += x[r * p.x_stride + i];
    }
    if (p.zero_point.data) {
      p.zero_point.read(g * p.n + column, lanes, zeros);
      RLX_UNROLL
      for (int r = 0; r < kN; ++r) sum[r] = hn::NegMulAdd(hn::Load(d, zeros), hn::Set(d, plain[r]), sum[r]);
    }
    RLX_UNROLL
    for (int r = 0; r < kN; ++r) total[r] = hn::MulAdd(hn::Load(d, scales), sum[r], total[r]);
    if (p.bias.data) {
      p.bias.read(g * p.n + column, lanes, biases);
      RLX_UNROLL
      for (int r = 0; r < kN; ++r) total[r] = hn::MulAdd(hn::Load(d, biases), hn::Set(d, plain[r]), total[r]);
    }
  }
  const V global = hn::Set(d, p.global ? *p.global : 1.0f);
  RLX_UNROLL
  for (int r = 0; r < kN; ++r) hn::StoreU(hn::Mul(total[r], global), d, p.y + (row + r) * p.n + column);
}

template <DType kCodes>
void columns_of(const CodeWeightsProduct& p, int64_t begin, int64_t end) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(D()));
  for (int64_t row = 0; row < p.rows;) {
    const int64_t rows = p.rows - row >= kRows ? kRows : 1;
    int64_t j = begin;
    for (; j + lanes <= end; j += lanes)
      if (rows == kRows) vector_of_columns<kCodes, kRows>(p, row, j);
      else vector_of_columns<kCodes, 1>(p, row, j);
    row += rows;
  }
}

}  // namespace

/// Columns in whole vectors; returns where they end.
int64_t multiply_whole_vectors(const CodeWeightsProduct& p, int64_t begin, int64_t end) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(D()));
  const int64_t stop = begin + (end - begin) / lanes * lanes;
  switch (p.codes) {
    case DType::i8: columns_of<i8>(p, begin, stop); break;
    case DType::u8: columns_of<u8>(p, begin, stop); break;
    case DType::i4: columns_of<i4>(p, begin, stop); break;
    default: columns_of<u4>(p, begin, stop); break;
  }
  return stop;
}

}  // namespace HWY_NAMESPACE
}  // namespace rlx::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rlx::kernels {

HWY_EXPORT(multiply_whole_vectors);

bool CodeReader::reads(DType dtype) {
  return dtype == f32 || ((is_integer(dtype) || is_float(dtype)) && info(dtype).bits <= 8);
}
CodeReader CodeReader::of(DType dtype) {
  CodeReader reader;
  if (dtype == f32 || !reads(dtype)) return reader;
  reader.bits = info(dtype).bits;
  const int64_t codes = int64_t{1} << reader.bits;
  Tensor typed(dtype, {std::max<int64_t>(codes, 8)});
  std::shared_ptr<float[]> table(new float[static_cast<size_t>(codes)]);
  for (int64_t c = 0; c < codes; ++c) {
    if (is_float(dtype)) {
      table[static_cast<size_t>(c)] = static_cast<float>(decode_float(dtype, static_cast<uint64_t>(c)));
      continue;
    }
    store(typed, static_cast<size_t>(c), static_cast<uint64_t>(c));
    table[static_cast<size_t>(c)] = static_cast<float>(load_number(typed, static_cast<size_t>(c)));
  }
  reader.table = std::move(table);
  return reader;
}
float CodeReader::at(int64_t i) const {
  if (bits == 32) return static_cast<const float*>(data)[i];
  const auto* bytes = static_cast<const uint8_t*>(data);
  if (bits == 8) return table[bytes[i]];
  const int64_t first = i * bits, byte = first / 8, shift = first % 8;
  unsigned code = bytes[byte];
  if (shift + bits > 8) code |= static_cast<unsigned>(bytes[byte + 1]) << 8;
  return table[(code >> shift) & ((1u << bits) - 1)];
}
void CodeReader::read(int64_t first, int64_t count, float* to) const {
  if (bits == 32) std::memcpy(to, static_cast<const float*>(data) + first, static_cast<size_t>(count) * sizeof(float));
  else
    for (int64_t i = 0; i < count; ++i) to[i] = at(first + i);
}

namespace {

/// What one scale stands for.
struct Scaling {
  float zero_point, scale, bias;
};
Scaling scaling_at(const CodeReader& scale, const CodeReader& zero_point, const CodeReader& bias, int64_t i) {
  return {zero_point.data ? zero_point.at(i) : 0, scale.at(i), bias.data ? bias.at(i) : 0};
}

}  // namespace

void decode_codes(const CodeDecoding& c, float* y, int64_t begin, int64_t end) noexcept {
  const float global = c.global ? *c.global : 1;
  const int64_t scales = (c.extent + c.block - 1) / c.block;
  auto value = [&](float q, const Scaling& s) {
    float v = (q - s.zero_point) * s.scale;
    if (c.bias.data) v += s.bias;
    return c.global ? v * global : v;
  };
  for (int64_t row = begin; row < end; ++row) {
    if (c.inner == 1) {
      float* to = y + row * c.extent;
      c.q.read(row * c.extent, c.extent, to);
      for (int64_t g = 0; g < scales; ++g) {
        const Scaling s = scaling_at(c.scale, c.zero_point, c.bias, row * scales + g);
        const int64_t stop = std::min((g + 1) * c.block, c.extent);
        for (int64_t i = g * c.block; i < stop; ++i) to[i] = value(to[i], s);
      }
      continue;
    }
    float* to = y + row * c.inner;
    const int64_t first = (row / c.extent * scales + row % c.extent / c.block) * c.inner;
    c.q.read(row * c.inner, c.inner, to);
    for (int64_t i = 0; i < c.inner; ++i) to[i] = value(to[i], scaling_at(c.scale, c.zero_point, c.bias, first + i));
  }
}

void multiply_code_weights(const CodeWeightsProduct& p, int64_t begin, int64_t end) noexcept {
  const int64_t rest = HWY_DYNAMIC_DISPATCH(multiply_whole_vectors)(p, begin, end);
  if (rest == end) return;
  for (int64_t r = 0; r < p.rows; ++r)
    for (int64_t j = rest; j < end; ++j) {
      float total = 0;
      for (int64_t g = 0, first = 0; first < p.k; ++g, first += p.block) {
        const Scaling s = scaling_at(p.scale, p.zero_point, p.bias, g * p.n + j);
        for (int64_t i = first; i < std::min(first + p.block, p.k); ++i)
          total += p.x[r * p.x_stride + i] * ((p.w.at(i * p.n + j) - s.zero_point) * s.scale + s.bias);
      }
      p.y[r * p.n + j] = p.global ? total * *p.global : total;
    }
}

}  // namespace rlx::kernels
#endif
