// Direct convolution over 1 to kMaxSpatial spatial dims, with groups and both dilations, in any layout (given by
// strides). It computes every convolution that no faster kernel supports, for example those of f64, of integers and of
// complex numbers. Neighbour: reduce/window.h, pooling.
#pragma once

#include <cstddef>
#include <cstdint>

#include "rlx/dtype.h"

namespace rlx::kernels {

inline constexpr int kMaxSpatial = 6;

/// y[n, o, p] = sum over c, t of x[n, c, (p * stride + t * rhs_dilation - low) / lhs_dilation] * w[o, c, t], where
/// x counts as 0 outside and between its dilated elements. Strides are in elements.
struct ConvolutionArgs {
  /// Of x and w: f32, f16, bf16 (accumulated in f32), f64, c64 (accumulated in c128), c128, or an integer (wraps).
  DType dtype = f32;
  DType out_dtype = f32;  ///< of y: `dtype`, or f32 of the low-precision floats, or i32/i64 of integers
  const void* x = nullptr;
  const void* w = nullptr;
  void* y = nullptr;
  int spatial = 2;
  int64_t batch = 1, groups = 1;
  int64_t in_channels = 1, out_channels = 1;  ///< of all groups together
  int64_t in_dims[kMaxSpatial]{1, 1, 1, 1, 1, 1}, kernel[kMaxSpatial]{1, 1, 1, 1, 1, 1};
  int64_t out_dims[kMaxSpatial]{1, 1, 1, 1, 1, 1};
  int64_t stride[kMaxSpatial]{1, 1, 1, 1, 1, 1}, low[kMaxSpatial]{};
  int64_t lhs_dilation[kMaxSpatial]{1, 1, 1, 1, 1, 1}, rhs_dilation[kMaxSpatial]{1, 1, 1, 1, 1, 1};
  int64_t x_batch_stride = 0, x_channel_stride = 0, x_strides[kMaxSpatial]{};
  int64_t w_out_stride = 0, w_in_stride = 0, w_strides[kMaxSpatial]{};
  int64_t y_batch_stride = 0, y_channel_stride = 0, y_strides[kMaxSpatial]{};
};

/// Scratch of a calling thread.
size_t convolution_scratch_bytes(const ConvolutionArgs& args);
/// Computes the items [begin, end) of batch * out_channels * out_dims[0], in row-major order: an item is one index of
/// the first spatial dim, in one channel of one image.
void convolution(const ConvolutionArgs& args, int64_t begin, int64_t end, void* scratch) noexcept;

}  // namespace rlx::kernels
