// Sliding windows. A reduction reads its windows at places that are numbers here, and reduces them: right for every
// stride, dilation and padding. Convolutions are those of ML Programs, their operands brought into NCHW and OIHW.
#include "backends/coreml/lowerings.h"
#include "ops/nn/window_geometry.h"
#include "rlx/ops.h"

namespace rlx::coreml {

Var reduced(Emitter& e, const Var& x, Reduction kind, const Axes& axes, DType dtype);

namespace {
constexpr int64_t kMaxPixels = int64_t{1} << 24;  // entries of a table of places: 64 MB in the package

/// For each window and each of its elements, the place in a flat x; `outside` in padding and gaps.
Tensor places_of(const Sliding& s, const Shape& extents, const Shape& strides, const Shape& counts, int32_t outside) {
  Shape window = shape_of(s.window);
  Tensor table(i32, {element_count(counts), element_count(window)});
  int32_t* to = table.mutable_values<int32_t>().data();
  for_each_index(counts, [&](const Axes& place) {
    for_each_index(window, [&](const Axes& k) {
      int64_t at = 0;
      for (size_t d = 0; d < extents.size() && at >= 0; ++d) {
        int64_t p = s.position(d, place[d], k[d], extents[d]);
        at = p < 0 ? -1 : at + p * strides[d];
      }
      *to++ = at < 0 ? outside : static_cast<int32_t>(at);
    });
  });
  return table;
}

/// The same where a prediction decides extents: the places along each dim, by windows and elements, are computed, and
/// joined to those along the dims before. i32 [windows, elements]; `outside` is a number of one element.
Var computed_places(Emitter& e, const Sliding& s, const Shape& extents, const Shape& counts, const Var& outside) {
  Shape strides = e.strides(extents), window = e.extents(s.window);
  std::optional<Var> places, inside;
  for (size_t d = 0; d < extents.size(); ++d) {
    Var first = e.mul(e.counting(counts[d]), static_cast<double>(s.stride[d]));
    // Padding that cuts is a negative number, and no extent.
    first = s.low[d].is_static() ? e.sub(first, static_cast<double>(s.low[d].value()))
                                 : e.sub(first, e.size(e.extent(s.low[d])));
    Var element = e.mul(e.counting(window[d]), static_cast<double>(s.dilation[d]));
    Var at = e.add(e.reshape(first, {counts[d], 1}), e.reshape(element, {1, window[d]}));
    Var lies = e.test("greater_equal", at, 0.0);
    if (s.base[d] != 1) {
      Var base = e.integer(s.base[d]);
      lies = e.both(lies, e.test("equal", e.binary("mod", at, base), 0.0));
      at = e.binary("floor_div", at, base);
    }
    lies = e.both(lies, e.test("less", at, e.size(extents[d])));
    at = e.mul(at, e.size(strides[d]));
    if (places) {
      Shape before{places->shape[0], 1, places->shape[1], 1}, here{1, counts[d], 1, window[d]};
      Shape joint{e.product(before[0], counts[d]), e.product(before[2], window[d])};
      at = e.reshape(e.add(e.reshape(*places, before), e.reshape(at, here)), joint);
      lies = e.reshape(e.both(e.reshape(*inside, before), e.reshape(lies, here)), joint);
    }
    places = at, inside = lies;
  }
  return e.select(*inside, *places, outside);
}

/// The one or the other; what lies outside stands at place `outside`.
Var window_places(Emitter& e, const Sliding& s, const Shape& extents, const Shape& counts, int64_t outside) {
  if (is_open(extents) || is_open(counts) || is_open(e.extents(s.window)))
    return computed_places(e, s, extents, counts, e.size(outside));
  return e.constant(places_of(s, extents, e.strides(extents), counts, static_cast<int32_t>(outside)));
}

/// A flat x with one element more, which stands for padding and gaps.
Var with_one_more(Emitter& e, const Var& x, double value) {
  return e.concat({e.flat(x), e.constant(full(x.dtype, {1}, value))}, 0);
}

double start_of(Reduction kind, DType dtype) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  bool whole = !is_float(dtype);
  int bits = std::min(info(dtype).bits, 32);
  bool is_signed = kind_of(dtype) == Kind::signed_int;
  switch (kind) {
    case Reduction::sum:
    case Reduction::any: return 0;
    case Reduction::prod:
    case Reduction::all: return 1;
    case Reduction::max: return !whole ? -kInfinity : is_signed ? -std::ldexp(1.0, bits - 1) : 0;
    default:
      if (is_wide_unsigned(dtype)) return -1;  // all bits set
      return !whole ? kInfinity : std::ldexp(1.0, is_signed ? bits - 1 : bits) - 1;
  }
}

/// Where a prediction decides how many there are, no table stands in the package.
std::optional<std::string> too_many(const Type& windows, const Dims& window) {
  if (!is_static(windows.dims) || !is_static(window)) return std::nullopt;
  const int64_t places = element_count(shape_of(windows.dims)) * element_count(shape_of(window));
  if (places <= kMaxPixels) return std::nullopt;
  return text_of("its windows have ", places, " elements together, a table too large for a package");
}

}  // namespace

