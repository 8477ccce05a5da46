// See the header. Runs of taps along the last dim are copied at once.
#include "kernels/convolution_columns.h"

#include <algorithm>
#include <cstring>

namespace rlx::kernels {
namespace {

struct Position {
  int64_t at[kMaxSpatial]{};
};
Position position_of(int64_t flat, const int64_t* dims, int spatial) {
  Position p;
  for (int d = spatial - 1; d >= 0; --d) {
    p.at[d] = flat % dims[d];
    flat /= dims[d];
  }
  return p;
}

template <class T>
void copy_columns(const ConvolutionArgs& a, int64_t channel, int64_t first, int64_t count, int64_t row_begin,
                  int64_t row_end, T* to) {
  const int last = a.spatial - 1;
  int64_t outputs = 1;
  for (int d = 0; d < a.spatial; ++d) outputs *= a.out_dims[d];
  const auto* x = static_cast<const T*>(a.x) + channel * a.x_channel_stride;
  const int64_t step = a.rhs_dilation[last] * a.x_strides[last];
  for (int64_t row = row_begin; row < row_end; ++row) {
    const Position out = position_of(row % outputs, a.out_dims, a.spatial);
    const T* image = x + row / outputs * a.x_batch_stride;
    T* write = to + row * count;
    Position tap = position_of(first, a.kernel, a.spatial);
    for (int64_t left = count; left > 0;) {
      const int64_t run = std::min(left, a.kernel[last] - tap.at[last]);
      const T* from = image;
      bool is_padding = false;
      for (int d = 0; d < last; ++d) {
        const int64_t i = out.at[d] * a.stride[d] + tap.at[d] * a.rhs_dilation[d] - a.low[d];
        is_padding = is_padding || i < 0 || i >= a.in_dims[d];
        from += i * a.x_strides[d];
      }
      // Taps [begin, end) of the run lie within the input.
      const int64_t i = out.at[last] * a.stride[last] + tap.at[last] * a.rhs_dilation[last] - a.low[last];
      const int64_t dilation = a.rhs_dilation[last], room = a.in_dims[last] - i;
      int64_t begin = i >= 0 ? 0 : (-i + dilation - 1) / dilation, end = room <= 0 ? 0 : (room - 1) / dilation + 1;
      end = is_padding ? 0 : std::min(end, run);
      begin = std::min(begin, end);
      std::fill(write, write + begin, T{});
      from += i * a.x_strides[last];
      if (begin < end && step == 1)
        std::memcpy(write + begin, from + begin, static_cast<size_t>(end - begin) * sizeof(T));
      else
        for (int64_t k = begin; k < end; ++k) write[k] = from[k * step];
      std::fill(write + end, write + run, T{});
      write += run, left -= run;
      tap.at[last] = 0;
      for (int d = last - 1; d >= 0; --d) {
        if (++tap.at[d] < a.kernel[d]) break;
        tap.at[d] = 0;
      }
    }
  }
}

}  // namespace

void convolution_columns(const ConvolutionArgs& args, int64_t channel, int64_t first, int64_t count, int64_t row_begin,
                         int64_t row_end, void* to) noexcept {
  if (byte_size(args.dtype) == 4)
    copy_columns(args, channel, first, count, row_begin, row_end, static_cast<uint32_t*>(to));
  else copy_columns(args, channel, first, count, row_begin, row_end, static_cast<uint64_t*>(to));
}

}  // namespace rlx::kernels
