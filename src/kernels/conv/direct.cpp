// Convolution by rows of outputs. For f32, f16 and bf16, whatever the strides, a few output channels by a few vectors
// of neighbouring outputs are summed in registers; f64, integers and complex numbers use a scalar loop, tap by tap
// along a row.
#include "kernels/conv/direct.h"

#include <algorithm>
#include <array>
#include <complex>
#include <type_traits>

#include "kernels/integer_type.h"
#include "kernels/partial_sums.h"
#include "kernels/reduce/window_dim.h"
#include "kernels/vector/highway_targets.h"
#include "kernels/vector/narrow_float.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/conv/direct.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/vector/narrow_float-inl.h"

#ifndef RLX_KERNELS_CONVOLUTION_ONCE
#define RLX_KERNELS_CONVOLUTION_ONCE
namespace rlx::kernels {
namespace {

constexpr int kChannelBlock = 4;  ///< output channels that share a load of the input

/// A tap of all dims but the last, if it is inside the input: its offsets in x and w, in elements.
struct TapRow {
  int64_t x, w;
};
/// What the inner loops need of ConvolutionArgs, for a row of outputs along the last spatial dim.
struct RowGeometry {
  WindowDim along;
  int64_t kernel;  ///< taps of the last dim
  bool is_dense, is_widened;
  int64_t x_stride, w_stride, y_stride;
  int64_t channels, x_channel_stride, w_in_stride, w_out_stride, y_channel_stride;
  int64_t outputs;  ///< length of the row; lanes beyond it are computed but not written
  const TapRow* taps;
  int64_t tap_count;
};

}  // namespace
}  // namespace rlx::kernels
#endif  // RLX_KERNELS_CONVOLUTION_ONCE

