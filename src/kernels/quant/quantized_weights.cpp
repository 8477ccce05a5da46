// See the header. The product accumulates sum x (q - zero_point) over a block of rows of the weights in registers, and
// adds the scale times that to y. What a table says of them is looked up in registers. Zero points are subtracted
// before the multiplication: sum x q and zero_point sum x may be a hundred times as large as their difference, and so
// would be their rounding errors. Weights with a bias are dequantized before the multiplication too, by one
// multiply-add each.
#include "kernels/quant/quantized_weights.h"

#include <algorithm>
#include <cstring>

#include "base/rounded_up.h"
#include "kernels/vector/highway_targets.h"
#include "rlx/element.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/quant/quantized_weights.cpp"
#include "hwy/cache_control.h"
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

// Rows of weights in a block. Each row lies in another page of memory; with 128, the translations of all of them stay
// in the TLB while the kernel walks along the columns.
constexpr int64_t kDepth = 128;
constexpr int kMaxRows = HWY_MAX_BYTES >= 64 ? 6 : 2;  // rows of x whose sums fit the registers
constexpr int kVectors = 4;  // vectors of columns in a micro-kernel; with 8-bit weights they fill a cache line

/// Two columns share a byte: the sums of the even columns and of the odd columns are in separate vectors.
constexpr bool is_paired(DType w_dtype) { return w_dtype == i4 || w_dtype == u4; }

template <DType kWeights, int kV>
HWY_INLINE void load_quantized(const uint8_t* w, V (&q)[kV]) {
  const auto lanes = hn::Lanes(D());
  const DI di;
  if constexpr (!is_paired(kWeights)) {
    RLX_UNROLL
    for (size_t v = 0; v < kV; ++v) {
      if constexpr (kWeights == i8)
        q[v] = hn::ConvertTo(
            D(), hn::PromoteTo(di, hn::LoadU(hn::Rebind<int8_t, D>(), reinterpret_cast<const int8_t*>(w) + v * lanes)));
      else q[v] = hn::ConvertTo(D(), hn::PromoteTo(di, hn::LoadU(DB(), w + v * lanes)));
    }
  } else {
    RLX_UNROLL
    for (size_t v = 0; v < kV; v += 2) {
      const uint8_t* from = w + v / 2 * lanes;
      if constexpr (kWeights == i4) {
        const auto pairs = hn::PromoteTo(di, hn::LoadU(hn::Rebind<int8_t, D>(), reinterpret_cast<const int8_t*>(from)));
        q[v] = hn::ConvertTo(D(), hn::ShiftRight<28>(hn::ShiftLeft<28>(pairs)));
        q[v + 1] = hn::ConvertTo(D(), hn::ShiftRight<4>(pairs));
      } else {
        const auto pairs = hn::PromoteTo(di, hn::LoadU(DB(), from));
        q[v] = hn::ConvertTo(D(), hn::And(pairs, hn::Set(di, 15)));
        q[v + 1] = hn::ConvertTo(D(), hn::ShiftRight<4>(pairs));
      }
    }
  }
}

/// The numbers that 16 values stand for, in registers where they fit into two vectors.
struct ValueTable {
  const float* values;
  V low, high;
  explicit ValueTable(const float* table)
      : values(table), low(hn::LoadU(D(), table)),
        high(hn::LoadU(D(), table + (hn::MaxLanes(D()) <= 8 ? hn::Lanes(D()) : 0))) {}
  HWY_INLINE V at(hn::Vec<DI> index) const {
    const D d;
    if constexpr (!HWY_HAVE_SCALABLE && hn::MaxLanes(D()) == 16)
      return hn::TableLookupLanes(low, hn::IndicesFromVec(d, index));
    else if constexpr (!HWY_HAVE_SCALABLE && hn::MaxLanes(D()) == 8) {
      const DI di;
      const auto indices = hn::IndicesFromVec(d, hn::And(index, hn::Set(di, 7)));
      const auto is_high = hn::RebindMask(d, hn::Gt(index, hn::Set(di, 7)));
      return hn::IfThenElse(is_high, hn::TableLookupLanes(high, indices), hn::TableLookupLanes(low, indices));
    } else {
      return hn::GatherIndex(d, values, index);
    }
  }
};
/// As load_quantized, of u4.
template <int kV>
HWY_INLINE void load_looked_up(const uint8_t* w, const ValueTable& table, V (&q)[kV]) {
  const auto lanes = hn::Lanes(D());
  const DI di;
  RLX_UNROLL
  for (size_t v = 0; v < kV; v += 2) {
    const auto pairs = hn::PromoteTo(di, hn::LoadU(DB(), w + v / 2 * lanes));
    q[v] = table.at(hn::And(pairs, hn::Set(di, 15)));
    q[v + 1] = table.at(hn::ShiftRight<4>(pairs));
  }
}

