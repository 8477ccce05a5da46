// Resizing and unfolding of images and volumes: composites that read along each spatial dim in turn.
#pragma once

#include "rlx/ops/window.h"

namespace rlx {

namespace op {
extern const OpDef resize_nearest2x, interpolate, im2col;
}  // namespace op

/// Each place of the last two dims twice in each of them.
Value resize_nearest2x(Value x);

struct InterpolateAttrs {
  Dims size;  ///< of the last dims
  RLX_FIELDS(InterpolateAttrs, field("size", &InterpolateAttrs::size));
};
/// The last dims resized to `size`: place i of n reads place min(floor(i extent / n), extent - 1), the nearest one.
Value interpolate(Value x, Dims size);

struct Im2colAttrs {
  Axes kernel_size, stride = {}, padding = {}, dilation = {};
  RLX_FIELDS(Im2colAttrs, field("kernel_size", &Im2colAttrs::kernel_size), field("stride", &Im2colAttrs::stride),
             field("padding", &Im2colAttrs::padding), field("dilation", &Im2colAttrs::dilation));
};
/// x [N, C, spatial...] -> [N out..., C kernel...]: a row for each window, with zeros around x.
Value im2col(Value x, Im2colAttrs attrs);

}  // namespace rlx
