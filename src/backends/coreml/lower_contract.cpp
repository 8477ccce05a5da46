// Reductions, products, positions of extremes, normalization.
#include "backends/coreml/lowerings.h"
#include "rlx/ops.h"

namespace rlx::coreml {

namespace when {
std::optional<std::string> has_norm(const Question& q) {
  // Squares are summed in f32, and nothing says in what the operation sums those of f16.
  return q.node.attrs.as<NormAttrs>().kind == NormKind::l2 ? is_f32(q) : is_float(q);
}
std::optional<std::string> can_reduce(const Question& q) {
  if (q.node.attrs.as<ReduceAttrs>().kind == Reduction::custom)
    return "ML Programs have no reduction by a function of one's own";
  return std::nullopt;
}
}  // namespace when

namespace {

std::string_view name_of_reduction(Reduction kind) {
  switch (kind) {
    case Reduction::sum: return "reduce_sum";
    case Reduction::prod: return "reduce_prod";
    case Reduction::max:
    case Reduction::any: return "reduce_max";
    default: return "reduce_min";
  }
}

/// Transposed to {batch, one group, other group}, each group joined to one dim.
Var grouped(Emitter& e, const Var& x, const Axes& batch, const Axes& first, const Axes& second) {
  Axes order = batch;
  order.insert(order.end(), first.begin(), first.end());
  order.insert(order.end(), second.begin(), second.end());
  auto extent = [&](const Axes& axes) {
    Shape parts;
    for (int64_t axis : axes) parts.push_back(x.shape[static_cast<size_t>(axis)]);
    return e.count(parts);
  };
  Shape shape{extent(batch), extent(first), extent(second)};
  return e.reshape(e.transpose(x, order), shape);
}

/// The products that the operation of that name has, its batch moved to the front; nothing for any other.
std::optional<Var> einsum(Emitter& e, const Var& x, const Var& y, const DotAxes& axes) {
  if (!is_float(x.dtype) || x.dtype != y.dtype || x.shape.size() != y.shape.size()) return std::nullopt;
  auto is = [&](const Axes& lb, const Axes& rb, const Axes& lc, const Axes& rc) {
    return axes.lhs_batch == lb && axes.rhs_batch == rb && axes.lhs_contract == lc && axes.rhs_contract == rc;
  };
  auto emitted = [&](std::string_view equation, Shape shape, const Axes& order) {
    Var r = e.emit("einsum", {{"values", {x, y}}, {"equation", e.text(equation)}}, x.dtype, std::move(shape));
    return e.transpose(r, order);
  };
  const Shape &a = x.shape, &b = y.shape;
  // Apple's loader wants equal extents there, and takes no two open ones for equal.
  for (int64_t d : axes.lhs_batch)
    if (a[static_cast<size_t>(d)] < 0 || b[static_cast<size_t>(d)] < 0) return std::nullopt;
  if (a.size() == 4 && is({0, 2}, {0, 2}, {3}, {1}))
    return emitted("nchw,nwhu->nchu", {a[0], a[1], a[2], b[3]}, {0, 2, 1, 3});
  if (a.size() == 3 && is({1}, {1}, {2}, {0})) return emitted("chw,whr->chr", {a[0], a[1], b[2]}, {1, 0, 2});
  return std::nullopt;
}

}  // namespace

Var reduced(Emitter& e, const Var& x, Reduction kind, const Axes& axes, DType dtype) {
  if (x.dtype == boolean) return e.cast(reduced(e, e.cast(x, i32), kind, axes, i32), boolean);
  if (kind == Reduction::max || kind == Reduction::min)
    return ordered(e, e.reduce(name_of_reduction(kind), ordered(e, x, dtype), axes), dtype);
  return wrapped(e, e.reduce(name_of_reduction(kind), x, axes), dtype);
}

Lowered lower_reduce(Lowering& l) {
  const auto& a = l.attrs<ReduceAttrs>();
  Var x = l.operand(0);
  if (a.axes.empty()) return {x};
  return {reduced(l.e, x, a.kind, valid_axes(a.axes, l.types[0].rank()), l.types[0].dtype)};
}

Lowered lower_mean(Lowering& l) {
  const auto& a = l.attrs<ReduceDimsAttrs>();
  Var x = l.operand(0);
  if (a.axes.empty()) return {x};  // the mean over no dims; reduce_mean without axes is over all
  return {l.e.reduce("reduce_mean", x, valid_axes(a.axes, x.shape.size()), a.keep_dims)};
}

Lowered lower_norm(Lowering& l) {
  const auto& a = l.attrs<NormAttrs>();
  Var x = l.operand(0);
  if (a.axes.empty()) return {l.e.unary("abs", x)};  // over no dims; the operation without axes is over all
  return {l.e.reduce(a.kind == NormKind::l1 ? "reduce_l1_norm" : "reduce_l2_norm", x,
                     valid_axes(a.axes, x.shape.size()), a.keep_dims)};
}

Lowered lower_argmax(Lowering& l) {
  Emitter& e = l.e;
  const auto& a = l.attrs<ArgReduceAttrs>();
  Var x = l.operand(0);
  int64_t axis = valid_axis(a.axis, x.shape.size());
  Shape kept = x.shape;
  kept[static_cast<size_t>(axis)] = 1;
  bool is_max = l.node.op == &op::argmax;
  auto place = [&](const Var& seen) -> Lowered {
    Var at = e.emit(is_max ? "reduce_argmax" : "reduce_argmin",
                    {{"x", seen}, {"axis", e.integer(axis)}, {"keep_dims", e.flag(true)}}, i32, kept);
    return {e.reshape(at, l.shape())};
  };
  if (x.dtype == i32) return place(ordered(e, x, l.types[0].dtype));
  // NaN is what comes first: where there is one it is made the extreme itself.
  double extreme = std::numeric_limits<double>::infinity() * (is_max ? 1 : -1);
  Var number = e.test("equal", x, x);
  Var has_nan = e.negated(e.cast(e.reduce("reduce_min", e.cast(number, i32), {axis}, true), boolean));
  Var marked = e.select(number, e.number(x.dtype, 0), e.number(x.dtype, extreme));
  return place(e.select(has_nan, marked, x));
}

Lowered lower_cumsum(Lowering& l) {
  Emitter& e = l.e;
  const auto& a = l.attrs<CumulateAttrs>();
  Var x = l.operand(0);
  int64_t axis = valid_axis(a.axis, x.shape.size());
  bool exclusive = a.exclusive;
  if (int64_t n = x.shape[static_cast<size_t>(axis)]; exclusive && n > 1) {
    // Sums of what stands one place before: coremltools' reader fails on `exclusive` where x is a constant.
    Shape from(x.shape.size(), 0), to = x.shape, first = x.shape;
    first[static_cast<size_t>(axis)] = 1;
    (a.reverse ? from : to)[static_cast<size_t>(axis)] += a.reverse ? 1 : -1;
    Var zeros = e.broadcast(e.constant(Tensor(x.dtype, Shape(x.shape.size(), 1))), first);
    Var kept = e.slice(x, from, to, Axes(x.shape.size(), 1));
    x = e.concat(a.reverse ? std::vector{kept, zeros} : std::vector{zeros, kept}, axis);
    exclusive = false;
  }
  Var sums = e.emit(
      "cumsum", {{"x", x}, {"axis", e.integer(axis)}, {"exclusive", e.flag(exclusive)}, {"reverse", e.flag(a.reverse)}},
      x.dtype, x.shape);
  return {wrapped(e, sums, l.types[0].dtype)};
}

Lowered lower_dot(Lowering& l) {
  Emitter& e = l.e;
  DotAxes axes(l.attrs<DotAttrs>(), l.types[0].rank(), l.types[1].rank());
  Var x = l.operand(0), y = l.operand(1);
  if (l.types[0].rank() == 0) return {e.reshape(e.mul(x, y), l.shape())};
  if (l.types[1].rank() == 0) return {e.reshape(e.mul(x, y), l.shape())};
  // A product with a matrix, as layers are: nothing is moved.
  auto last = static_cast<int64_t>(x.shape.size()) - 1;
  if (axes.lhs_batch.empty() && axes.lhs_contract == Axes{last} && last > 0 && y.shape.size() == 2 &&
      axes.rhs_contract.size() == 1)
    return {wrapped(e, e.matmul(x, y, false, axes.rhs_contract[0] == 1, l.shape()), l.result().dtype)};
  if (auto summed = einsum(e, x, y, axes)) return {*summed};
  Var left = grouped(e, x, axes.lhs_batch, axes.lhs_free, axes.lhs_contract);
  Var right = grouped(e, y, axes.rhs_batch, axes.rhs_contract, axes.rhs_free);
  Var r = e.matmul(left, right, false, false, {left.shape[0], left.shape[1], right.shape[2]});
  return {wrapped(e, e.reshape(r, l.shape()), l.result().dtype)};
}

Lowered lower_linear(Lowering& l) {
  Emitter& e = l.e;
  Var x = l.operand(0), w = l.operand(1);
  bool biased = l.types.size() > 2;
  // The operation has constants only, of at most 3 dims; what is unpacked before is one of a product.
  if (l.is_constant(1) && (!biased || l.is_constant(2)) && x.shape.size() <= 3) {
    Arguments arguments{{"x", x}, {"weight", w}};
    if (biased) arguments.emplace_back("bias", l.operand(2));
    return {e.emit("linear", arguments, x.dtype, l.shape())};
  }
  Shape row = x.shape, shape = l.shape();
  if (row.size() == 1) row.insert(row.begin(), 1), shape.insert(shape.begin(), 1);
  Var y = e.matmul(e.reshape(x, row), w, false, true, shape);
  if (biased) y = e.add(y, l.operand(2));
  return {e.reshape(y, l.shape())};
}

Lowered lower_matmul(Lowering& l) {
  Emitter& e = l.e;
  Var x = l.operand(0), y = l.operand(1);
  if (l.types[0].rank() == 1) {
    Shape row = x.shape;
    row.insert(row.begin(), 1);
    x = e.reshape(x, row);
  }
  if (l.types[1].rank() == 1) y = e.reshape(y, {y.shape[0], 1});
  Shape batch = broadcast_shape(Shape(x.shape.begin(), x.shape.end() - 2), Shape(y.shape.begin(), y.shape.end() - 2));
  batch.push_back(x.shape[x.shape.size() - 2]);
  batch.push_back(y.shape.back());
  return {e.reshape(e.matmul(x, y, false, false, batch), l.shape())};
}

Lowered lower_softmax(Lowering& l) {
  Var x = l.operand(0);
  int64_t axis = valid_axis(l.attrs<AxisAttrs>().axis, x.shape.size());
  return {l.e.emit("softmax", {{"x", x}, {"axis", l.e.integer(axis)}}, x.dtype, x.shape)};
}

Lowered lower_layer_norm(Lowering& l) {
  Emitter& e = l.e;
  const auto& a = l.attrs<LayerNormAttrs>();
  Var x = l.operand(0);
  int64_t first = valid_axis(a.axis, x.shape.size());
  Axes axes = axes_from(first, x.shape.size() - static_cast<size_t>(first));
  Arguments arguments{{"x", x}, {"axes", e.integers(axes)}, {"epsilon", e.epsilon(x.dtype, a.epsilon)}};
  // The operation has constants only for them.
  size_t gamma = 1, beta = a.has_gamma ? 2 : 1;
  bool scaled = a.has_gamma && l.is_constant(gamma), moved = a.has_beta && l.is_constant(beta);
  moved &= scaled;  // Apple's loader looks for gamma where there is a beta
  if (scaled) arguments.emplace_back("gamma", l.operand(gamma));
  if (moved) arguments.emplace_back("beta", l.operand(beta));
  Var y = e.emit("layer_norm", arguments, x.dtype, x.shape);
  if (a.has_gamma && !scaled) y = e.mul(y, l.operand(gamma));
  if (a.has_beta && !moved) y = e.add(y, l.operand(beta));
  return {y};
}

}  // namespace rlx::coreml
