// See the header. A band of the plane's rows is converted to f32 and copied, with its padding, to scratch memory that
// stays in the first-level cache. The inner loop then sums a few vectors of neighbouring outputs in registers and needs
// no tests for edges. A 3 x 3 kernel reads f32 in place instead, four rows of outputs at a time, which share the rows
// that they read.
#include "kernels/conv/depthwise.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <type_traits>

#include "base/rounded_up.h"
#include "kernels/vector/highway_targets.h"
#include "kernels/vector/narrow_float.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/conv/depthwise.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/vector/narrow_float-inl.h"

#ifndef RLX_KERNELS_DEPTHWISE_ONCE
#define RLX_KERNELS_DEPTHWISE_ONCE
namespace rlx::kernels {
namespace {

constexpr int64_t kMaxTaps = 64;
constexpr int64_t kBandBytes = 24 << 10;  ///< of a band's padded rows, which share the first-level cache with outputs
constexpr int64_t kMaxLanes = 16;
constexpr double kMaxScratch = 1 << 20;  ///< bytes of a thread's scratch

/// The geometry of a plane and of its bands. One spatial dim is treated as two of which the first has extent 1.
struct Plane {
  int64_t in_rows, in_cols, rows, cols, kernel_rows, kernel_cols;
  int64_t stride;            ///< of the rows; that of the columns is 1
  int64_t row_gap, col_gap;  ///< distances between taps
  int64_t low_rows, low_cols;
  int64_t x_row, y_row, w_row, w_col;  ///< strides
  int64_t pitch;                       ///< floats of a padded row
  int64_t band;                        ///< rows of outputs that are computed together

  explicit Plane(const ConvolutionArgs& a) {
    const int last = a.spatial - 1;
    const bool flat = a.spatial == 1;
    in_cols = a.in_dims[last], cols = a.out_dims[last], kernel_cols = a.kernel[last];
    col_gap = a.rhs_dilation[last], low_cols = a.low[last], w_col = a.w_strides[last];
    in_rows = flat ? 1 : a.in_dims[0], rows = flat ? 1 : a.out_dims[0], kernel_rows = flat ? 1 : a.kernel[0];
    stride = flat ? 1 : a.stride[0], row_gap = flat ? 1 : a.rhs_dilation[0], low_rows = flat ? 0 : a.low[0];
    x_row = flat ? 0 : a.x_strides[0], y_row = flat ? 0 : a.y_strides[0], w_row = flat ? 0 : a.w_strides[0];
    // Outputs are computed in whole vectors: lanes behind the last output are read and discarded.
    pitch = rounded_up(cols, kMaxLanes) + (kernel_cols - 1) * col_gap;
    pitch = rounded_up(pitch, kMaxLanes);
    const int64_t in_cache = kBandBytes / static_cast<int64_t>(sizeof(float)) / pitch;
    band =
        std::clamp<int64_t>((in_cache - (kernel_rows - 1) * row_gap - 1) / stride + 1, 1, std::max<int64_t>(1, rows));
  }
  int64_t padded_rows(int64_t outputs) const { return (outputs - 1) * stride + (kernel_rows - 1) * row_gap + 1; }
};

}  // namespace
}  // namespace rlx::kernels
#endif  // RLX_KERNELS_DEPTHWISE_ONCE

