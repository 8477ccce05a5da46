// Primitives that read and write at computed places. Reading and replacing copy bits, so they hold for every dtype.
#include "rlx/ops/index.h"

#include "ops/core/combine.h"
#include "ops/core/index_rules.h"

namespace rlx {

// ---- builders ----
Value gather(Value x, Value indices, GatherAttrs attrs) { return emit(op::gather, {x, indices}, std::move(attrs)); }
Value scatter(Value x, Value indices, Value updates, ScatterAttrs attrs) {
  return emit(op::scatter, {x, indices, updates}, std::move(attrs));
}
std::vector<Value> scatter_custom(std::vector<Value> xs, Value indices, std::vector<Value> updates,
                                  ScatterAttrs attrs) {
  attrs.kind = ScatterKind::custom;
  xs.push_back(indices);
  xs.insert(xs.end(), updates.begin(), updates.end());
  return indices.graph().emit(op::scatter, std::move(xs), std::move(attrs));
}
Value dynamic_slice(Value x, std::vector<Value> starts, Dims sizes) {
  starts.insert(starts.begin(), x);
  return emit(op::dynamic_slice, std::move(starts), DynamicSliceAttrs{std::move(sizes)});
}
Value dynamic_update_slice(Value x, Value update, std::vector<Value> starts) {
  starts.insert(starts.begin(), {x, update});
  return emit(op::dynamic_update_slice, std::move(starts));
}
namespace {

std::vector<Value> starts_along(Value x, int64_t axis, Value start) {
  std::vector<Value> starts(x.dims().size());
  auto at = size_t(valid_axis(axis, starts.size()));
  for (size_t d = 0; d < starts.size(); ++d) starts[d] = d == at ? start : scalar(x.graph(), 0, start.dtype());
  return starts;
}

}  // namespace
Value dynamic_slice_axis(Value x, int64_t axis, Value start, Dim size) {
  Dims sizes = x.dims();
  sizes[size_t(valid_axis(axis, sizes.size()))] = std::move(size);
  return dynamic_slice(x, starts_along(x, axis, start), std::move(sizes));
}
Value dynamic_update_axis(Value x, Value update, int64_t axis, Value start) {
  return dynamic_update_slice(x, update, starts_along(x, axis, start));
}

Tensor out_of_range_value(DType dtype) {
  switch (kind_of(dtype)) {
    case Kind::real:
    case Kind::complex: return full(dtype, {}, std::numeric_limits<double>::quiet_NaN());
    case Kind::signed_int: return initial_value(Reduction::max, dtype);
    case Kind::boolean:
    case Kind::unsigned_int: return initial_value(Reduction::min, dtype);
    case Kind::block: break;
  }
  fail(ErrorCode::unsupported, "no single element of ", dtype, " can be written");
}

namespace {

std::string listed(const Axes& axes) {
  std::ostringstream out;
  print(out, axes);
  return out.str();
}
void require_axes(const Axes& axes, size_t rank, std::string_view what) {
  for (size_t i = 0; i < axes.size(); ++i) {
    if (axes[i] < 0 || axes[i] >= int64_t(rank))
      fail(ErrorCode::invalid_argument, what, " has ", axes[i], ", which is no axis of rank ", rank,
           " counted from the front");
    if (std::count(axes.begin(), axes.end(), axes[i]) > 1)
      fail(ErrorCode::invalid_argument, what, " has ", axes[i], " twice");
  }
}
void require_sorted(const Axes& axes, std::string_view what) {
  if (!std::is_sorted(axes.begin(), axes.end()))
    fail(ErrorCode::invalid_argument, what, " ", listed(axes), " must be sorted");
}
void require_plain(const Type& t) {
  if (is_block(t.dtype)) fail(ErrorCode::unsupported, t, " is packed in blocks; dequantize it first");
}
bool exceeds(const Dim& part, const Dim& whole) {
  return part.is_static() && whole.is_static() && part.value() > whole.value();
}

/// An index as a signed number; what is beyond is out of any range.
int64_t index_at(const Tensor& indices, size_t i) {
  if (kind_of(indices.dtype()) == Kind::signed_int) return load<int64_t>(indices, i);
  return int64_t(std::min<uint64_t>(load<uint64_t>(indices, i), INT64_MAX));
}
/// Places that fit operands of these ranks, and what follows from the ranks.
struct Addressing : Places {
  Axes index_dims, outer, inner;  // as the functions of these names

