// Sliding windows over N-d arrays: reduce_window (pooling) and the gradient of a max pool, for every number of dims.
// Neighbours: convolution.h, which weighs its windows; reduce.h, for whole axes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/reduce.h"
#include "rlx/dtype.h"

namespace rlx::kernels {

inline constexpr int kMaxWindowRank = 8;

struct ReduceWindowArgs {
  ReduceOp op = ReduceOp::sum;
  DType dtype = f32;  ///< of x and y; any real, integer or boolean dtype; f16 and bf16 accumulate in f32
  const void* x = nullptr;
  void* y = nullptr;  ///< contiguous, extents out_dims
  int rank = 0;
  int64_t x_dims[kMaxWindowRank]{}, x_strides[kMaxWindowRank]{};  ///< strides in elements
  int64_t out_dims[kMaxWindowRank]{};
  int64_t window[kMaxWindowRank]{}, stride[kMaxWindowRank]{};
  int64_t low[kMaxWindowRank]{};            ///< padding before the first element; negative crops
  int64_t base_dilation[kMaxWindowRank]{};  ///< 1: elements side by side
  int64_t window_dilation[kMaxWindowRank]{};
  double scale = 1;  ///< float sums only: multiplies before the one rounding (1/area gives the mean)
};
/// Results [begin, end) in row-major order. Padding counts as the neutral element of the op.
void reduce_window(const ReduceWindowArgs& args, int64_t begin, int64_t end) noexcept;

/// Which element of a window is kept: the greatest or the least, the first or the last of equal ones.
enum class Kept : uint8_t { first_greatest, last_greatest, first_least, last_least };

struct SelectAndScatterArgs {
  Kept kept = Kept::first_greatest;
  DType dtype = f32;  ///< f32 or f64, of all three
  const void* x = nullptr;
  const void* source = nullptr;  ///< one element for each window
  void* y = nullptr;             ///< like x; all are dense
  int rank = 0;                  ///< at least 1
  int64_t units = 1;             ///< how often all of it stands one behind the other
  int64_t x_dims[kMaxWindowRank]{}, out_dims[kMaxWindowRank]{};
  int64_t window[kMaxWindowRank]{}, stride[kMaxWindowRank]{}, low[kMaxWindowRank]{}, dilation[kMaxWindowRank]{};
};
size_t select_and_scatter_scratch_bytes(const SelectAndScatterArgs& args);
/// Units [begin, end): zeros, to which each element of source is added where its window of x keeps its element.
void select_and_scatter(const SelectAndScatterArgs& args, int64_t begin, int64_t end, void* scratch) noexcept;

}  // namespace rlx::kernels