HWY_BEFORE_NAMESPACE();
namespace rlx::kernels {
namespace HWY_NAMESPACE {
namespace {

/// Copies a row of the plane as f32, with its padding.
template <class T>
void copy_row(const Plane& p, const T* from, float* to) {
  const F32Tag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t before = std::clamp<int64_t>(p.low_cols, 0, p.pitch), first = std::max<int64_t>(0, -p.low_cols);
  const int64_t count = std::clamp<int64_t>(p.in_cols - first, 0, p.pitch - before);
  std::fill(to, to + before, 0.0f);
  from += first, to += before;
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) hn::StoreU(load_f32(d, from + i), d, to + i);
  for (; i < count; ++i) to[i] = to_f32(from[i]);
  std::fill(to + count, to + p.pitch - before, 0.0f);
}

/// Computes kVectors vectors of neighbouring outputs and writes the first `left` of them. `from` is the first output's
/// first tap; the other taps are `at` elements from there.
template <int kVectors, class Out>
HWY_INLINE void sum_taps(const float* from, const int64_t* at, const float* weights, int64_t taps, Out* to,
                         int64_t left) {
  const F32Tag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  F32Vec sum[kVectors];
  RLX_UNROLL for (int v = 0; v < kVectors; ++v) sum[v] = hn::Zero(d);
  for (int64_t t = 0; t < taps; ++t) {
    const F32Vec weight = hn::Set(d, weights[t]);
    const float* seen = from + at[t];
    RLX_UNROLL for (int v = 0; v < kVectors; ++v) sum[v] = hn::MulAdd(weight, hn::LoadU(d, seen + v * lanes), sum[v]);
  }
  RLX_UNROLL for (int v = 0; v < kVectors; ++v) {
    const int64_t rest = left - v * lanes;
    if (rest >= lanes) store_f32(sum[v], d, to + v * lanes);
    else if (rest > 0) store_f32_some(sum[v], d, to + v * lanes, static_cast<size_t>(rest));
  }
}

#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3  // masked loads are native

/// Computes kRows rows of a vector of neighbouring outputs of a 3 x 3 kernel. `rows` are the kRows + 2 rows of inputs
/// that they read, from column `first` on. `load` loads what tap 0, 1 or 2 of a row reads, given its pointer.
template <int kRows, class Load>
HWY_INLINE void sum_3x3(const float* const* rows, int64_t first, const F32Vec (&weights)[9], Load load, float* y,
                        int64_t y_row) {
  const F32Tag d;
  F32Vec sum[kRows];
  RLX_UNROLL for (int i = 0; i < kRows; ++i) sum[i] = hn::Zero(d);
  RLX_UNROLL for (int r = 0; r < kRows + 2; ++r) {
    const float* from = rows[r] + first;
    const F32Vec left = load(from, 0), middle = load(from + 1, 1), right = load(from + 2, 2);
    RLX_UNROLL for (int i = 0; i < kRows; ++i) {
      const int t = r - i;
      if (t < 0 || t > 2) continue;
      sum[i] = hn::MulAdd(weights[3 * t], left, sum[i]);
      sum[i] = hn::MulAdd(weights[3 * t + 1], middle, sum[i]);
      sum[i] = hn::MulAdd(weights[3 * t + 2], right, sum[i]);
    }
  }
  RLX_UNROLL for (int i = 0; i < kRows; ++i) hn::StoreU(sum[i], d, y + i * y_row);
}

bool is_3x3(const Plane& p) {
  return p.kernel_rows == 3 && p.kernel_cols == 3 && p.row_gap == 1 && p.col_gap == 1 && p.stride == 1 &&
         p.low_cols >= 0 && p.low_cols <= 2 && p.cols >= static_cast<int64_t>(hn::Lanes(F32Tag()));
}

/// Computes the rows [row, row + kRows) of outputs. Taps outside of the plane's rows read `zeros`.
template <int kRows>
void convolve_rows_3x3(const Plane& p, const float* x, const F32Vec (&weights)[9], float* y, int64_t row,
                       const float* zeros) {
  const F32Tag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const float* rows[kRows + 2];
  for (int r = 0; r < kRows + 2; ++r) {
    const int64_t i = row - p.low_rows + r;
    rows[r] = i >= 0 && i < p.in_rows ? x + i * p.x_row : zeros;
  }
  y += row * p.y_row;
  for (int64_t c = 0;;) {
    const int64_t first = c - p.low_cols;
    if (first >= 0 && first + 2 + lanes <= p.in_cols) {
      sum_3x3<kRows>(
          rows, first, weights, [&](const float* from, int) HWY_ATTR { return hn::LoadU(d, from); }, y + c, p.y_row);
    } else {
      hn::Mask<F32Tag> inside[3];
      RLX_UNROLL for (int t = 0; t < 3; ++t) {
        const int64_t low = std::clamp<int64_t>(-first - t, 0, lanes);
        const int64_t high = std::clamp<int64_t>(p.in_cols - first - t, low, lanes);
        inside[t] = hn::AndNot(hn::FirstN(d, static_cast<size_t>(low)), hn::FirstN(d, static_cast<size_t>(high)));
      }
      sum_3x3<kRows>(
          rows, first, weights, [&](const float* from, int t) HWY_ATTR { return hn::MaskedLoad(inside[t], d, from); },
          y + c, p.y_row);
    }
    if (c + lanes == p.cols) break;
    c = std::min(c + lanes, p.cols - lanes);  // the last vector may compute some outputs once more
  }
}

void convolve_plane_3x3(const Plane& p, const float* x, const float* w, float* y, float* zeros) {
  constexpr int kTogether = 4;
  const F32Tag d;
  F32Vec weights[9];
  RLX_UNROLL for (int t = 0; t < 9; ++t) weights[t] = hn::Set(d, w[t / 3 * p.w_row + t % 3 * p.w_col]);
  int64_t row = 0;
  for (; row + kTogether <= p.rows; row += kTogether) convolve_rows_3x3<kTogether>(p, x, weights, y, row, zeros);
  if (row == p.rows) return;
  if (p.rows > kTogether) convolve_rows_3x3<kTogether>(p, x, weights, y, p.rows - kTogether, zeros);
  else
    for (; row < p.rows; ++row) convolve_rows_3x3<1>(p, x, weights, y, row, zeros);
}

#endif

template <class T, class Out>
void convolve_plane(const Plane& p, const T* x, const T* w, Out* y, float* rows) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(F32Tag()));
  const int64_t taps = p.kernel_rows * p.kernel_cols;
  float weights[kMaxTaps];
  int64_t at[kMaxTaps];
  for (int64_t t = 0; t < taps; ++t) {
    const int64_t row = t / p.kernel_cols, col = t % p.kernel_cols;
    weights[t] = to_f32(w[row * p.w_row + col * p.w_col]);
    at[t] = row * p.row_gap * p.pitch + col * p.col_gap;
  }
  for (int64_t begin = 0; begin < p.rows; begin += p.band) {
    const int64_t count = std::min(p.band, p.rows - begin), first = begin * p.stride - p.low_rows;
    for (int64_t r = 0, padded = p.padded_rows(count); r < padded; ++r) {
      const int64_t row = first + r;
      if (row >= 0 && row < p.in_rows) copy_row(p, x + row * p.x_row, rows + r * p.pitch);
      else std::fill(rows + r * p.pitch, rows + (r + 1) * p.pitch, 0.0f);
    }
    for (int64_t r = 0; r < count; ++r) {
      const float* from = rows + r * p.stride * p.pitch;
      Out* to = y + (begin + r) * p.y_row;
      int64_t c = 0;
      for (; p.cols - c > 3 * lanes; c += 4 * lanes) sum_taps<4>(from + c, at, weights, taps, to + c, p.cols - c);
      for (; p.cols - c > lanes; c += 2 * lanes) sum_taps<2>(from + c, at, weights, taps, to + c, p.cols - c);
      if (c < p.cols) sum_taps<1>(from + c, at, weights, taps, to + c, p.cols - c);
    }
  }
}