  Addressing(const GatherAttrs& a, size_t x_rank, size_t index_rank) : Places(a) {
    derive(x_rank, index_rank,
           {"offset_dims", "collapsed_slice_dims", "operand_batching_dims", "start_indices_batching_dims",
            "start_index_map"});
  }
  Addressing(const ScatterAttrs& a, size_t x_rank, size_t index_rank) : Places(a) {
    derive(x_rank, index_rank,
           {"update_window_dims", "inserted_window_dims", "input_batching_dims", "scatter_indices_batching_dims",
            "scatter_dims_to_operand_dims"});
  }

  void derive(size_t x_rank, size_t index_rank, std::array<std::string_view, 5> names) {
    auto rank = int64_t(index_rank);
    if (vector_dim < 0 || vector_dim > rank)
      fail(ErrorCode::invalid_argument, "index_vector_dim is ", vector_dim, "; indices of rank ", rank, " have 0 to ",
           rank);
    index_dims = Places::index_dims(index_rank);
    size_t outside_rank = index_dims.size() + window.size();
    require_axes(window, outside_rank, names[0]);
    require_axes(collapsed, x_rank, names[1]);
    require_axes(x_batching, x_rank, names[2]);
    require_axes(index_batching, index_rank, names[3]);
    require_axes(map, x_rank, names[4]);
    require_sorted(window, names[0]);
    require_sorted(collapsed, names[1]);
    require_sorted(x_batching, names[2]);
    if (x_batching.size() != index_batching.size())
      fail(ErrorCode::invalid_argument, names[2], " ", listed(x_batching), " and ", names[3], " ",
           listed(index_batching), " must pair up");
    if (contains(index_batching, vector_dim))
      fail(ErrorCode::invalid_argument, names[3], " has ", vector_dim, ", which is index_vector_dim");
    for (int64_t d : x_batching)
      if (contains(collapsed, d) || contains(map, d))
        fail(ErrorCode::invalid_argument, names[2], " has ", d, ", which ",
             contains(collapsed, d) ? names[1] : names[4], " has too");
    outer = Places::outer(outside_rank);
    inner = Places::inner(x_rank);
    if (inner.size() != window.size())
      fail(ErrorCode::invalid_argument, names[0], " ", listed(window), " must name a dim for each of the ",
           inner.size(), " dims of x (rank ", x_rank, ") that neither ", names[1], " ", listed(collapsed), " nor ",
           names[2], " ", listed(x_batching), " has");
  }

  /// Extents: how many entries a vector has, and whether batching dims agree.
  void check(const Type& x, const Type& indices) const {
    require_kind(indices, kInteger, "index");
    Dim entries = vector_dim < int64_t(indices.rank()) ? indices.dims[size_t(vector_dim)] : Dim(1);
    if (entries != Dim(int64_t(map.size())))
      fail(ErrorCode::shape_mismatch, "an index vector of ", indices, " along dim ", vector_dim, " has ", entries,
           " entries, but stands for the ", map.size(), " dims ", listed(map), " of ", x);
    for (size_t i = 0; i < x_batching.size(); ++i)
      if (x.dims[size_t(x_batching[i])] != indices.dims[size_t(index_batching[i])])
        fail(ErrorCode::shape_mismatch, "dim ", x_batching[i], " of ", x, " and dim ", index_batching[i],
             " of the indices ", indices, " run together, but differ");
  }