/// What a block of quantized values has besides a scale.
enum class Shift { none, zero_point, bias, table };  ///< with a bias there may be a zero point too

/// Reads kV vectors of a parameter of the columns, in the order in which load_quantized() has them.
template <DType kWeights, int kV>
HWY_INLINE void read_columns(const QuantizedReader& from, int64_t first, V (&to)[kV]) {
  const D d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  HWY_ALIGN float values[kV * 16] = {};
  if (from.data) from.read(first, kV * lanes, values);
  if constexpr (is_paired(kWeights)) {
    for (int v = 0; v < kV; v += 2) hn::LoadInterleaved2(d, values + v * lanes, to[v], to[v + 1]);
  } else {
    for (int v = 0; v < kV; ++v) to[v] = hn::Load(d, values + v * lanes);
  }
}

/// Adds to y the product of kN rows of x with rows [begin, end) of the weights, which share a scale, for kV vectors of
/// columns.
template <DType kWeights, Shift kShift, int kN, int kV>
HWY_INLINE void add_columns(const QuantizedWeightsProduct& p, int64_t row, int64_t column, int64_t begin, int64_t end) {
  const D d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto* w = static_cast<const uint8_t*>(p.w.data);
  const int64_t w_stride = is_paired(kWeights) ? p.n / 2 : p.n;
  const uint8_t* from = w + begin * w_stride + (is_paired(kWeights) ? column / 2 : column);
  const float* x = p.x + row * p.x_stride;
  const int64_t scales = begin / p.block * p.n + column;
  [[maybe_unused]] V zero[kV], step[kV], bias[kV];
  if constexpr (kShift == Shift::zero_point || kShift == Shift::bias)
    read_columns<kWeights>(p.zero_point, scales, zero);
  if constexpr (kShift == Shift::bias) {
    read_columns<kWeights>(p.scale, scales, step);
    read_columns<kWeights>(p.bias, scales, bias);
  }
  V sum[kN][kV];
  RLX_UNROLL
  for (int r = 0; r < kN; ++r) {
    RLX_UNROLL
    for (int v = 0; v < kV; ++v) sum[r][v] = hn::Zero(d);
  }
  for (int64_t i = begin; i < end; ++i, from += w_stride) {
    V q[kV];
    if constexpr (kShift == Shift::table) load_looked_up(from, ValueTable(p.table), q);
    else load_quantized<kWeights>(from, q);
    // Prefetch what the next two calls read. The rows are too many for the hardware prefetcher to follow.
    hwy::Prefetch(from + 128);
    if constexpr (kShift == Shift::zero_point || kShift == Shift::bias) {
      RLX_UNROLL
      for (int v = 0; v < kV; ++v) {
        q[v] = hn::Sub(q[v], zero[v]);
        if constexpr (kShift == Shift::bias) q[v] = hn::MulAdd(q[v], step[v], bias[v]);
      }
    }
    RLX_UNROLL
    for (int r = 0; r < kN; ++r) {
      const V factor = hn::Set(d, x[r * p.x_stride + i]);
      RLX_UNROLL
      for (int v = 0; v < kV; ++v) sum[r][v] = hn::MulAdd(factor, q[v], sum[r][v]);
    }
  }
  if constexpr (is_paired(kWeights)) {
    RLX_UNROLL
    for (int r = 0; r < kN; ++r) {
      RLX_UNROLL
      for (int v = 0; v < kV; v += 2) {
        HWY_ALIGN float in_order[32];
        hn::StoreInterleaved2(sum[r][v], sum[r][v + 1], d, in_order);
        sum[r][v] = hn::Load(d, in_order), sum[r][v + 1] = hn::Load(d, in_order + lanes);
      }
    }
  }
  RLX_UNROLL
  for (int v = 0; v < kV; ++v) {
    HWY_ALIGN float scale[16];
    if constexpr (kShift != Shift::bias) p.scale.read(scales + v * lanes, lanes, scale);
    RLX_UNROLL
    for (int r = 0; r < kN; ++r) {
      float* y = p.y + (row + r) * p.n + column + v * lanes;
      V total = hn::LoadU(d, y);
      if constexpr (kShift == Shift::bias) total = hn::Add(total, sum[r][v]);
      else total = hn::MulAdd(hn::Load(d, scale), sum[r][v], total);
      hn::StoreU(total, d, y);
    }
  }
}

