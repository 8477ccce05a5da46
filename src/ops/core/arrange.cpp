// Moving elements: composites. Their decompositions take symbolic extents wherever the result's extents can be told.
#include "rlx/ops/arrange.h"

#include "ops/core/elementwise_rules.h"
#include "rlx/ops/elementary.h"
#include "rlx/ops/take.h"

namespace rlx {

// ---- builders ----
Value narrow(Value x, int64_t axis, Dim start, Dim length) {
  return emit(op::narrow, {x}, NarrowAttrs{axis, std::move(start), std::move(length)});
}
Value strided_slice(Value x, int64_t axis, Dim start, Dim length, int64_t step) {
  return emit(op::strided_slice, {x}, StridedSliceAttrs{axis, std::move(start), std::move(length), step});
}
Value expand(Value x, Dims dims) { return emit(op::expand, {x}, DimsAttrs{std::move(dims)}); }
Value stack(std::vector<Value> xs, int64_t axis) { return emit(op::stack, std::move(xs), AxisAttrs{axis}); }
std::vector<Value> split(Value x, Dims sizes, int64_t axis) {
  return x.graph().emit(op::split, {x}, SplitAttrs{axis, std::move(sizes)});
}
std::vector<Value> split_evenly(Value x, int64_t parts, int64_t axis) {
  if (parts < 1) fail(ErrorCode::invalid_argument, x.type(), " cannot be split into ", parts, " parts");
  return split(x, Dims(size_t(parts), x.dim(axis) / parts), axis);
}
Value tile(Value x, Dims reps) { return emit(op::tile, {x}, TileAttrs{std::move(reps)}); }
Value roll(Value x, Axes shifts, Axes axes) {
  return emit(op::roll, {x}, RollAttrs{std::move(shifts), std::move(axes)});
}
Value pad_mode(Value x, PadMode mode, Dims low, Dims high, double value) {
  return emit(op::pad_mode, {x}, PadModeAttrs{mode, std::move(low), std::move(high), value});
}
Value diag(Value x, int64_t offset) { return emit(op::diag, {x}, DiagAttrs{offset}); }
Value diagonal(Value x, int64_t offset) { return emit(op::diagonal, {x}, DiagAttrs{offset}); }
Value swap_axes(Value x, int64_t one, int64_t other) {
  Axes axes = axes_from(0, x.dims().size());
  std::swap(axes[size_t(valid_axis(one, axes.size()))], axes[size_t(valid_axis(other, axes.size()))]);
  return transpose(x, std::move(axes));
}
namespace {

/// In which places of a matrix are numbered, a row plus an offset among them, and an offset beyond any extent.
struct DiagonalPlaces {
  DType dtype;
  int64_t offset;
  DiagonalPlaces(const Dims& matrix, int64_t given) {
    const bool small = std::all_of(matrix.begin(), matrix.end(),
                                   [](const Dim& d) { return d.is_static() && d.value() <= int64_t{1} << 30; });
    const int64_t most = int64_t{1} << (small ? 30 : 61);
    dtype = small ? i32 : i64, offset = std::clamp(given, -most, most);
  }
};

/// Whether column - row stands in that relation to `offset`, for each place of a matrix.
Value on_diagonals(Graph& g, const Dims& dims, Comparison relation, int64_t given) {
  const auto [dtype, offset] = DiagonalPlaces(dims, given);
  const Type places{dtype, dims};
  return compare(iota(g, places, 1), iota(g, places, 0) + double(offset), relation);
}

}  // namespace

Value eye(Graph& g, const Type& type, int64_t offset) {
  if (type.rank() != 2) fail(ErrorCode::invalid_argument, "a matrix type is needed, got ", type);
  return convert(on_diagonals(g, type.dims, Comparison::eq, offset), type.dtype);
}

namespace {

SliceAttrs as_slice(const Type& x, int64_t axis, const Dim& start, const Dim& limit, int64_t stride = 1) {
  SliceAttrs a{Dims(x.rank(), Dim(0)), x.dims, Axes(x.rank(), 1)};
  auto at = size_t(valid_axis(axis, x.rank()));
  a.starts[at] = start, a.limits[at] = limit, a.strides[at] = stride;
  return a;
}
SliceAttrs as_slice(const Type& x, const NarrowAttrs& a) { return as_slice(x, a.axis, a.start, a.start + a.length); }
/// The places in ascending order.
SliceAttrs as_slice(const Type& x, const StridedSliceAttrs& a) {
  if (a.step == 0) fail(ErrorCode::invalid_argument, "the step of a slice is 0; it may be negative, but must move");
  if (a.length.is_static() && a.length.value() < 0)
    fail(ErrorCode::invalid_argument, "the length of a slice is ", a.length, "; it cannot be negative");
  if (a.length == Dim(0)) return as_slice(x, a.axis, 0, 0);
  Dim last = a.start + (a.length - Dim(1)) * a.step;
  return a.step > 0 ? as_slice(x, a.axis, a.start, last + 1, a.step) : as_slice(x, a.axis, last, a.start + 1, -a.step);
}
BroadcastAttrs as_broadcast(const Type& x, const Dims& dims) {
  if (dims.size() < x.rank())
    fail(ErrorCode::shape_mismatch, x, " has more dims than ", Type{x.dtype, dims}, ", to which it should expand");
  return {dims, axes_from(int64_t(dims.size() - x.rank()), x.rank())};
}

bool negative(const Dim& d) { return d.is_static() && d.value() < 0; }

Type padded_type(const Type& x, const PadModeAttrs& a) {
  if (a.mode == PadMode::constant && is_integer(x.dtype) && load_number(full(x.dtype, {}, a.value), 0) != a.value)
    fail(ErrorCode::invalid_argument, x, " cannot be padded with ", a.value);
  if (a.mode == PadMode::constant)
    return infer_types(op::pad, std::array{x, Type{x.dtype, {}}}, PadAttrs{a.low, a.high, {}})[0];
  require_per_dim(x, a.low.size(), "low");
  require_per_dim(x, a.high.size(), "high");
  if (is_block(x.dtype) && (a.low.back() != Dim(0) || a.high.back() != Dim(0)))
    fail(ErrorCode::unsupported, x, " is packed in blocks along its last dim: only whole rows of it can be moved; ",
         "dequantize_blocks makes numbers of it");
  Type t = x;
  for (size_t d = 0; d < x.rank(); ++d)
    for (const Dim* amount : {&a.low[d], &a.high[d]}) {
      // How much there must be for a padding of one more.
      Dim least = *amount + Dim(a.mode == PadMode::reflect);
      if (a.mode == PadMode::replicate) least = 1;
      if (negative(*amount) || (*amount != Dim(0) && negative(x.dims[d] - least)))
        fail(ErrorCode::shape_mismatch, "dim ", d, " of ", x, " cannot be padded by ", *amount, " in mode ",
             names_of(a.mode)[size_t(a.mode)],
             a.mode == PadMode::reflect    ? "; the padding must be shorter than the dim"
             : a.mode == PadMode::circular ? "; the padding must be no longer than the dim"
                                           : "");
      t.dims[d] = t.dims[d] + *amount;
    }
  return t;
}
/// What stands before (or after) `axis`.
Value margin(Value x, int64_t axis, const Dim& amount, PadMode mode, bool before) {
  const Dim n = x.dim(axis);
  if (mode == PadMode::circular) return before ? slice_axis(x, axis, n - amount, n) : slice_axis(x, axis, 0, amount);
  if (mode == PadMode::reflect)
    return reverse(before ? slice_axis(x, axis, 1, amount + 1) : slice_axis(x, axis, n - amount - Dim(1), n - Dim(1)),
                   {axis});
  Value edge = before ? slice_axis(x, axis, 0, 1) : slice_axis(x, axis, n - Dim(1), n);
  Dims dims = edge.dims();
  dims[size_t(axis)] = amount;
  return broadcast_to(edge, dims);
}

Value rolled(Value x, int64_t shift, int64_t axis) {
  const Dim n = x.dim(axis);
  if (n.is_static()) {
    if (n.value() == 0) return x;
    int64_t by = (shift % n.value() + n.value()) % n.value();
    return by == 0 ? x : concatenate({slice_axis(x, axis, n - Dim(by), n), slice_axis(x, axis, 0, n - Dim(by))}, axis);
  }
  Graph& g = x.graph();
  Value places = floor_mod(iota(g, {i64, {n}}, 0) - scalar(g, double(shift), i64), extent(g, n, i64));
  return take(x, places, axis, OutOfRange::clip);
}

/// |offset|; Dim's arithmetic refuses what overflows.
Dim magnitude(int64_t offset) { return offset < 0 ? Dim(offset) * -1 : Dim(offset); }
Type diagonal_type(const Type& x, int64_t offset) {
  if (x.rank() < 2 || is_block(x.dtype))
    fail(ErrorCode::shape_mismatch, "a diagonal needs two dims of plain elements, got ", x);
  Dim rows = x.dims[x.rank() - 2], columns = x.dims[x.rank() - 1];
  (offset < 0 ? rows : columns) = (offset < 0 ? rows : columns) - magnitude(offset);
  Dim difference = rows - columns;
  if (!difference.is_static())
    fail(ErrorCode::shape_mismatch, "the length of the diagonal of ", x, " cannot be told: the lesser of ", rows,
         " and ", columns);
  Dim length = difference.value() < 0 ? rows : columns;
  Type t{x.dtype, Dims(x.dims.begin(), x.dims.end() - 2)};
  t.dims.push_back(negative(length) ? Dim(0) : length);
  return t;
}

}  // namespace

OpDef define_narrow() {
  return define<NarrowAttrs>({
      .name = "narrow",
      .doc = "`length` places of `axis` from `start` on",
      .operands = {"x"},
      .covers = {"Narrow"},
      .moves_data = true,
      .infer = [](Types in, const NarrowAttrs& a) { return infer_types(op::slice, in, as_slice(in[0], a)); },
      .decompose = [](Values in, const NarrowAttrs& a) { return emit(op::slice, {in[0]}, as_slice(in[0].type(), a)); },
      .batch = [](Values in, const NarrowAttrs& a) { return narrow(in[0], behind_batch(a.axis), a.start, a.length); },
      .samples = {{.dims = {{5, 4}}, .attrs = NarrowAttrs{0, 1, 3}},
                  {.dims = {{2, 4}}, .attrs = NarrowAttrs{-1, 4, 0}},
                  {.dims = {{2, 4, 3}}, .attrs = NarrowAttrs{-2, 0, 4}},
                  {.dims = {{1}}, .attrs = NarrowAttrs{0, 0, 1}}},
  });
}

OpDef define_strided_slice() {
  return define<StridedSliceAttrs>({
      .name = "strided_slice",
      .doc = "places start, start + step, ... of `axis`, `length` of them; a negative step runs backward",
      .operands = {"x"},
      .covers = {"Slice"},
      .moves_data = true,
      .infer = [](Types in, const StridedSliceAttrs& a) { return infer_types(op::slice, in, as_slice(in[0], a)); },
      .decompose =
          [](Values in, const StridedSliceAttrs& a) {
            Value y = emit(op::slice, {in[0]}, as_slice(in[0].type(), a));
            return a.step < 0 ? reverse(y, {a.axis}) : y;
          },
      .batch =
          [](Values in, const StridedSliceAttrs& a) {
            return strided_slice(in[0], behind_batch(a.axis), a.start, a.length, a.step);
          },
      .samples = {{.dims = {{7, 2}}, .attrs = StridedSliceAttrs{0, 1, 3, 2}},
                  {.dims = {{2, 7}}, .attrs = StridedSliceAttrs{-1, 6, 3, -3}},
                  {.dims = {{3}}, .attrs = StridedSliceAttrs{0, 2, 0, -1}},
                  {.dims = {{2, 5, 2}}, .attrs = StridedSliceAttrs{-2, 4, 3, -2}}},
  });
}

OpDef define_expand() {
  return define<DimsAttrs>({
      .name = "expand",
      .doc = "x repeated to `dims`, right-aligned; extents of 1 stretch, and no other",
      .operands = {"x"},
      .covers = {"Expand"},
      .moves_data = true,
      .infer = [](Types in,
                  const DimsAttrs& a) { return infer_types(op::broadcast_in_dim, in, as_broadcast(in[0], a.dims)); },
      .decompose =
          [](Values in, const DimsAttrs& a) {
            return emit(op::broadcast_in_dim, {in[0]}, as_broadcast(in[0].type(), a.dims));
          },
      .samples = {{.dims = {{3, 1}}, .attrs = DimsAttrs{{2, 3, 4}}},
                  {.dims = {{}}, .attrs = DimsAttrs{{2}}},
                  {.dims = {{1}}, .attrs = DimsAttrs{{0}}},
                  {.dims = {{2, 1, 3}}, .attrs = DimsAttrs{{2, 4, 3}}}},
  });
}

OpDef define_stack() {
  return define<AxisAttrs>({
      .name = "stack",
      .doc = "operands of one type, side by side along a new dim `axis`",
      .operands = {"xs..."},
      .moves_data = true,
      .infer =
          [](Types in, const AxisAttrs& a) {
            if (in.empty()) fail(ErrorCode::invalid_argument, "stack needs at least one operand");
            Type t = require_same(in);
            t.dims.insert(t.dims.begin() + valid_axis(a.axis, t.rank() + 1), Dim(int64_t(in.size())));
            return t;
          },
      .decompose =
          [](Values in, const AxisAttrs& a) {
            std::vector<Value> parts;
            int64_t axis = valid_axis(a.axis, in[0].dims().size() + 1);
            for (const Value& x : in) parts.push_back(expand_dims(x, axis));
            return concatenate(std::move(parts), axis);
          },
      .batch =
          [](Values in, const AxisAttrs& a) {
            return stack({in.begin(), in.end()}, behind_batch(a.axis));
          },
      .samples = {{.dims = {{2, 3}, {2, 3}, {2, 3}}, .attrs = AxisAttrs{1}},
                  {.dims = {{}, {}}, .attrs = AxisAttrs{0}},
                  {.dims = {{2}}},
                  {.dims = {{0, 2}, {0, 2}}, .attrs = AxisAttrs{-2}}},
  });
}

OpDef define_split() {
  return define<SplitAttrs>({
      .name = "split",
      .doc = "consecutive parts of `axis`, of these sizes; they add up to its extent",
      .operands = {"x"},
      .moves_data = true,
      .infer =
          [](Types in, const SplitAttrs& a) {
            auto axis = size_t(valid_axis(a.axis, in[0].rank()));
            Dim sum = 0;
            Many<Type> parts;
            for (const Dim& size : a.sizes) {
              if (negative(size))
                fail(ErrorCode::invalid_argument, "a part has size ", size, "; sizes cannot be negative");
              sum = sum + size;
              parts.push_back(in[0]);
              parts.back().dims[axis] = size;
            }
            if (sum != in[0].dims[axis] || parts.empty())
              fail(ErrorCode::shape_mismatch, "the ", parts.size(), " parts of axis ", axis, " add up to ", sum,
                   ", but ", in[0], " has ", in[0].dims[axis]);
            return parts;
          },
      .decompose =
          [](Values in, const SplitAttrs& a) {
            Many<Value> parts;
            Dim start = 0;
            for (const Dim& size : a.sizes) {
              parts.push_back(slice_axis(in[0], a.axis, start, start + size));
              start = start + size;
            }
            return parts;
          },
      .batch = [](Values in, const SplitAttrs& a) { return split(in[0], a.sizes, behind_batch(a.axis)); },
      .samples = {{.dims = {{5, 3}}, .attrs = SplitAttrs{0, {2, 0, 3}}},
                  {.dims = {{2, 6}}, .attrs = SplitAttrs{-1, {3, 3}}},
                  {.dims = {{4}}, .attrs = SplitAttrs{0, {4}}},
                  {.dims = {{2, 3, 1}}, .attrs = SplitAttrs{-2, {1, 2}}}},
  });
}

OpDef define_tile() {
  return define<TileAttrs>({
      .name = "tile",
      .doc = "x repeated reps[d] times along each dim d",
      .operands = {"x"},
      .covers = {"Tile"},
      .moves_data = true,
      .infer =
          [](Types in, const TileAttrs& a) {
            require_per_dim(in[0], a.reps.size(), "reps");
            Type t = in[0];
            for (size_t d = 0; d < t.rank(); ++d) {
              if (negative(a.reps[d]))
                fail(ErrorCode::invalid_argument, "dim ", d, " cannot be repeated ", a.reps[d], " times");
              t.dims[d] = t.dims[d] * a.reps[d];
            }
            return t;
          },
      .decompose =
          [](Values in, const TileAttrs& a) {
            Dims copies, dims;
            Axes axes;
            for (size_t d = 0; d < a.reps.size(); ++d) {
              if (a.reps[d] != Dim(1)) copies.push_back(a.reps[d]);
              axes.push_back(int64_t(copies.size()));
              copies.push_back(in[0].dims()[d]);
              dims.push_back(in[0].dims()[d] * a.reps[d]);
            }
            return reshape(broadcast_in_dim(in[0], copies, axes), dims);
          },
      .batch = [](Values in, const TileAttrs& a) { return tile(in[0], prepend(1, a.reps)); },
      .samples = {{.dims = {{2, 3}}, .attrs = TileAttrs{{2, 3}}},
                  {.dims = {{2, 1, 3}}, .attrs = TileAttrs{{1, 4, 2}}},
                  {.dims = {{3}}, .attrs = TileAttrs{{0}}},
                  {.dims = {{}}, .attrs = TileAttrs{{}}}},
  });
}

OpDef define_roll() {
  return define<RollAttrs>({
      .name = "roll",
      .doc = "along axes[i] each element moves shifts[i] places on, around the end; an axis may come twice",
      .source = "numpy.roll",
      .operands = {"x"},
      .covers = {"Roll"},
      .moves_data = true,
      .infer =
          [](Types in, const RollAttrs& a) {
            if (a.shifts.size() != a.axes.size())
              fail(ErrorCode::invalid_argument, "a shift for each axis is needed, got ", a.shifts.size(),
                   " shifts and ", a.axes.size(), " axes");
            for (int64_t axis : a.axes)
              if (valid_axis(axis, in[0].rank()) + 1 == static_cast<int64_t>(in[0].rank()) && is_block(in[0].dtype))
                fail(ErrorCode::unsupported, in[0],
                     " is packed in blocks along its last dim: only whole rows of it can be moved; dequantize_blocks "
                     "makes numbers of it");
            return in[0];
          },
      .decompose =
          [](Values in, const RollAttrs& a) {
            Value y = in[0];
            for (size_t i = 0; i < a.axes.size(); ++i)
              y = rolled(y, a.shifts[i], valid_axis(a.axes[i], y.dims().size()));
            return y;
          },
      .batch = [](Values in, const RollAttrs& a) { return roll(in[0], a.shifts, behind_batch(a.axes)); },
      .samples = {{.dims = {{5, 3}}, .attrs = RollAttrs{{2}, {0}}},
                  {.dims = {{4, 3}}, .attrs = RollAttrs{{-5, 1}, {0, -1}}},
                  {.dims = {{0}}, .attrs = RollAttrs{{1}, {0}}},
                  {.dims = {{2, 3, 1}}, .attrs = RollAttrs{{1, 1}, {-2, 1}}}},
  });
}

OpDef define_pad_mode() {
  return define<PadModeAttrs>({
      .name = "pad_mode",
      .doc = "x with low[d] places before and high[d] after each dim d: `value`, x mirrored at its edge, the edge "
             "itself, or x again from its other end",
      .source = "numpy.pad: constant, reflect, edge, wrap",
      .operands = {"x"},
      .covers = {"Pad"},
      .moves_data = true,
      .infer = [](Types in, const PadModeAttrs& a) { return padded_type(in[0], a); },
      .decompose =
          [](Graph& g, Values in, const PadModeAttrs& a) {
            if (a.mode == PadMode::constant) return pad(in[0], scalar(g, a.value, in[0].dtype()), {a.low, a.high, {}});
            Value y = in[0];
            for (int64_t d = 0; d < y.rank(); ++d) {
              const Dim &low = a.low[size_t(d)], &high = a.high[size_t(d)];
              std::vector<Value> parts;
              if (low != Dim(0)) parts.push_back(margin(y, d, low, a.mode, true));
              parts.push_back(y);
              if (high != Dim(0)) parts.push_back(margin(y, d, high, a.mode, false));
              if (parts.size() > 1) y = concatenate(std::move(parts), d);
            }
            return y;
          },
      .batch =
          [](Values in, const PadModeAttrs& a) {
            return pad_mode(in[0], a.mode, prepend(0, a.low), prepend(0, a.high), a.value);
          },
      .samples = {{.dims = {{3, 4}}, .attrs = PadModeAttrs{PadMode::constant, {1, 0}, {0, 2}, 1.5}},
                  {.dims = {{3, 4}}, .attrs = PadModeAttrs{PadMode::reflect, {2, 0}, {1, 3}}},
                  {.dims = {{3, 4}}, .attrs = PadModeAttrs{PadMode::replicate, {2, 0}, {1, 5}}},
                  {.dims = {{3, 4}}, .attrs = PadModeAttrs{PadMode::circular, {3, 0}, {1, 4}}},
                  {.dims = {{5}},
                   .dtypes = {i32},
                   .attrs = PadModeAttrs{PadMode::constant, {-1}, {2}, -3},
                   .lo = -9,
                   .hi = 9}},
  });
}

OpDef define_trilu() {
  return define<TriluAttrs>({
      .name = "trilu",
      .doc = "the last two dims with zeros below (not `upper`: above) the `diagonal`-th diagonal",
      .source = "ONNX Trilu",
      .operands = {"x"},
      .covers = {"Trilu"},
      .moves_data = true,
      .infer =
          [](Types in, const TriluAttrs&) {
            if (in[0].rank() < 2) fail(ErrorCode::shape_mismatch, "a triangle needs two dims, got ", in[0]);
            require_kind(in[0], kBool | kNumber);
            return in[0];
          },
      .decompose =
          [](Graph& g, Values in, const TriluAttrs& a) {
            Dims matrix(in[0].dims().end() - 2, in[0].dims().end());
            return select(on_diagonals(g, matrix, a.upper ? Comparison::ge : Comparison::le, a.diagonal), in[0],
                          zeros_like(in[0]));
          },
      .batch = [](Values in, const TriluAttrs& a) { return trilu(in[0], a.upper, a.diagonal); },
      .samples = {{.dims = {{4, 4}}},
                  {.dims = {{2, 3, 5}}, .attrs = TriluAttrs{false, 1}},
                  {.dims = {{3, 2}}, .attrs = TriluAttrs{true, -1}},
                  {.dims = {{0, 1, 3}}, .attrs = TriluAttrs{false, 9}}},
  });
}

OpDef define_diag() {
  return define<DiagAttrs>({
      .name = "diag",
      .doc = "square matrices with x's last dim on their `offset`-th diagonal, else zero",
      .operands = {"x"},
      .moves_data = true,
      .infer =
          [](Types in, const DiagAttrs& a) {
            if (in[0].rank() < 1) fail(ErrorCode::shape_mismatch, "a diagonal needs a dim, got ", in[0]);
            require_kind(in[0], kBool | kNumber);
            Type t = in[0];
            t.dims.back() = t.dims.back() + magnitude(a.offset);
            t.dims.push_back(t.dims.back());
            return t;
          },
      .decompose =
          [](Graph& g, Values in, const DiagAttrs& a) {
            // Above the main diagonal row i holds x[i]; below it column i does.
            Dims low(in[0].dims().size(), Dim(0)), high = low;
            high.back() = magnitude(a.offset);
            Value zero = scalar(g, 0, in[0].dtype());
            Value x = a.offset == 0 ? in[0] : pad(in[0], zero, {low, high, {}});
            Dims dims = x.dims();
            Dims matrix = {dims.back(), dims.back()};
            dims.push_back(dims.back());
            Value copies =
                broadcast_in_dim(x, dims, other_axes(dims.size(), {int64_t(dims.size()) - (a.offset < 0 ? 2 : 1)}));
            return select(on_diagonals(g, matrix, Comparison::eq, a.offset), copies, zero);
          },
      .batch = [](Values in, const DiagAttrs& a) { return diag(in[0], a.offset); },
      .samples = {{.dims = {{3}}},
                  {.dims = {{2, 3}}, .attrs = DiagAttrs{2}},
                  {.dims = {{3}}, .attrs = DiagAttrs{-1}},
                  {.dims = {{2, 0}}}},
  });
}

OpDef define_diagonal() {
  return define<DiagAttrs>({
      .name = "diagonal",
      .doc = "the `offset`-th diagonal of the last two dims",
      .source = "numpy.diagonal",
      .operands = {"x"},
      .moves_data = true,
      .infer = [](Types in, const DiagAttrs& a) { return diagonal_type(in[0], a.offset); },
      .decompose =
          [](Graph& g, Values in, const DiagAttrs& a) {
            Type result = diagonal_type(in[0].type(), a.offset);
            auto outer = int64_t(in[0].dims().size()) - 2;
            const auto [dtype, offset] = DiagonalPlaces({in[0].dim(-2), in[0].dim(-1)}, a.offset);
            Value at = iota(g, {dtype, {result.dims.back(), 1}}, 0);
            Value vectors =
                concatenate({at + double(std::max<int64_t>(-offset, 0)), at + double(std::max<int64_t>(offset, 0))}, 1);
            Dims sizes = in[0].dims();
            sizes[size_t(outer)] = sizes[size_t(outer) + 1] = 1;
            // An empty matrix has an empty diagonal; `fill` then asks for nothing.
            return gather(in[0], vectors,
                          {axes_from(0, size_t(outer)), {outer, outer + 1}, {}, {}, {outer, outer + 1}, 1, sizes});
          },
      .batch = [](Values in, const DiagAttrs& a) { return diagonal(in[0], a.offset); },
      .samples = {{.dims = {{3, 4}}},
                  {.dims = {{2, 4, 3}}, .attrs = DiagAttrs{1}},
                  {.dims = {{4, 3}}, .attrs = DiagAttrs{-2}},
                  {.dims = {{1, 2, 3}}, .attrs = DiagAttrs{5}}},
  });
}

}  // namespace rlx
