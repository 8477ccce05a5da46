// Which outputs of a row of sliding windows see an element of the input, for one tap: shared by window.cpp and
// convolution.cpp.
#pragma once

#include <algorithm>
#include <cstdint>

namespace rlx::kernels {

/// One spatial dim of a window: output o and tap t look at position o * stride + t * dilation - low of the input
/// spread out by `base_dilation`.
struct WindowDim {
  int64_t extent = 1;  ///< of the input, not spread out
  int64_t stride = 1, dilation = 1, low = 0, base_dilation = 1;

  /// The input index, or -1 if the position is padding or between the elements.
  int64_t index_of(int64_t output, int64_t tap) const {
    const int64_t position = output * stride + tap * dilation - low;
    if (position < 0 || position % base_dilation != 0) return -1;
    const int64_t index = position / base_dilation;
    return index < extent ? index : -1;
  }
  /// The outputs [begin, end) within [first, last) whose position is inside the input (base_dilation = 1).
  void inside(int64_t tap, int64_t first, int64_t last, int64_t& begin, int64_t& end) const {
    const int64_t offset = tap * dilation - low;
    const int64_t least = offset >= 0 ? 0 : (-offset + stride - 1) / stride;
    const int64_t most = extent - 1 - offset < 0 ? 0 : (extent - 1 - offset) / stride + 1;
    begin = std::clamp(least, first, last);
    end = std::clamp(most, begin, last);
  }
};

}  // namespace rlx::kernels
