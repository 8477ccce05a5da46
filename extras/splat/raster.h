// Gaussian splats of one image, composited front to back tile by tile, and the gradient. f32 and f64. A task is a row
// of tiles; tasks are independent, except that each thread adds up sums of its own for the gradient. rlx/extras/splat.h
// defines the op and its attributes. User: kernels.cpp.
#pragma once

#include <cstddef>
#include <cstdint>

#include "rlx/dtype.h"

namespace rlx::splat {

/// The numbers of a splat, in this order: depth, centre (2), conic (3), slope (2), bend (3), opacity, colour (3).
constexpr int64_t kSplatNumbers = 15;

struct SplatArgs {
  DType dtype = f32;
  int64_t n = 0, width = 0, height = 0;
  /// The attributes of the op: the square of radius_scale, then alpha_cutoff, transmittance_threshold,
  /// max_splat_steps, gamma.
  double radius_squared = 9, alpha_cutoff = 0, threshold = 0, max_steps = 0, gamma = 1;
  const void* splats = nullptr;      ///< [n, 15]
  const void* background = nullptr;  ///< [3]
  void* image = nullptr;             ///< [height, width, 4]
  const void* ct = nullptr;          ///< [height, width, 4], the cotangent of the image; only the gradient reads it

  int64_t tile_rows() const;
};
/// The pixels [x0, x1) x [y0, y1) that a splat may touch; empty if it contributes nowhere.
struct SplatBox {
  int32_t x0, y0, x1, y1;
};
/// Computes the boxes of splats [begin, end).
void splat_boxes(const SplatArgs& args, SplatBox* boxes, int64_t begin, int64_t end) noexcept;

/// Scratch that each thread needs for the functions below.
size_t splat_scratch_bytes(int64_t n);
/// Writes the pixels of one row of tiles.
void splat_tile_row(const SplatArgs& args, const SplatBox* boxes, int64_t tile_row, void* scratch) noexcept;
/// Adds what one row of tiles contributes to d_splats[n, 15] and d_background[3], both of the dtype.
void splat_tile_row_backward(const SplatArgs& args, const SplatBox* boxes, int64_t tile_row, void* d_splats,
                             void* d_background, void* scratch) noexcept;

}  // namespace rlx::splat