template <DType kWeights, Shift kShift, int kN>
void add_rows_shifted(const QuantizedWeightsProduct& p, int64_t row, int64_t column, int64_t stop, int64_t begin,
                      int64_t end) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(D()));
  constexpr int kMinVectors = is_paired(kWeights) ? 2 : 1;
  for (; column + kVectors * lanes <= stop; column += kVectors * lanes)
    add_columns<kWeights, kShift, kN, kVectors>(p, row, column, begin, end);
  for (; column + kMinVectors * lanes <= stop; column += kMinVectors * lanes)
    add_columns<kWeights, kShift, kN, kMinVectors>(p, row, column, begin, end);
}
template <DType kWeights, int kN>
void add_rows(const QuantizedWeightsProduct& p, int64_t row, int64_t column, int64_t stop, int64_t begin, int64_t end) {
  if constexpr (kWeights == u4)
    if (p.table) return add_rows_shifted<kWeights, Shift::table, kN>(p, row, column, stop, begin, end);
  if (p.bias.data) add_rows_shifted<kWeights, Shift::bias, kN>(p, row, column, stop, begin, end);
  else if (p.zero_point.data) add_rows_shifted<kWeights, Shift::zero_point, kN>(p, row, column, stop, begin, end);
  else add_rows_shifted<kWeights, Shift::none, kN>(p, row, column, stop, begin, end);
}

template <DType kWeights, int kN = kMaxRows>
void add_some_rows(const QuantizedWeightsProduct& p, int64_t row, int64_t rows, int64_t column, int64_t stop,
                   int64_t begin, int64_t end) {
  if constexpr (kN > 0) {
    if (rows == kN) add_rows<kWeights, kN>(p, row, column, stop, begin, end);
    else add_some_rows<kWeights, kN - 1>(p, row, rows, column, stop, begin, end);
  }
}

template <DType kWeights>
void multiply_columns(const QuantizedWeightsProduct& p, int64_t column, int64_t stop) {
  for (int64_t r = 0; r < p.rows; ++r) std::fill_n(p.y + r * p.n + column, stop - column, 0.0f);
  const int64_t groups = divided_up(p.rows, kMaxRows);  // groups of nearly equal size
  for (int64_t begin = 0; begin < p.k;) {
    const int64_t end = std::min({begin + kDepth, begin / p.block * p.block + p.block, p.k});
    for (int64_t g = 0; g < groups; ++g) {
      const int64_t row = p.rows * g / groups;
      add_some_rows<kWeights>(p, row, p.rows * (g + 1) / groups - row, column, stop, begin, end);
    }
    begin = end;
  }
  if (!p.global) return;
  for (int64_t r = 0; r < p.rows; ++r)
    for (int64_t j = column; j < stop; ++j) p.y[r * p.n + j] *= *p.global;
}

}  // namespace

