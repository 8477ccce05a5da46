// One dim of sliding windows: which input element an output reads through a tap of the window, and which outputs of a
// row read an element at all. Users: window.cpp and conv/direct.cpp.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>

namespace rlx::kernels {

/// One spatial dim of a window. Through tap t, output o reads the position o * stride + t * dilation - low of the
/// input, whose elements are `base_dilation` positions apart.
struct WindowDim {
  int64_t extent = 1;  ///< elements of the input, before base dilation
  int64_t stride = 1, dilation = 1, low = 0, base_dilation = 1;

  /// The index of the input element, or -1 if the position is padding or lies between elements.
  int64_t index_of(int64_t output, int64_t tap) const {
    int64_t position = 0;  // may overflow, as vectorized callers also compute outputs beyond the end of the row
    if (__builtin_mul_overflow(output, stride, &position) ||
        __builtin_add_overflow(position, tap * dilation - low, &position) || position < 0 ||
        position % base_dilation != 0)
      return -1;
    const int64_t index = position / base_dilation;
    return index < extent ? index : -1;
  }
  /// Narrows [first, last) to the outputs [begin, end) whose position is inside the input; base_dilation must be 1.
  void inside(int64_t tap, int64_t first, int64_t last, int64_t& begin, int64_t& end) const {
    const int64_t offset = tap * dilation - low;
    // o * stride is not computed: a stride may be any size, so it might overflow.
    const int64_t min_output = offset >= 0 ? 0 : (-offset - 1) / stride + 1;
    const int64_t end_output = extent - 1 - offset < 0 ? 0 : (extent - 1 - offset) / stride + 1;
    begin = std::clamp(min_output, first, last);
    end = std::clamp(end_output, begin, last);
  }

  /// The outputs begin, begin + period, ... (`count` of them) read the elements index, index + step, ... of the input.
  struct Outputs {
    int64_t begin = 0, count = 0, period = 1, index = 0, step = 1;
  };
  /// The outputs within [first, last) that read an element through this tap, for any base_dilation.
  Outputs outputs_inside(int64_t tap, int64_t first, int64_t last) const {
    const int64_t common = std::gcd(stride, base_dilation), offset = tap * dilation - low;
    Outputs found;
    found.period = base_dilation / common, found.step = stride / common;
    // o * stride is not computed: a stride may be any size, so it might overflow.
    const int64_t min_output = offset >= 0 ? 0 : (-offset - 1) / stride + 1;
    const int64_t room = (extent - 1) * base_dilation - offset;
    const int64_t end = room < 0 ? 0 : std::min(last, room / stride + 1);
    found.begin = std::max(first, min_output);
    for (int64_t tries = 1; found.begin < end && (found.begin * stride + offset) % base_dilation != 0;
         ++found.begin, ++tries)
      if (tries == found.period) return found;  // this tap reads only gaps between elements
    if (found.begin >= end) return found;
    found.count = (end - found.begin + found.period - 1) / found.period;
    found.index = (found.begin * stride + offset) / base_dilation;
    return found;
  }
};

}  // namespace rlx::kernels