namespace when {
std::optional<std::string> can_slide(const Question& q) {
  const auto& a = q.node.attrs.as<ReduceWindowAttrs>();
  if (a.kind == Reduction::custom) return "ML Programs have no reduction by a function of one's own";
  return too_many(q.node.types[0], a.window_dims);
}
std::optional<std::string> can_select(const Question& q) {
  const auto& a = q.node.attrs.as<SelectAndScatterAttrs>();
  if (a.select == Comparison::eq || a.select == Comparison::ne)
    return "an extreme element of a window is selected, and not one that equals another";
  return too_many(q.operands[1], a.window_dims);
}
std::optional<std::string> can_convolve(const Question& q) {
  const auto& a = q.node.attrs.as<ConvAttrs>();
  if (q.operands[0].rank() > 5) return "convolutions have at most 3 dims of space";
  if (a.accumulate && rlx::is_float(q.operands[0].dtype) != rlx::is_float(*a.accumulate))
    return "the sums of a convolution are of its operands' kind";
  if (!rlx::is_float(q.operands[0].dtype)) {
    if (auto why = is_integer(q)) return why;
    ConvLayout layout(a, q.operands);
    Type windows{i32, {}};
    Dims window;
    for (size_t d = 2; d < layout.out.size(); ++d) {
      windows.dims.push_back(q.node.types[0].dims[static_cast<size_t>(layout.out[d])]);
      window.push_back(q.operands[1].dims[static_cast<size_t>(layout.rhs[d])]);
    }
    return too_many(windows, window);
  }
  return std::nullopt;
}
}  // namespace when

std::optional<std::string> open::convolution(const Question& q) {
  const auto& a = q.node.attrs.as<ConvAttrs>();
  ConvLayout layout(a, q.operands);
  Sliding s = layout.sliding(a, q.operands);
  bool floats = rlx::is_float(q.operands[0].dtype);
  if (!q.operands[0].dims[static_cast<size_t>(layout.lhs[1])].is_static()) return "the features of a convolution";
  if (!is_static(q.operands[1].dims) && floats) return "the dims of a convolution's weights";
  for (size_t d = 0; d < s.base.size(); ++d)
    if (floats && (!s.low[d].is_static() || !s.high[d].is_static())) return "the padding of a convolution";
  return std::nullopt;
}

Lowered lower_reduce_window(Lowering& l) {
  Emitter& e = l.e;
  const auto& a = l.attrs<ReduceWindowAttrs>();
  Var x = l.operand(0);
  if (l.types[0].rank() == 0) return {x};
  DType dtype = l.types[0].dtype;
  bool is_bool = x.dtype == boolean;
  if (is_bool) x = e.cast(x, i32);
  Sliding s(a, x.shape.size());
  Var places = window_places(e, s, x.shape, l.shape(), e.count(x.shape));
  Var windows = e.gather_flat(with_one_more(e, x, start_of(a.kind, dtype)), places);
  Var r = e.reshape(reduced(e, windows, a.kind, {1}, is_bool ? i32 : dtype), l.shape());
  return {is_bool ? e.cast(r, boolean) : r};
}