HWY_BEFORE_NAMESPACE();
namespace rlx::kernels {
namespace HWY_NAMESPACE {
namespace {

/// Loads the lanes [low, high) of the vector at `from` and reads nothing else; the other lanes are 0.
template <class T>
HWY_INLINE F32Vec load_lanes(F32Tag d, const T* from, int64_t low, int64_t high) {
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
  if constexpr (std::is_same_v<T, float>) {
    const auto mask = hn::AndNot(hn::FirstN(d, static_cast<size_t>(low)), hn::FirstN(d, static_cast<size_t>(high)));
    return hn::MaskedLoad(mask, d, from);
  }
#endif
  HWY_ALIGN float lanes[hn::MaxLanes(F32Tag())] = {};
  for (int64_t i = low; i < high; ++i) lanes[i] = to_f32(from[i]);
  return hn::Load(d, lanes);
}

/// The inputs that tap k of the last dim reads for the outputs [o, o + lanes). `from` is the beginning of the input
/// row.
template <class T>
HWY_INLINE F32Vec load_seen(F32Tag d, const RowGeometry& g, const T* from, int64_t o, int64_t k) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  if (g.is_dense) {
    const int64_t first = o + k * g.along.dilation - g.along.low, missing = g.along.extent - first;
    if (first >= 0 && missing >= lanes) return load_f32(d, from + first);
    const int64_t low = std::clamp<int64_t>(-first, 0, lanes), high = std::clamp<int64_t>(missing, 0, lanes);
    return low < high ? load_lanes(d, from + first, low, high) : hn::Zero(d);
  }
  HWY_ALIGN float seen[hn::MaxLanes(F32Tag())];
  for (int64_t i = 0; i < lanes; ++i) {
    const int64_t at = g.along.index_of(o + i, k);
    seen[i] = at < 0 ? 0 : to_f32(from[at * g.x_stride]);
  }
  return hn::Load(d, seen);
}

/// Computes kChannels output channels of kWidth vectors of outputs, from output o on.
template <int kChannels, int kWidth, class T, class Out>
void convolve_block(const RowGeometry& g, const T* x, const T* w, Out* y, int64_t o) {
  const F32Tag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  F32Vec sum[kChannels][kWidth];
  RLX_UNROLL for (int m = 0; m < kChannels; ++m) RLX_UNROLL for (int v = 0; v < kWidth; ++v) sum[m][v] = hn::Zero(d);
  HWY_ALIGN float before[kChannels * kWidth * hn::MaxLanes(F32Tag())] = {};  // the sum of the partial sums so far
  int64_t terms = 0;                                                         // of the present partial sum
  for (int64_t c = 0; c < g.channels; ++c) {
    for (int64_t t = 0; t < g.tap_count; ++t) {
      const T* from = x + c * g.x_channel_stride + g.taps[t].x;
      const T* weight = w + c * g.w_in_stride + g.taps[t].w;
      for (int64_t k = 0; k < g.kernel;) {
        if (HWY_UNLIKELY(terms == kPartialSumTerms)) {
          RLX_UNROLL for (int m = 0; m < kChannels; ++m) RLX_UNROLL for (int v = 0; v < kWidth; ++v) {
            float* const at = before + (m * kWidth + v) * lanes;
            hn::Store(hn::Add(hn::Load(d, at), sum[m][v]), d, at);
            sum[m][v] = hn::Zero(d);
          }
          terms = 0;
        }
        const int64_t stop = std::min(g.kernel, k + kPartialSumTerms - terms);
        terms += stop - k;
        for (; k < stop; ++k) {
          F32Vec seen[kWidth];
          RLX_UNROLL for (int v = 0; v < kWidth; ++v) seen[v] = load_seen(d, g, from, o + v * lanes, k);
          const T* factor = weight + k * g.w_stride;
          RLX_UNROLL for (int m = 0; m < kChannels; ++m) {
            const F32Vec f = hn::Set(d, to_f32(factor[m * g.w_out_stride]));
            RLX_UNROLL for (int v = 0; v < kWidth; ++v) sum[m][v] = hn::MulAdd(f, seen[v], sum[m][v]);
          }
        }
      }
    }
  }
  RLX_UNROLL for (int m = 0; m < kChannels; ++m) RLX_UNROLL for (int v = 0; v < kWidth; ++v) sum[m][v] =
      hn::Add(hn::Load(d, before + (m * kWidth + v) * lanes), sum[m][v]);
  for (int m = 0; m < kChannels; ++m) {
    for (int v = 0; v < kWidth; ++v) {
      Out* to = y + m * g.y_channel_stride + (o + v * lanes) * g.y_stride;
      const int64_t left = g.outputs - (o + v * lanes);
      if (g.y_stride == 1 && left >= lanes) {
        store_f32(sum[m][v], d, to);
      } else if (left > 0) {
        HWY_ALIGN float result[hn::MaxLanes(F32Tag())];
        hn::Store(sum[m][v], d, result);
        for (int64_t i = 0; i < std::min(left, lanes); ++i) to[i * g.y_stride] = from_f32<Out>(result[i]);
      }
    }
  }
}

template <int kChannels, class T, class Out>
void convolve_row(const RowGeometry& g, const T* x, const T* w, Out* y, int64_t first, int64_t stop) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(F32Tag()));
  constexpr int kWidth = kVectorRegisters == 32 ? 4 : 2;
  int64_t o = first;
  for (; stop - o > (kWidth - 1) * lanes; o += kWidth * lanes) convolve_block<kChannels, kWidth>(g, x, w, y, o);
  for (; o < stop; o += lanes) convolve_block<kChannels, 1>(g, x, w, y, o);
}

