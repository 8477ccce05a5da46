// Resizing and unfolding of images and volumes: composites that read along each spatial dim in turn.
#pragma once

#include "rlx/ops/window.h"

namespace rlx {

namespace op {
extern const OpDef resize_nearest2x, interpolate, resize_linear, im2col;
}  // namespace op

/// Each place of the last two dims twice in each of them.
Value resize_nearest2x(Value x);

struct InterpolateAttrs {
  Dims size;  ///< of the last dims
  RLX_FIELDS(InterpolateAttrs, field("size", &InterpolateAttrs::size));
};
/// The last dims resized to `size`: place i of n reads place min(floor(i extent / n), extent - 1), the nearest one.
Value interpolate(Value x, Dims size);

/// Where place k of n is read in an extent e, moved to the nearest end if it lies outside.
enum class ResizeGrid {
  half_pixel,          ///< (k + 1/2) e / n - 1/2: the centres of pixels; PyTorch without align_corners
  asymmetric,          ///< k e / n
  align_corners,       ///< k (e - 1) / (n - 1), and 0 where n is 1
  align_ends,          ///< the same, and (e - 1) / 2 where n is 1
  half_pixel_corners,  ///< (k + 1/2) max(e - 1, 1) / n
};
constexpr std::array<std::string_view, 5> names_of(ResizeGrid) {
  return {"half_pixel", "asymmetric", "align_corners", "align_ends", "half_pixel_corners"};
}
struct ResizeLinearAttrs {
  Dims size;  ///< of the last dims
  ResizeGrid grid = ResizeGrid::half_pixel;
  RLX_FIELDS(ResizeLinearAttrs, field("size", &ResizeLinearAttrs::size), field("grid", &ResizeLinearAttrs::grid));
};
/// The last dims resized to `size`, each in turn: between two places, by how far it is to each.
Value resize_linear(Value x, Dims size, ResizeGrid grid = ResizeGrid::half_pixel);

struct Im2colAttrs {
  Axes kernel_size, stride = {}, padding = {}, dilation = {};
  RLX_FIELDS(Im2colAttrs, field("kernel_size", &Im2colAttrs::kernel_size), field("stride", &Im2colAttrs::stride),
             field("padding", &Im2colAttrs::padding), field("dilation", &Im2colAttrs::dilation));
};
/// x [N, C, spatial...] -> [N out..., C kernel...]: a row for each window, with zeros around x.
Value im2col(Value x, Im2colAttrs attrs);

}  // namespace rlx
