// Reductions, products, windows.
#include <algorithm>
#include <map>

#include "backends/mlx/lowerings.h"
#include "ops/core/combine.h"
#include "ops/nn/window_geometry.h"
#include "rlx/ops.h"

namespace rlx::mlx_backend {
namespace {

/// In how many parts the elements of an axis are added up: a divisor, and 0 if there is none of a fitting size.
int parts_of(int extent) {
  for (int parts = 256; parts >= 16; --parts)
    if (extent % parts == 0) return parts;
  return 0;
}

/// Reduced over these axes, in the dtype of x, which f16 and bf16 must not be.
mx::array reduced(const mx::array& x, Reduction kind, const std::vector<int>& axes, mx::Stream s) {
  switch (kind) {
    case Reduction::sum:
      if (x.dtype() == mx::float32 && is_on_cpu(s)) return mx::squeeze(summed(x, axes, s), axes, s);
      return mx::astype(mx::sum(x, axes, false, s), x.dtype(), s);
    case Reduction::prod: return mx::astype(mx::prod(x, axes, false, s), x.dtype(), s);
    case Reduction::max: return mx::max(x, axes, false, s);
    case Reduction::min: return mx::min(x, axes, false, s);
    case Reduction::all: return mx::all(x, axes, false, s);
    default: return mx::any(x, axes, false, s);
  }
}
/// Of bools, the greatest is any and the least is all.
Reduction kind_for(Reduction kind, DType t) {
  if (t != boolean) return kind;
  return kind == Reduction::max ? Reduction::any : kind == Reduction::min ? Reduction::all : kind;
}
mx::array initial(Reduction kind, DType t) { return to_array(initial_value(kind, t)); }

}  // namespace

namespace when {
std::optional<std::string> can_reduce(const Question& q) {
  if (q.node.attrs.as<ReduceAttrs>().kind == Reduction::custom) return "MLX reduces by no function of one's own";
  return std::nullopt;
}
std::optional<std::string> can_slide(const Question& q) {
  if (q.node.attrs.as<ReduceWindowAttrs>().kind == Reduction::custom) return "MLX reduces by no function of one's own";
  return std::nullopt;
}
std::optional<std::string> can_multiply_floats(const Question& q) {
  if (rlx::is_integer(q.operands[0].dtype)) return "integers are multiplied in f64";
  return can_multiply(q);
}
std::optional<std::string> can_multiply(const Question& q) {
  const DType t = q.operands[0].dtype;
  if (rlx::is_float(t) || t == c64) return std::nullopt;
  if (rlx::is_integer(t) && info(t).bits <= 16) return std::nullopt;  // exact in f64
  return text_of("MLX has no products of ", t);
}
std::optional<std::string> can_convolve(const Question& q) {
  const auto& a = q.node.attrs.as<ConvAttrs>();
  const size_t space = q.operands[0].rank() - 2;
  const DType t = q.operands[0].dtype;
  if (!is_low_precision(t) && t != f32) return text_of("MLX has no convolutions of ", t);
  if (space < 1 || space > 3) return text_of("MLX has no convolutions over ", space, " dims");
  if (a.batch_group_count != 1) return "MLX has no groups of the batch";
  for (const Dims* pads : {&a.padding_low, &a.padding_high})
    for (const Dim& p : *pads)
      if (p.is_static() && p.value() < 0) return "MLX cuts no operand of a convolution";
  return std::nullopt;
}
}  // namespace when

mx::array summed(mx::array x, std::vector<int> axes, mx::Stream s) {
  constexpr int kMostAtOnce = 256;
  int64_t count = 1;
  for (int axis : axes) count *= x.shape(axis);
  if (count <= kMostAtOnce || !is_on_cpu(s)) return mx::sum(x, axes, true, s);
  std::sort(axes.rbegin(), axes.rend());
  for (int axis : axes) {
    // Of the last axis the parts stand side by side, so that MLX adds up vectors.
    const bool is_last = axis == static_cast<int>(x.ndim()) - 1;
    while (x.shape(axis) > kMostAtOnce) {
      const int n = x.shape(axis), parts = parts_of(n);
      if (parts == 0) {
        mx::Shape first(x.ndim(), 0), cut = x.shape();
        first[static_cast<size_t>(axis)] = cut[static_cast<size_t>(axis)] = n - n % kMostAtOnce;
        const mx::array most = mx::slice(x, mx::Shape(x.ndim(), 0), cut, s), rest = mx::slice(x, first, x.shape(), s);
        x = mx::add(summed(most, {axis}, s), mx::sum(rest, axis, true, s), s);
        continue;
      }
      x = mx::unflatten(x, axis, is_last ? mx::Shape{parts, n / parts} : mx::Shape{n / parts, parts}, s);
      x = mx::sum(x, is_last ? axis : axis + 1, false, s);
    }
    x = mx::sum(x, axis, true, s);
  }
  return x;
}

Lowered lower_reduce(Lowering& l) {
  const auto& a = l.attrs<ReduceAttrs>();
  const DType t = l.types[0].dtype;
  if (element_count(shape_of(l.types[0].dims)) == 0) return {mx::broadcast_to(initial(a.kind, t), l.shape(), l.s)};
  const std::vector<int> axes = ints(valid_axes(a.axes, l.types[0].rank()));
  if (axes.empty()) return {l.in[0]};
  return {narrowed(l, reduced(wide(l, 0), kind_for(a.kind, t), axes, l.s))};
}

/// Batch, free and contracted dims brought together, and a product of matrices. Integers of 16 bits and fewer go
/// through f64, where their products and sums are exact; the sum wraps when it is converted back.
Lowered lower_dot(Lowering& l) {
  const auto& a = l.attrs<DotAttrs>();
  const DotAxes axes(a, l.types[0].rank(), l.types[1].rank());
  const DType t = l.types[0].dtype;
  const auto extents = [&](size_t i, const Axes& of) {
    int64_t n = 1;
    for (int64_t axis : of) n *= l.types[i].dims[static_cast<size_t>(axis)].value();
    return extent_of(n);
  };
  const int batch = extents(0, axes.lhs_batch), m = extents(0, axes.lhs_free), k = extents(0, axes.lhs_contract),
            n = extents(1, axes.rhs_free);
  if (k == 0) return {mx::zeros(l.shape(), l.dtype(), l.s)};
  const auto ordered = [&](size_t i, const Axes& first, const Axes& second, const Axes& third, mx::Shape shape) {
    std::vector<int> order;
    for (const Axes* part : {&first, &second, &third})
      for (int64_t axis : *part) order.push_back(static_cast<int>(axis));
    mx::array x = wide(l, i);
    if (is_integer(t)) x = mx::astype(x, mx::float64, l.s);
    if (!std::is_sorted(order.begin(), order.end())) x = mx::transpose(x, order, l.s);
    if (axes.lhs_batch.empty()) shape.erase(shape.begin());
    return mx::reshape(x, std::move(shape), l.s);  // adds nothing to MLX's graph where the shape is the same
  };
  const mx::array lhs = ordered(0, axes.lhs_batch, axes.lhs_free, axes.lhs_contract, {batch, m, k});
  const mx::array rhs = ordered(1, axes.rhs_batch, axes.rhs_contract, axes.rhs_free, {batch, k, n});
  mx::array y = mx::matmul(lhs, rhs, l.s);
  if (is_integer(t)) y = mx::astype(y, mx::int64, l.s);
  return {mx::reshape(narrowed(l, y), l.shape(), l.s)};
}

/// Every window as dims of its own, which are then reduced. Padding and gaps hold what the reduction starts from.
Lowered lower_reduce_window(Lowering& l) {
  const auto& a = l.attrs<ReduceWindowAttrs>();
  const size_t rank = l.types[0].rank();
  const DType t = l.types[0].dtype;
  if (rank == 0) return {l.in[0]};
  const Sliding window(a, rank);
  mx::array x = wide(l, 0);
  const mx::array init = mx::astype(initial(a.kind, t), x.dtype(), l.s);
  mx::Shape spread = x.shape(), step(rank, 1), low(rank, 0), high(rank, 0), first(rank, 0);
  std::vector<int> all;
  bool has_gaps = false;
  for (size_t d = 0; d < rank; ++d) {
    all.push_back(static_cast<int>(d));
    step[d] = extent_of(window.base[d]);
    has_gaps = has_gaps || step[d] > 1;
    spread[d] = spread[d] == 0 ? 0 : (spread[d] - 1) * step[d] + 1;
    low[d] = extent_of(window.low[d].value()), high[d] = extent_of(window.high[d].value());
  }
  if (x.size() == 0) return {mx::broadcast_to(mx::astype(init, l.dtype(), l.s), l.shape(), l.s)};
  if (has_gaps) x = mx::slice_update(mx::full(spread, init, x.dtype(), l.s), x, first, spread, step, l.s);
  mx::Shape last = x.shape();
  bool cuts = false;
  for (size_t d = 0; d < rank; ++d) {
    first[d] = std::max(0, -low[d]), last[d] -= std::max(0, -high[d]);
    cuts = cuts || low[d] < 0 || high[d] < 0;
    low[d] = std::max(0, low[d]), high[d] = std::max(0, high[d]);
  }
  if (cuts) x = mx::slice(x, first, last, l.s);
  // Strides are of dense elements. Padding makes them dense; a row that no window reaches does it, too.
  if (l.is_written && low == mx::Shape(rank, 0) && high == low) high[0] = 1;
  x = mx::pad(x, all, low, high, init, "constant", l.s);
  if (!l.is_written) x = mx::contiguous(x, false, l.s);
  std::vector<int64_t> strides(rank, 1);
  for (size_t d = rank - 1; d-- > 0;) strides[d] = strides[d + 1] * x.shape(static_cast<int>(d + 1));
  mx::Shape view = l.shape();
  mx::Strides steps;
  for (size_t d = 0; d < rank; ++d) steps.push_back(strides[d] * window.stride[d]);
  std::vector<int> within;
  for (size_t d = 0; d < rank; ++d) {
    view.push_back(extent_of(window.window[d].value()));
    steps.push_back(strides[d] * window.dilation[d]);
    within.push_back(static_cast<int>(rank + d));
  }
  const mx::array windows = mx::as_strided(x, view, steps, 0, l.s);
  return {narrowed(l, reduced(windows, kind_for(a.kind, t), within, l.s))};
}

/// MLX has channels last, and a kernel [output features, space, input features].
Lowered lower_convolution(Lowering& l) {
  const auto& a = l.attrs<ConvAttrs>();
  const ConvLayout layout(a, l.types);
  const size_t space = layout.lhs_spatial.size();
  const auto at_end = [&](const Axes& named) {  // {batch, feature, space...} -> batch, space..., feature
    std::vector<int> order{static_cast<int>(named[0])};
    for (size_t d = 0; d < space; ++d) order.push_back(static_cast<int>(named[2 + d]));
    order.push_back(static_cast<int>(named[1]));
    return order;
  };
  const auto each = [&](const std::vector<int64_t>& given, int otherwise) {
    std::vector<int> full = ints(given);
    full.resize(space, otherwise);
    return full;
  };
  const auto pads = [&](const Dims& given) {
    std::vector<int> full;
    for (const Dim& d : given) full.push_back(extent_of(d.value()));
    full.resize(space, 0);
    return full;
  };
  if (l.in[0].size() == 0 || l.in[1].size() == 0) return {mx::zeros(l.shape(), l.dtype(), l.s)};
  const mx::array x = mx::transpose(wide(l, 0), at_end(layout.lhs), l.s);
  const mx::array kernel = mx::transpose(wide(l, 1), at_end(layout.rhs), l.s);
  const int groups = extent_of(a.feature_group_count);
  const auto convolved = [&](const mx::array& in, const mx::array& by, int in_groups) {
    return mx::conv_general(in, by, each(a.strides, 1), pads(a.padding_low), pads(a.padding_high),
                            each(a.rhs_dilation, 1), each(a.lhs_dilation, 1), in_groups, false, l.s);
  };
  mx::array y = x;
  if (groups == 1 || space < 3) {
    y = convolved(x, kernel, groups);
  } else {  // MLX has no groups over 3 dims
    const auto parts = mx::split(x, groups, -1, l.s), kernels = mx::split(kernel, groups, 0, l.s);
    std::vector<mx::array> results;
    for (size_t g = 0; g < parts.size(); ++g) results.push_back(convolved(parts[g], kernels[g], 1));
    y = mx::concatenate(results, -1, l.s);
  }
  // Result dim out[0] is the batch, out[1] the features, out[2 + d] space.
  std::vector<int> order(space + 2);
  order[static_cast<size_t>(layout.out[0])] = 0;
  order[static_cast<size_t>(layout.out[1])] = static_cast<int>(space + 1);
  for (size_t d = 0; d < space; ++d) order[static_cast<size_t>(layout.out[2 + d])] = static_cast<int>(d + 1);
  return {narrowed(l, mx::transpose(y, order, l.s))};
}

}  // namespace rlx::mlx_backend
