// Moving data. A scalar is [1] in a program, and lists of dims follow that.
#include <numeric>

#include "backends/coreml/lowerings.h"
#include "rlx/ops.h"

namespace rlx::coreml {

std::optional<std::string> open::slice(const Question& q) {
  const auto& a = q.node.attrs.as<SliceAttrs>();
  for (size_t d = 0; d < a.strides.size(); ++d)
    if (a.strides[d] != 1 && !(a.starts[d].is_static() && a.limits[d].is_static()))
      return "the ends of a slice with steps";
  return std::nullopt;
}
std::optional<std::string> open::pad(const Question& q) {
  const auto& a = q.node.attrs.as<PadAttrs>();
  if (!is_static(a.low) || !is_static(a.high)) return "the extents of padding";
  return std::nullopt;
}

Lowered lower_broadcast(Lowering& l) {
  const auto& a = l.attrs<BroadcastAttrs>();
  Shape spread(l.shape().size(), 1);
  for (size_t d = 0; d < a.axes.size(); ++d) spread[static_cast<size_t>(a.axes[d])] = l.e.extent(l.types[0].dims[d]);
  // The operand's dims in the order of the result's.
  Axes order(a.axes.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(),
            [&](int64_t x, int64_t y) { return a.axes[static_cast<size_t>(x)] < a.axes[static_cast<size_t>(y)]; });
  Var x = l.operand(0);
  if (!std::is_sorted(order.begin(), order.end())) x = l.e.transpose(x, order);
  return {l.e.reshape(x, spread)};  // repeated by whoever needs it whole: see `Lowering::loose`
}

Lowered lower_reshape(Lowering& l) { return {l.e.reshape(l.operand(0), l.shape())}; }

Lowered lower_transpose(Lowering& l) {
  Var x = l.operand(0);
  const Axes& permutation = l.attrs<TransposeAttrs>().permutation;
  if (permutation.size() <= 1) return {x};
  return {l.e.transpose(x, permutation)};
}

Lowered lower_slice(Lowering& l) {
  const auto& a = l.attrs<SliceAttrs>();
  Var x = l.operand(0);
  if (l.types[0].rank() == 0) return {x};
  Shape starts, limits;
  for (const Dim& d : a.starts) starts.push_back(l.e.extent(d));
  for (const Dim& d : a.limits) limits.push_back(l.e.extent(d));
  return {l.e.slice(x, starts, limits, a.strides.empty() ? Axes(a.starts.size(), 1) : a.strides)};
}

Var with_gaps(Emitter& e, const Var& x, size_t axis, int64_t gap, const Var& value) {
  int64_t extent = x.shape[axis];
  if (gap == 0 || extent == 1) return x;
  auto at = x.shape.begin() + static_cast<std::ptrdiff_t>(axis);
  int64_t front = e.count(Shape(x.shape.begin(), at)), back = e.count(Shape(at + 1, x.shape.end()));
  int64_t spread = e.product(extent, gap + 1);
  // Each element with its gap is a row, and the last gap is cut.
  Var rows = e.pad(e.reshape(x, {front, extent, 1, back}), {0, 0, 0, 0}, {0, 0, gap, 0}, value);
  Shape shape = x.shape;
  shape[axis] = e.difference(spread, gap);
  rows = e.slice(e.reshape(rows, {front, spread, back}), {0, 0, 0}, {front, shape[axis], back}, {1, 1, 1});
  return e.reshape(rows, shape);
}

Lowered lower_pad(Lowering& l) {
  Emitter& e = l.e;
  const auto& a = l.attrs<PadAttrs>();
  Var x = l.operand(0), value = l.operand(1);
  if (l.types[0].rank() == 0) return {x};
  bool is_bool = x.dtype == boolean;
  if (is_bool) x = e.cast(x, i32), value = e.cast(value, i32);
  for (size_t d = 0; d < a.interior.size(); ++d) x = with_gaps(e, x, d, a.interior[d], value);
  Shape low = shape_of(a.low), high = shape_of(a.high), starts(low.size(), 0), limits = x.shape;
  // What is added first may be cut again on the other side: edges are padded before they are cut.
  Shape add_low = low, add_high = high;
  for (size_t d = 0; d < low.size(); ++d) {
    add_low[d] = std::max<int64_t>(low[d], 0);
    add_high[d] = std::max<int64_t>(high[d], 0);
    starts[d] = std::max<int64_t>(-low[d], 0);
    limits[d] = e.extent(e.dim(x.shape[d]) + add_low[d] + add_high[d] - std::max<int64_t>(-high[d], 0));
  }
  auto constant = l.number(1);
  bool by_operation = constant && !is_bool && x.dtype != i32 && x.shape.size() <= 5;
  bool any = std::any_of(add_low.begin(), add_low.end(), [](int64_t n) { return n > 0; }) ||
             std::any_of(add_high.begin(), add_high.end(), [](int64_t n) { return n > 0; });
  if (any && by_operation) {
    Shape both, shape = x.shape;
    for (size_t d = 0; d < low.size(); ++d) {
      both.push_back(add_low[d]);
      both.push_back(add_high[d]);
      shape[d] = e.extent(e.dim(shape[d]) + add_low[d] + add_high[d]);
    }
    x = e.emit("pad",
               {{"x", x},
                {"pad", e.integers(both)},
                {"mode", e.text("constant")},
                {"constant_val", e.number(x.dtype, *constant)}},
               x.dtype, shape);
  } else if (any) {
    x = e.pad(x, add_low, add_high, value);
  }
  x = e.slice(x, starts, limits, Axes(starts.size(), 1));
  return {is_bool ? e.cast(x, boolean) : x};
}

Lowered lower_concatenate(Lowering& l) {
  std::vector<Var> parts;
  for (size_t i = 0; i < l.types.size(); ++i) parts.push_back(l.operand(i));
  return {l.e.concat(parts, valid_axis(l.attrs<AxisAttrs>().axis, l.result().rank()))};
}

Lowered lower_reverse(Lowering& l) {
  Var x = l.operand(0);
  const Axes& axes = l.attrs<AxesAttrs>().axes;
  if (axes.empty()) return {x};
  return {l.e.emit("reverse", {{"x", x}, {"axes", l.e.integers(valid_axes(axes, x.shape.size()))}}, x.dtype, x.shape)};
}

Lowered lower_iota(Lowering& l) {
  const auto& a = l.attrs<IotaAttrs>();
  Shape line(l.shape().size(), 1);
  auto axis = static_cast<size_t>(valid_axis(a.axis, a.type.rank()));
  line[axis] = l.shape()[axis];
  if (line[axis] < 0) {
    Emitter& e = l.e;
    Var numbers = e.cast(e.counting(line[axis]), l.dtype());
    return {e.reshape(wrapped(e, numbers, a.type.dtype), line)};
  }
  Tensor numbers(l.dtype(), line);
  for (size_t i = 0; i < numbers.element_count(); ++i)
    with_element_type(numbers.dtype(),
                      [&]<class T>() { store<T>(numbers, i, static_cast<T>(static_cast<double>(i))); });
  return {wrapped(l.e, l.e.constant(numbers), a.type.dtype)};
}

Lowered lower_extent(Lowering& l) {
  const Dim& dim = l.attrs<ExtentAttrs>().dim;
  if (!dim.is_static()) return {l.e.cast(l.e.size(l.e.extent(dim)), l.dtype())};
  return {l.e.constant(full(l.dtype(), {1}, static_cast<double>(dim.value())))};
}

}  // namespace rlx::coreml