Lowered lower_select_and_scatter(Lowering& l) {
  Emitter& e = l.e;
  Var x = l.operand(0), source = l.operand(1);
  if (l.types[0].rank() == 0) return {source};
  Sliding s(l.attrs<SelectAndScatterAttrs>(), x.shape.size());
  int64_t outside = e.count(x.shape), count = e.count(source.shape);
  Var places = window_places(e, s, x.shape, source.shape, outside);
  // Of equal elements the first is selected by ge and le, the last by gt and lt: windows are read backwards then.
  Comparison select = l.attrs<SelectAndScatterAttrs>().select;
  if (select == Comparison::gt || select == Comparison::lt)
    places = e.emit("reverse", {{"x", places}, {"axes", e.integers({1})}}, i32, places.shape);
  bool least = select == Comparison::le || select == Comparison::lt;
  double start = start_of(least ? Reduction::min : Reduction::max, l.types[0].dtype);
  Var windows = ordered(e, e.gather_flat(with_one_more(e, x, start), places), l.types[0].dtype);
  Var best = e.emit(least ? "reduce_argmin" : "reduce_argmax",
                    {{"x", windows}, {"axis", e.integer(1)}, {"keep_dims", e.flag(true)}}, i32, {count, 1});
  Var at = e.emit("gather_along_axis", {{"x", places}, {"indices", best}, {"axis", e.integer(1)}}, i32, {count, 1});
  Var zeros = e.filled(e.number(x.dtype, 0), e.sum(outside, 1));
  Var sums = e.scatter_flat(zeros, e.flat(at), e.flat(source), "add");
  return {e.reshape(e.slice(sums, {0}, {outside}, {1}), x.shape)};
}

namespace {

/// Of integers, which the operation does not take: windows read through a table of places, and a product of matrices.
/// x is NCHW, w OIHW; the result is N, O, places.
Var integer_convolution(Emitter& e, Var x, const Var& w, const Sliding& s, const Shape& counts, int64_t groups) {
  Shape extents(x.shape.begin() + 2, x.shape.end());
  int64_t n = x.shape[0], c = x.shape[1], space = e.count(extents), o = w.shape[0];
  int64_t places = e.count(counts), window = e.count(Shape(w.shape.begin() + 2, w.shape.end()));
  int64_t rows = e.product(n, c), reads = e.product(places, window), each = c / groups;
  x = e.reshape(x, {rows, space});
  x = e.concat({x, e.broadcast(e.constant(Tensor(i32, {1, 1})), {rows, 1})}, 1);
  Var at = e.flat(window_places(e, s, extents, counts, space));
  Var read = e.emit("gather", {{"x", x}, {"indices", at}, {"axis", e.integer(1)}}, i32, {rows, reads});
  read = e.transpose(e.reshape(read, {n, groups, each, places, window}), {0, 1, 3, 2, 4});
  read = e.reshape(read, {n, groups, places, e.product(each, window)});
  Var kernels = e.reshape(w, {1, groups, o / groups, e.product(each, window)});
  Var y = e.emit("matmul", {{"x", read}, {"y", kernels}, {"transpose_x", e.flag(false)}, {"transpose_y", e.flag(true)}},
                 i32, {n, groups, places, o / groups});
  return e.reshape(e.transpose(y, {0, 1, 3, 2}), {n, o, places});
}

}  // namespace

