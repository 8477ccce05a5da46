// Primitives over sliding windows: reduce_window, select_and_scatter, convolution. Pooling and the usual forms of
// convolution stand in conv.h.
#pragma once

#include "rlx/ops/contract.h"
#include "rlx/ops/elementwise.h"

namespace rlx {

namespace op {
extern const OpDef reduce_window, select_and_scatter, convolution;
}  // namespace op

/// How many windows fit: `extent` elements, `base_dilation` apart and with `low` and `high` more around them (less, if
/// negative), under windows of `window` elements, `window_dilation` apart, that start every `stride` places. A
/// symbolic extent is taken to hold at least one window; a stride must divide its symbols' factors.
Dim window_count(const Dim& extent, const Dim& window, int64_t stride, int64_t base_dilation, int64_t window_dilation,
                 const Dim& low, const Dim& high);

// One entry for each dim of x. Lists left out mean 1 everywhere, and no padding.
struct ReduceWindowAttrs {
  Reduction kind = Reduction::sum;
  Dims window_dims;
  Axes strides = {}, base_dilation = {}, window_dilation = {};
  Dims padding_low = {}, padding_high = {};
  Subgraph body = {};  ///< of `custom`: as reduce's
  RLX_FIELDS(ReduceWindowAttrs, field("kind", &ReduceWindowAttrs::kind),
             field("window_dims", &ReduceWindowAttrs::window_dims), field("strides", &ReduceWindowAttrs::strides),
             field("base_dilation", &ReduceWindowAttrs::base_dilation),
             field("window_dilation", &ReduceWindowAttrs::window_dilation),
             field("padding_low", &ReduceWindowAttrs::padding_low),
             field("padding_high", &ReduceWindowAttrs::padding_high), field("body", &ReduceWindowAttrs::body));
};
/// Padding and the gaps of the base dilation hold what the reduction starts from.
Value reduce_window(Value x, ReduceWindowAttrs attrs);
/// Several operands of equal dims at once, combined by `attrs.body` from the scalars `inits` on.
std::vector<Value> reduce_window_custom(std::vector<Value> xs, std::vector<Value> inits, ReduceWindowAttrs attrs);

struct SelectAndScatterAttrs {
  Comparison select = Comparison::ge;  ///< the element in hand stays if it stands in this relation to the next
  Dims window_dims;
  Axes strides = {}, window_dilation = {};
  Dims padding_low = {}, padding_high = {};
  RLX_FIELDS(SelectAndScatterAttrs, field("select", &SelectAndScatterAttrs::select),
             field("window_dims", &SelectAndScatterAttrs::window_dims),
             field("strides", &SelectAndScatterAttrs::strides),
             field("window_dilation", &SelectAndScatterAttrs::window_dilation),
             field("padding_low", &SelectAndScatterAttrs::padding_low),
             field("padding_high", &SelectAndScatterAttrs::padding_high));
};
/// Zeros of x's dims, to which each element of `source` is added where its window of x has its greatest element (by
/// `ge`, the first of equal ones): the gradient of a max pool.
Value select_and_scatter(Value x, Value source, SelectAndScatterAttrs attrs);

// A layout names the dims: {batch, feature, spatial...} of the operand lhs and of the result, {output feature, input
// feature, spatial...} of the kernel rhs. Left out it is 0, 1, 2, ...: NCHW and OIHW. The other lists have one entry
// for each spatial dim.
struct ConvAttrs {
  Axes strides = {};
  Dims padding_low = {}, padding_high = {};
  Axes lhs_dilation = {}, rhs_dilation = {};
  int64_t feature_group_count = 1, batch_group_count = 1;
  Axes lhs_layout = {}, rhs_layout = {}, out_layout = {};
  std::optional<DType> accumulate = {};  ///< and result dtype; the operands' own where left out
  RLX_FIELDS(ConvAttrs, field("strides", &ConvAttrs::strides), field("padding_low", &ConvAttrs::padding_low),
             field("padding_high", &ConvAttrs::padding_high), field("lhs_dilation", &ConvAttrs::lhs_dilation),
             field("rhs_dilation", &ConvAttrs::rhs_dilation),
             field("feature_group_count", &ConvAttrs::feature_group_count),
             field("batch_group_count", &ConvAttrs::batch_group_count), field("lhs_layout", &ConvAttrs::lhs_layout),
             field("rhs_layout", &ConvAttrs::rhs_layout), field("out_layout", &ConvAttrs::out_layout),
             field("accumulate", &ConvAttrs::accumulate));
};
/// Cross-correlation: the kernel is not flipped. f16 and bf16 accumulate in f32.
Value convolution(Value lhs, Value rhs, ConvAttrs attrs = {});

}  // namespace rlx
