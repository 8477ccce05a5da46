// Which outputs of a row of sliding windows see an element of the input, for one tap: shared by window.cpp and
// convolution.cpp.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>

namespace rlx::kernels {

/// One spatial dim of a window: output o and tap t look at position o * stride + t * dilation - low of the input
/// spread out by `base_dilation`.
struct WindowDim {
  int64_t extent = 1;  ///< of the input, not spread out
  int64_t stride = 1, dilation = 1, low = 0, base_dilation = 1;

  /// The input index, or -1 if the position is padding or between the elements.
  int64_t index_of(int64_t output, int64_t tap) const {
    int64_t position = 0;  // of lanes beyond the row too, which may pass the range of numbers
    if (__builtin_mul_overflow(output, stride, &position) ||
        __builtin_add_overflow(position, tap * dilation - low, &position) || position < 0 ||
        position % base_dilation != 0)
      return -1;
    const int64_t index = position / base_dilation;
    return index < extent ? index : -1;
  }
  /// The outputs [begin, end) within [first, last) whose position is inside the input (base_dilation = 1).
  void inside(int64_t tap, int64_t first, int64_t last, int64_t& begin, int64_t& end) const {
    const int64_t offset = tap * dilation - low;
    const int64_t least = offset >= 0 ? 0 : (-offset - 1) / stride + 1;  // strides are as large as they like
    const int64_t most = extent - 1 - offset < 0 ? 0 : (extent - 1 - offset) / stride + 1;
    begin = std::clamp(least, first, last);
    end = std::clamp(most, begin, last);
  }

  /// Outputs begin, begin + period, ... (`count` of them) whose positions hold an element: index, index + step, ...
  struct Met {
    int64_t begin = 0, count = 0, period = 1, index = 0, step = 1;
  };
  /// Those within [first, last), for any base_dilation.
  Met met(int64_t tap, int64_t first, int64_t last) const {
    const int64_t common = std::gcd(stride, base_dilation), offset = tap * dilation - low;
    Met m;
    m.period = base_dilation / common, m.step = stride / common;
    const int64_t least = offset >= 0 ? 0 : (-offset - 1) / stride + 1;  // strides are as large as they like
    const int64_t room = (extent - 1) * base_dilation - offset;
    const int64_t end = room < 0 ? 0 : std::min(last, room / stride + 1);
    m.begin = std::max(first, least);
    for (int64_t tries = 1; m.begin < end && (m.begin * stride + offset) % base_dilation != 0; ++m.begin, ++tries)
      if (tries == m.period) return m;  // this tap meets gaps alone
    if (m.begin >= end) return m;
    m.count = (end - m.begin + m.period - 1) / m.period;
    m.index = (m.begin * stride + offset) / base_dilation;
    return m;
  }
};

}  // namespace rlx::kernels