/// Computes the columns from `begin` that fill whole vectors; returns where they end.
int64_t multiply_whole_vectors(const QuantizedWeightsProduct& p, int64_t begin, int64_t end) {
  const auto whole = static_cast<int64_t>(hn::Lanes(D())) * (is_paired(p.w_dtype) ? 2 : 1);
  const int64_t stop = begin + (end - begin) / whole * whole;
  switch (p.w_dtype) {
    case DType::i8: multiply_columns<i8>(p, begin, stop); break;
    case DType::u8: multiply_columns<u8>(p, begin, stop); break;
    case DType::i4: multiply_columns<i4>(p, begin, stop); break;
    default: multiply_columns<u4>(p, begin, stop); break;
  }
  return stop;
}

}  // namespace HWY_NAMESPACE
}  // namespace rlx::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rlx::kernels {

HWY_EXPORT(multiply_whole_vectors);

bool QuantizedReader::reads(DType dtype) {
  return dtype == f32 || ((is_integer(dtype) || is_float(dtype)) && info(dtype).bits <= 8);
}
QuantizedReader QuantizedReader::of(DType dtype) {
  QuantizedReader reader;
  if (dtype == f32 || !reads(dtype)) return reader;
  reader.bits = info(dtype).bits;
  const int64_t patterns = int64_t{1} << reader.bits;
  Tensor typed(dtype, {std::max<int64_t>(patterns, 8)});
  std::shared_ptr<float[]> table(new float[static_cast<size_t>(patterns)]);
  for (int64_t c = 0; c < patterns; ++c) {
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
float QuantizedReader::at(int64_t i) const {
  if (bits == 32) return static_cast<const float*>(data)[i];
  const auto* bytes = static_cast<const uint8_t*>(data);
  if (bits == 8) return table[bytes[i]];
  const int64_t first = i * bits, byte = first / 8, shift = first % 8;
  unsigned pair = bytes[byte];
  if (shift + bits > 8) pair |= static_cast<unsigned>(bytes[byte + 1]) << 8;
  return table[(pair >> shift) & ((1u << bits) - 1)];
}
void QuantizedReader::read(int64_t first, int64_t count, float* to) const {
  if (bits == 32) {
    std::memcpy(to, static_cast<const float*>(data) + first, static_cast<size_t>(count) * sizeof(float));
  } else if (bits == 8) {
    const auto* from = static_cast<const uint8_t*>(data) + first;
    const float* numbers = table.get();
    for (int64_t i = 0; i < count; ++i) to[i] = numbers[from[i]];
  } else {
    for (int64_t i = 0; i < count; ++i) to[i] = at(first + i);
  }
}

namespace {

/// The parameters that a block of quantized values shares.
struct Scaling {
  float zero_point, scale, bias;
};
Scaling scaling_at(const QuantizedReader& scale, const QuantizedReader& zero_point, const QuantizedReader& bias,
                   int64_t i) {
  return {zero_point.data ? zero_point.at(i) : 0, scale.at(i), bias.data ? bias.at(i) : 0};
}

}  // namespace

void dequantize_values(const Dequantization& c, float* y, int64_t begin, int64_t end) noexcept {
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

void multiply_quantized_weights(const QuantizedWeightsProduct& p, int64_t begin, int64_t end) noexcept {
  const int64_t rest = HWY_DYNAMIC_DISPATCH(multiply_whole_vectors)(p, begin, end);
  if (rest == end) return;
  for (int64_t r = 0; r < p.rows; ++r)
    for (int64_t j = rest; j < end; ++j) {
      float total = 0;
      for (int64_t g = 0, first = 0; first < p.k; ++g, first += p.block) {
        const Scaling s = scaling_at(p.scale, p.zero_point, p.bias, g * p.n + j);
        for (int64_t i = first; i < std::min(first + p.block, p.k); ++i) {
          const float stored = p.w.at(i * p.n + j), q = p.table ? p.table[static_cast<int>(stored)] : stored;
          total += p.x[r * p.x_stride + i] * ((q - s.zero_point) * s.scale + s.bias);
        }
      }
      p.y[r * p.n + j] = p.global ? total * *p.global : total;
    }
}

}  // namespace rlx::kernels
#endif
