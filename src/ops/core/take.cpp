// Indexing as models write it. Each composite turns its attributes into those of the general primitive, which also
// infers its type.
#include "rlx/ops/take.h"

#include "ops/core/elementwise_rules.h"

namespace rlx {

// ---- builders ----
Value take(Value table, Value indices, int64_t axis, OutOfRange out_of_range) {
  return emit(op::take, {table, indices}, TakeAttrs{axis, out_of_range});
}
Value take_along_axis(Value x, Value indices, int64_t axis, OutOfRange out_of_range) {
  return emit(op::take_along_axis, {x, indices}, TakeAttrs{axis, out_of_range});
}
Value gather_nd(Value x, Value indices, int64_t batch_dims, OutOfRange out_of_range) {
  return emit(op::gather_nd, {x, indices}, GatherNdAttrs{batch_dims, out_of_range});
}
Value scatter_add_rows(Value updates, Value indices, Dim size, int64_t axis) {
  return emit(op::scatter_add_rows, {updates, indices}, ScatterAddRowsAttrs{std::move(size), axis});
}
Value scatter_nd(Value x, Value indices, Value updates, ScatterReduction reduction) {
  return emit(op::scatter_nd, {x, indices, updates}, ScatterNdAttrs{reduction});
}
Value scatter_elements(Value x, Value indices, Value updates, int64_t axis, ScatterReduction reduction) {
  return emit(op::scatter_elements, {x, indices, updates}, ScatterElementsAttrs{axis, reduction});
}
Value kv_append(Value cache, Value entry, Value position, int64_t axis) {
  return emit(op::kv_append, {cache, entry, position}, AxisAttrs{axis});
}

namespace {

ScatterKind kind_of(ScatterReduction reduction) {
  constexpr std::array kinds = {ScatterKind::update, ScatterKind::add, ScatterKind::mul, ScatterKind::max,
                                ScatterKind::min};
  return kinds[size_t(reduction)];
}
Axes joined(Axes a, const Axes& b) { return a.insert(a.end(), b.begin(), b.end()), a; }

GatherAttrs as_gather(Types in, const TakeAttrs& a) {
  auto axis = valid_axis(a.axis, in[0].rank());
  size_t behind = in[0].rank() - size_t(axis) - 1;
  Dims sizes = in[0].dims;
  sizes[size_t(axis)] = 1;
  return {joined(axes_from(0, size_t(axis)), axes_from(axis + int64_t(in[1].rank()), behind)),
          {axis},
          {},
          {},
          {axis},
          int64_t(in[1].rank()),
          std::move(sizes),
          a.out_of_range};
}

GatherAttrs as_gather(Types in, const GatherNdAttrs& a) {
  const Type &x = in[0], &indices = in[1];
  if (indices.rank() == 0)
    fail(ErrorCode::shape_mismatch, "the indices need a last dim that holds the index vectors, got ", indices);
  int64_t batch = a.batch_dims, length = indices.dims.back().value(), rank = int64_t(x.rank());
  if (batch < 0 || batch >= int64_t(indices.rank()) || batch + length > rank)
    fail(ErrorCode::shape_mismatch, "index vectors of ", length, " entries in ", indices, " behind ", batch,
         " batch dims do not fit ", x);
  Axes indexed = axes_from(batch, size_t(length)), batching = axes_from(0, size_t(batch));
  Dims sizes = x.dims;
  for (int64_t d : joined(indexed, batching)) sizes[size_t(d)] = 1;
  int64_t outer = int64_t(indices.rank()) - 1;
  return {axes_from(outer, size_t(rank - batch - length)),
          indexed,
          batching,
          batching,
          indexed,
          outer,
          std::move(sizes),
          a.out_of_range};
}

bool is_empty(const Type& t) { return std::find(t.dims.begin(), t.dims.end(), Dim(0)) != t.dims.end(); }
/// Both operands' ranks agree, and the indices are nowhere longer than x but along `axis`.
int64_t valid_elements(const Type& x, const Type& indices, int64_t axis) {
  require_kind(indices, kInteger, "index");
  axis = valid_axis(axis, x.rank());
  bool fits = indices.rank() == x.rank();
  for (size_t d = 0; fits && d < x.rank(); ++d) {
    const Dim &part = indices.dims[d], &whole = x.dims[d];
    if (int64_t(d) != axis && part != whole)
      fits = part.is_static() && whole.is_static() && part.value() < whole.value();
  }
  if (!fits)
    fail(ErrorCode::shape_mismatch, "the indices ", indices, " must have the rank of ", x, " and, in each dim but ",
         axis, ", at most its extent");
  return axis;
}

ScatterAttrs as_scatter(const Type& updates, const Type& indices, const ScatterAddRowsAttrs& a) {
  size_t rank = indices.rank();
  if (updates.rank() < rank)
    fail(ErrorCode::shape_mismatch, "the updates ", updates, " must have at least the rank of their indices ", indices);
  int64_t axis = valid_axis(a.axis, updates.rank() - rank + 1);
  return {ScatterKind::add, other_axes(updates.rank(), axes_from(axis, rank)), {axis}, {}, {}, {axis}, int64_t(rank)};
}
Type rows_type(const Type& updates, const Type& indices, const ScatterAddRowsAttrs& a) {
  Dims dims = pick(updates.dims, as_scatter(updates, indices, a).update_window_dims);
  dims.insert(dims.begin() + valid_axis(a.axis, dims.size() + 1), a.size);
  if (a.size.is_static() && a.size.value() < 0)
    fail(ErrorCode::invalid_argument, "size is ", a.size, "; it counts rows and cannot be negative");
  return {updates.dtype, std::move(dims)};
}

ScatterAttrs as_scatter(Types in, const ScatterNdAttrs& a) {
  const Type &x = in[0], &indices = in[1], &updates = in[2];
  if (indices.rank() == 0)
    fail(ErrorCode::shape_mismatch, "the indices need a last dim that holds the index vectors, got ", indices);
  int64_t length = indices.dims.back().value(), outer = int64_t(indices.rank()) - 1;
  if (length > int64_t(x.rank()))
    fail(ErrorCode::shape_mismatch, "index vectors of ", length, " entries in ", indices, " do not fit ", x);
  Dims wanted(indices.dims.begin(), indices.dims.end() - 1);
  wanted.insert(wanted.end(), x.dims.begin() + length, x.dims.end());
  if (updates != Type{x.dtype, wanted})
    fail(ErrorCode::shape_mismatch, "for ", x, " and the indices ", indices, " the updates must be ",
         Type{x.dtype, wanted}, ", got ", updates);
  Axes indexed = axes_from(0, size_t(length));
  return {kind_of(a.reduction), axes_from(outer, x.rank() - size_t(length)), indexed, {}, {}, indexed, outer};
}

}  // namespace

OpDef define_take() {
  return define<TakeAttrs>({
      .name = "take",
      .doc = "the places of `axis` that the indices name, in the indices' shape; negative indices are out of range, "
             "not counted from the end",
      .operands = {"table", "indices"},
      .covers = {"Gather", "GatherBackward"},
      .moves_data = true,
      .infer = [](Types in, const TakeAttrs& a) { return infer_types(op::gather, in, as_gather(in, a)); },
      .decompose =
          [](Values in, const TakeAttrs& a) {
            return gather(in[0], in[1], as_gather(std::array{in[0].type(), in[1].type()}, a));
          },
      .samples =
          {{.dims = {{5, 3}, {2, 2}}, .dtypes = {f64, i32}, .lo = 0, .hi = 4},
           {.dims = {{2, 4, 3}, {5}}, .dtypes = {f64, i64}, .attrs = TakeAttrs{1, OutOfRange::clip}, .lo = -2, .hi = 5},
           {.dims = {{2, 3}, {}}, .dtypes = {f64, i32}, .attrs = TakeAttrs{-1}, .lo = 0, .hi = 2},
           {.dims = {{4}, {3}}, .dtypes = {i32, i32}, .attrs = TakeAttrs{0}, .lo = -3, .hi = 6}},
  });
}

OpDef define_take_along_axis() {
  return define<TakeAttrs>({
      .name = "take_along_axis",
      .doc = "for each place of the indices the element of x at the same place, but at that index along `axis`",
      .source = "ONNX GatherElements; numpy.take_along_axis",
      .operands = {"x", "indices"},
      .covers = {"GatherElements"},
      .moves_data = true,
      .infer =
          [](Types in, const TakeAttrs& a) {
            if (is_block(in[0].dtype))
              fail(ErrorCode::unsupported, in[0],
                   " is packed in blocks along its last dim: only whole rows of it can be moved; dequantize_blocks "
                   "makes "
                   "numbers of it");
            const int64_t axis = valid_elements(in[0], in[1], a.axis);
            if (in[0].dims[size_t(axis)] == Dim(0) && !is_empty(in[1]))
              fail(ErrorCode::shape_mismatch, "there is nothing to take along axis ", axis, " of ", in[0],
                   " at the places ", in[1]);
            return Type{in[0].dtype, in[1].dims};
          },
      .decompose =
          [](Values in, const TakeAttrs& a) {
            size_t rank = in[0].dims().size();
            int64_t axis = valid_axis(a.axis, rank);
            if (is_empty(in[1].type())) return full(in[0].graph(), 0, {in[0].dtype(), in[1].dims()});
            Dims limits = in[1].dims();
            limits[size_t(axis)] = in[0].dim(axis);
            Value x = limits == in[0].dims() ? in[0] : slice(in[0], Dims(rank, Dim(0)), limits);
            Axes others = other_axes(rank, {axis});
            return gather(x, in[1],
                          {{}, {axis}, others, others, {axis}, int64_t(rank), Dims(rank, Dim(1)), a.out_of_range});
          },
      .samples = {{.dims = {{4, 3}, {2, 3}}, .dtypes = {f64, i32}, .attrs = TakeAttrs{0}, .lo = 0, .hi = 3},
                  {.dims = {{4, 3, 5}, {2, 3, 6}},
                   .dtypes = {f64, i64},
                   .attrs = TakeAttrs{-1, OutOfRange::clip},
                   .lo = -2,
                   .hi = 6},
                  {.dims = {{5}, {3}}, .dtypes = {i32, i32}, .attrs = TakeAttrs{0}, .lo = -3, .hi = 7},
                  {.dims = {{2, 3, 1}, {2, 4, 1}}, .dtypes = {f64, u8}, .attrs = TakeAttrs{-2}, .lo = 0, .hi = 2},
                  {.dims = {{2, 3}, {0, 3}}, .dtypes = {f64, i64}, .attrs = TakeAttrs{0}}},
  });
}

OpDef define_gather_nd() {
  return define<GatherNdAttrs>({
      .name = "gather_nd",
      .doc = "what of x stands at the index vectors, which are the last dim of the indices; `batch_dims` leading dims "
             "run together",
      .source = "ONNX GatherND",
      .operands = {"x", "indices"},
      .covers = {"GatherNd"},
      .moves_data = true,
      .infer = [](Types in, const GatherNdAttrs& a) { return infer_types(op::gather, in, as_gather(in, a)); },
      .decompose =
          [](Values in, const GatherNdAttrs& a) {
            return gather(in[0], in[1], as_gather(std::array{in[0].type(), in[1].type()}, a));
          },
      .samples = {{.dims = {{4, 3}, {5, 2}}, .dtypes = {f64, i32}, .lo = 0, .hi = 2},
                  {.dims = {{4, 3, 2}, {2, 2, 1}}, .dtypes = {f64, i64}, .lo = 0, .hi = 3},
                  {.dims = {{2, 4, 3}, {2, 5, 1}},
                   .dtypes = {f64, i32},
                   .attrs = GatherNdAttrs{1, OutOfRange::clip},
                   .lo = -2,
                   .hi = 6},
                  {.dims = {{3}, {1}}, .dtypes = {f64, i64}, .lo = 0, .hi = 2},
                  {.dims = {{2, 1}, {2, 2, 0}}, .dtypes = {f64, i32}, .attrs = GatherNdAttrs{1}}},
  });
}

OpDef define_scatter_add_rows() {
  return define<ScatterAddRowsAttrs>({
      .name = "scatter_add_rows",
      .doc = "zeros with `size` places along `axis`, to which each update is added at its index: the transpose of take",
      .operands = {"updates", "indices"},
      .covers = {"ScatterAdd", "GatherBackward"},
      .infer =
          [](Types in, const ScatterAddRowsAttrs& a) {
            return infer_types(op::scatter, std::array{rows_type(in[0], in[1], a), in[1], in[0]},
                               as_scatter(in[0], in[1], a));
          },
      .decompose =
          [](Graph& g, Values in, const ScatterAddRowsAttrs& a) {
            Value zeros = full(g, 0, rows_type(in[0].type(), in[1].type(), a));
            return scatter(zeros, in[1], in[0], as_scatter(in[0].type(), in[1].type(), a));
          },
      .samples =
          {{.dims = {{5, 3}, {5}}, .dtypes = {f64, i32}, .attrs = ScatterAddRowsAttrs{4}, .lo = -1, .hi = 5},
           {.dims = {{2, 5, 3}, {5}}, .dtypes = {f64, i64}, .attrs = ScatterAddRowsAttrs{3, 1}, .lo = 0, .hi = 2},
           {.dims = {{2, 2, 3}, {2, 2}}, .dtypes = {i32, i32}, .attrs = ScatterAddRowsAttrs{3, 0}, .lo = 0, .hi = 3},
           {.dims = {{3}, {}}, .dtypes = {f64, u8}, .attrs = ScatterAddRowsAttrs{2, -1}, .lo = 0, .hi = 1},
           {.dims = {{0, 2}, {0}}, .dtypes = {f64, i32}, .attrs = ScatterAddRowsAttrs{0}}},
  });
}

OpDef define_scatter_nd() {
  return define<ScatterNdAttrs>({
      .name = "scatter_nd",
      .doc = "x with updates where the index vectors, the last dim of the indices, say; several updates of one place "
             "are combined by `reduction`, "
             "or the last one stays",
      .source = "ONNX ScatterND",
      .operands = {"x", "indices", "updates"},
      .covers = {"ScatterNd"},
      .overwrites = 0,
      .infer = [](Types in, const ScatterNdAttrs& a) { return infer_types(op::scatter, in, as_scatter(in, a)); },
      .decompose =
          [](Values in, const ScatterNdAttrs& a) {
            return scatter(in[0], in[1], in[2], as_scatter(std::array{in[0].type(), in[1].type(), in[2].type()}, a));
          },
      .samples = {{.dims = {{5, 3}, {4, 1}, {4, 3}},
                   .dtypes = {f64, i32},
                   .attrs = ScatterNdAttrs{ScatterReduction::add},
                   .lo = -1,
                   .hi = 5},
                  {.dims = {{3, 4}, {2, 2}, {2}}, .dtypes = {f64, i64}, .lo = 0, .hi = 2},
                  {.dims = {{6}, {2, 3, 1}, {2, 3}},
                   .dtypes = {i32, i32, i32},
                   .attrs = ScatterNdAttrs{ScatterReduction::max},
                   .lo = 0,
                   .hi = 6},
                  {.dims = {{2, 3}, {3, 2}, {3}}, .dtypes = {f64, i16}, .attrs = ScatterNdAttrs{ScatterReduction::mul}},
                  {.dims = {{2}, {0}, {2}}, .dtypes = {f64, i32}},
                  {.dims = {{3, 1}, {4, 1}, {4, 1}},
                   .dtypes = {f64, i32},
                   .attrs = ScatterNdAttrs{ScatterReduction::min},
                   .lo = 0,
                   .hi = 2}},
  });
}

OpDef define_scatter_elements() {
  return define<ScatterElementsAttrs>({
      .name = "scatter_elements",
      .doc = "x with each update at its own place, but at its index along `axis`; several updates of one place are "
             "combined by `reduction`, or the last "
             "one stays",
      .source = "ONNX ScatterElements",
      .operands = {"x", "indices", "updates"},
      .covers = {"ScatterElements"},
      .overwrites = 0,
      .infer =
          [](Types in, const ScatterElementsAttrs& a) {
            valid_elements(in[0], in[1], a.axis);
            if (in[2] != Type{in[0].dtype, in[1].dims})
              fail(ErrorCode::shape_mismatch, "the updates must be ", Type{in[0].dtype, in[1].dims},
                   ", as their indices, got ", in[2]);
            if (a.reduction == ScatterReduction::max || a.reduction == ScatterReduction::min)
              require_kind(in[0], kBool | kInteger | kReal);
            else if (a.reduction != ScatterReduction::none) require_kind(in[0], kNumber);
            return in[0];
          },
      .decompose =
          [](Graph& g, Values in, const ScatterElementsAttrs& a) {
            Value x = in[0], indices = in[1];
            size_t rank = x.dims().size();
            int64_t axis = valid_axis(a.axis, rank);
            // Dims in which the indices are as long as x run along; a shorter one needs its own place as an index.
            Axes together, indexed;
            for (int64_t d = 0; d < int64_t(rank); ++d)
              (d != axis && x.dim(d) == indices.dim(d) ? together : indexed).push_back(d);
            if (indexed.size() > 1) {
              Dims dims = indices.dims();
              dims.emplace_back(1);
              std::vector<Value> vectors;
              for (int64_t d : indexed)
                vectors.push_back(d == axis ? reshape(convert(indices, i64), dims) : iota(g, {i64, dims}, d));
              indices = concatenate(std::move(vectors), int64_t(rank));
            }
            return scatter(x, indices, in[2],
                           {kind_of(a.reduction), {}, indexed, together, together, indexed, int64_t(rank)});
          },
      .samples = {{.dims = {{4, 3}, {2, 3}, {2, 3}},
                   .dtypes = {f64, i32},
                   .attrs = ScatterElementsAttrs{0, ScatterReduction::add},
                   .lo = -1,
                   .hi = 4},
                  {.dims = {{4, 5}, {2, 3}, {2, 3}},
                   .dtypes = {f64, i64},
                   .attrs = ScatterElementsAttrs{-1},
                   .lo = 0,
                   .hi = 4},
                  {.dims = {{4}, {6}, {6}},
                   .dtypes = {i32, i32, i32},
                   .attrs = ScatterElementsAttrs{0, ScatterReduction::mul},
                   .lo = 0,
                   .hi = 3},
                  {.dims = {{2, 3, 2}, {2, 4, 1}, {2, 4, 1}},
                   .dtypes = {f64, i32},
                   .attrs = ScatterElementsAttrs{-2, ScatterReduction::mul},
                   .lo = 0,
                   .hi = 3},
                  {.dims = {{3}, {0}, {0}},
                   .dtypes = {f64, u8},
                   .attrs = ScatterElementsAttrs{0, ScatterReduction::min}}},
  });
}

OpDef define_kv_append() {
  return define<AxisAttrs>({
      .name = "kv_append",
      .doc = "the cache with `entry` from `position` on along `axis`; a position from which the entry does not fit is "
             "moved back",
      .operands = {"cache", "entry", "position"},
      .covers = {"KvAppend"},
      .moves_data = true,
      .overwrites = 0,
      .infer =
          [](Types in, const AxisAttrs& a) {
            auto axis = size_t(valid_axis(a.axis, in[0].rank()));
            require_kind(in[2], kInteger, "position");
            if (in[2].rank() != 0) fail(ErrorCode::shape_mismatch, "the position must be a scalar, got ", in[2]);
            Type whole = in[1];
            if (whole.rank() == in[0].rank()) whole.dims[axis] = in[0].dims[axis];
            const Dim* entry = whole.rank() == in[0].rank() ? &in[1].dims[axis] : nullptr;
            if (whole != in[0] ||
                (entry->is_static() && in[0].dims[axis].is_static() && entry->value() > in[0].dims[axis].value()))
              fail(ErrorCode::shape_mismatch, "an entry for the cache ", in[0],
                   " must agree with it in dtype and in every dim but ", axis, ", where it is no longer; got ", in[1]);
            return in[0];
          },
      .decompose = [](Values in, const AxisAttrs& a) { return dynamic_update_axis(in[0], in[1], a.axis, in[2]); },
      .samples =
          {{.dims = {{2, 6, 3}, {2, 1, 3}, {}}, .dtypes = {f64, f64, i32}, .attrs = AxisAttrs{1}, .lo = 0, .hi = 5},
           {.dims = {{6, 2}, {3, 2}, {}}, .dtypes = {f64, f64, i64}, .attrs = AxisAttrs{0}, .lo = 0, .hi = 6},
           {.dims = {{2, 3}, {2, 0}, {}}, .dtypes = {i32, i32, u8}, .attrs = AxisAttrs{-1}, .lo = 0, .hi = 9},
           {.dims = {{1}, {1}, {}}, .dtypes = {f64, f64, i32}, .attrs = AxisAttrs{-1}}},
  });
}

}  // namespace rlx
