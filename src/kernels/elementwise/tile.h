// How an ElementwiseProgram (elementwise.h) accesses memory: gather and scatter of strided elements, and the addresses
// of a tile, the range of the iteration space that it works on.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/element_bits.h"
#include "kernels/elementwise/elementwise.h"

namespace rlx::kernels::elementwise {

/// Gathers `count` elements that lie `stride` bytes apart into contiguous memory, or scatters them from it.
template <class T>
void gather_elements(const std::byte* from, int64_t stride, std::byte* to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) std::memcpy(to + i * int64_t{sizeof(T)}, from + i * stride, sizeof(T));
}
template <class T>
void scatter_elements(const std::byte* from, std::byte* to, int64_t stride, int64_t count) {
  for (int64_t i = 0; i < count; ++i) std::memcpy(to + i * stride, from + i * int64_t{sizeof(T)}, sizeof(T));
}
inline void gather_elements(size_t bytes, const std::byte* from, int64_t stride, std::byte* to, int64_t count) {
  if (stride == static_cast<int64_t>(bytes)) {
    std::memcpy(to, from, static_cast<size_t>(count) * bytes);
    return;
  }
  with_bits(static_cast<int64_t>(bytes), [&]<class T>() { gather_elements<T>(from, stride, to, count); });
}
inline void scatter_elements(size_t bytes, const std::byte* from, std::byte* to, int64_t stride, int64_t count) {
  if (stride == static_cast<int64_t>(bytes)) {
    std::memcpy(to, from, static_cast<size_t>(count) * bytes);
    return;
  }
  with_bits(static_cast<int64_t>(bytes), [&]<class T>() { scatter_elements<T>(from, to, stride, count); });
}

template <class T>
void repeat_element(const std::byte* element, std::byte* to, int64_t count) {
  T value;  // of its own, as the compiler would read `element` again behind each store
  std::memcpy(&value, element, sizeof(T));
  for (int64_t i = 0; i < count; ++i) std::memcpy(to + i * int64_t{sizeof(T)}, &value, sizeof(T));
}
/// Fills `to` with `count` copies of one element of `bytes` bytes: a few one by one; then what is
/// filled is copied, which doubles it each time.
inline void repeat_element(size_t bytes, const std::byte* element, std::byte* to, int64_t count) {
  constexpr int64_t kFew = 16;
  const int64_t first = std::min(count, kFew);
  // Registers of most dtypes have these sizes; the switch of with_bits() costs small programs measurable time.
  if (bytes == 4) repeat_element<uint32_t>(element, to, first);
  else if (bytes == 8) repeat_element<uint64_t>(element, to, first);
  else with_bits(static_cast<int64_t>(bytes), [=]<class T>() { repeat_element<T>(element, to, first); });
  const size_t all = static_cast<size_t>(count) * bytes;
  for (size_t done = kFew * bytes; done < all; done *= 2) std::memcpy(to + done, to, std::min(done, all - done));
}

/// The elements [begin, begin + count) of the iteration space in row-major order, and their addresses in buffers.
struct Tile {
  const ElementwiseCall& call;
  int64_t begin = 0, count = 0;
  int64_t index[kMaxElementwiseRank]{};  ///< multi-index of `begin`

  void move_to(int64_t first, int64_t n) {
    begin = first, count = n;
    for (int d = call.rank - 1; d >= 0; --d) {
      index[d] = first % call.dims[d];
      first /= call.dims[d];
    }
  }
  /// The offset of the tile's first element in a buffer, in elements.
  int64_t offset_of(const ElementwiseBuffer& b) const {
    int64_t offset = 0;
    for (int d = 0; d < call.rank; ++d) offset += index[d] * b.strides[d];
    return offset;
  }
  /// Calls f(offset, stride, count), in elements, for each run along the last dim that the tile covers.
  template <class F>
  void for_each_run(const ElementwiseBuffer& b, F f) const {
    const int last = call.rank - 1;
    if (last < 0) return f(int64_t{0}, int64_t{0}, count);
    int64_t at[kMaxElementwiseRank];
    std::copy(index, index + call.rank, at);
    int64_t offset = offset_of(b);
    for (int64_t left = count; left > 0;) {
      const int64_t run = std::min(left, call.dims[last] - at[last]);
      f(offset, b.strides[last], run);
      left -= run;
      offset -= at[last] * b.strides[last];
      at[last] = 0;
      for (int d = last - 1; d >= 0; --d) {
        offset += b.strides[d];
        if (++at[d] < call.dims[d]) break;
        offset -= at[d] * b.strides[d];
        at[d] = 0;
      }
    }
  }
};

/// For large dense results run.cpp replaces `dense` by dense_streamed: it writes them by non-temporal stores.
enum class Layout : uint8_t { dense, dense_streamed, one_element, strided };
inline Layout layout_of(const ElementwiseCall& call, const ElementwiseBuffer& b) {
  bool dense = true, one = true;
  int64_t expected = 1;
  for (int d = call.rank - 1; d >= 0; --d) {
    if (call.dims[d] == 1) continue;
    dense = dense && b.strides[d] == expected;
    one = one && b.strides[d] == 0;
    expected *= call.dims[d];
  }
  return dense ? Layout::dense : one ? Layout::one_element : Layout::strided;
}

}  // namespace rlx::kernels::elementwise
