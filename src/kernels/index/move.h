// Moves elements without looking at them: strided copies of any rank (transpose, slice, concatenate, broadcast and
// reverse are such copies), pad, gather of rows, fill, iota. Neighbour: elementwise.h, which computes and converts.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "rlx/dtype.h"

namespace rlx::kernels {

inline constexpr int kMaxCopyRank = 12;

/// A copy of a box from one strided layout to another, as plan_copy() prepares it: dims of extent 1 dropped, the others
/// sorted and merged. Strides are in bytes and may be negative (reverse) or, in the source, zero (broadcast).
struct CopyPlan {
  int rank = 0;
  std::array<int64_t, kMaxCopyRank> dims{}, src_strides{}, dst_strides{};
  int64_t element_bytes = 1;
  int64_t chunks = 0;          ///< independent pieces; copy_strided() takes a range of them. 0 if the box is empty
  int64_t chunk_elements = 0;  ///< approximate number of elements that a chunk moves
  int kind = 0;                ///< internal: the loop that moves a chunk
};

/// Prepares a copy. `rank` is at most kMaxCopyRank (the caller merges dims first); element_bytes is 1, 2, 4, 8 or 16.
CopyPlan plan_copy(int64_t element_bytes, int rank, const int64_t* dims, const int64_t* src_byte_strides,
                   const int64_t* dst_byte_strides) noexcept;
/// Copies chunks [begin, end). Source and destination must not overlap.
void copy_strided(const CopyPlan& plan, const void* src, void* dst, int64_t begin, int64_t end) noexcept;

/// The copy that a pad consists of: out[low + i * (interior + 1)] = x[i] for all i for which that is an index of out; a
/// negative `low` or `high` crops. The caller fills `out` first, and adds `src_offset` and `dst_offset` (bytes) to the
/// two pointers.
struct PadPlan {
  CopyPlan copy;
  int64_t src_offset = 0, dst_offset = 0;
};
PadPlan plan_pad(int64_t element_bytes, int rank, const int64_t* x_dims, const int64_t* low, const int64_t* high,
                 const int64_t* interior) noexcept;

/// Writes `value` (element_bytes long) to the elements [begin, end) of out.
void fill(void* out, const void* value, int64_t element_bytes, int64_t begin, int64_t end) noexcept;

/// out[i] = (i / inner) % extent for i in [begin, end), as `dtype`: iota along an axis of `extent` with `inner`
/// elements behind it. Integers wrap; of complex the imaginary part is 0.
void iota(void* out, DType dtype, int64_t extent, int64_t inner, int64_t begin, int64_t end) noexcept;

}  // namespace rlx::kernels
