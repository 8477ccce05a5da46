// See the header. A few neighbouring outputs of a few vectors of channels are summed in registers over all taps.
#include "kernels/conv/depthwise_channels_last.h"

#include <algorithm>
#include <type_traits>

#include "kernels/partial_sums.h"
#include "kernels/vector/highway_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/conv/depthwise_channels_last.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/vector/narrow_float-inl.h"

#ifndef RLX_KERNELS_DEPTHWISE_CHANNELS_ONCE
#define RLX_KERNELS_DEPTHWISE_CHANNELS_ONCE
namespace rlx::kernels {
namespace {

/// The geometry of an image. One spatial dim is treated as an image of one row.
struct Image {
  int64_t in_rows, in_cols, rows, cols, kernel_rows, kernel_cols;
  int64_t row_step, col_step, row_gap, col_gap, low_rows, low_cols;
  int64_t x_row, x_col, y_row, y_col;  ///< strides
  int64_t channels;

  explicit Image(const ConvolutionArgs& a) {
    const int last = a.spatial - 1;
    const bool flat = a.spatial == 1;
    in_cols = a.in_dims[last], cols = a.out_dims[last], kernel_cols = a.kernel[last];
    col_step = a.stride[last], col_gap = a.rhs_dilation[last], low_cols = a.low[last];
    x_col = a.x_strides[last], y_col = a.y_strides[last];
    in_rows = flat ? 1 : a.in_dims[0], rows = flat ? 1 : a.out_dims[0], kernel_rows = flat ? 1 : a.kernel[0];
    row_step = flat ? 1 : a.stride[0], row_gap = flat ? 1 : a.rhs_dilation[0], low_rows = flat ? 0 : a.low[0];
    x_row = flat ? 0 : a.x_strides[0], y_row = flat ? 0 : a.y_strides[0];
    channels = a.out_channels;
  }
};

/// The taps [begin, end) of a row or column that are inside the input, and the index that the first of them reads.
/// Paddings, strides and dilations are unbounded, so no sum is formed that could leave the padded input and overflow.
struct Taps {
  int64_t begin, end, at;
  Taps(int64_t first, int64_t gap, int64_t count, int64_t extent) {
    begin = first >= 0 ? 0 : std::min(count, (-first - 1) / gap + 1);
    end = first >= extent ? begin : std::max(begin, std::min(count, (extent - 1 - first) / gap + 1));
    at = begin < end ? first + begin * gap : 0;
  }
};

}  // namespace
}  // namespace rlx::kernels
#endif  // RLX_KERNELS_DEPTHWISE_CHANNELS_ONCE

