// Ops on whole tensors: joining and splitting, filling, ordering, and those whose size data decide.
#include <cmath>

#include "frontends/mil/handlers.h"
#include "frontends/mil/known_dims.h"
#include "rlx/element.h"

namespace rlx::mlprogram {

Tensor int_tensor(const std::vector<int64_t>& values) {
  Tensor t(i32, {static_cast<int64_t>(values.size())});
  for (size_t i = 0; i < values.size(); ++i) store<int64_t>(t, i, values[i]);
  return t;
}

MIL_OP(identity) { return Results(op.item("x")); }

MIL_OP(shape) {
  Value x = op("x");
  std::vector<Value> extents;
  if (is_static(x.dims())) return one(op.graph().constant(int_tensor(shape_of(x.dims()))));
  for (const Dim& d : x.dims()) extents.push_back(rlx::extent(op.graph(), d, i32));
  return one(rlx::stack(extents, 0));
}

MIL_OP(band_part) {
  Value x = op("x");
  int64_t lower = op.integer("lower", -1), upper = op.integer("upper", -1), rank = x.rank();
  if (rank < 2) op.wrong("x ", x.type(), " is no matrix");
  Value below = iota(op.graph(), {i32, x.dims()}, rank - 2) - iota(op.graph(), {i32, x.dims()}, rank - 1);
  Value kept = full(op.graph(), 1, {boolean, x.dims()});
  if (lower >= 0)
    kept = rlx::logical_and(kept, compare(below, full_like(below, static_cast<double>(lower)), Comparison::le));
  if (upper >= 0)
    kept = rlx::logical_and(kept, compare(neg(below), full_like(below, static_cast<double>(upper)), Comparison::le));
  return one(rlx::select(kept, x, zeros_like(x)));
}

namespace {
Value filled(Call& op, const Dims& dims) {
  for (const Dim& d : dims)
    if (d.is_static() && d.value() < 0) op.wrong("an extent is ", d.value());
  std::optional<DType> declared = mil::dtype_of(op.declared(0).dtype);
  Value value = op.has("value") ? op("value") : scalar(op.graph(), 0, declared ? op.dtype(*declared) : f32);
  if (value.rank() != 0) value = rlx::reshape(value, {});
  return broadcast_to(value, dims);
}
}  // namespace

MIL_OP(fill) { return one(filled(op, op.dims("shape"))); }
MIL_OP(fill_like) { return one(filled(op, op("ref_tensor").dims())); }

MIL_OP(concat) {
  std::vector<Value> values = op.all("values");
  if (values.empty()) op.wrong("there are no values");
  bool interleave = op.flag("interleave", false);
  for (Value& v : values)
    if (v.rank() == 0) v = rlx::reshape(v, {1});
  int64_t axis = valid_axis(op.integer("axis"), values[0].dims().size());
  if (!interleave) return one(concatenate(values, axis));
  Dims dims = values[0].dims();
  dims[static_cast<size_t>(axis)] = dims[static_cast<size_t>(axis)] * Dim(static_cast<int64_t>(values.size()));
  return one(rlx::reshape(rlx::stack(values, axis + 1), dims));
}

MIL_OP(stack) {
  std::vector<Value> values = op.all("values");
  if (values.empty()) op.wrong("there are no values");
  return one(rlx::stack(values, valid_axis(op.integer("axis"), values[0].dims().size() + 1)));
}

MIL_OP(split) {
  Value x = op("x");
  int64_t axis = valid_axis(op.integer("axis"), x.dims().size());
  std::optional<int64_t> parts;
  if (op.has("num_splits")) parts = op.integer("num_splits");
  if (!op.has("split_sizes")) {
    if (!parts || *parts < 1) op.wrong("neither split_sizes nor a num_splits of at least 1 is given");
    return several(split_evenly(x, *parts, axis));
  }
  Dims sizes = op.dims("split_sizes");
  if (parts && *parts != static_cast<int64_t>(sizes.size()))
    op.wrong("num_splits is ", *parts, ", but there are ", sizes.size(), " split_sizes");
  return several(rlx::split(x, sizes, axis));
}

// What repeats extents of 1 alone is a broadcast, which others see through.
MIL_OP(tile) {
  Value x = op("x");
  Dims reps = op.dims("reps"), dims = x.dims();
  bool stretches = reps.size() == dims.size();
  for (size_t d = 0; d < dims.size() && stretches; ++d) {
    stretches = dims[d] == Dim(1) || reps[d] == Dim(1);
    if (dims[d] == Dim(1)) dims[d] = reps[d];
    if (dims[d].is_static() && dims[d].value() < 0) stretches = false;
  }
  if (stretches) return one(broadcast_in_dim(x, dims, axes_from(0, dims.size())));
  return one(rlx::tile(x, reps));
}

MIL_OP(pad) {
  Value x = op("x");
  Dims amounts = op.dims("pad");
  std::string mode = op.word("mode", "constant");
  double value = op.number("constant_val", 0);
  size_t rank = x.dims().size(), padded = amounts.size() / 2;
  if (amounts.size() % 2 || padded > rank) op.wrong("'pad' has ", amounts.size(), " numbers for ", x.type());
  Dims low(rank, Dim(0)), high(rank, Dim(0));
  for (size_t i = 0; i < padded; ++i)
    low[rank - padded + i] = amounts[2 * i], high[rank - padded + i] = amounts[2 * i + 1];
  if (mode == "constant") return one(pad_mode(x, PadMode::constant, low, high, value));
  if (mode == "reflect") return one(pad_mode(x, PadMode::reflect, low, high));
  if (mode == "replicate") return one(pad_mode(x, PadMode::replicate, low, high));
  op.wrong("mode '", mode, "' is none of constant, reflect and replicate");
}

MIL_OP(one_hot) {
  Value indices = op("indices");
  Dims size = op.dims("one_hot_vector_size");
  if (size.size() != 1) op.wrong("one_hot_vector_size is one number");
  std::optional<DType> declared = mil::dtype_of(op.declared(0).dtype);
  double on = op.number("on_value", 1), off = op.number("off_value", 0);
  return one(rlx::one_hot(indices, size[0], declared ? op.dtype(*declared) : i32, op.integer("axis", -1), on, off));
}

// The start, and as many steps as fit before the end.
MIL_OP(range_1d) {
  auto known = [&](const char* name) {
    ItemPtr item = op.item(name);
    if (item->constant) return std::optional(op.dims(name));
    return known_dims(op.graph(), op(name).ref());
  };
  Value start = op("start"), end = op("end"), step = op("step");
  for (Value* v : {&start, &end, &step})
    if (v->rank() != 0) *v = rlx::reshape(*v, {});
  std::optional<Dim> count;
  if (is_integer(start.dtype())) {
    auto from = known("start"), to = known("end"), by = known("step");
    if (from && to && by && (*by)[0] == Dim(1)) {
      Dim n = (*to)[0] - (*from)[0];
      if (!n.is_static() || n.value() >= 0) count = n;
    }
  }
  if (!count) {
    // ceil((end - start) / step); of integers without rounding on the way.
    Value n = is_integer(start.dtype()) ? neg(rlx::floor_div(neg(end - start), step))
                                        : convert(rlx::ceil((end - start) / step), i32);
    std::optional<Tensor> found = op.scope().elements(n, "the length of a range_1d");
    if (!found)
      throw NeedsData(ErrorCode::unsupported,
                      "the length of a range depends on what is fed: run the package with its "
                      "data");
    count = Dim(std::max<int64_t>(load_index(*found, 0), 0));
  }
  Value places = iota(op.graph(), {is_integer(start.dtype()) ? start.dtype() : f32, {*count}}, 0);
  if (places.dtype() != start.dtype()) places = convert(places, start.dtype());
  return one(start + places * step);
}

// The places of what is not 0, in row-major order. How many there are, data say.
MIL_OP(non_zero) {
  Value x = op("x");
  Value there = x.dtype() == boolean ? x : compare(x, zeros_like(x), Comparison::ne);
  int64_t rank = x.rank();
  Value flat = rlx::reshape(there, {element_count(x.dims())});
  Value total = rlx::reduce_sum(convert(flat, i32), {0}, false);
  std::optional<Tensor> found = op.scope().elements(total, "the number of non-zero elements");
  if (!found)
    throw NeedsData(ErrorCode::unsupported,
                    "how many elements are not 0 depends on what is fed: run the package with "
                    "its data");
  int64_t count = load_index(*found, 0);
  Value order = rlx::argsort(convert(flat, i32), 0, true);  // stable: the non-zero ones come first, in order
  Value places = slice_axis(order, 0, 0, count);
  std::vector<Value> columns;
  Value rest = places;
  for (int64_t d = rank - 1; d >= 0; --d) {
    Value extent = rlx::extent(op.graph(), x.dim(d), i32);
    columns.insert(columns.begin(), rem(rest, extent));
    rest = div(rest, extent);
  }
  if (columns.empty()) return one(full(op.graph(), 0, {i32, {count, 0}}));
  return one(rlx::stack(columns, 1));
}

MIL_OP(argsort) { return one(rlx::argsort(op("x"), op.integer("axis", -1), !op.flag("ascending", false))); }

// `sort = False` leaves the order open: it is the sorted one here.
MIL_OP(topk) {
  Value x = op("x");
  int64_t axis = valid_axis(op.integer("axis", -1), x.dims().size());
  bool ascending = op.flag("ascending", false), with_indices = op.flag("return_indices", true);
  op.flag("sort", true);
  DType index_dtype = dtype_of_word(op.word("output_indices_dtype", "int32"));
  const Dim& extent = x.dim(axis);
  int64_t k = op.integer("k", 1);
  if (k == -1) k = static_dim(op, x, axis);
  if (k < 0 || (extent.is_static() && k > extent.value())) op.wrong("k is ", k, ", of ", extent, " elements");
  std::vector<Value> sorted = sort({x, iota(op.graph(), {i32, x.dims()}, axis)}, {axis, !ascending});
  Value values = slice_axis(sorted[0], axis, 0, k), indices = slice_axis(sorted[1], axis, 0, k);
  if (!with_indices) return one(values);
  return several({values, convert(indices, index_dtype)});
}

}  // namespace rlx::mlprogram