template <class T, class Out>
void convolve_float(const RowGeometry& g, int channels, const void* x, const void* w, void* y, int64_t first,
                    int64_t stop) {
  const T* from = static_cast<const T*>(x);
  const T* weights = static_cast<const T*>(w);
  if (channels == kChannelBlock) convolve_row<kChannelBlock>(g, from, weights, static_cast<Out*>(y), first, stop);
  else convolve_row<1>(g, from, weights, static_cast<Out*>(y), first, stop);
}
void row_f32(const RowGeometry& g, int n, const void* x, const void* w, void* y, int64_t first, int64_t stop) {
  convolve_float<float, float>(g, n, x, w, y, first, stop);
}
void row_f16(const RowGeometry& g, int n, const void* x, const void* w, void* y, int64_t first, int64_t stop) {
  if (g.is_widened) convolve_float<F16, float>(g, n, x, w, y, first, stop);
  else convolve_float<F16, F16>(g, n, x, w, y, first, stop);
}
void row_bf16(const RowGeometry& g, int n, const void* x, const void* w, void* y, int64_t first, int64_t stop) {
  if (g.is_widened) convolve_float<BF16, float>(g, n, x, w, y, first, stop);
  else convolve_float<BF16, BF16>(g, n, x, w, y, first, stop);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace rlx::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rlx::kernels {
namespace {
HWY_EXPORT(row_f32);
HWY_EXPORT(row_f16);
HWY_EXPORT(row_bf16);

constexpr int64_t kStretch = 64;  // outputs that the scalar loop accumulates together

/// In what a scalar loop accumulates: integers in uint64_t, which wraps; c64 in c128, because cancellation in f32 would
/// leave few correct digits of a real or imaginary component.
template <class T>
struct Sum {
  using Type = std::conditional_t<std::is_integral_v<T>, uint64_t, T>;
};
template <>
struct Sum<std::complex<float>> {
  using Type = std::complex<double>;
};

/// Computes the outputs [begin, end) of a row by a scalar loop.
template <class T, class Out>
void row_scalar(const RowGeometry& g, const T* x, const T* w, Out* y, int64_t begin, int64_t end) {
  using A = typename Sum<T>::Type;
  for (int64_t first = begin; first < end; first += kStretch) {
    const int64_t stop = std::min(end, first + kStretch);
    std::array<A, kStretch> totals{};
    for (int64_t c = 0; c < g.channels; ++c) {
      for (int64_t t = 0; t < g.tap_count; ++t) {
        const T* from = x + c * g.x_channel_stride + g.taps[t].x;
        const T* weight = w + c * g.w_in_stride + g.taps[t].w;
        for (int64_t k = 0; k < g.kernel; ++k) {
          const A factor = static_cast<A>(weight[k * g.w_stride]);
          if (g.along.base_dilation == 1) {
            int64_t low = 0, high = 0;
            g.along.inside(k, first, stop, low, high);
            if (low == high) continue;
            const int64_t step = high - low > 1 ? g.along.stride * g.x_stride : 0;
            int64_t at = (low * g.along.stride + k * g.along.dilation - g.along.low) * g.x_stride;
            for (int64_t o = low; o < high; ++o, at += step)
              totals[static_cast<size_t>(o - first)] += factor * static_cast<A>(from[at]);
          } else {
            for (int64_t o = first; o < stop; ++o) {
              const int64_t i = g.along.index_of(o, k);
              if (i >= 0) totals[static_cast<size_t>(o - first)] += factor * static_cast<A>(from[i * g.x_stride]);
            }
          }
        }
      }
    }
    for (int64_t o = first; o < stop; ++o) y[o * g.y_stride] = static_cast<Out>(totals[static_cast<size_t>(o - first)]);
  }
}

/// Calls row(geometry, channels, x, w, y, first, stop) for each row of outputs of the items [begin, end). `x`, `w`, `y`
/// are byte pointers to the input of the image and group, the weights of the channel, and the row of outputs.
template <class Row>
void for_each_row(const ConvolutionArgs& a, int64_t begin, int64_t end, bool blocks_channels, TapRow* taps, Row row) {
  const int last = a.spatial - 1;
  std::array<WindowDim, kMaxSpatial> dims;
  for (int d = 0; d < a.spatial; ++d)
    dims[static_cast<size_t>(d)] = {a.in_dims[d], a.stride[d], a.rhs_dilation[d], a.low[d], a.lhs_dilation[d]};
  const int64_t group_in = a.in_channels / a.groups, group_out = a.out_channels / a.groups;
  const auto bytes = static_cast<int64_t>(byte_size(a.dtype)), out_bytes = static_cast<int64_t>(byte_size(a.out_dtype));
  RowGeometry g{};
  g.along = dims[static_cast<size_t>(last)];
  g.kernel = a.kernel[last];
  g.x_stride = a.x_strides[last], g.w_stride = a.w_strides[last], g.y_stride = a.y_strides[last];
  g.is_dense = g.along.base_dilation == 1 && g.along.stride == 1 && g.x_stride == 1;
  g.is_widened = a.out_dtype != a.dtype;
  g.channels = group_in, g.x_channel_stride = a.x_channel_stride, g.w_in_stride = a.w_in_stride;
  g.w_out_stride = a.w_out_stride, g.y_channel_stride = a.y_channel_stride;
  g.taps = taps;
  // An item has a row along the last spatial dim for each index of the dims between the first and the last. With one
  // spatial dim it is a single output, so neighbouring items are computed together.
  int64_t middle = 1, outer_kernel = 1;
  for (int d = 0; d < last; ++d) outer_kernel *= a.kernel[d], middle *= d > 0 ? a.out_dims[d] : 1;
  const int64_t rows = a.out_dims[0];
  const auto one_item = [&](int64_t n, int64_t channel, int channels, int64_t p0, int64_t first, int64_t stop) {
    const auto* x = static_cast<const std::byte*>(a.x) +
                    (n * a.x_batch_stride + channel / group_out * group_in * a.x_channel_stride) * bytes;
    const auto* w = static_cast<const std::byte*>(a.w) + channel * a.w_out_stride * bytes;
    for (int64_t p1 = 0; p1 < middle; ++p1) {
      int64_t outer[kMaxSpatial]{p0};
      for (int64_t d = last - 1, rest = p1; d > 0; rest /= a.out_dims[d--]) outer[d] = rest % a.out_dims[d];
      g.tap_count = 0;
      for (int64_t t = 0; t < outer_kernel; ++t) {
        TapRow offset{0, 0};
        bool is_padding = false;
        for (int64_t d = last - 1, rest = t; d >= 0; rest /= a.kernel[d--]) {
          const int64_t tap = rest % a.kernel[d], i = dims[static_cast<size_t>(d)].index_of(outer[d], tap);
          is_padding = is_padding || i < 0;
          offset.x += i * a.x_strides[d];
          offset.w += tap * a.w_strides[d];
        }
        if (!is_padding) taps[g.tap_count++] = offset;
      }
      int64_t to = n * a.y_batch_stride + channel * a.y_channel_stride;
      for (int d = 0; d < last; ++d) to += outer[d] * a.y_strides[d];
      g.outputs = stop;
      row(g, channels, x, w, static_cast<std::byte*>(a.y) + to * out_bytes, first, stop);
    }
  };
  for (int64_t item = begin; item < end;) {
    const int64_t p0 = item % rows, channel = item / rows % a.out_channels, n = item / rows / a.out_channels;
    // Whole channels of one group are computed kChannelBlock at a time.
    const bool is_block = blocks_channels && p0 == 0 && end - item >= kChannelBlock * rows &&
                          channel % group_out + kChannelBlock <= group_out;
    const int channels = is_block ? kChannelBlock : 1;
    const int64_t stop = is_block ? rows : std::min(rows, p0 + (end - item));
    if (a.spatial == 1) {
      one_item(n, channel, channels, 0, p0, stop);
    } else {
      for (int64_t p = p0; p < stop; ++p) one_item(n, channel, channels, p, 0, a.out_dims[last]);
    }
    item += (stop - p0) + (channels - 1) * rows;
  }
}

template <class T, class Out>
void convolve_direct(const ConvolutionArgs& a, int64_t begin, int64_t end, TapRow* taps) {
  for_each_row(a, begin, end, false, taps,
               [](const RowGeometry& g, int, const void* x, const void* w, void* y, int64_t first, int64_t stop) {
                 row_scalar(g, static_cast<const T*>(x), static_cast<const T*>(w), static_cast<Out*>(y), first, stop);
               });
}
void convolve_floats(const ConvolutionArgs& a, int64_t begin, int64_t end, TapRow* taps) {
  for_each_row(a, begin, end, true, taps,
               [&](const RowGeometry& g, int n, const void* x, const void* w, void* y, int64_t first, int64_t stop) {
                 if (a.dtype == f16) HWY_DYNAMIC_DISPATCH(row_f16)(g, n, x, w, y, first, stop);
                 else if (a.dtype == bf16) HWY_DYNAMIC_DISPATCH(row_bf16)(g, n, x, w, y, first, stop);
                 else HWY_DYNAMIC_DISPATCH(row_f32)(g, n, x, w, y, first, stop);
               });
}
template <class T>
void convolve_integer(const ConvolutionArgs& a, int64_t begin, int64_t end, TapRow* taps) {
  if (a.out_dtype == i32) convolve_direct<T, int32_t>(a, begin, end, taps);
  else if (a.out_dtype == i64) convolve_direct<T, int64_t>(a, begin, end, taps);
  else convolve_direct<T, T>(a, begin, end, taps);
}

}  // namespace

size_t convolution_scratch_bytes(const ConvolutionArgs& args) {
  int64_t taps = 1;
  for (int d = 0; d + 1 < args.spatial; ++d) taps *= args.kernel[d];
  return static_cast<size_t>(taps) * sizeof(TapRow);
}

void convolution(const ConvolutionArgs& args, int64_t begin, int64_t end, void* scratch) noexcept {
  auto* taps = static_cast<TapRow*>(scratch);
  switch (args.dtype) {
    case DType::f32:
    case DType::f16:
    case DType::bf16: return convolve_floats(args, begin, end, taps);
    case DType::f64: return convolve_direct<double, double>(args, begin, end, taps);
    case DType::c64: return convolve_direct<std::complex<float>, std::complex<float>>(args, begin, end, taps);
    case DType::c128: return convolve_direct<std::complex<double>, std::complex<double>>(args, begin, end, taps);
    default: return with_integer_type(args.dtype, [&]<class T>() { convolve_integer<T>(args, begin, end, taps); });
  }
}

}  // namespace rlx::kernels
#endif  // HWY_ONCE