  /// Where in x the slice starts that belongs to the place `at` of `outside`.
  Axes start(const Tensor& indices, const Axes& at, size_t x_rank) const {
    Axes vector(indices.rank()), from(x_rank);
    for (size_t i = 0; i < index_dims.size(); ++i) vector[size_t(index_dims[i])] = at[size_t(outer[i])];
    for (size_t i = 0; i < map.size(); ++i) {
      if (vector_dim < int64_t(vector.size())) vector[size_t(vector_dim)] = int64_t(i);
      from[size_t(map[i])] = index_at(indices, offset_of(indices.shape(), vector));
    }
    for (size_t i = 0; i < x_batching.size(); ++i) from[size_t(x_batching[i])] = vector[size_t(index_batching[i])];
    return from;
  }
};

Type gather_type(Types in, const GatherAttrs& a) {
  const Type &x = in[0], &indices = in[1];
  Addressing places(a, x.rank(), indices.rank());
  places.check(x, indices);
  if (a.slice_sizes.size() != x.rank())
    fail(ErrorCode::invalid_argument, "slice_sizes must have one entry for each dim of ", x, ", got ",
         a.slice_sizes.size());
  for (size_t d = 0; d < x.rank(); ++d) {
    const Dim& size = a.slice_sizes[d];
    bool inner = contains(places.inner, int64_t(d));
    if (!inner && size != Dim(1))
      fail(ErrorCode::invalid_argument, "slice_sizes[", d, "] is ", size, ", but dim ", d, " of ", x,
           " is collapsed or a batching dim: it must be 1");
    // One element of an empty dim may be asked for: every index is out of range then.
    bool nothing = size == Dim(1) && x.dims[d] == Dim(0) &&
                   (a.out_of_range == OutOfRange::fill || contains(places.x_batching, int64_t(d)));
    if ((size.is_static() && size.value() < 0) || (exceeds(size, x.dims[d]) && !nothing))
      fail(ErrorCode::shape_mismatch, "a slice of ", size, " does not lie within dim ", d, " of ", x);
  }
  Type t{x.dtype, Dims(places.outer.size() + places.window.size())};
  for (size_t i = 0; i < places.outer.size(); ++i)
    t.dims[size_t(places.outer[i])] = indices.dims[size_t(places.index_dims[i])];
  for (size_t i = 0; i < places.window.size(); ++i)
    t.dims[size_t(places.window[i])] = a.slice_sizes[size_t(places.inner[i])];
  if (is_block(x.dtype)) {
    auto last = int64_t(x.rank()) - 1;
    if (last < 0 || !contains(places.inner, last) || contains(places.map, last) ||
        places.window.back() != int64_t(t.rank()) - 1 || a.slice_sizes.back() != x.dims.back())
      fail(ErrorCode::unsupported, x,
           " is packed in blocks along its last dim: only whole rows can be gathered; dequantize it first");
  }
  return t;
}

Tensor gathered(const Tensor& x, const Tensor& indices, const GatherAttrs& a, const Tensor& otherwise) {
  Addressing places(a, x.rank(), indices.rank());
  Shape sizes = shape_of(a.slice_sizes);
  Shape shape = shape_of(gather_type(std::array{x.type(), indices.type()}, a).dims);
  return moved(
      x, shape,
      [&](const Axes& at) -> int64_t {
        Axes from = places.start(indices, at, x.rank());
        for (size_t d = 0; d < from.size(); ++d) {
          int64_t last = x.shape()[d] - sizes[d];
          if (last < 0) return -1;
          if (a.out_of_range == OutOfRange::clip) from[d] = std::clamp(from[d], int64_t{0}, last);
          if (from[d] < 0 || from[d] > last) return -1;
        }
        for (size_t i = 0; i < places.inner.size(); ++i) from[size_t(places.inner[i])] += at[size_t(places.window[i])];
        return int64_t(offset_of(x.shape(), from));
      },
      &otherwise);
}

Reduction reduction_of(ScatterKind kind) {
  switch (kind) {
    case ScatterKind::add: return Reduction::sum;
    case ScatterKind::mul: return Reduction::prod;
    case ScatterKind::max: return Reduction::max;
    case ScatterKind::min: return Reduction::min;
    case ScatterKind::update:
    case ScatterKind::custom: break;
  }
  return Reduction::custom;
}

std::vector<Type> scatter_types(Types in, const ScatterAttrs& a) {
  size_t n = in.size() / 2;
  if (in.size() != 2 * n + 1 || n == 0 || (n > 1 && a.kind != ScatterKind::custom))
    fail(ErrorCode::invalid_argument,
         "scatter takes an operand, indices and updates; a custom one as many operands as updates; got ", in.size());
  const Type &x = in[0], &indices = in[n], &updates = in[n + 1];
  Addressing places(a, x.rank(), indices.rank());
  places.check(x, indices);
  for (size_t i = 0; i < n; ++i) {
    const Type &operand = in[i], &update = in[n + 1 + i];
    require_plain(operand);
    if (operand.dims != x.dims || update.dims != updates.dims || operand.dtype != update.dtype)
      fail(ErrorCode::shape_mismatch,
           "operands agree in their dims, updates do, and each has the dtype of its operand; got ", x, " with ",
           updates, i ? text_of(" and ", operand, " with ", update) : std::string());
  }
  size_t rank = places.outer.size() + places.window.size();
  if (updates.rank() != rank)
    fail(ErrorCode::shape_mismatch, "updates of rank ", rank, " are needed for the indices ", indices,
         " and slices of rank ", places.window.size(), ", got ", updates);
  for (size_t i = 0; i < places.outer.size(); ++i)
    if (updates.dims[size_t(places.outer[i])] != indices.dims[size_t(places.index_dims[i])])
      fail(ErrorCode::shape_mismatch, "dim ", places.outer[i], " of the updates ", updates, " runs through dim ",
           places.index_dims[i], " of the indices ", indices, ", but differs");
  for (size_t i = 0; i < places.window.size(); ++i)
    if (exceeds(updates.dims[size_t(places.window[i])], x.dims[size_t(places.inner[i])]))
      fail(ErrorCode::shape_mismatch, "dim ", places.window[i], " of the updates ", updates, " is longer than dim ",
           places.inner[i], " of ", x);
  std::vector<Type> results(in.begin(), in.begin() + std::ptrdiff_t(n));
  if (a.kind == ScatterKind::custom) {
    std::vector<Type> scalars;
    for (const Type& t : results) scalars.push_back({t.dtype, {}});
    require_combiner(a.body, results, scalars);
  } else {
    require_reducible(x, reduction_of(a.kind));
  }
  return results;
}

/// Calls `put(place in x, place in the updates)` for each update that lies within x: slice by slice.
template <class F>
void for_each_update(const Tensor& x, const Tensor& indices, const Tensor& updates, const ScatterAttrs& a, F put) {
  Addressing places(a, x.rank(), indices.rank());
  Shape sizes(x.rank(), 1);
  for (size_t i = 0; i < places.inner.size(); ++i)
    sizes[size_t(places.inner[i])] = updates.shape()[size_t(places.window[i])];
  Axes at(updates.rank());
  for_each_index(pick(updates.shape(), places.outer), [&](const Axes& slice) {
    for (size_t i = 0; i < slice.size(); ++i) at[size_t(places.outer[i])] = slice[i];
    const Axes from = places.start(indices, at, x.rank());
    for (size_t d = 0; d < from.size(); ++d)
      if (from[d] < 0 || from[d] > x.shape()[d] - sizes[d]) return;
    for_each_index(pick(updates.shape(), places.window), [&](const Axes& within) {
      Axes to = from;
      for (size_t i = 0; i < within.size(); ++i)
        at[size_t(places.window[i])] = within[i], to[size_t(places.inner[i])] += within[i];
      put(to, offset_of(updates.shape(), at));
    });
  });
}

/// Checks the starts of a slice of x.
void require_starts(const Type& x, Types starts) {
  for (const Type& t : starts) require_kind(t, kInteger, "start");
  if (starts.size() == 1 && starts[0].rank() == 1) {
    if (starts[0].dims[0] != Dim(int64_t(x.rank())))
      fail(ErrorCode::shape_mismatch, "the starts ", starts[0], " must have one entry for each dim of ", x);
    return;
  }
  if (starts.size() != x.rank())
    fail(ErrorCode::invalid_argument, "one start for each dim of ", x, " is needed, got ", starts.size());
  for (const Type& t : starts)
    if (t.rank() != 0) fail(ErrorCode::shape_mismatch, "a start must be a scalar (or all of them one vector), got ", t);
}
void require_within(const Type& x, const Dims& sizes) {
  if (sizes.size() != x.rank())
    fail(ErrorCode::invalid_argument, "a slice of ", x, " needs a size for each of its dims, got ", sizes.size());
  for (size_t d = 0; d < sizes.size(); ++d)
    if ((sizes[d].is_static() && sizes[d].value() < 0) || exceeds(sizes[d], x.dims[d]))
      fail(ErrorCode::shape_mismatch, "a slice of ", sizes[d], " does not lie within dim ", d, " of ", x);
}
Axes starts_within(const Tensor& x, Tensors starts, const Shape& sizes) {
  Axes from(x.rank());
  bool vector = starts.size() == 1 && starts[0].rank() == 1;
  for (size_t d = 0; d < from.size(); ++d)
    from[d] = std::clamp(vector ? index_at(starts[0], d) : index_at(starts[d], 0), int64_t{0},
                         std::max<int64_t>(x.shape()[d] - sizes[d], 0));
  return from;
}

/// dynamic_update_slice of rows of blocks.
Tensor updated_rows(Tensors in) {
  Tensor y = in[0];
  const Shape &shape = y.shape(), &sizes = in[1].shape();
  const Axes start = starts_within(y, in.subspan(2), sizes);
  const size_t row = byte_count(y.dtype(), {shape.back()});
  const auto length = static_cast<size_t>(std::max<int64_t>(shape.back(), 1));
  const std::byte* from = in[1].data();
  std::byte* to = y.mutable_data();
  for_each_index(Shape(sizes.begin(), sizes.end() - 1), [&](Axes i) {
    for (size_t d = 0; d < i.size(); ++d) i[d] += start[d];
    i.push_back(0);
    if (row) std::memcpy(to + offset_of(shape, i) / length * row, from, row);
    from += row;
  });
  return y;
}

}  // namespace

OpDef define_gather() {
  return define<GatherAttrs>({
      .name = "gather",
      .doc = "slices of x that start where the index vectors say. A slice that does not lie within x is moved there "
             "(`clip`) or filled: with NaN, the "
             "lowest signed or the highest unsigned integer, true",
      .source = "StableHLO specification, gather; fill values as jax.lax.GatherScatterMode.FILL_OR_DROP",
      .operands = {"x", "indices"},
      .moves_data = true,
      .infer = [](Types in, const GatherAttrs& a) { return gather_type(in, a); },
      .reference =
          [](Tensors in, const GatherAttrs& a) {
            const Tensor& x = in[0];
            if (!is_block(x.dtype())) return gathered(x, in[1], a, out_of_range_value(x.dtype()));
            // Rows of blocks are rows of bytes.
            Shape rows = x.shape();
            rows.back() = rows.back() / info(x.dtype()).block_elements * info(x.dtype()).block_bytes;
            GatherAttrs bytes = a;
            bytes.slice_sizes.back() = rows.back();
            Tensor y = gathered(Tensor::borrow(u8, rows, x.bytes()), in[1], bytes, Tensor(u8, {}));
            return Tensor::borrow(x.dtype(), shape_of(gather_type(std::array{x.type(), in[1].type()}, a).dims),
                                  y.bytes(), y.owner());
          },
      .vjp = gather_vjp,
      .batch = gather_batch,
      .samples = {{.dims = {{4, 3}, {5}},
                   .dtypes = {f64, i32},
                   .attrs = GatherAttrs{{1}, {0}, {}, {}, {0}, 1, {1, 3}},
                   .lo = 0,
                   .hi = 3},
                  {.dims = {{4, 5}, {2, 3, 2}},
                   .dtypes = {f64, i64},
                   .attrs = GatherAttrs{{0, 3}, {}, {}, {}, {1, 0}, 2, {2, 3}, OutOfRange::clip},
                   .lo = -2,
                   .hi = 4},
                  {.dims = {{3, 4, 2}, {3, 5, 1}},
                   .dtypes = {f64, i32},
                   .attrs = GatherAttrs{{2}, {1}, {0}, {0}, {1}, 2, {1, 1, 2}},
                   .lo = 0,
                   .hi = 3},
                  {.dims = {{4, 3}, {6}},
                   .dtypes = {i32, i32},
                   .attrs = GatherAttrs{{1}, {0}, {}, {}, {0}, 1, {1, 2}},
                   .lo = -3,
                   .hi = 6},
                  {.dims = {{0, 3}, {2}}, .dtypes = {i32, i32}, .attrs = GatherAttrs{{1}, {0}, {}, {}, {0}, 1, {1, 3}}},
                  {.dims = {{4}, {1}}, .dtypes = {f64, u64}, .attrs = GatherAttrs{{}, {0}, {}, {}, {0}, 0, {1}}},
                  {.dims = {{3, 4, 2}, {2, 1, 3}},
                   .dtypes = {f64, i8},
                   .attrs = GatherAttrs{{}, {1}, {0, 2}, {2, 0}, {1}, 1, {1, 1, 1}, OutOfRange::clip},
                   .lo = -2,
                   .hi = 5},
                  {.dims = {{}, {2, 0}}, .dtypes = {f64, i32}, .attrs = GatherAttrs{{}, {}, {}, {}, {}, 1, {}}}},
  });
}

OpDef define_scatter() {
  return define<ScatterAttrs>({
      .name = "scatter",
      .doc = "x with slices put in, or combined with what stands there, where the index vectors say; a slice that does "
             "not lie within x is dropped. "
             "Slices are put in one after another, in row-major order of the index vectors; of several that meet at a "
             "place `update` keeps the last",
      .source = "StableHLO specification, scatter",
      .operands = {"xs...", "indices", "updates..."},
      .overwrites = 0,
      .infer = [](Types in, const ScatterAttrs& a) { return Many<Type>(scatter_types(in, a)); },
      .reference = [](Tensors in, const ScatterAttrs& a, const Run& run) -> Many<Tensor> {
        size_t n = in.size() / 2;
        Tensors xs = in.first(n), updates = in.subspan(n + 1);
        if (a.kind == ScatterKind::update) {
          Tensor y = xs[0];
          for_each_update(y, in[n], updates[0], a, [&](const Axes& to, size_t from) {
            copy_element(y, offset_of(y.shape(), to), updates[0], from);
          });
          return y;
        }
        Combiner combine(reduction_of(a.kind), a.body, updates, {}, run);
        Combiner::Cells cells(std::vector<Tensor>(xs.begin(), xs.end()), combine);
        for_each_update(xs[0], in[n], updates[0], a, [&](const Axes& to, size_t from) { cells.add(to, from); });
        return cells.results();
      },
      .vjp = scatter_vjp,
      .batch = scatter_batch,
      .samples =
          [] {
            Type scalar{f64, {}};
            Graph both = trace(std::vector{scalar, scalar, scalar, scalar}, [](Values v) {
              return std::vector{v[0] * v[2], maximum(v[1], v[3])};
            });
            Graph sine = trace(std::vector{scalar, scalar}, [](Values v) { return sin(v[0]) + v[0] * v[1]; });
            return std::vector<Sample>{{.dims = {{6}, {4}, {4}},
                                        .dtypes = {f64, i32},
                                        .attrs = ScatterAttrs{ScatterKind::add, {}, {0}, {}, {}, {0}, 1},
                                        .lo = -2,
                                        .hi = 7},
                                       {.dims = {{4, 3}, {5, 1}, {5, 3}},
                                        .dtypes = {f64, i64},
                                        .attrs = ScatterAttrs{ScatterKind::update, {1}, {0}, {}, {}, {0}, 1},
                                        .lo = 0,
                                        .hi = 4},
                                       {.dims = {{4, 5}, {2, 2}, {2, 2, 3}},
                                        .dtypes = {f64, i32},
                                        .attrs = ScatterAttrs{ScatterKind::mul, {1, 2}, {}, {}, {}, {0, 1}, 1},
                                        .lo = 0,
                                        .hi = 3},
                                       {.dims = {{3, 4}, {3, 2}, {3, 2}},
                                        .dtypes = {f64, i32},
                                        .attrs = ScatterAttrs{ScatterKind::max, {}, {1}, {0}, {0}, {1}, 2},
                                        .lo = 0,
                                        .hi = 4},
                                       {.dims = {{5}, {4}, {4}},
                                        .dtypes = {i32, i32, i32},
                                        .attrs = ScatterAttrs{ScatterKind::min, {}, {0}, {}, {}, {0}, 1},
                                        .lo = -1,
                                        .hi = 5},
                                       {.dims = {{4}, {4}, {3, 1}, {3}, {3}},
                                        .dtypes = {f64, f64, i32},
                                        .attrs = ScatterAttrs{ScatterKind::custom, {}, {0}, {}, {}, {0}, 1, both},
                                        .lo = 0,
                                        .hi = 4},
                                       {.dims = {{3}, {0}, {0}},
                                        .dtypes = {f64, i32},
                                        .attrs = ScatterAttrs{ScatterKind::add, {}, {0}, {}, {}, {0}, 1}},
                                       {.dims = {{3, 5}, {5, 1}, {2, 5}},
                                        .dtypes = {f64, i8},
                                        .attrs = ScatterAttrs{ScatterKind::update, {0}, {0}, {}, {}, {1}, 1},
                                        .lo = -1,
                                        .hi = 5},
                                       {.dims = {{3}, {6}, {6}},
                                        .dtypes = {f64, i32},
                                        .attrs = ScatterAttrs{ScatterKind::mul, {}, {0}, {}, {}, {0}, 1},
                                        .lo = -1,
                                        .hi = 3},
                                       {.dims = {{3, 2}, {1, 3}, {1, 3, 2}},
                                        .dtypes = {f64, u64},
                                        .attrs = ScatterAttrs{ScatterKind::min, {0, 2}, {}, {}, {}, {0}, 0},
                                        .lo = 0,
                                        .hi = 3},
                                       {.dims = {{3, 2, 2}, {2, 3, 1}, {1, 2, 3}},
                                        .dtypes = {f64, i32},
                                        .attrs = ScatterAttrs{ScatterKind::custom, {0}, {1}, {0}, {1}, {1}, 2, sine},
                                        .lo = -1,
                                        .hi = 2}};
          },
  });
}

OpDef define_dynamic_slice() {
  return define<DynamicSliceAttrs>({
      .name = "dynamic_slice",
      .doc =
          "`sizes` places of each dim, from starts that are values on; they are moved so that the slice lies within x",
      .source = "StableHLO specification, dynamic_slice",
      .operands = {"x", "starts..."},
      .moves_data = true,
      .infer =
          [](Types in, const DynamicSliceAttrs& a) {
            require_plain(in[0]);
            require_starts(in[0], in.subspan(1));
            require_within(in[0], a.sizes);
            return Type{in[0].dtype, a.sizes};
          },
      .reference =
          [](Tensors in, const DynamicSliceAttrs& a) {
            const Shape &shape = in[0].shape(), sizes = shape_of(a.sizes);
            Axes start = starts_within(in[0], in.subspan(1), sizes);
            return moved(in[0], sizes, [&](Axes i) {
              for (size_t d = 0; d < i.size(); ++d) i[d] += start[d];
              return int64_t(offset_of(shape, i));
            });
          },
      .vjp = dynamic_slice_vjp,
      .batch = dynamic_slice_batch,
      .samples =
          {{.dims = {{5, 4}, {}, {}}, .dtypes = {f64, i32, i32}, .attrs = DynamicSliceAttrs{{2, 3}}, .lo = -2, .hi = 5},
           {.dims = {{5, 4}, {2}}, .dtypes = {f64, i64}, .attrs = DynamicSliceAttrs{{5, 1}}, .lo = 0, .hi = 5},
           {.dims = {{3}, {1}}, .dtypes = {f64, u8}, .attrs = DynamicSliceAttrs{{0}}, .lo = 0, .hi = 3},
           {.dims = {{}}, .attrs = DynamicSliceAttrs{{}}},
           {.dims = {{2, 1, 4}, {}, {}, {}}, .dtypes = {f64, u64, u64, u64}, .attrs = DynamicSliceAttrs{{1, 1, 2}}}},
  });
}

OpDef define_dynamic_update_slice() {
  return define<>({
      .name = "dynamic_update_slice",
      .doc = "x with `update` in place of the slice at `starts`, which are moved so that it lies within x",
      .source = "StableHLO specification, dynamic_update_slice",
      .operands = {"x", "update", "starts..."},
      .moves_data = true,
      .overwrites = 0,
      .infer =
          [](Types in) {
            if (in[1].dtype != in[0].dtype)
              fail(ErrorCode::shape_mismatch, "the update ", in[1], " has another dtype than ", in[0]);
            require_starts(in[0], in.subspan(2));
            require_within(in[0], in[1].dims);
            if (is_block(in[0].dtype) && (in[0].rank() == 0 || in[1].dims.back() != in[0].dims.back()))
              fail(ErrorCode::unsupported, in[0], " is packed in blocks along its last dim: only whole rows of it can ",
                   "be updated, not with ", in[1], "; dequantize it first");
            return in[0];
          },
      .reference =
          [](Tensors in) {
            if (is_block(in[0].dtype())) return updated_rows(in);
            Tensor y = in[0];
            Axes start = starts_within(y, in.subspan(2), in[1].shape());
            size_t from = 0;
            for_each_index(in[1].shape(), [&](Axes i) {
              for (size_t d = 0; d < i.size(); ++d) i[d] += start[d];
              copy_element(y, offset_of(y.shape(), i), in[1], from++);
            });
            return y;
          },
      .vjp = dynamic_update_slice_vjp,
      .batch = dynamic_update_slice_batch,
      .samples = {{.dims = {{5, 4}, {2, 3}, {}, {}}, .dtypes = {f64, f64, i32, i32}, .lo = -2, .hi = 5},
                  {.dims = {{5, 4}, {5, 1}, {2}}, .dtypes = {f64, f64, i64}, .lo = 0, .hi = 5},
                  {.dims = {{3}, {0}, {1}}, .dtypes = {i32, i32, i32}, .lo = 0, .hi = 3},
                  {.dims = {{}, {}}},
                  {.dims = {{2, 1, 4}, {1, 1, 2}, {}, {}, {}}, .dtypes = {f64, f64, i16, i16, i16}, .lo = -1, .hi = 4},
                  {.dims = {{2, 5, 64}, {2, 2, 64}, {3}}, .dtypes = {q8_0, q8_0, i32}, .lo = -2, .hi = 5},
                  {.dims = {{3, 32}, {0, 32}, {}, {}}, .dtypes = {q4_0, q4_0, i64, i64}, .lo = 0, .hi = 3}},
  });
}

}  // namespace rlx
