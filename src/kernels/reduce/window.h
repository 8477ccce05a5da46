// Sliding windows over N-d arrays: reduce_window (pooling), and select_and_scatter (the gradient of a max pool).
// Neighbours: direct.h (convolution: weighted windows), reduce.h (whole axes).
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/reduce/reduce.h"
#include "rlx/dtype.h"

namespace rlx::kernels {

inline constexpr int kMaxWindowRank = 16;

struct ReduceWindowArgs {
  ReduceOp op = ReduceOp::sum;
  DType dtype = f32;  ///< of x and y; any real, integer or boolean dtype; f16 and bf16 accumulate in f32
  const void* x = nullptr;
  void* y = nullptr;  ///< contiguous, extents out_dims
  int rank = 0;
  int64_t x_dims[kMaxWindowRank]{}, x_strides[kMaxWindowRank]{};  ///< strides in elements
  int64_t out_dims[kMaxWindowRank]{};
  int64_t window[kMaxWindowRank]{}, stride[kMaxWindowRank]{};
  int64_t low[kMaxWindowRank]{};            ///< padding before the first element; a negative number crops elements
  int64_t base_dilation[kMaxWindowRank]{};  ///< distance between neighbouring elements of x; 1 if there are no gaps
  int64_t window_dilation[kMaxWindowRank]{};
  double scale = 1;  ///< float sums only: factor of the sum before its one rounding (1/area gives the mean)
};
/// Computes results [begin, end) in row-major order. Padding counts as the neutral element of the op.
void reduce_window(const ReduceWindowArgs& args, int64_t begin, int64_t end) noexcept;

/// Which element of a window receives the gradient: the largest or the smallest, and of equal ones the first or the
/// last.
enum class Kept : uint8_t { first_max, last_max, first_min, last_min };

struct SelectAndScatterArgs {
  Kept kept = Kept::first_max;
  DType dtype = f32;  ///< of x, source and y; any integer, f16, bf16, f32 or f64; sums are rounded after each addition
  const void* x = nullptr;
  const void* source = nullptr;  ///< one element for each window
  void* y = nullptr;             ///< dims of x; x, source and y are dense
  int rank = 0;                  ///< at least 1
  int64_t images = 1;            ///< how many arrays of the dims below x, source and y hold, one behind the other
  int64_t x_dims[kMaxWindowRank]{}, out_dims[kMaxWindowRank]{};
  int64_t window[kMaxWindowRank]{}, stride[kMaxWindowRank]{}, low[kMaxWindowRank]{}, dilation[kMaxWindowRank]{};
};
size_t select_and_scatter_scratch_bytes(const SelectAndScatterArgs& args);
/// Computes y of the images [begin, end): zeros, plus each element of source at the position of the element that its
/// window of x selects. `scratch` has select_and_scatter_scratch_bytes().
void select_and_scatter(const SelectAndScatterArgs& args, int64_t begin, int64_t end, void* scratch) noexcept;

}  // namespace rlx::kernels