HWY_BEFORE_NAMESPACE();
namespace rlx::kernels {
namespace HWY_NAMESPACE {
namespace {

/// Computes kCount neighbouring outputs of kVectors vectors of channels (with kSome: of the first `some` lanes of one
/// vector) and applies `epilogue`. There are enough independent sums to hide the latency of a multiply-add. `x` is what
/// the first of the taps reads for the first output.
template <int kCount, int kVectors, bool kSome>
HWY_INLINE void sum_outputs(const Image& m, const ClampedEpilogue& epilogue, const float* x, const float* weights,
                            Taps rows, Taps cols, float* y, size_t some) {
  const F32Tag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto load = [&](const float* at) HWY_ATTR {
    if constexpr (kSome) return load_f32_some(d, at, some);
    else return hn::LoadU(d, at);
  };
  F32Vec sum[kCount * kVectors];
  RLX_UNROLL for (int i = 0; i < kCount * kVectors; ++i) sum[i] = hn::Zero(d);
  for (int64_t r = rows.begin; r < rows.end; ++r)
    for (int64_t c = cols.begin; c < cols.end; ++c) {
      const float* w = weights + (r * m.kernel_cols + c) * m.channels;
      const float* at = x + (r - rows.begin) * m.row_gap * m.x_row + (c - cols.begin) * m.col_gap * m.x_col;
      RLX_UNROLL for (int v = 0; v < kVectors; ++v) {
        const F32Vec weight = load(w + v * lanes);
        RLX_UNROLL for (int i = 0; i < kCount; ++i) {
          F32Vec& total = sum[i * kVectors + v];
          total = hn::MulAdd(weight, load(at + i * m.col_step * m.x_col + v * lanes), total);
        }
      }
    }
  const auto low = hn::Set(d, epilogue.low), high = hn::Set(d, epilogue.high);
  RLX_UNROLL for (int v = 0; v < kVectors; ++v) {
    const F32Vec bias = epilogue.bias ? load(epilogue.bias + v * lanes) : hn::Zero(d);
    RLX_UNROLL for (int i = 0; i < kCount; ++i) {
      const F32Vec out = hn::Min(high, hn::Max(low, hn::Add(sum[i * kVectors + v], bias)));  // NaN passes
      if constexpr (kSome) store_f32_some(out, d, y + i * m.y_col, some);
      else hn::StoreU(out, d, y + i * m.y_col + v * lanes);
    }
  }
}

/// Computes one row of outputs for kVectors vectors of channels, kCount outputs at a time where all taps are inside.
template <int kCount, int kVectors, bool kSome>
HWY_INLINE void sum_row(const Image& m, const ClampedEpilogue& epilogue, const float* x, const float* weights,
                        Taps rows, float* y, size_t some) {
  const int64_t reach = (m.kernel_cols - 1) * m.col_gap;
  // The outputs [inner_begin, inner_end) have all taps inside the input.
  const int64_t inner_begin = m.low_cols <= 0 ? 0 : std::min((m.low_cols - 1) / m.col_step + 1, m.cols);
  const int64_t last = m.in_cols - 1 + m.low_cols - reach;
  const int64_t inner_end = last < 0 ? inner_begin : std::clamp<int64_t>(last / m.col_step + 1, inner_begin, m.cols);
  const auto taps_of = [&](int64_t o) {
    return Taps(o * m.col_step - m.low_cols, m.col_gap, m.kernel_cols, m.in_cols);
  };
  const auto sum = [&]<int kTogether>(std::integral_constant<int, kTogether>, int64_t o) HWY_ATTR {
    const Taps cols = taps_of(o);
    sum_outputs<kTogether, kVectors, kSome>(m, epilogue, x + cols.at * m.x_col, weights, rows, cols, y + o * m.y_col,
                                            some);
  };
  int64_t o = 0;
  for (; o < inner_begin; ++o) sum(std::integral_constant<int, 1>(), o);
  for (; o + kCount <= inner_end; o += kCount) sum(std::integral_constant<int, kCount>(), o);
  for (; o < m.cols; ++o) sum(std::integral_constant<int, 1>(), o);
}

/// Computes a row of outputs for one vector of channels (of the first `some` lanes) and more taps than a running sum
/// may have (see partial_sums.h).
HWY_NOINLINE void sum_long_row(const Image& m, const ClampedEpilogue& epilogue, const float* x, const float* weights,
                               Taps rows, float* y, size_t some) {
  const F32Tag d;
  const auto low = hn::Set(d, epilogue.low), high = hn::Set(d, epilogue.high);
  const F32Vec bias = epilogue.bias ? load_f32_some(d, epilogue.bias, some) : hn::Zero(d);
  for (int64_t o = 0; o < m.cols; ++o) {
    const Taps cols(o * m.col_step - m.low_cols, m.col_gap, m.kernel_cols, m.in_cols);
    F32Vec total = hn::Zero(d), sum = total;
    int64_t terms = 0;
    for (int64_t r = rows.begin; r < rows.end; ++r)
      for (int64_t c = cols.begin; c < cols.end; ++c) {
        if (++terms > kPartialSumTerms) total = hn::Add(total, sum), sum = hn::Zero(d), terms = 1;
        const float* w = weights + (r * m.kernel_cols + c) * m.channels;
        const float* at =
            x + (r - rows.begin) * m.row_gap * m.x_row + (cols.at + (c - cols.begin) * m.col_gap) * m.x_col;
        sum = hn::MulAdd(load_f32_some(d, w, some), load_f32_some(d, at, some), sum);
      }
    const F32Vec out = hn::Min(high, hn::Max(low, hn::Add(hn::Add(total, sum), bias)));  // NaN passes
    store_f32_some(out, d, y + o * m.y_col, some);
  }
}

/// Computes a few rows of outputs: all of them for some channels, then for the next ones, because neighbouring rows
/// read mostly the same input.
void few_rows_of(const ConvolutionArgs& a, const float* packed, const ConvolutionEpilogue& epilogue, int64_t begin,
                 int64_t end) {
  const Image m(a);
  const auto lanes = static_cast<int64_t>(hn::Lanes(F32Tag()));
  const ClampedEpilogue clamped = epilogue.residual ? ClampedEpilogue{} : clamped_epilogue(epilogue);
  const auto rows_of_channels = [&]<int kCount, int kVectors, bool kSome>(
                                    std::integral_constant<int, kCount>, std::integral_constant<int, kVectors>,
                                    std::bool_constant<kSome>, int64_t c) HWY_ATTR {
    ClampedEpilogue own = clamped;
    if (own.bias) own.bias += c;
    const auto some = static_cast<size_t>(m.channels - c);
    for (int64_t at = begin; at < end; ++at) {
      const int64_t image = at / m.rows, row = at % m.rows, first = row * m.row_step - m.low_rows;
      const Taps rows(first, m.row_gap, m.kernel_rows, m.in_rows);
      const float* x = static_cast<const float*>(a.x) + image * a.x_batch_stride + rows.at * m.x_row;
      float* y = static_cast<float*>(a.y) + image * a.y_batch_stride + row * m.y_row;
      if constexpr (kCount == 1)
        sum_long_row(m, own, x + c, packed + c, rows, y + c, std::min(some, static_cast<size_t>(lanes)));
      else sum_row<kCount, kVectors, kSome>(m, own, x + c, packed + c, rows, y + c, some);
    }
  };
  // Registers hold 16 sums, or 8 (with 12, more outputs are left over at the end of a row).
  constexpr std::integral_constant<int, 1> kOne;
  constexpr std::integral_constant<int, 2> kTwo;
  constexpr std::integral_constant<int, 4> kFour;
  constexpr std::integral_constant<int, 8> kEight;
  constexpr std::integral_constant<int, kVectorRegisters / 4> kOfTwo;  // outputs together, of two vectors of channels
  int64_t c = 0;
  if (m.kernel_rows * m.kernel_cols > kPartialSumTerms)
    for (; c < m.channels; c += lanes) rows_of_channels(kOne, kOne, std::true_type(), c);
  if constexpr (kVectorRegisters == 32)
    for (; c + 4 * lanes <= m.channels; c += 4 * lanes) rows_of_channels(kFour, kFour, std::false_type(), c);
  for (; c + 2 * lanes <= m.channels; c += 2 * lanes) rows_of_channels(kOfTwo, kTwo, std::false_type(), c);
  for (; c + lanes <= m.channels; c += lanes) rows_of_channels(kEight, kOne, std::false_type(), c);
  if (c < m.channels) rows_of_channels(kEight, kOne, std::true_type(), c);
  if (clamped.is_all) return;
  for (int64_t at = begin; at < end; ++at) {
    float* y = static_cast<float*>(a.y) + at / m.rows * a.y_batch_stride + at % m.rows * m.y_row;
    const float* residual = epilogue.residual ? epilogue.residual + at * m.cols * m.channels : nullptr;
    apply_epilogue_rows(
        {y, residual, epilogue.bias, false, epilogue.activation, m.cols, m.channels, m.y_col, m.channels});
  }
}

void rows_of(const ConvolutionArgs& a, const float* packed, const ConvolutionEpilogue& epilogue, int64_t begin,
             int64_t end) {
  constexpr int64_t kCacheBytes = 256 << 10;  // of the second-level cache, for what few_rows_of() reads and writes
  const Image m(a);
  const int64_t row = (std::min<int64_t>(m.row_step, 8) * m.in_cols + m.cols) * m.channels * 4;
  const int64_t rows = std::max<int64_t>(1, kCacheBytes / std::max<int64_t>(1, row));
  for (int64_t at = begin; at < end; at += rows) few_rows_of(a, packed, epilogue, at, std::min(end, at + rows));
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace rlx::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rlx::kernels {
namespace {
HWY_EXPORT(rows_of);
}  // namespace

bool is_depthwise_of_channels(const ConvolutionArgs& a) {
  if (a.dtype != f32 || a.out_dtype != f32 || a.spatial < 1 || a.spatial > 2) return false;
  if (a.groups < 1 || a.in_channels != a.groups || a.out_channels != a.groups) return false;
  for (int d = 0; d < a.spatial; ++d)
    if (a.lhs_dilation[d] != 1 || a.w_strides[d] < 0) return false;
  return a.x_channel_stride == 1 && a.y_channel_stride == 1;
}

int64_t depthwise_weights_count(const ConvolutionArgs& a) {
  int64_t count = a.out_channels;
  for (int d = 0; d < a.spatial; ++d) count *= a.kernel[d];
  return count;
}

void pack_depthwise_weights(const ConvolutionArgs& a, float* packed) noexcept {
  const Image m(a);
  const int64_t w_row = a.spatial == 1 ? 0 : a.w_strides[0], w_col = a.w_strides[a.spatial - 1];
  for (int64_t r = 0; r < m.kernel_rows; ++r)
    for (int64_t c = 0; c < m.kernel_cols; ++c) {
      const float* w = static_cast<const float*>(a.w) + r * w_row + c * w_col;
      for (int64_t o = 0; o < m.channels; ++o) *packed++ = w[o * a.w_out_stride];
    }
}

void depthwise_of_channels(const ConvolutionArgs& args, const float* packed, const ConvolutionEpilogue& epilogue,
                           int64_t begin, int64_t end) noexcept {
  HWY_DYNAMIC_DISPATCH(rows_of)(args, packed, epilogue, begin, end);
}

}  // namespace rlx::kernels
#endif  // HWY_ONCE
