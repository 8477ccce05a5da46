// See the header. Runs of elements along the last dim are copied together.
#include "kernels/conv/im2col.h"

#include <algorithm>
#include <cstring>

#include "kernels/element_bits.h"

namespace rlx::kernels {
namespace {

/// The indices of an output or of a tap.
struct Position {
  int64_t at[kMaxSpatial]{};

  static Position of(int64_t flat, const int64_t* dims, int spatial) {
    Position p;
    for (int d = spatial - 1; d >= 0; --d) {
      p.at[d] = flat % dims[d];
      flat /= dims[d];
    }
    return p;
  }
  /// Moves on to the beginning of the next row.
  void next_row(const int64_t* dims, int spatial) {
    at[spatial - 1] = 0;
    for (int d = spatial - 2; d >= 0; --d) {
      if (++at[d] < dims[d]) return;
      at[d] = 0;
    }
  }
};

/// to[k] = row[(i + k * every) * stride] for k < count, or 0 where the index i + k * every is not within [0, extent).
template <class T>
void copy_run(const T* row, int64_t i, int64_t every, int64_t stride, int64_t extent, int64_t count, T* to) {
  const int64_t room = extent - i;
  const int64_t end = std::min(count, room <= 0 ? 0 : (room - 1) / every + 1);
  const int64_t begin = std::min(end, i >= 0 ? 0 : (-i + every - 1) / every);
  std::fill(to, to + begin, T{});
  if (begin < end) {
    const T* from = row + i * stride;
    const int64_t step = every * stride;
    if (step == 1) std::memcpy(to + begin, from + begin, static_cast<size_t>(end - begin) * sizeof(T));
    else
      for (int64_t k = begin; k < end; ++k) to[k] = from[k * step];
  }
  std::fill(to + std::max<int64_t>(end, 0), to + count, T{});
}

/// The row of x (along the last dim) that a tap reads for an output, or null in padding.
template <class T>
const T* row_of(const ConvolutionArgs& a, const T* x, const Position& out, const Position& tap) {
  for (int d = 0; d + 1 < a.spatial; ++d) {
    const int64_t i = out.at[d] * a.stride[d] + tap.at[d] * a.rhs_dilation[d] - a.low[d];
    if (i < 0 || i >= a.in_dims[d]) return nullptr;
    x += i * a.x_strides[d];
  }
  return x;
}

/// Copies to `to` the element that `tap` reads for `out`, and those for the run - 1 outputs (or taps) behind: each is
/// `step` indices further along the last dim. Elements outside the image are 0. Returns the end of what was written.
template <class T>
T* copy_run_at(const ConvolutionArgs& a, const T* x, const Position& out, const Position& tap, int64_t step,
               int64_t run, T* to) {
  const int last = a.spatial - 1;
  const int64_t i = out.at[last] * a.stride[last] + tap.at[last] * a.rhs_dilation[last] - a.low[last];
  if (const T* row = row_of(a, x, out, tap)) copy_run(row, i, step, a.x_strides[last], a.in_dims[last], run, to);
  else std::fill(to, to + run, T{});
  return to + run;
}

template <class T>
void copy_patches(const ConvolutionArgs& a, int64_t image, int64_t channel, int64_t channels, int64_t first,
                  int64_t count, T* to) {
  const int last = a.spatial - 1;
  int64_t taps = 1;
  for (int d = 0; d < a.spatial; ++d) taps *= a.kernel[d];
  const Position begin = Position::of(first, a.out_dims, a.spatial);
  for (int64_t c = 0; c < channels; ++c) {
    const T* x = static_cast<const T*>(a.x) + image * a.x_batch_stride + (channel + c) * a.x_channel_stride;
    for (int64_t t = 0; t < taps; ++t) {
      const Position tap = Position::of(t, a.kernel, a.spatial);
      Position out = begin;
      for (int64_t left = count; left > 0; out.next_row(a.out_dims, a.spatial)) {
        const int64_t run = std::min(left, a.out_dims[last] - out.at[last]);
        to = copy_run_at(a, x, out, tap, a.stride[last], run, to), left -= run;
      }
    }
  }
}

template <class T>
void copy_columns(const ConvolutionArgs& a, int64_t channel, int64_t first, int64_t count, int64_t row_begin,
                  int64_t row_end, T* to) {
  const int last = a.spatial - 1;
  int64_t outputs = 1;
  for (int d = 0; d < a.spatial; ++d) outputs *= a.out_dims[d];
  const Position begin = Position::of(first, a.kernel, a.spatial);
  to += row_begin * count;
  for (int64_t r = row_begin; r < row_end; ++r) {
    const Position out = Position::of(r % outputs, a.out_dims, a.spatial);
    const T* x = static_cast<const T*>(a.x) + r / outputs * a.x_batch_stride + channel * a.x_channel_stride;
    Position tap = begin;
    for (int64_t left = count; left > 0; tap.next_row(a.kernel, a.spatial)) {
      const int64_t run = std::min(left, a.kernel[last] - tap.at[last]);
      to = copy_run_at(a, x, out, tap, a.rhs_dilation[last], run, to), left -= run;
    }
  }
}

}  // namespace

void convolution_patches(const ConvolutionArgs& args, int64_t image, int64_t channel, int64_t channels, int64_t first,
                         int64_t count, void* to) noexcept {
  with_bits(static_cast<int64_t>(byte_size(args.dtype)),
            [&]<class T>() { copy_patches(args, image, channel, channels, first, count, static_cast<T*>(to)); });
}
void convolution_columns(const ConvolutionArgs& args, int64_t channel, int64_t first, int64_t count, int64_t row_begin,
                         int64_t row_end, void* to) noexcept {
  with_bits(static_cast<int64_t>(byte_size(args.dtype)),
            [&]<class T>() { copy_columns(args, channel, first, count, row_begin, row_end, static_cast<T*>(to)); });
}

}  // namespace rlx::kernels
