// See the header. A format (block_formats-inl.h) passes vectors of decoded elements to a consumer, which stores them or
// multiplies them with the rows of x. It tells the consumer to which of four accumulators an element belongs, so that
// consecutive additions do not wait for each other.
#include "kernels/quant/blocks.h"

#include <cmath>

#include "kernels/partial_sums.h"
#include "kernels/vector/highway_targets.h"
#include "rlx/blocks.h"
#include "tensor/blocks/block_bits.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/quant/blocks.cpp"
#include "hwy/cache_control.h"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/gemm/fma/epilogue-inl.h"
#include "kernels/quant/block_formats-inl.h"
#include "kernels/quant/wide_dots-inl.h"

HWY_BEFORE_NAMESPACE();
namespace rlx::kernels {
namespace HWY_NAMESPACE {
namespace {

template <class T>
struct Store {
  T* to;
  template <int kAccumulator>
  HWY_INLINE void operator()(size_t i, V w) {
    store_f32(w, D(), to + i);
  }
};

/// Dot products of one column of weights with kRows rows of x. With many rows there are registers for fewer than four
/// accumulators per row; then several accumulator numbers share one.
template <int kRows>
struct Dots {
  static constexpr int kAccumulators = kRows <= 2 ? 4 : kRows <= 4 ? 2 : 1;
  const float* x;
  int64_t stride;
  V sums[kRows][kAccumulators];

  HWY_INLINE Dots(const float* rows, int64_t x_stride) : x(rows), stride(x_stride) {
    RLX_UNROLL
    for (int r = 0; r < kRows; ++r) {
      RLX_UNROLL
      for (int p = 0; p < kAccumulators; ++p) sums[r][p] = hn::Zero(D());
    }
  }
  template <int kAccumulator>
  HWY_INLINE void operator()(size_t i, V w) {
    RLX_UNROLL
    for (int r = 0; r < kRows; ++r) {
      V& sum = sums[r][kAccumulator % kAccumulators];
      sum = hn::MulAdd(w, hn::LoadU(D(), x + r * stride + static_cast<int64_t>(i)), sum);
    }
  }
  HWY_INLINE float total(int r) const {
    V sum = sums[r][0];
    RLX_UNROLL
    for (int p = 1; p < kAccumulators; ++p) sum = hn::Add(sum, sums[r][p]);
    return hn::GetLane(hn::SumOfLanes(D(), sum));
  }
};
/// Passes the elements on to accumulators 2 and 3. It is for formats whose blocks use accumulators 0 and 1 only, and
/// takes every second block.
template <class Consumer>
struct Shifted {
  Consumer& consume;
  template <int kAccumulator>
  HWY_INLINE void operator()(size_t i, V w) {
    consume.template operator()<kAccumulator + 2>(i, w);
  }
};

/// The distance in bytes from what is decoded to what is prefetched. A processor that decodes has few loads under way,
/// and its own prefetchers begin anew in each page: at 8192 bytes decoding takes as long from memory as from the cache,
/// and at 4096 longer where others read, too.
constexpr int64_t kPrefetchedBytes = 8192;
template <int64_t kBytes>
HWY_INLINE void prefetch(const uint8_t* w) {
  RLX_UNROLL for (int64_t i = 0; i < kBytes; i += 64) hwy::Prefetch(w + kPrefetchedBytes + i);
}

template <int kRows, class Format>
HWY_INLINE void row_dots(const uint8_t* w, int64_t k, const float* x, int64_t stride, float* to, int64_t to_stride) {
  Dots<kRows> dots(x, stride);
  int64_t left = k / Format::kElements;
  if constexpr (Format::kElements <= 32) {
    for (; left >= 2; left -= 2) {
      prefetch<2 * Format::kBytes>(w);
      Format::decode(w, dots);
      dots.x += Format::kElements;
      Shifted<Dots<kRows>> second{dots};
      Format::decode(w + Format::kBytes, second);
      dots.x += Format::kElements;
      w += 2 * Format::kBytes;
    }
  }
  for (; left > 0; --left, w += Format::kBytes) {
    prefetch<Format::kBytes>(w);
    Format::decode(w, dots);
    dots.x += Format::kElements;
  }
  RLX_UNROLL
  for (int r = 0; r < kRows; ++r) to[r * to_stride] = dots.total(r);
}

/// For formats without a vector kernel: each block is decoded to memory that stays in the cache.
template <int kRows>
HWY_INLINE void decoded_dots(BlockDecoder decode, const DTypeInfo& format, const std::byte* w, int64_t k,
                             const float* x, int64_t stride, float* to, int64_t to_stride) {
  Dots<kRows> dots(x, stride);
  const auto lanes = static_cast<int64_t>(hn::Lanes(D()));
  HWY_ALIGN float block[256];
  for (int64_t left = k / format.block_elements; left > 0; --left, w += format.block_bytes) {
    decode(w, 1, block);
    for (int64_t i = 0; i < format.block_elements; i += lanes)
      dots.template operator()<0>(static_cast<size_t>(i), hn::LoadU(D(), block + i));
    dots.x += format.block_elements;
  }
  RLX_UNROLL
  for (int r = 0; r < kRows; ++r) to[r * to_stride] = dots.total(r);
}

constexpr int64_t kColumns = BlockWeightsProduct::kColumns;

/// Writes to[r * kColumns + j] for all rows of x and columns j < `columns`, whose bytes begin `row_bytes` after each
/// other. Sums run over `count` elements, the first of which are at x_first (of row 0) and w.
void dots_of_columns(const BlockWeightsProduct& p, const float* x_first, const std::byte* w, int64_t row_bytes,
                     int64_t columns, int64_t count, float* to) {
  int64_t r = 0;
  auto consume = [&]<int kRows>() HWY_ATTR {
    const float* x = x_first + r * p.x_stride;
    float* sums = to + r * kColumns;
    const bool vectors = with_format(p.format, [&]<class Format>() HWY_ATTR {
      const auto* bytes = reinterpret_cast<const uint8_t*>(w);
      for (int64_t j = 0; j < columns; ++j, bytes += row_bytes)
        row_dots<kRows, Format>(bytes, count, x, p.x_stride, sums + j, kColumns);
    });
    for (int64_t j = 0; !vectors && j < columns; ++j)
      decoded_dots<kRows>(block_decoder(p.format), info(p.format), w + j * row_bytes, count, x, p.x_stride, sums + j,
                          kColumns);
    r += kRows;
  };
  if (p.rows - r >= 8) consume.template operator()<8>();
  if (p.rows - r >= 4) consume.template operator()<4>();
  if (p.rows - r >= 2) consume.template operator()<2>();
  if (p.rows - r >= 1) consume.template operator()<1>();
}

#if HWY_TARGET <= HWY_AVX3
/// One row beside the formats that have wide dot products (wide_dots-inl.h).
class WideRow {
 public:
  /// The row as it is read: that of p, or one in another order.
  explicit WideRow(const BlockWeightsProduct& p) : is_wide_(p.rows == 1 && is_wide(p.format)) {
    if (is_wide_ && p.format == q6_k && p.k <= kMaxOrdered) WideQ6_K::order(p.x, p.k, ordered_), is_ordered_ = true;
  }
  /// dots_of_columns() of elements [first, first + count); false if it has to be called instead.
  bool dots(const BlockWeightsProduct& p, int64_t first, const std::byte* w, int64_t row_bytes, int64_t columns,
            int64_t count, float* to) {
    if (!is_wide_) return false;
    const WideColumns all{reinterpret_cast<const uint8_t*>(w), row_bytes};
    if (p.format == q8_0) wide_dots<WideQ8_0>(p.x + first, all, columns, count, to);
    else if (p.format == q4_k) wide_dots<WideQ4_K>(p.x + first, all, columns, count, to);
    else {
      if (!is_ordered_) WideQ6_K::order(p.x + first, count, ordered_);
      wide_dots<WideQ6_K>(is_ordered_ ? ordered_ + first : ordered_, all, columns, count, to);
    }
    for (int64_t j = 0; j < columns; ++j)
      if (!std::isfinite(to[j])) dots_of_columns(p, p.x + first, w + j * row_bytes, row_bytes, 1, count, to + j);
    return true;
  }

