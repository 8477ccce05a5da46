// Reading and writing at computed places. A gather or scatter that is no operation of ML Programs (lower_places.h)
// becomes one over a flat operand, whose places are computed: starts times strides, and a table of what lies within a
// slice.
#include "backends/coreml/lower_places.h"
#include "ops/core/index_rules.h"
#include "rlx/element.h"
#include "rlx/ops.h"

namespace rlx::coreml {

namespace when {
std::optional<std::string> can_scatter(const Question& q) {
  if (q.node.attrs.as<ScatterAttrs>().kind == ScatterKind::custom)
    return "ML Programs have no update by a function of one's own";
  return std::nullopt;
}
std::optional<std::string> has_dims(const Question& q) {
  if (q.operands[0].rank() == 0) return "a scalar is put in whole";
  return std::nullopt;
}
std::optional<std::string> has_order(const Question& q) {
  if (q.operands[0].dtype == boolean) return "ML Programs sort numbers only";
  if (q.operands[0].rank() == 0) return "a scalar is in order";
  return std::nullopt;
}
std::optional<std::string> can_sort(const Question& q) {
  if (q.node.attrs.as<SortAttrs>().comparator) return "ML Programs sort by value only, not by a comparator";
  if (q.operands[0].dtype == boolean) return "ML Programs sort numbers only";
  return std::nullopt;
}
}  // namespace when

namespace {

/// A number that may be one of a prediction.
Var number_of(Emitter& e, int64_t extent) { return extent < 0 ? e.size(extent) : e.integer(extent); }

/// What running through one dim of `outside` adds to a place.
struct Step {
  size_t dim;
  int64_t stride;
};
/// The sums of index times stride over these dims, of the rank of `outside`; a table where all of it is known now.
Var offsets(Emitter& e, const Shape& outside, const std::vector<Step>& steps) {
  Shape shape(outside.size(), 1), strides(outside.size(), 0);
  bool known = true;
  for (const Step& s : steps) {
    shape[s.dim] = outside[s.dim];
    strides[s.dim] = s.stride;
    known &= s.stride >= 0 && outside[s.dim] >= 0;
  }
  if (known) {
    Tensor table(i32, shape);
    int32_t* to = table.mutable_values<int32_t>().data();
    for_each_index(shape, [&](const Axes& index) {
      int64_t at = 0;
      for (size_t d = 0; d < index.size(); ++d) at += index[d] * strides[d];
      *to++ = static_cast<int32_t>(at);
    });
    return e.constant(table);
  }
  Var total = e.constant(Tensor(i32, Shape(outside.size(), 1)));
  for (const Step& s : steps) {
    Shape line(outside.size(), 1);
    line[s.dim] = outside[s.dim];
    total = e.add(total, e.reshape(e.mul(e.counting(outside[s.dim]), number_of(e, s.stride)), line));
  }
  return total;
}

struct FlatPlaces {
  Var at;     ///< places in a flat x, of the shape of what is outside
  Var valid;  ///< whether the slice that a place belongs to lies within x
};

/// Where each element of `outside` (a gather's result, a scatter's updates, [1] for a scalar) stands in a flat x.
/// Starts are moved into x.
FlatPlaces flat_places(Emitter& e, const Places& p, const Shape& x, Var indices, size_t index_rank,
                       const Shape& outside, const Shape& sizes) {
  Shape strides = e.strides(x);
  Axes outer = p.outer(outside.size()), inner = p.inner(x.size()), index_dims = p.index_dims(index_rank);
  // A shape of the rank of `outside` with the extents of the outer dims: index vectors stand along those.
  Shape spread(outside.size(), 1);
  for (int64_t d : outer) spread[static_cast<size_t>(d)] = outside[static_cast<size_t>(d)];
  if (static_cast<size_t>(p.vector_dim) == index_rank) {
    Shape longer = index_rank == 0 ? Shape{} : indices.shape;
    longer.push_back(1);
    indices = e.reshape(indices, longer);
  }
  Var total = e.constant(Tensor(i32, Shape(outside.size(), 1)));
  std::optional<Var> valid;
  for (size_t k = 0; k < p.map.size(); ++k) {
    auto dim = static_cast<size_t>(p.map[k]);
    Shape starts(indices.shape.size(), 0), limits = indices.shape;
    auto along = static_cast<size_t>(p.vector_dim);
    starts[along] = static_cast<int64_t>(k);
    limits[along] = static_cast<int64_t>(k) + 1;
    Var start = e.reshape(e.slice(indices, starts, limits, Axes(starts.size(), 1)), spread);
    Var last = number_of(e, e.difference(x[dim], sizes[dim]));
    Var in_range = e.both(e.test("greater_equal", start, 0.0), e.test("less_equal", start, last));
    valid = valid ? e.both(*valid, in_range) : in_range;
    total = e.add(total, e.mul(e.clamp(start, last), number_of(e, strides[dim])));
  }
  // What runs along with the indices, and what runs through a slice.
  std::vector<Step> steps;
  for (size_t w = 0; w < p.window.size(); ++w)
    steps.push_back({static_cast<size_t>(p.window[w]), strides[static_cast<size_t>(inner[w])]});
  for (size_t b = 0; b < p.index_batching.size(); ++b) {
    auto place =
        static_cast<size_t>(std::find(index_dims.begin(), index_dims.end(), p.index_batching[b]) - index_dims.begin());
    steps.push_back({static_cast<size_t>(outer[place]), strides[static_cast<size_t>(p.x_batching[b])]});
  }
  Var at = e.add(total, offsets(e, outside, steps));
  Shape ones(outside.size(), 1);
  Var all = valid ? *valid : e.constant(full(boolean, ones, 1));
  return {e.broadcast(at, outside), e.broadcast(all, outside)};
}

}  // namespace

Var out_of_range(Emitter& e, DType dtype) {
  return e.constant(carried_constant(out_of_range_value(dtype)).reshaped({}));
}

Lowered lower_gather(Lowering& l) {
  Emitter& e = l.e;
  const auto& a = l.attrs<GatherAttrs>();
  Places p(a);
  if (auto read = gathered(l, a, p)) return {*read};
  Shape x = e.extents(l.types[0].dims), outside = e.carried(l.result());
  FlatPlaces places = flat_places(e, p, x, places_operand(l, 1), l.types[1].rank(), outside, e.extents(a.slice_sizes));
  Var read = e.gather_flat(e.flat(l.operand(0)), places.at);
  if (a.out_of_range == OutOfRange::fill) {
    read = e.select(places.valid, read, out_of_range(e, l.types[0].dtype));
  }
  return {e.reshape(read, l.shape())};
}

Lowered lower_scatter(Lowering& l) {
  Emitter& e = l.e;
  const auto& a = l.attrs<ScatterAttrs>();
  Places p(a);
  Var target = l.operand(0), updates = l.operand(2);
  bool is_bool = target.dtype == boolean;
  if (is_bool) target = e.cast(target, i32), updates = e.cast(updates, i32);
  bool orders = a.kind == ScatterKind::max || a.kind == ScatterKind::min;
  DType dtype = l.types[0].dtype;
  if (orders) target = ordered(e, target, dtype), updates = ordered(e, updates, dtype);
  constexpr std::string_view kModes[] = {"update", "add", "mul", "max", "min"};
  std::string_view mode = kModes[static_cast<size_t>(a.kind)];
  auto finished = [&](Var put) -> Lowered {
    put = wrapped(e, orders ? ordered(e, put, dtype) : put, dtype);
    return {is_bool ? e.cast(put, boolean) : put};
  };
  if (auto put = scattered(l, p, target, updates, mode)) return finished(*put);
  Shape x = e.extents(l.types[0].dims), outside = e.carried(l.types[2]), sizes(x.size(), 1);
  Axes inner = p.inner(x.size());
  for (size_t w = 0; w < p.window.size(); ++w)
    sizes[static_cast<size_t>(inner[w])] = outside[static_cast<size_t>(p.window[w])];
  FlatPlaces places = flat_places(e, p, x, places_operand(l, 1), l.types[1].rank(), outside, sizes);
  // What is out of range goes to one element more, which is cut off again.
  int64_t count = e.count(x);
  // Of several updates of one place the last counts, by their index vectors first: those dims lead.
  Axes order = p.outer(outside.size());
  order.insert(order.end(), p.window.begin(), p.window.end());
  auto in_order = [&](Var v) { return e.flat(std::is_sorted(order.begin(), order.end()) ? v : e.transpose(v, order)); };
  Var at = e.select(in_order(places.valid), in_order(places.at), number_of(e, count));
  Var longer = e.concat({e.flat(target), e.constant(Tensor(target.dtype, {1}))}, 0);
  Var put = e.scatter_flat(longer, at, in_order(updates), mode);
  return finished(e.reshape(e.slice(put, {0}, {count}, {1}), l.shape()));
}

namespace {

/// The starts of a dynamic slice where they and all extents are numbers, moved so that the slice lies within x.
std::optional<Shape> known_starts(Lowering& l, size_t first, const Shape& x, const Shape& sizes) {
  if (is_open(x) || is_open(sizes)) return std::nullopt;
  Shape starts;
  for (size_t i = first; i < l.types.size(); ++i) {
    const Tensor* t = l.tensor(i);
    if (!t) return std::nullopt;
    for (size_t k = 0; k < t->element_count(); ++k) {
      const size_t d = starts.size();
      const double last = static_cast<double>(x.at(d) - sizes.at(d));
      starts.push_back(static_cast<int64_t>(std::clamp(load_number(*t, k), 0.0, last)));
    }
  }
  return starts;
}

/// The starts of a dynamic slice as one vector, moved so that the slice lies within x.
Var starts_within(Lowering& l, size_t first, const Shape& x, const Shape& sizes) {
  Emitter& e = l.e;
  if (auto known = known_starts(l, first, x, sizes)) return e.integers(*known);
  std::vector<Var> parts;
  if (l.types.size() == first + 1 && l.types[first].rank() == 1) parts.push_back(places_operand(l, first));
  else
    for (size_t i = first; i < l.types.size(); ++i) parts.push_back(places_operand(l, i));
  Var starts = e.concat(parts, 0);
  Shape last;
  for (size_t d = 0; d < x.size(); ++d) last.push_back(e.difference(x[d], sizes[d]));
  return e.clamp(starts, e.sizes(last));
}

}  // namespace

Lowered lower_dynamic_slice(Lowering& l) {
  Emitter& e = l.e;
  Var x = l.operand(0);
  if (l.types[0].rank() == 0) return {x};
  Shape sizes = e.extents(l.attrs<DynamicSliceAttrs>().sizes);
  Var starts = starts_within(l, 1, x.shape, sizes);
  return {e.emit("slice_by_size", {{"x", x}, {"begin", starts}, {"size", e.sizes(sizes)}}, x.dtype, sizes)};
}

Lowered lower_slice_update(Lowering& l) {
  Emitter& e = l.e;
  Var x = l.operand(0), update = l.operand(1);
  Var begin = starts_within(l, 2, x.shape, update.shape), end;
  if (auto known = known_starts(l, 2, x.shape, update.shape)) {
    for (size_t d = 0; d < known->size(); ++d) (*known)[d] += update.shape[d];
    end = e.integers(*known);
  } else {
    end = e.add(begin, e.sizes(update.shape));
  }
  return {e.emit("slice_update", {{"x", x}, {"update", update}, {"begin", begin}, {"end", end}}, x.dtype, x.shape)};
}

Lowered lower_dynamic_update_slice(Lowering& l) {
  Emitter& e = l.e;
  Var x = l.operand(0), update = l.operand(1);
  if (l.types[0].rank() == 0) return {update};
  Var starts = starts_within(l, 2, x.shape, update.shape);
  // Places in a flat x: the slice's own, behind that of its first element.
  Shape strides = e.strides(x.shape);
  std::vector<Step> steps;
  for (size_t d = 0; d < strides.size(); ++d) steps.push_back({d, strides[d]});
  // The sum of starts times strides, as a product.
  auto rank = static_cast<int64_t>(strides.size());
  Var first = e.emit("matmul",
                     {{"x", e.reshape(starts, {1, rank})},
                      {"y", e.reshape(e.sizes(strides), {rank, 1})},
                      {"transpose_x", e.flag(false)},
                      {"transpose_y", e.flag(false)}},
                     i32, {1, 1});
  Var at = e.add(e.flat(offsets(e, update.shape, steps)), e.flat(first));
  return {e.reshape(e.scatter_flat(e.flat(x), at, e.flat(update), "update"), x.shape)};
}

namespace {
/// Where the elements in order along the axis stood.
Var order_of(Emitter& e, Var key, DType dtype, int64_t axis, bool descending) {
  // Equal elements keep their order upwards; downwards argsort turns it around, so what is sorted is turned instead:
  // into -key, or -1 - key of integers, the least of which has no opposite.
  key = ordered(e, key, dtype);
  if (descending) key = is_float(key.dtype) ? e.mul(key, -1.0) : e.add(e.mul(key, -1.0), -1.0);
  Var order = e.emit("argsort", {{"x", key}, {"axis", e.integer(axis)}, {"ascending", e.flag(true)}}, i32, key.shape);
  if (!descending || !is_float(key.dtype)) return order;
  // NaN is the largest, and so is -NaN: those that stand last are turned to the front.
  auto along = static_cast<size_t>(axis);
  Shape line(key.shape.size(), 1);
  line[along] = key.shape[along];
  Var others = e.reduce("reduce_sum", e.cast(e.test("equal", key, key), i32), {axis}, true);
  Var at = e.add(e.reshape(e.counting(line[along]), line), others);
  at = e.binary("mod", at, number_of(e, line[along]));
  return e.emit("gather_along_axis", {{"x", order}, {"indices", at}, {"axis", e.integer(axis)}}, i32, key.shape);
}
}  // namespace

Lowered lower_argsort(Lowering& l) {
  const auto& a = l.attrs<OrderAttrs>();
  Var key = l.operand(0);
  return {order_of(l.e, key, l.types[0].dtype, valid_axis(a.axis, key.shape.size()), a.descending)};
}

Lowered lower_sort(Lowering& l) {
  Emitter& e = l.e;
  const auto& a = l.attrs<SortAttrs>();
  Var key = l.operand(0);
  if (l.types[0].rank() == 0) return lower_same(l);
  int64_t axis = valid_axis(a.axis, key.shape.size());
  Var order = order_of(e, key, l.types[0].dtype, axis, a.descending);
  Lowered sorted;
  for (size_t i = 0; i < l.types.size(); ++i) {
    Var x = l.operand(i);
    bool is_bool = x.dtype == boolean;
    if (is_bool) x = e.cast(x, i32);
    Var moved =
        e.emit("gather_along_axis", {{"x", x}, {"indices", order}, {"axis", e.integer(axis)}}, x.dtype, x.shape);
    sorted.push_back(is_bool ? e.cast(moved, boolean) : moved);
  }
  return sorted;
}

}  // namespace rlx::coreml
