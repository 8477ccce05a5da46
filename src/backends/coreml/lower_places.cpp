// Gathers and scatters that ML Programs have as one operation: whole rows of a dim, slices at index vectors, elements
// along an axis. Neighbour: lower_index.cpp, for places of any other kind, of a flat operand.
#include "backends/coreml/lower_places.h"

#include "ops/core/index_rules.h"
#include "rlx/element.h"
#include "rlx/ops.h"

namespace rlx::coreml {
namespace {

bool is_run(const Axes& axes, int64_t first, size_t count) { return axes == axes_from(first, count); }

/// Whether all indices are numbers that lie within these extents: nothing is moved or left out then.
bool lie_within(const Tensor* indices, const Dims& extents) {
  if (!indices || indices->element_count() == 0 || !is_static(extents)) return false;
  for (size_t i = 0; i < indices->element_count(); ++i) {
    double at = load_number(*indices, i);
    if (at < 0 || at >= static_cast<double>(extents[i % extents.size()].value())) return false;
  }
  return true;
}

}  // namespace

std::optional<PlaceForm> form_of(const Places& p, const Type& x, const Type& indices, const Type& outside,
                                 const Dims& sizes) {
  PlaceForm form;
  size_t vector_rank = indices.rank();
  bool single = static_cast<size_t>(p.vector_dim) == vector_rank;
  if (x.rank() == 0 || p.map.empty() || p.collapsed != p.map) return std::nullopt;
  form.axis = p.map[0];
  Axes others = other_axes(x.rank(), p.map);
  for (int64_t d : others)
    if (!contains(p.x_batching, d) && sizes[static_cast<size_t>(d)] != x.dims[static_cast<size_t>(d)])
      return std::nullopt;
  if (single && p.map.size() == 1 && vector_rank == x.rank() && p.x_batching == others && p.index_batching == others) {
    form.kind = PlaceForm::Kind::along_axis;
    return form;
  }
  Axes outer = p.outer(outside.rank());
  if (p.map.size() == 1 && p.x_batching.empty() && (single || p.vector_dim + 1 == static_cast<int64_t>(vector_rank))) {
    // The dims of the indices stand where the dim of x stood.
    if (is_run(outer, form.axis, outer.size())) {
      form.kind = PlaceForm::Kind::rows;
      return form;
    }
  }
  if (!single && p.vector_dim + 1 == static_cast<int64_t>(vector_rank) &&
      is_run(p.x_batching, 0, p.x_batching.size()) && p.index_batching == p.x_batching &&
      is_run(p.map, static_cast<int64_t>(p.x_batching.size()), p.map.size()) && is_run(outer, 0, outer.size())) {
    form.kind = PlaceForm::Kind::vectors;
    form.batch = static_cast<int64_t>(p.x_batching.size());
    form.entries = static_cast<int64_t>(p.map.size());
    return form;
  }
  return std::nullopt;
}

Var places_operand(Lowering& l, size_t i) {
  constexpr double least = std::numeric_limits<int32_t>::min(), most = std::numeric_limits<int32_t>::max();
  if (const Tensor* t = l.tensor(i)) {
    Tensor numbers(i32, t->rank() == 0 ? Shape{1} : t->shape());
    for (size_t k = 0; k < t->element_count(); ++k)
      numbers.mutable_values<int32_t>()[k] = static_cast<int32_t>(std::clamp(load_number(*t, k), least, most));
    return l.e.constant(numbers);
  }
  Var at = l.operand(i);
  // Without a sign the upper half of the numbers is carried as negative ones.
  return is_wide_unsigned(l.types[i].dtype) ? l.e.select(l.e.test("less", at, 0.0), l.e.number(i32, most), at) : at;
}

Valid valid_places(Lowering& l, const PlaceForm& form, size_t operand) {
  Emitter& e = l.e;
  const Type &x = l.types[0], &type = l.types[operand];
  Dims extents;
  bool vectors = form.kind == PlaceForm::Kind::vectors;
  for (int64_t k = 0; k < (vectors ? form.entries : 1); ++k)
    extents.push_back(x.dims[static_cast<size_t>(form.axis + k)]);
  if (const Tensor* indices = l.tensor(operand); lie_within(indices, extents)) {
    // Rows are named by a line of numbers.
    Tensor line = carried_constant(*indices);
    if (form.kind == PlaceForm::Kind::rows) line = line.reshaped({static_cast<int64_t>(line.element_count())});
    return {e.constant(line), std::nullopt};
  }
  Var at = places_operand(l, operand);
  Shape limits = e.extents(extents), last;
  for (int64_t n : limits) last.push_back(e.difference(n, 1));
  Var end = e.sizes(last);
  Var inside = e.both(e.test("greater_equal", at, 0.0), e.test("less_equal", at, end));
  if (vectors) {
    // Of a vector all entries.
    auto axis = static_cast<int64_t>(type.rank()) - 1;
    inside = e.cast(e.reduce("reduce_min", e.cast(inside, i32), {axis}, true), boolean);
  }
  return {e.clamp(at, end), inside};
}

std::optional<Var> gathered(Lowering& l, const GatherAttrs& a, const Places& p) {
  Emitter& e = l.e;
  auto form = form_of(p, l.types[0], l.types[1], l.result(), a.slice_sizes);
  if (!form || (form->batch > 0 && e.opset() < 6)) return std::nullopt;
  Valid places = valid_places(l, *form, 1);
  Var x = l.operand(0);
  Shape shape = e.extents(l.result().dims);
  bool is_bool = x.dtype == boolean;
  if (is_bool) x = e.cast(x, i32);
  Var axis = e.integer(form->axis);
  // Where each index stands in the result, as a shape that stretches over the rest of it.
  Shape spread(shape.size(), 1);
  Var read;
  switch (form->kind) {
    case PlaceForm::Kind::along_axis:
      spread = shape;
      read = e.emit("gather_along_axis", {{"x", x}, {"indices", places.at}, {"axis", axis}}, x.dtype, shape);
      break;
    case PlaceForm::Kind::vectors: {
      Arguments arguments{{"x", x}, {"indices", places.at}};
      if (form->batch > 0) arguments.emplace_back("batch_dims", e.integer(form->batch));
      for (size_t d = 0; d + 1 < l.types[1].rank(); ++d) spread[d] = shape[d];
      read = e.emit("gather_nd", arguments, x.dtype, shape);
      break;
    }
    case PlaceForm::Kind::rows: {
      size_t count = shape.size() - (x.shape.size() - 1);
      Shape index(shape.begin() + form->axis, shape.begin() + form->axis + static_cast<std::ptrdiff_t>(count));
      for (size_t d = 0; d < count; ++d) spread[static_cast<size_t>(form->axis) + d] = index[d];
      if (index.empty()) index = {1};
      Shape whole(x.shape.begin(), x.shape.begin() + form->axis);
      whole.insert(whole.end(), index.begin(), index.end());
      whole.insert(whole.end(), x.shape.begin() + form->axis + 1, x.shape.end());
      if (whole.size() > kMostDims) return std::nullopt;
      read = e.emit("gather", {{"x", x}, {"indices", e.reshape(places.at, index)}, {"axis", axis}}, x.dtype, whole);
      break;
    }
  }
  read = e.reshape(read, l.shape());
  if (is_bool) read = e.cast(read, boolean);
  if (a.out_of_range != OutOfRange::fill || !places.inside) return read;
  if (spread.empty()) spread = {1};
  return e.select(e.reshape(*places.inside, spread), read, out_of_range(e, l.types[0].dtype));
}

std::optional<Var> scattered(Lowering& l, const Places& p, const Var& data, const Var& given, std::string_view mode) {
  Emitter& e = l.e;
  const Type& x = l.types[0];
  Axes inner = p.inner(x.rank());
  Dims sizes(x.rank(), Dim(1));
  for (size_t w = 0; w < p.window.size(); ++w)
    sizes[static_cast<size_t>(inner[w])] = l.types[2].dims[static_cast<size_t>(p.window[w])];
  auto form = form_of(p, x, l.types[1], l.types[2], sizes);
  if (!form || form->batch > 0) return std::nullopt;
  // Apple's loader wants equal extents there, and takes no two open ones for equal.
  if (form->kind == PlaceForm::Kind::along_axis && is_open(data.shape)) return std::nullopt;
  Valid places = valid_places(l, *form, 1);
  Var at = places.at, target = data, updates = given;
  auto axis = static_cast<size_t>(form->axis);
  if (places.inside) {
    // What is out of range goes to one place more along the axis, which is cut off again.
    Shape more = target.shape;
    more[axis] = 1;
    Var zeros = e.broadcast(e.constant(Tensor(target.dtype, Shape(more.size(), 1))), more);
    Var beyond = e.size(target.shape[axis]);
    at = e.select(*places.inside, at, e.reshape(beyond, Shape(at.shape.size(), 1)));
    if (form->kind == PlaceForm::Kind::vectors && form->entries > 1) {
      // Along the other dims such a vector points at their first place.
      Tensor first(i32, {form->entries});
      first.mutable_values<int32_t>()[0] = 1;
      Var elsewhere = e.mul(e.constant(first), beyond);
      Shape line(at.shape.size(), 1);
      line.back() = form->entries;
      at = e.select(*places.inside, places.at, e.reshape(elsewhere, line));
    }
    target = e.concat({target, zeros}, form->axis);
  }
  Arguments arguments{{"data", target}, {"mode", e.text(mode)}};
  std::string_view name = "scatter_nd";
  if (form->kind == PlaceForm::Kind::along_axis) name = "scatter_along_axis";
  if (form->kind == PlaceForm::Kind::rows) {
    name = "scatter";
    int64_t count = e.count(at.shape);
    Shape rows = data.shape;
    rows[axis] = count;
    at = e.reshape(at, {count});
    updates = e.reshape(updates, rows);
  }
  arguments.emplace_back("indices", at);
  arguments.emplace_back("updates", updates);
  if (form->kind != PlaceForm::Kind::vectors) arguments.emplace_back("axis", e.integer(form->axis));
  Var put = e.emit(name, arguments, target.dtype, target.shape);
  if (places.inside) put = e.slice(put, Shape(put.shape.size(), 0), data.shape, Axes(put.shape.size(), 1));
  return put;
}

}  // namespace rlx::coreml