template <class T, class Out>
void planes_of(const ConvolutionArgs& a, int64_t begin, int64_t end, float* rows) {
  const Plane p(a);
  const int64_t of_group = a.out_channels / a.groups;
  bool by_vectors = false;
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
  if constexpr (std::is_same_v<T, float> && std::is_same_v<Out, float>) by_vectors = is_3x3(p);
#endif
  if (by_vectors) std::fill_n(rows, p.pitch, 0.0f);
  for (int64_t plane = begin; plane < end; ++plane) {
    const int64_t channel = plane % a.out_channels, image = plane / a.out_channels;
    const T* x = static_cast<const T*>(a.x) + image * a.x_batch_stride + channel / of_group * a.x_channel_stride;
    const T* w = static_cast<const T*>(a.w) + channel * a.w_out_stride;
    Out* y = static_cast<Out*>(a.y) + image * a.y_batch_stride + channel * a.y_channel_stride;
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
    if constexpr (std::is_same_v<T, float> && std::is_same_v<Out, float>)
      if (by_vectors) {
        convolve_plane_3x3(p, x, w, y, rows);
        continue;
      }
#endif
    convolve_plane(p, x, w, y, rows);
  }
}

void planes(const ConvolutionArgs& a, int64_t begin, int64_t end, float* rows) {
  const bool widens = a.out_dtype != a.dtype;
  if (a.dtype == f32) planes_of<float, float>(a, begin, end, rows);
  else if (a.dtype == f16 && widens) planes_of<F16, float>(a, begin, end, rows);
  else if (a.dtype == f16) planes_of<F16, F16>(a, begin, end, rows);
  else if (widens) planes_of<BF16, float>(a, begin, end, rows);
  else planes_of<BF16, BF16>(a, begin, end, rows);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace rlx::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rlx::kernels {
namespace {
HWY_EXPORT(planes);
}  // namespace

bool is_depthwise(const ConvolutionArgs& a) {
  const bool narrow = a.dtype == f16 || a.dtype == bf16;
  if (a.dtype != f32 && !narrow) return false;
  if (a.out_dtype != a.dtype && !(narrow && a.out_dtype == f32)) return false;
  if (a.spatial > 2 || a.groups < 1 || a.in_channels != a.groups || a.out_channels % a.groups != 0) return false;
  int64_t taps = 1;
  for (int d = 0; d < a.spatial; ++d) {
    taps *= a.kernel[d];
    if (a.lhs_dilation[d] != 1 || a.kernel[d] < 1 || a.stride[d] < 1) return false;
  }
  for (int d = 0; d < a.spatial; ++d)
    if (a.out_dims[d] < 1) return false;
  const int last = a.spatial - 1;
  if (taps > kMaxTaps) return false;
  const Plane p(a);
  const double row_bytes = static_cast<double>(p.pitch) * sizeof(float);  // as double: dilations are unbounded
  const double min_bytes = static_cast<double>(p.padded_rows(1)) * row_bytes;
  // Taps are so far apart that each row of outputs would copy all rows between them again.
  if (p.row_gap > 1 && min_bytes > kBandBytes) return false;
  if (std::max(min_bytes, static_cast<double>(p.padded_rows(p.band)) * row_bytes) > kMaxScratch) return false;
  return a.stride[last] == 1 && (a.in_dims[last] <= 1 || a.x_strides[last] == 1) &&
         (a.out_dims[last] <= 1 || a.y_strides[last] == 1);
}

size_t depthwise_scratch_bytes(const ConvolutionArgs& args) {
  const Plane p(args);
  return static_cast<size_t>(p.padded_rows(p.band) * p.pitch) * sizeof(float);
}

void depthwise(const ConvolutionArgs& args, int64_t begin, int64_t end, void* scratch) noexcept {
  HWY_DYNAMIC_DISPATCH(planes)(args, begin, end, static_cast<float*>(scratch));
}

}  // namespace rlx::kernels
#endif  // HWY_ONCE