 private:
  static constexpr int64_t kMaxOrdered = 8192;
  static bool is_wide(DType format) { return format == q8_0 || format == q4_k || format == q6_k; }
  bool is_wide_, is_ordered_ = false;
  HWY_ALIGN float ordered_[kMaxOrdered];
};
#else
struct WideRow {
  explicit WideRow(const BlockWeightsProduct&) {}
  bool dots(const BlockWeightsProduct&, int64_t, const std::byte*, int64_t, int64_t, int64_t, float*) { return false; }
};
#endif

/// The same for whole sums, which are sums of partial sums (see partial_sums.h).
void sums_of_columns(const BlockWeightsProduct& p, WideRow& row, const std::byte* w, int64_t row_bytes, int64_t columns,
                     float* to) {
  // A piece is so long that each lane of at least one accumulator adds kPartialSumTerms terms. It consists of whole
  // blocks, whatever the format.
  const int64_t piece = kPartialSumTerms * static_cast<int64_t>(hn::Lanes(D()));
  const DTypeInfo& format = info(p.format);
  const auto dots = [&](int64_t first, float* sums) HWY_ATTR {
    const int64_t count = HWY_MIN(p.k - first, piece);
    const std::byte* const from = w + first / format.block_elements * format.block_bytes;
    if (!row.dots(p, first, from, row_bytes, columns, count, sums))
      dots_of_columns(p, p.x + first, from, row_bytes, columns, count, sums);
  };
  dots(0, to);
  HWY_ALIGN float partial[BlockWeightsProduct::kMaxRows * kColumns];
  for (int64_t first = piece; first < p.k; first += piece) {
    dots(first, partial);
    for (int64_t r = 0; r < p.rows; ++r)
      for (int64_t j = 0; j < columns; ++j) to[r * kColumns + j] += partial[r * kColumns + j];
  }
}

template <class Y>
void apply_epilogue(const BlockWeightsProduct& p, float* sums, int64_t column, int64_t columns) {
  HWY_ALIGN float bias[kColumns] = {};
  auto read = [&]<class B>(const B* from) {
    for (int64_t j = 0; j < columns; ++j) bias[j] = to_f32(from[column + j]);
  };
  if (p.epilogue.bias) {
    if (p.epilogue.bias_dtype == f16) read(static_cast<const F16*>(p.bias));
    else if (p.epilogue.bias_dtype == bf16) read(static_cast<const BF16*>(p.bias));
    else read(static_cast<const float*>(p.bias));
  }
  const auto* residual = static_cast<const Y*>(p.residual);
  apply_tile_epilogue<float, Y>(
      {sums, p.rows, kColumns, columns}, p.epilogue, bias,
      {static_cast<Y*>(p.y) + column, p.y_stride, 1, residual ? residual + column : nullptr, p.residual_stride});
}

}  // namespace

void multiply_block_weights(const BlockWeightsProduct& p, int64_t begin, int64_t end) {
  HWY_ALIGN float sums[BlockWeightsProduct::kMaxRows * kColumns];
  const DTypeInfo& format = info(p.format);
  const int64_t row_bytes = p.k / format.block_elements * format.block_bytes;
  WideRow row(p);
  for (int64_t column = begin; column < end; column += kColumns) {
    const int64_t columns = HWY_MIN(kColumns, end - column);
    sums_of_columns(p, row, p.w + column * row_bytes, row_bytes, columns, sums);
    // The epilogue computes all kColumns columns and stores `columns` of them. The others are set to 0, because they
    // must not be NaN.
    for (int64_t r = 0; r < p.rows; ++r)
      for (int64_t j = columns; j < kColumns; ++j) sums[r * kColumns + j] = 0;
    if (p.y_dtype == f16) apply_epilogue<F16>(p, sums, column, columns);
    else if (p.y_dtype == bf16) apply_epilogue<BF16>(p, sums, column, columns);
    else apply_epilogue<float>(p, sums, column, columns);
  }
}

/// Rows that are prefetched, as the keys of score_few (attention/score_blocks-inl.h).
constexpr int64_t kPrefetchedRows = 16;

template <class T>
void decode_rows(DType format, const std::byte* from, int64_t row_bytes, int64_t rows, int64_t blocks, T* to,
                 int64_t to_stride) {
  const bool vectors = with_format(format, [&]<class Format>() HWY_ATTR {
    // A format may decode several blocks at once.
    const int64_t count = blocks * info(format).block_elements / Format::kElements;
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t b = 0; b < count; ++b) {
        const auto* block = reinterpret_cast<const uint8_t*>(from) + r * row_bytes + b * Format::kBytes;
        hwy::Prefetch(block + kPrefetchedRows * row_bytes);
        Store<T> store{to + r * to_stride + b * Format::kElements};
        Format::decode(block, store);
      }
  });
  if (vectors) return;
  const DTypeInfo& f = info(format);
  HWY_ALIGN float one[256];
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t b = 0; b < blocks; ++b) {
      block_decoder(format)(from + r * row_bytes + b * f.block_bytes, 1, one);
      for (int64_t i = 0; i < f.block_elements; ++i) to[r * to_stride + b * f.block_elements + i] = from_f32<T>(one[i]);
    }
}
void decode_block_rows(DType format, const std::byte* from, int64_t row_bytes, int64_t rows, int64_t blocks, float* to,
                       int64_t to_stride) {
  decode_rows(format, from, row_bytes, rows, blocks, to, to_stride);
}
void decode_to_f32(DType format, const std::byte* from, int64_t blocks, float* to) {
  decode_rows(format, from, 0, 1, blocks, to, 0);
}
void decode_to_bf16(DType format, const std::byte* from, int64_t blocks, BF16* to) {
  decode_rows(format, from, 0, 1, blocks, to, 0);
}

}  // namespace HWY_NAMESPACE
}  // namespace rlx::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rlx::kernels {

HWY_EXPORT(decode_to_f32);
HWY_EXPORT(decode_to_bf16);
HWY_EXPORT(decode_block_rows);
HWY_EXPORT(multiply_block_weights);

void decode_blocks(DType format, const std::byte* from, int64_t blocks, float* to) noexcept {
  HWY_DYNAMIC_DISPATCH(decode_to_f32)(format, from, blocks, to);
}
void decode_blocks(DType format, const std::byte* from, int64_t blocks, BF16* to) noexcept {
  HWY_DYNAMIC_DISPATCH(decode_to_bf16)(format, from, blocks, to);
}
void decode_block_rows(DType format, const std::byte* from, int64_t row_bytes, int64_t rows, int64_t blocks, float* to,
                       int64_t to_stride) noexcept {
  HWY_DYNAMIC_DISPATCH(decode_block_rows)(format, from, row_bytes, rows, blocks, to, to_stride);
}
void multiply_block_weights(const BlockWeightsProduct& p, int64_t begin, int64_t end) noexcept {
  HWY_DYNAMIC_DISPATCH(multiply_block_weights)(p, begin, end);
}

}  // namespace rlx::kernels
#endif
