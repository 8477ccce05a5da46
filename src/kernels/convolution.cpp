// Convolution by rows of outputs. Where the last spatial dim is dense and every tap is inside the input, f32 rows
// accumulate in registers; the rest is the plain loop, tap by tap along a row.
#include "kernels/convolution.h"

#include <algorithm>
#include <array>
#include <type_traits>

#include "kernels/highway_targets.h"
#include "kernels/narrow_float.h"
#include "kernels/row_of_windows.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/convolution.cpp"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/narrow_float-inl.h"

#ifndef RLX_KERNELS_CONVOLUTION_ONCE
#define RLX_KERNELS_CONVOLUTION_ONCE
namespace rlx::kernels {
namespace {

/// The taps of all dims but the last that are inside the input for one row of outputs, as offsets in x and w.
struct TapRow {
  int64_t x, w;
};
/// One row of outputs: everything but the position along the last spatial dim.
struct OutputRow {
  const TapRow* taps;
  int64_t tap_count;
  int64_t channels;  ///< of the group
};

}  // namespace
}  // namespace rlx::kernels
#endif  // RLX_KERNELS_CONVOLUTION_ONCE

HWY_BEFORE_NAMESPACE();
namespace rlx::kernels {
namespace HWY_NAMESPACE {
namespace {

/// kWidth vectors of neighbouring outputs: x points at what the first output sees through tap 0.
template <int kWidth>
HWY_INLINE void row_vectors(const ConvolutionArgs& a, const OutputRow& row, const float* x, const float* w, float* y) {
  const F32Tag d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const int last = a.spatial - 1;
  const int64_t x_step = a.rhs_dilation[last] * a.x_strides[last];
  F32Vec sum[kWidth];
  RLX_UNROLL for (int v = 0; v < kWidth; ++v) sum[v] = hn::Zero(d);
  for (int64_t c = 0; c < row.channels; ++c) {
    for (int64_t t = 0; t < row.tap_count; ++t) {
      const float* from = x + c * a.x_channel_stride + row.taps[t].x;
      const float* weight = w + c * a.w_in_stride + row.taps[t].w;
      for (int64_t k = 0; k < a.kernel[last]; ++k) {
        const int64_t tap = a.reversed[last] ? a.kernel[last] - 1 - k : k;
        const F32Vec factor = hn::Set(d, weight[tap * a.w_strides[last]]);
        RLX_UNROLL for (int v = 0; v < kWidth; ++v)
          sum[v] = hn::MulAdd(factor, hn::LoadU(d, from + k * x_step + v * lanes), sum[v]);
      }
    }
  }
  RLX_UNROLL for (int v = 0; v < kWidth; ++v) hn::StoreU(sum[v], d, y + v * lanes);
}

/// As many whole vectors of the outputs [begin, end) as fit; returns where it stopped. `x` belongs to output 0.
int64_t row_inside(const ConvolutionArgs& a, const OutputRow& row, const float* x, const float* w, float* y,
                   int64_t begin, int64_t end) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(F32Tag()));
  int64_t o = begin;
  for (; o + 4 * lanes <= end; o += 4 * lanes) row_vectors<4>(a, row, x + o, w, y + o);
  for (; o + lanes <= end; o += lanes) row_vectors<1>(a, row, x + o, w, y + o);
  return o;
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace rlx::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rlx::kernels {
namespace {
HWY_EXPORT(row_inside);

constexpr int64_t kStretch = 256;

template <class T>
auto value_of(T v) {
  if constexpr (std::is_same_v<T, F16> || std::is_same_v<T, BF16>) return to_f32(v);
  else if constexpr (std::is_integral_v<T>) return static_cast<uint64_t>(v);  // wraps
  else return v;
}
template <class A, class Out>
Out rounded(A v) {
  if constexpr (std::is_same_v<Out, F16> || std::is_same_v<Out, BF16>) return from_f32<Out>(v);
  else return static_cast<Out>(v);
}

/// The plain loop for outputs [begin, end) of a row.
template <class T, class Out>
void row_plain(const ConvolutionArgs& a, const WindowDim& along, const OutputRow& row, const T* x, const T* w, Out* y,
               int64_t begin, int64_t end) {
  using A = decltype(value_of(T{}));
  const int last = a.spatial - 1;
  for (int64_t first = begin; first < end; first += kStretch) {
    const int64_t stop = std::min(end, first + kStretch);
    std::array<A, kStretch> totals{};
    for (int64_t c = 0; c < row.channels; ++c) {
      for (int64_t t = 0; t < row.tap_count; ++t) {
        const T* from = x + c * a.x_channel_stride + row.taps[t].x;
        const T* weight = w + c * a.w_in_stride + row.taps[t].w;
        for (int64_t k = 0; k < a.kernel[last]; ++k) {
          const int64_t tap = a.reversed[last] ? a.kernel[last] - 1 - k : k;
          const A factor = value_of(weight[tap * a.w_strides[last]]);
          if (along.base_dilation == 1) {
            int64_t low = 0, high = 0;
            along.inside(k, first, stop, low, high);
            const int64_t step = along.stride * a.x_strides[last];
            const T* at = from + (low * along.stride + k * along.dilation - along.low) * a.x_strides[last];
            for (int64_t o = low; o < high; ++o, at += step)
              totals[static_cast<size_t>(o - first)] += factor * value_of(*at);
          } else {
            for (int64_t o = first; o < stop; ++o) {
              const int64_t i = along.index_of(o, k);
              if (i >= 0) totals[static_cast<size_t>(o - first)] += factor * value_of(from[i * a.x_strides[last]]);
            }
          }
        }
      }
    }
    for (int64_t o = first; o < stop; ++o)
      y[o * a.y_strides[last]] = rounded<A, Out>(totals[static_cast<size_t>(o - first)]);
  }
}

template <class T, class Out>
void convolve(const ConvolutionArgs& a, int64_t begin, int64_t end, TapRow* taps) {
  const int last = a.spatial - 1;
  std::array<WindowDim, kMaxSpatial> dims;
  for (int d = 0; d < a.spatial; ++d)
    dims[static_cast<size_t>(d)] = {a.in_dims[d], a.stride[d], a.rhs_dilation[d], a.low[d], a.lhs_dilation[d]};
  const WindowDim& along = dims[static_cast<size_t>(last)];
  const int64_t group_in = a.in_channels / a.groups, group_out = a.out_channels / a.groups;
  // A unit is a row of the first spatial dim: with three dims it holds out_dims[1] rows of the last one. With one dim
  // a unit is a single output, and neighbouring ones are done together.
  const int64_t middle = a.spatial == 3 ? a.out_dims[1] : 1;
  for (int64_t unit = begin, step = 1; unit < end; unit += step) {
    const int64_t p0 = unit % a.out_dims[0];
    const int64_t channel = unit / a.out_dims[0] % a.out_channels;
    const int64_t n = unit / a.out_dims[0] / a.out_channels;
    const T* x = static_cast<const T*>(a.x) + n * a.x_batch_stride + channel / group_out * group_in * a.x_channel_stride;
    const T* w = static_cast<const T*>(a.w) + channel * a.w_out_stride;
    for (int64_t p1 = 0; p1 < middle; ++p1) {
      const std::array<int64_t, 2> outer{p0, p1};
      OutputRow row{taps, 0, group_in};
      const int64_t outer_kernel = (a.spatial > 1 ? a.kernel[0] : 1) * (a.spatial > 2 ? a.kernel[1] : 1);
      for (int64_t t = 0; t < outer_kernel; ++t) {
        const std::array<int64_t, 2> tap{a.spatial > 2 ? t / a.kernel[1] : t, a.spatial > 2 ? t % a.kernel[1] : 0};
        TapRow offset{0, 0};
        bool is_padding = false;
        for (int d = 0; d < last; ++d) {
          const auto e = static_cast<size_t>(d);
          const int64_t i = dims[e].index_of(outer[e], tap[e]);
          is_padding = is_padding || i < 0;
          offset.x += i * a.x_strides[d];
          offset.w += (a.reversed[d] ? a.kernel[d] - 1 - tap[e] : tap[e]) * a.w_strides[d];
        }
        if (!is_padding) taps[row.tap_count++] = offset;
      }
      Out* y = static_cast<Out*>(a.y) + n * a.y_batch_stride + channel * a.y_channel_stride;
      for (int d = 0; d < last; ++d) y += outer[static_cast<size_t>(d)] * a.y_strides[d];
      int64_t first = 0, stop = a.out_dims[last];
      if (a.spatial == 1) {
        first = p0, stop = std::min(stop, p0 + (end - unit));
        step = stop - first;
      }
      if constexpr (std::is_same_v<T, float> && std::is_same_v<Out, float>) {
        if (along.base_dilation == 1 && along.stride == 1 && a.x_strides[last] == 1 && a.y_strides[last] == 1) {
          // Outputs that all taps of the last dim see inside the input: the first tap and the last one decide.
          int64_t from = 0, to = 0, unused = 0;
          along.inside(0, first, stop, from, unused);
          along.inside(a.kernel[last] - 1, first, stop, unused, to);
          if (to - from >= 4) {
            row_plain(a, along, row, x, w, y, first, from);
            first = HWY_DYNAMIC_DISPATCH(row_inside)(a, row, x - along.low, w, y, from, to);
          }
        }
      }
      row_plain(a, along, row, x, w, y, first, stop);
    }
  }
}

template <class T>
void convolve_integer(const ConvolutionArgs& a, int64_t begin, int64_t end, TapRow* taps) {
  if (a.out_dtype == i32) convolve<T, int32_t>(a, begin, end, taps);
  else if (a.out_dtype == i64) convolve<T, int64_t>(a, begin, end, taps);
  else convolve<T, T>(a, begin, end, taps);
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
    case DType::f32: return convolve<float, float>(args, begin, end, taps);
    case DType::f64: return convolve<double, double>(args, begin, end, taps);
    case DType::f16:
      return args.out_dtype == f32 ? convolve<F16, float>(args, begin, end, taps)
                                   : convolve<F16, F16>(args, begin, end, taps);
    case DType::bf16:
      return args.out_dtype == f32 ? convolve<BF16, float>(args, begin, end, taps)
                                   : convolve<BF16, BF16>(args, begin, end, taps);
    case DType::i8: return convolve_integer<int8_t>(args, begin, end, taps);
    case DType::i16: return convolve_integer<int16_t>(args, begin, end, taps);
    case DType::i32: return convolve_integer<int32_t>(args, begin, end, taps);
    case DType::i64: return convolve_integer<int64_t>(args, begin, end, taps);
    case DType::u8: return convolve_integer<uint8_t>(args, begin, end, taps);
    case DType::u16: return convolve_integer<uint16_t>(args, begin, end, taps);
    case DType::u32: return convolve_integer<uint32_t>(args, begin, end, taps);
    case DType::u64: return convolve_integer<uint64_t>(args, begin, end, taps);
    default: return;
  }
}

}  // namespace rlx::kernels
#endif  // HWY_ONCE
