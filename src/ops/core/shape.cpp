// Primitives that move elements: their reference copies bits, so they hold for every dtype.
#include "rlx/ops/shape.h"

#include "ops/core/element_index.h"
#include "ops/core/elementwise_rules.h"
#include "rlx/ops/contract.h"

namespace rlx {

// ---- dims and axes ----
DType place_dtype(const Dim& count) { return count.is_static() && count.value() <= int64_t{INT32_MAX} + 1 ? i32 : i64; }
void require_places(DType dtype, const Type& x, int64_t axis, std::string_view op, std::string_view instead) {
  const Dim& count = x.dims[size_t(axis)];
  if (!is_integer(dtype) || !count.is_static()) return;
  const int bits = static_cast<int>(info(dtype).bits) - (kind_of(dtype) == Kind::signed_int ? 1 : 0);
  if (bits >= 63 || count.value() <= int64_t{1} << bits) return;
  fail(ErrorCode::invalid_argument, op, " numbers places in ", dtype, ", which holds ", int64_t{1} << bits,
       " of them, and there are ", count, " along axis ", axis, " of ", x, "; ", instead);
}
Dim floor_divided(const Dim& x, int64_t by) {
  auto floor = [&](int64_t n) { return n / by - (n % by < 0); };
  if (x.is_static()) return floor(x.value());
  Bindings zeros;
  x.for_each_symbol([&](const std::string& name) { zeros[name] = 0; });
  Dim rest = x.bound(zeros);
  return (x - rest) / by + Dim(floor(rest.value()));
}
int64_t valid_axis(int64_t axis, size_t rank) {
  auto n = static_cast<int64_t>(rank);
  if (axis < -n || axis >= n)
    fail(ErrorCode::invalid_argument, "axis ", axis, " is out of range for rank ", n,
         n == 0 ? std::string("; a scalar has no axes") : text_of("; it goes from ", -n, " to ", n - 1));
  return axis < 0 ? axis + n : axis;
}
Axes valid_axes(const Axes& axes, size_t rank) {
  Axes result;
  for (int64_t axis : axes) {
    result.push_back(valid_axis(axis, rank));
    if (std::count(result.begin(), result.end(), result.back()) > 1)
      fail(ErrorCode::invalid_argument, "axis ", axis, " is named twice; name each axis once");
  }
  return result;
}
Axes axes_from(int64_t first, size_t count) {
  Axes axes;
  for (size_t i = 0; i < count; ++i) axes.push_back(first + static_cast<int64_t>(i));
  return axes;
}
Dims prepend(Dim d, const Dims& dims) {
  Dims result = {std::move(d)};
  result.insert(result.end(), dims.begin(), dims.end());
  return result;
}
Axes other_axes(size_t rank, const Axes& named) {
  Axes rest = axes_from(0, rank);
  std::erase_if(rest, [&](int64_t d) { return std::find(named.begin(), named.end(), d) != named.end(); });
  return rest;
}

// ---- builders ----
Value broadcast_in_dim(Value x, Dims dims, Axes axes) {
  return emit(op::broadcast_in_dim, {x}, BroadcastAttrs{std::move(dims), std::move(axes)});
}
Value broadcast_like(Value reduced, Value x, Axes axes) {
  return broadcast_in_dim(reduced, x.dims(), other_axes(x.dims().size(), valid_axes(axes, x.dims().size())));
}
Value reshape(Value x, Dims dims) {
  auto open = std::find(dims.begin(), dims.end(), Dim(-1));
  if (open != dims.end()) {
    *open = 1;
    *open = element_count(x.dims()) / element_count(dims);
  }
  return x.dims() == dims ? x : emit(op::reshape, {x}, ReshapeAttrs{std::move(dims)});
}
Value expand_dims(Value x, int64_t axis) {
  Dims dims = x.dims();
  dims.insert(dims.begin() + valid_axis(axis, dims.size() + 1), Dim(1));
  return reshape(x, std::move(dims));
}
Value squeeze(Value x, Axes axes) {
  axes = valid_axes(axes, x.dims().size());
  for (int64_t axis : axes)
    if (x.dim(axis) != Dim(1))
      fail(ErrorCode::shape_mismatch, "axis ", axis, " of ", x.type(), " is not 1 and cannot be squeezed");
  return reshape(x, pick(x.dims(), other_axes(x.dims().size(), axes)));
}
Value transpose(Value x, Axes permutation) { return emit(op::transpose, {x}, TransposeAttrs{std::move(permutation)}); }
Value slice(Value x, Dims starts, Dims limits, Axes strides) {
  return emit(op::slice, {x}, SliceAttrs{std::move(starts), std::move(limits), std::move(strides)});
}
Value slice_axis(Value x, int64_t axis, Dim start, Dim limit) {
  auto at = static_cast<size_t>(valid_axis(axis, x.dims().size()));
  Dims starts(x.dims().size(), Dim(0)), limits = x.dims();
  starts[at] = std::move(start), limits[at] = std::move(limit);
  return slice(x, std::move(starts), std::move(limits));
}
Value move_axis(Value x, int64_t from, int64_t to) {
  size_t rank = x.dims().size();
  from = valid_axis(from, rank), to = valid_axis(to, rank);
  if (from == to) return x;
  Axes axes = other_axes(rank, {from});
  axes.insert(axes.begin() + to, from);
  return transpose(x, std::move(axes));
}
Value repeat_front(Value x, Dim size) {
  return broadcast_in_dim(x, prepend(std::move(size), x.dims()), axes_from(1, x.dims().size()));
}
Value pad(Value x, Value value, PadAttrs attrs) { return emit(op::pad, {x, value}, std::move(attrs)); }
Value concatenate(std::vector<Value> xs, int64_t axis) { return emit(op::concatenate, std::move(xs), AxisAttrs{axis}); }
Value reverse(Value x, Axes axes) { return emit(op::reverse, {x}, AxesAttrs{std::move(axes)}); }
Value iota(Graph& g, Type type, int64_t axis) { return g.emit(op::iota, {}, IotaAttrs{std::move(type), axis})[0]; }
Value extent(Graph& g, Dim dim, DType dtype) {
  if (dim.is_static()) return scalar(g, static_cast<double>(dim.value()), dtype);
  return g.emit(op::extent, {}, ExtentAttrs{std::move(dim), dtype})[0];
}

namespace {

Axes strides_of(const Axes& given, size_t rank, int64_t otherwise) {
  return given.empty() ? Axes(rank, otherwise) : given;
}

/// Blocks lie along the last dim, and are moved whole.
void require_rows_kept(const Type& x, bool kept) {
  if (is_block(x.dtype) && !kept)
    fail(ErrorCode::unsupported, x, " is packed in blocks along its last dim: only whole rows of it can be moved; ",
         "dequantize_blocks makes numbers of it");
}

Dim sliced(const Type& x, size_t d, const SliceAttrs& a, int64_t stride) {
  if (stride < 1)
    fail(ErrorCode::invalid_argument, "a stride of ", stride, " along dim ", d, "; reverse it for negative steps");
  auto bad = [&] {
    fail(ErrorCode::invalid_argument, "the slice [", a.starts[d], ", ", a.limits[d], ") does not lie within dim ", d,
         " of ", x);
  };
  const Dim &start = a.starts[d], &limit = a.limits[d];
  if (start.is_static() && start.value() < 0) bad();
  if (start.is_static() && limit.is_static() && start.value() > limit.value()) bad();
  if (limit.is_static() && x.dims[d].is_static() && limit.value() > x.dims[d].value()) bad();
  return floor_divided(limit - start + Dim(stride - 1), stride);
}
Dim padded(const Type& x, size_t d, const PadAttrs& a, int64_t interior) {
  if (interior < 0)
    fail(ErrorCode::invalid_argument, "interior padding along dim ", d, " is ", interior,
         "; only low and high may be negative");
  // An empty dim has no interior; a symbolic one is taken to have at least one element.
  Dim inner = x.dims[d] == Dim(0) || interior == 0 ? x.dims[d] : x.dims[d] * (interior + 1) - Dim(interior);
  Dim result = inner + a.low[d] + a.high[d];
  if (result.is_static() && result.value() < 0)
    fail(ErrorCode::shape_mismatch, "padding dim ", d, " of ", x, " by ", a.low[d], " and ", a.high[d], " leaves ",
         result);
  return result;
}

/// Sums over the dims that a broadcast repeated or stretched: its transpose.
Value unbroadcast(Value ct, const Dims& dims, const BroadcastAttrs& a) {
  Axes axes = valid_axes(a.axes, a.dims.size()), summed = other_axes(a.dims.size(), axes), kept, order(axes.size());
  for (size_t i = 0; i < axes.size(); ++i)
    if (dims[i] == Dim(1) && a.dims[size_t(axes[i])] != Dim(1)) summed.push_back(axes[i]);
    else kept.push_back(axes[i]);
  std::sort(summed.begin(), summed.end());
  Value sum = summed.empty() ? ct : reduce(ct, Reduction::sum, summed);
  // The dims that are left stand in the result's order; bring them into the operand's, then give the stretched back.
  Axes permutation;
  for (int64_t axis : kept)
    permutation.push_back(std::count_if(kept.begin(), kept.end(), [&](int64_t other) { return other < axis; }));
  if (!std::is_sorted(permutation.begin(), permutation.end())) sum = transpose(sum, permutation);
  return reshape(sum, dims);
}
/// The extent of `extent` elements that stand `stride` apart.
Dim spread_extent(const Dim& extent, int64_t stride) {
  return extent == Dim(0) || stride == 1 ? extent : extent * stride - Dim(stride - 1);
}

}  // namespace

OpDef define_broadcast_in_dim() {
  return define<BroadcastAttrs>({
      .name = "broadcast_in_dim",
      .doc = "x repeated to `dims`: dim i of x becomes dim axes[i], which it equals unless it is 1",
      .source = "StableHLO specification, broadcast_in_dim",
      .operands = {"x"},
      .covers = {"Expand"},
      .moves_data = true,
      .infer =
          [](Types in, const BroadcastAttrs& a) {
            require_per_dim(in[0], a.axes.size(), "axes");
            Axes axes = valid_axes(a.axes, a.dims.size());
            for (size_t i = 0; i < axes.size(); ++i) {
              const Dim& to = a.dims[size_t(axes[i])];
              if (in[0].dims[i] != Dim(1) && in[0].dims[i] != to)
                fail(ErrorCode::shape_mismatch, "dim ", i, " of ", in[0], " becomes dim ", axes[i], " of ",
                     Type{in[0].dtype, a.dims}, "; it must be 1 or ", to);
            }
            require_rows_kept(in[0], !axes.empty() && axes.back() + 1 == int64_t(a.dims.size()) &&
                                         in[0].dims.back() == a.dims.back());
            return Type{in[0].dtype, a.dims};
          },
      .reference =
          [](Tensors in, const BroadcastAttrs& a) {
            const Tensor& x = in[0];
            Axes axes = valid_axes(a.axes, a.dims.size());
            return moved(x, shape_of(a.dims), [&](const Axes& i) {
              Axes from;
              for (size_t d = 0; d < axes.size(); ++d) from.push_back(x.shape()[d] == 1 ? 0 : i[size_t(axes[d])]);
              return static_cast<int64_t>(offset_of(x.shape(), from));
            });
          },
      .vjp = [](Values in, Value, Value ct, const BroadcastAttrs& a) { return unbroadcast(ct, in[0].dims(), a); },
      .batch =
          [](Values in, const BroadcastAttrs& a) {
            Axes axes = behind_batch(valid_axes(a.axes, a.dims.size()));
            axes.insert(axes.begin(), 0);
            return broadcast_in_dim(in[0], prepend(in[0].dims()[0], a.dims), axes);
          },
      .samples = {{.dims = {{3}}, .attrs = BroadcastAttrs{{2, 3}, {1}}},
                  {.dims = {{3, 1}}, .attrs = BroadcastAttrs{{3, 2, 4}, {0, 2}}},
                  {.dims = {{2, 3}}, .attrs = BroadcastAttrs{{3, 2}, {1, 0}}},
                  {.dims = {{}}, .attrs = BroadcastAttrs{{2, 2}, {}}}},
  });
}

OpDef define_reshape() {
  return define<ReshapeAttrs>({
      .name = "reshape",
      .doc = "the same elements in row-major order under other dims",
      .operands = {"x"},
      .covers = {"Reshape"},
      .moves_data = true,
      .overwrites = 0,
      .infer =
          [](Types in, const ReshapeAttrs& a) {
            Type t{in[0].dtype, a.dims};
            if (element_count(in[0].dims) != element_count(a.dims))
              fail(ErrorCode::shape_mismatch, in[0], " has ", element_count(in[0].dims), " elements, ", t, " has ",
                   element_count(a.dims));
            if (is_block(t.dtype) && is_static(t.dims))
              byte_count(t.dtype, shape_of(t.dims));  // the rows: whole blocks
            return t;
          },
      .reference = [](Tensors in, const ReshapeAttrs& a) { return in[0].reshaped(shape_of(a.dims)); },
      .vjp = [](Values in, Value, Value ct) { return reshape(ct, in[0].dims()); },
      .batch = [](Values in, const ReshapeAttrs& a) { return reshape(in[0], prepend(in[0].dims()[0], a.dims)); },
      .samples = {{.dims = {{2, 6}}, .attrs = ReshapeAttrs{{3, 4}}},
                  {.dims = {{1}}, .attrs = ReshapeAttrs{{}}},
                  {.dims = {{0, 3}}, .attrs = ReshapeAttrs{{3, 0, 2}}},
                  {.dims = {{}}, .attrs = ReshapeAttrs{{1, 1}}},
                  {.dims = {{3, 1, 5}}, .dtypes = {u8}, .attrs = ReshapeAttrs{{15}}, .lo = 0, .hi = 255}},
  });
}

OpDef define_transpose() {
  return define<TransposeAttrs>({
      .name = "transpose",
      .doc = "result dim i is operand dim permutation[i]",
      .operands = {"x"},
      .covers = {"Transpose"},
      .moves_data = true,
      .infer =
          [](Types in, const TransposeAttrs& a) {
            require_per_dim(in[0], a.permutation.size(), "permutation");
            Axes permutation = valid_axes(a.permutation, in[0].rank());
            require_rows_kept(in[0], permutation.empty() || permutation.back() + 1 == int64_t(permutation.size()));
            return Type{in[0].dtype, pick(in[0].dims, permutation)};
          },
      .reference =
          [](Tensors in, const TransposeAttrs& a) {
            Axes permutation = valid_axes(a.permutation, in[0].rank()), from(in[0].rank());
            return moved(in[0], pick(in[0].shape(), permutation), [&](const Axes& i) {
              for (size_t d = 0; d < i.size(); ++d) from[size_t(permutation[d])] = i[d];
              return static_cast<int64_t>(offset_of(in[0].shape(), from));
            });
          },
      .vjp =
          [](Values, Value, Value ct, const TransposeAttrs& a) {
            Axes permutation = valid_axes(a.permutation, a.permutation.size()), inverse(permutation.size());
            for (size_t d = 0; d < inverse.size(); ++d) inverse[size_t(permutation[d])] = static_cast<int64_t>(d);
            return transpose(ct, inverse);
          },
      .batch =
          [](Values in, const TransposeAttrs& a) {
            Axes permutation = behind_batch(valid_axes(a.permutation, a.permutation.size()));
            permutation.insert(permutation.begin(), 0);
            return transpose(in[0], permutation);
          },
      .samples = {{.dims = {{2, 3}}, .attrs = TransposeAttrs{{1, 0}}},
                  {.dims = {{2, 3, 4}}, .attrs = TransposeAttrs{{2, 0, 1}}},
                  {.dims = {{2, 3, 4, 2}}, .attrs = TransposeAttrs{{0, 2, 1, 3}}},
                  {.dims = {{}}, .attrs = TransposeAttrs{}},
                  {.dims = {{3, 0, 2}}, .attrs = TransposeAttrs{{1, 2, 0}}},
                  {.dims = {{9, 1, 19}}, .dtypes = {f16}, .attrs = TransposeAttrs{{2, 1, 0}}}},
  });
}

OpDef define_slice() {
  return define<SliceAttrs>({
      .name = "slice",
      .doc = "elements starts[d], starts[d] + strides[d], ... below limits[d] of each dim d",
      .operands = {"x"},
      .covers = {"Narrow", "Slice"},
      .moves_data = true,
      .infer =
          [](Types in, const SliceAttrs& a) {
            require_per_dim(in[0], a.starts.size(), "starts");
            require_per_dim(in[0], a.limits.size(), "limits");
            Axes strides = strides_of(a.strides, in[0].rank(), 1);
            require_per_dim(in[0], strides.size(), "strides");
            Type t{in[0].dtype, {}};
            for (size_t d = 0; d < in[0].rank(); ++d) t.dims.push_back(sliced(in[0], d, a, strides[d]));
            require_rows_kept(in[0], t.rank() > 0 && t.dims.back() == in[0].dims.back());
            return t;
          },
      .reference =
          [](Tensors in, const SliceAttrs& a) {
            Axes strides = strides_of(a.strides, in[0].rank(), 1), from(in[0].rank());
            Shape starts = shape_of(a.starts), shape;
            for (size_t d = 0; d < strides.size(); ++d) shape.push_back(sliced(in[0].type(), d, a, strides[d]).value());
            return moved(in[0], shape, [&](const Axes& i) {
              for (size_t d = 0; d < i.size(); ++d) from[d] = starts[d] + i[d] * strides[d];
              return static_cast<int64_t>(offset_of(in[0].shape(), from));
            });
          },
      .vjp =
          [](Values in, Value, Value ct, const SliceAttrs& a) {
            PadAttrs back{a.starts, {}, {}};
            Axes strides = strides_of(a.strides, a.starts.size(), 1);
            for (size_t d = 0; d < a.starts.size(); ++d) {
              back.interior.push_back(strides[d] - 1);
              back.high.push_back(in[0].dims()[d] - a.starts[d] - spread_extent(ct.dims()[d], strides[d]));
            }
            return pad(ct, scalar(ct.graph(), 0, ct.dtype()), back);
          },
      .batch =
          [](Values in, const SliceAttrs& a) {
            Axes strides = a.strides;
            if (!strides.empty()) strides.insert(strides.begin(), 1);
            return slice(in[0], prepend(0, a.starts), prepend(in[0].dims()[0], a.limits), strides);
          },
      .samples = {{.dims = {{5, 4}}, .attrs = SliceAttrs{{1, 0}, {4, 3}, {}}},
                  {.dims = {{7}}, .attrs = SliceAttrs{{1}, {7}, {2}}},
                  {.dims = {{3, 4}}, .attrs = SliceAttrs{{2, 2}, {2, 4}, {1, 1}}},
                  {.dims = {{}}, .attrs = SliceAttrs{}},
                  {.dims = {{3, 0}}, .attrs = SliceAttrs{{0, 0}, {3, 0}, {2, 1}}},
                  {.dims = {{1, 7, 3}}, .dtypes = {i8}, .attrs = SliceAttrs{{0, 1, 2}, {1, 7, 3}, {1, 5, 1}}}},
  });
}

OpDef define_pad() {
  return define<PadAttrs>({
      .name = "pad",
      .doc = "x with `value` before, after and between its elements; a negative amount cuts",
      .source = "StableHLO specification, pad",
      .operands = {"x", "value"},
      .covers = {"Pad"},
      .moves_data = true,
      .infer =
          [](Types in, const PadAttrs& a) {
            require_rows_kept(in[0], false);
            require_per_dim(in[0], a.low.size(), "low");
            require_per_dim(in[0], a.high.size(), "high");
            if (in[1] != Type{in[0].dtype, {}})
              fail(ErrorCode::shape_mismatch, "the padding value must be ", Type{in[0].dtype, {}}, ", got ", in[1]);
            Axes interior = strides_of(a.interior, in[0].rank(), 0);
            require_per_dim(in[0], interior.size(), "interior");
            Type t{in[0].dtype, {}};
            for (size_t d = 0; d < in[0].rank(); ++d) t.dims.push_back(padded(in[0], d, a, interior[d]));
            return t;
          },
      .reference =
          [](Tensors in, const PadAttrs& a) {
            const Shape& shape = in[0].shape();
            Axes interior = strides_of(a.interior, shape.size(), 0), from(shape.size());
            Shape low = shape_of(a.low), wanted;
            for (size_t d = 0; d < shape.size(); ++d) wanted.push_back(padded(in[0].type(), d, a, interior[d]).value());
            return moved(
                in[0], wanted,
                [&](const Axes& i) -> int64_t {
                  for (size_t d = 0; d < i.size(); ++d) {
                    int64_t at = i[d] - low[d];
                    if (at < 0 || at % (interior[d] + 1) != 0 || at / (interior[d] + 1) >= shape[d]) return -1;
                    from[d] = at / (interior[d] + 1);
                  }
                  return static_cast<int64_t>(offset_of(shape, from));
                },
                &in[1]);
          },
      .vjp = [](Values, Value, Value ct, const PadAttrs& a) -> Many<Value> {
        // Take the padding away (put back what was cut, as zeros), then the gaps.
        size_t rank = a.low.size();
        Axes interior = strides_of(a.interior, rank, 0), strides;
        PadAttrs back;
        for (size_t d = 0; d < rank; ++d) {
          back.low.push_back(a.low[d] * -1), back.high.push_back(a.high[d] * -1);
          strides.push_back(interior[d] + 1);
        }
        Value none = scalar(ct.graph(), 0, ct.dtype()), whole = pad(ct, none, back);
        Value d_x = slice(whole, Dims(rank, Dim(0)), whole.dims(), strides);
        auto sum = [&](Value x) { return reduce(x, Reduction::sum, axes_from(0, rank)); };
        return {d_x, sum(ct) - sum(d_x)};
      },
      .batch = [](Values in, const Mask& batched, const PadAttrs& a) -> Value {
        PadAttrs wide{prepend(0, a.low), prepend(0, a.high), a.interior};
        if (!a.interior.empty()) wide.interior.insert(wide.interior.begin(), 0);
        if (!batched[1]) return pad(in[0], in[1], wide);
        // A value for each lane: put in where a mask, padded alike, says so.
        Value x = batched[0] ? in[0] : repeat_front(in[0], in[1].dims()[0]);
        Graph& g = x.graph();
        Value padded = pad(x, scalar(g, 0, x.dtype()), wide);
        Value kept = pad(full(g, 1, {boolean, x.dims()}), scalar(g, 0, boolean), wide);
        return select(kept, padded, broadcast_in_dim(in[1], padded.dims(), {0}));
      },
      .samples = {{.dims = {{2, 3}, {}}, .attrs = PadAttrs{{1, 0}, {0, 2}, {}}},
                  {.dims = {{4}, {}}, .attrs = PadAttrs{{1}, {2}, {2}}},
                  {.dims = {{5, 2}, {}}, .attrs = PadAttrs{{-1, 1}, {-2, 0}, {0, 1}}},
                  {.dims = {{}, {}}, .attrs = PadAttrs{}},
                  {.dims = {{0, 1}, {}}, .attrs = PadAttrs{{1, 0}, {2, 0}, {0, 3}}},
                  {.dims = {{3, 5}, {}}, .dtypes = {bf16, bf16}, .attrs = PadAttrs{{0, 3}, {1, -4}, {1, 0}}}},
  });
}

OpDef define_concatenate() {
  return define<AxisAttrs>({
      .name = "concatenate",
      .doc = "the operands one after another along `axis`",
      .operands = {"xs..."},
      .covers = {"Concat"},
      .moves_data = true,
      .infer =
          [](Types in, const AxisAttrs& a) {
            if (in.empty()) fail(ErrorCode::invalid_argument, "concatenate needs at least one operand");
            auto axis = size_t(valid_axis(a.axis, in[0].rank()));
            Type t = in[0];
            for (const Type& x : in.subspan(1)) {
              Type other = x;
              if (x.rank() == t.rank()) other.dims[axis] = in[0].dims[axis];
              if (other != in[0])
                fail(ErrorCode::shape_mismatch, "operands must agree in dtype and in every dim but ", axis, ", got ",
                     in[0], " and ", x);
              t.dims[axis] = t.dims[axis] + x.dims[axis];
            }
            require_rows_kept(t, axis + 1 < t.rank());
            return t;
          },
      .reference =
          [](Tensors in, const AxisAttrs& a) {
            auto axis = size_t(valid_axis(a.axis, in[0].rank()));
            Shape shape = in[0].shape();
            shape[axis] = 0;
            for (const Tensor& x : in) shape[axis] += x.shape()[axis];
            Tensor y(in[0].dtype(), shape);
            int64_t start = 0;
            if (is_block(y.dtype())) {  // rows behind one another, as bytes
              int64_t outer = 1;
              for (size_t d = 0; d < axis; ++d) outer *= shape[d];
              std::byte* to = y.mutable_data();
              for (int64_t i = 0; i < outer; ++i)
                for (const Tensor& x : in) {
                  size_t bytes = x.byte_count() / size_t(outer);
                  if (bytes) std::memcpy(to, x.data() + size_t(i) * bytes, bytes);
                  to += bytes;
                }
              return y;
            }
            for (const Tensor& x : in) {
              int64_t extent = x.shape()[axis];
              size_t i = 0;
              for_each_index(x.shape(), [&](Axes at) {
                at[axis] += start;
                copy_element(y, offset_of(shape, at), x, i++);
              });
              start += extent;
            }
            return y;
          },
      .vjp =
          [](Values in, Value, Value ct, const AxisAttrs& a) {
            Many<Value> cts;
            Dim start = 0;
            for (const Value& x : in) {
              Dim limit = start + x.dim(a.axis);
              cts.push_back(slice_axis(ct, a.axis, start, limit));
              start = limit;
            }
            return cts;
          },
      .batch =
          [](Values in, const AxisAttrs& a) {
            return concatenate({in.begin(), in.end()}, behind_batch(a.axis));
          },
      .samples = {{.dims = {{2, 3}, {1, 3}, {4, 3}}, .attrs = AxisAttrs{0}},
                  {.dims = {{2, 3}, {2, 0}, {2, 2}}},
                  {.dims = {{2}}},
                  {.dims = {{2, 1, 3}, {2, 5, 3}}, .attrs = AxisAttrs{-2}},
                  {.dims = {{1, 7}, {1, 3}, {1, 9}}, .dtypes = {f16, f16, f16}, .attrs = AxisAttrs{1}}},
  });
}

OpDef define_reverse() {
  return define<AxesAttrs>({
      .name = "reverse",
      .doc = "the elements in opposite order along each of `axes`",
      .operands = {"x"},
      .covers = {"Reverse"},
      .moves_data = true,
      .infer =
          [](Types in, const AxesAttrs& a) {
            Axes axes = valid_axes(a.axes, in[0].rank());
            require_rows_kept(in[0], std::find(axes.begin(), axes.end(), int64_t(in[0].rank()) - 1) == axes.end());
            return in[0];
          },
      .reference =
          [](Tensors in, const AxesAttrs& a) {
            Axes axes = valid_axes(a.axes, in[0].rank());
            return moved(in[0], in[0].shape(), [&](Axes i) {
              for (int64_t axis : axes) i[size_t(axis)] = in[0].shape()[size_t(axis)] - 1 - i[size_t(axis)];
              return static_cast<int64_t>(offset_of(in[0].shape(), i));
            });
          },
      .vjp = [](Values, Value, Value ct, const AxesAttrs& a) { return reverse(ct, a.axes); },
      .batch = [](Values in, const AxesAttrs& a) { return reverse(in[0], behind_batch(a.axes)); },
      .samples = {{.dims = {{3, 4}}, .attrs = AxesAttrs{{0}}},
                  {.dims = {{3, 4}}, .attrs = AxesAttrs{{1, 0}}},
                  {.dims = {{5}}, .attrs = AxesAttrs{{-1}}},
                  {.dims = {{}}, .attrs = AxesAttrs{}},
                  {.dims = {{2, 0}}, .attrs = AxesAttrs{{0}}},
                  {.dims = {{3, 1, 19}}, .dtypes = {i8}, .attrs = AxesAttrs{{2}}}},
  });
}

OpDef define_iota() {
  return define<IotaAttrs>({
      .name = "iota",
      .doc = "each element's index along `axis`",
      .infer =
          [](Types, const IotaAttrs& a) {
            valid_axis(a.axis, a.type.rank());
            require_kind(a.type, kNumber, "index");
            require_places(a.type.dtype, a.type, valid_axis(a.axis, a.type.rank()), "iota",
                           "ask for a wider dtype, and convert it where numbers are to wrap");
            return a.type;
          },
      .reference =
          [](Tensors, const IotaAttrs& a) {
            auto axis = size_t(valid_axis(a.axis, a.type.rank()));
            return with_element_type(a.type.dtype, [&]<class T>() {
              Array<T> y(shape_of(a.type.dims));
              for_each_index(y.shape, [&](const Axes& i) {
                if constexpr (std::is_integral_v<T>) y.at(i) = static_cast<T>(i[axis]);
                else y.at(i) = T(static_cast<double>(i[axis]));
              });
              return y.rounded_to(a.type.dtype);
            });
          },
      .samples = {{.attrs = IotaAttrs{{i64, {4}}, 0}},
                  {.attrs = IotaAttrs{{f32, {2, 3}}, 1}},
                  {.attrs = IotaAttrs{{u8, {3, 2}}, -2}},
                  {.attrs = IotaAttrs{{f64, {1, 0}}, 1}},
                  {.attrs = IotaAttrs{{bf16, {19, 1}}, 0}}},
  });
}

OpDef define_extent() {
  return define<ExtentAttrs>({
      .name = "extent",
      .doc = "a dim as a scalar",
      .infer =
          [](Types, const ExtentAttrs& a) {
            require_kind({a.dtype, {}}, kNumber, "extent");
            // An extent of n is the last of n + 1 numbers that count from 0.
            require_places(a.dtype, {a.dtype, {a.dim + 1}}, 0, "extent", "ask for a wider dtype");
            return Type{a.dtype, {}};
          },
      .reference = [](Tensors, const ExtentAttrs& a) { return full(a.dtype, {}, static_cast<double>(a.dim.value())); },
      .samples = {{.attrs = ExtentAttrs{7}},
                  {.attrs = ExtentAttrs{7, f32}},
                  {.attrs = ExtentAttrs{0, u8}},
                  {.attrs = ExtentAttrs{300, f16}}},
  });
}

}  // namespace rlx
