// Convolution and pooling as models write them, over the last one to three dims of x: composites of the primitives in
// window.h. Lists have one entry for each spatial dim; left out, strides and dilations are 1 and padding is 0.
#pragma once

#include "rlx/ops/window.h"

namespace rlx {

namespace op {
extern const OpDef conv, conv_transpose, pool;
}  // namespace op

struct ConvNdAttrs {
  Axes stride = {}, padding = {}, dilation = {};  ///< as much padding after as before
  int64_t groups = 1;
  RLX_FIELDS(ConvNdAttrs, field("stride", &ConvNdAttrs::stride), field("padding", &ConvNdAttrs::padding),
             field("dilation", &ConvNdAttrs::dilation), field("groups", &ConvNdAttrs::groups));
};
/// x [N, C, spatial...], w [O, C / groups, kernel...] -> [N, O, spatial...]. What `convolution` does, without a bias.
Value conv(Value x, Value w, ConvNdAttrs attrs = {});

struct ConvTransposeAttrs {
  Axes stride = {}, padding = {};
  Axes output_padding = {};  ///< places that the result has more at its end: less than the stride or the dilation
  Axes dilation = {};
  int64_t groups = 1;
  RLX_FIELDS(ConvTransposeAttrs, field("stride", &ConvTransposeAttrs::stride),
             field("padding", &ConvTransposeAttrs::padding),
             field("output_padding", &ConvTransposeAttrs::output_padding),
             field("dilation", &ConvTransposeAttrs::dilation), field("groups", &ConvTransposeAttrs::groups));
};
/// x [N, C, spatial...], w [C, O / groups, kernel...] -> [N, O, (extent - 1) stride + dilation (kernel - 1) + 1
/// - 2 padding + output_padding, ...].
Value conv_transpose(Value x, Value w, ConvTransposeAttrs attrs = {});

enum class PoolKind { max, mean, sum, min, prod };
constexpr std::array<std::string_view, 5> names_of(PoolKind) { return {"max", "mean", "sum", "min", "prod"}; }
struct PoolAttrs {
  PoolKind kind = PoolKind::max;
  Dims kernel_size;
  Axes stride = {};   ///< the kernel's extents where left out
  Axes padding = {};  ///< before, and after unless `padding_high` says otherwise
  Axes padding_high = {};
  Axes dilation = {};
  bool count_include_pad = true;  ///< does `mean` divide by the whole kernel, or by its places within x?
  RLX_FIELDS(PoolAttrs, field("kind", &PoolAttrs::kind), field("kernel_size", &PoolAttrs::kernel_size),
             field("stride", &PoolAttrs::stride), field("padding", &PoolAttrs::padding),
             field("padding_high", &PoolAttrs::padding_high), field("dilation", &PoolAttrs::dilation),
             field("count_include_pad", &PoolAttrs::count_include_pad));
};
/// Windows of the last dims of x. Padding is never the greatest or the least.
Value pool(Value x, PoolAttrs attrs);
/// One window over the last `spatial` dims (all but two where left out), which become 1.
Value global_pool(Value x, PoolKind kind, int64_t spatial = -1);
/// The mean of as many windows as `sizes` says: the i-th of n from floor(i extent / n) to ceil((i + 1) extent / n).
Value adaptive_mean_pool(Value x, Axes sizes);

}  // namespace rlx