Lowered lower_convolution(Lowering& l) {
  Emitter& e = l.e;
  const auto& a = l.attrs<ConvAttrs>();
  ConvLayout layout(a, l.types);
  Sliding s = layout.sliding(a, l.types);
  Var x = e.transpose(l.operand(0), layout.lhs), w = e.transpose(l.operand(1), layout.rhs);
  int64_t groups = a.feature_group_count;
  if (int64_t g = a.batch_group_count; g > 1) {
    // Groups of the batch become groups of features: [g n, c, ...] -> [n, g c, ...].
    Shape joint = x.shape;
    joint[0] = e.extent(e.dim(x.shape[0]) / Dim(g)), joint[1] = e.product(x.shape[1], g);
    Shape split{g, joint[0], x.shape[1], e.count(Shape(x.shape.begin() + 2, x.shape.end()))};
    x = e.reshape(e.transpose(e.reshape(x, split), {1, 0, 2, 3}), joint);
    groups *= g;
  }
  size_t space = x.shape.size() - 2;
  Axes back(layout.out.size());
  for (size_t d = 0; d < layout.out.size(); ++d) back[static_cast<size_t>(layout.out[d])] = static_cast<int64_t>(d);
  if (x.dtype == i32) {
    Shape counts, shape{x.shape[0], w.shape[0]};
    for (size_t d = 2; d < layout.out.size(); ++d)
      counts.push_back(e.extent(l.result().dims[static_cast<size_t>(layout.out[d])]));
    shape.insert(shape.end(), counts.begin(), counts.end());
    Var y = e.reshape(integer_convolution(e, x, w, s, counts, groups), shape);
    return {wrapped(e, e.transpose(y, back), l.result().dtype)};
  }
  x = e.cast(x, l.dtype()), w = e.cast(w, l.dtype());  // as it is summed
  if (space == 0) {                                    // a product over features: a window of one place
    x = e.reshape(x, {x.shape[0], x.shape[1], 1});
    w = e.reshape(w, {w.shape[0], w.shape[1], 1});
  }
  Shape pad, strides, dilations, low(x.shape.size(), 0), shape{x.shape[0], w.shape[0]};
  Shape starts(x.shape.size(), 0), limits = x.shape;
  for (size_t d = 0; d < space; ++d) {
    int64_t before = s.low[d].value(), after = s.high[d].value(), gap = s.base[d] - 1;
    size_t axis = d + 2;
    x = with_gaps(e, x, axis, gap, e.number(x.dtype, 0));  // as in the derivative of a stride
    starts[axis] = std::max<int64_t>(-before, 0);
    limits = x.shape;
    limits[axis] = e.extent(e.dim(x.shape[axis]) - std::max<int64_t>(-after, 0));
    Shape from(x.shape.size(), 0);
    from[axis] = starts[axis];
    x = e.slice(x, from, limits, Axes(x.shape.size(), 1));
    pad.push_back(std::max<int64_t>(before, 0));
    pad.push_back(std::max<int64_t>(after, 0));
    strides.push_back(s.stride[d]);
    dilations.push_back(s.dilation[d]);
    // The operation spreads only weights that are constants.
    if (!l.is_constant(1) && dilations.back() > 1) {
      w = with_gaps(e, w, axis, dilations.back() - 1, e.number(w.dtype, 0));
      dilations.back() = 1;
    }
    if (x.shape[axis] < 0) {
      shape.push_back(e.extent(l.result().dims[static_cast<size_t>(layout.out[axis])]));
      continue;
    }
    int64_t padded = x.shape[axis] + pad[2 * d] + pad[2 * d + 1], reach = (w.shape[axis] - 1) * dilations[d] + 1;
    shape.push_back((padded - reach) / s.stride[d] + 1);
  }
  if (space == 0) pad = {0, 0}, strides = {1}, dilations = {1}, shape.push_back(1);
  Var y = e.emit("conv",
                 {{"x", x},
                  {"weight", w},
                  {"strides", e.integers(strides)},
                  {"pad_type", e.text("custom")},
                  {"pad", e.integers(pad)},
                  {"dilations", e.integers(dilations)},
                  {"groups", e.integer(groups)}},
                 x.dtype, shape);
  if (space == 0) y = e.reshape(y, {shape[0], shape[1]});
  return {e.transpose(y, back)};
}

}  // namespace rlx::coreml
