// Ops that move elements and compute none.
#include <algorithm>

#include "backends/mlx/lowerings.h"
#include "rlx/ops.h"

namespace rlx::mlx_backend {

Lowered lower_broadcast(Lowering& l) {
  const auto& a = l.attrs<BroadcastAttrs>();
  // MLX aligns the last dims by itself.
  const auto rank = static_cast<int64_t>(l.shape().size()), first = rank - static_cast<int64_t>(a.axes.size());
  bool is_aligned = true;
  for (size_t i = 0; i < a.axes.size(); ++i) is_aligned = is_aligned && a.axes[i] == first + static_cast<int64_t>(i);
  if (is_aligned) return {mx::broadcast_to(l.in[0], l.shape(), l.s)};
  mx::Shape spread(l.shape().size(), 1);
  for (size_t i = 0; i < a.axes.size(); ++i)
    spread[static_cast<size_t>(a.axes[i])] = l.in[0].shape(static_cast<int>(i));
  // Operand dims keep their order only if the axes are ascending.
  std::vector<int> order(a.axes.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int>(i);
  std::sort(order.begin(), order.end(), [&](int x, int y) { return a.axes[size_t(x)] < a.axes[size_t(y)]; });
  mx::array x = std::is_sorted(order.begin(), order.end()) ? l.in[0] : mx::transpose(l.in[0], order, l.s);
  return {mx::broadcast_to(mx::reshape(x, spread, l.s), l.shape(), l.s)};
}
Lowered lower_reshape(Lowering& l) { return {mx::reshape(l.in[0], l.shape(), l.s)}; }
Lowered lower_transpose(Lowering& l) {
  return {mx::transpose(l.in[0], ints(l.attrs<TransposeAttrs>().permutation), l.s)};
}

Lowered lower_slice(Lowering& l) {
  const auto& a = l.attrs<SliceAttrs>();
  mx::Shape starts, limits, strides;
  for (size_t d = 0; d < a.starts.size(); ++d) {
    starts.push_back(extent_of(a.starts[d].value()));
    limits.push_back(extent_of(a.limits[d].value()));
    strides.push_back(a.strides.empty() ? 1 : extent_of(a.strides[d]));
  }
  return {mx::slice(l.in[0], starts, limits, strides, l.s)};
}

/// Zeros between elements are a slice of the padding that is written over; negative padding cuts.
Lowered lower_pad(Lowering& l) {
  const auto& a = l.attrs<PadAttrs>();
  const size_t rank = l.types[0].rank();
  if (rank == 0) return {l.in[0]};
  mx::array x = l.in[0];
  mx::Shape spread = x.shape(), step(rank, 1);
  bool has_gaps = false;
  for (size_t d = 0; d < rank; ++d) {
    step[d] = a.interior.empty() ? 1 : extent_of(a.interior[d] + 1);
    spread[d] = spread[d] == 0 ? 0 : (spread[d] - 1) * step[d] + 1;
    has_gaps = has_gaps || step[d] > 1;
  }
  if (x.size() == 0) return {mx::full(l.shape(), l.in[1], l.dtype(), l.s)};
  if (has_gaps)
    x = mx::slice_update(mx::full(spread, l.in[1], l.dtype(), l.s), x, mx::Shape(rank, 0), spread, step, l.s);
  mx::Shape first(rank, 0), last = x.shape(), low(rank, 0), high(rank, 0);
  std::vector<int> axes;
  bool cuts = false, grows = false;
  for (size_t d = 0; d < rank; ++d) {
    const int before = extent_of(a.low[d].value()), after = extent_of(a.high[d].value());
    low[d] = std::max(0, before), high[d] = std::max(0, after);
    first[d] = std::max(0, -before), last[d] = last[d] - std::max(0, -after);
    // A cut may take more than the elements: then it takes of the padding on the other side.
    if (first[d] > last[d]) return {mx::full(l.shape(), l.in[1], l.dtype(), l.s)};
    cuts = cuts || before < 0 || after < 0;
    grows = grows || before > 0 || after > 0;
    axes.push_back(static_cast<int>(d));
  }
  if (cuts) x = mx::slice(x, first, last, l.s);
  if (grows) x = mx::pad(x, axes, low, high, l.in[1], "constant", l.s);
  return {x};
}

Lowered lower_concatenate(Lowering& l) {
  const int64_t axis = valid_axis(l.attrs<AxisAttrs>().axis, l.types[0].rank());
  return {mx::concatenate(l.in, static_cast<int>(axis), l.s)};
}
Lowered lower_reverse(Lowering& l) {
  mx::array x = l.in[0];
  for (int64_t axis : valid_axes(l.attrs<AxesAttrs>().axes, l.types[0].rank()))
    x = mx::flip(x, static_cast<int>(axis), l.s);
  return {x};
}

Lowered lower_iota(Lowering& l) {
  const mx::Shape shape = l.shape();
  const auto axis = static_cast<size_t>(valid_axis(l.attrs<IotaAttrs>().axis, shape.size()));
  const mx::array places = mx::arange(0, shape.at(axis), mx::int32, l.s);
  mx::Shape spread(shape.size(), 1);
  spread[axis] = shape[axis];
  return {mx::broadcast_to(mx::reshape(mx::astype(places, l.dtype(), l.s), spread, l.s), shape, l.s)};
}
Lowered lower_extent(Lowering& l) { return {integer(l.attrs<ExtentAttrs>().dim.value(), l.result().dtype)}; }

}  // namespace rlx::mlx_backend
