// Primitives over sliding windows.
#include "rlx/ops/window.h"

#include "ops/combine.h"

namespace rlx {

// ---- builders ----
Value reduce_window(Value x, ReduceWindowAttrs attrs) { return emit(op::reduce_window, {x}, std::move(attrs)); }
std::vector<Value> reduce_window_custom(std::vector<Value> xs, std::vector<Value> inits, ReduceWindowAttrs attrs) {
  if (xs.empty()) fail(ErrorCode::invalid_argument, "reduce_window_custom needs at least one operand");
  attrs.kind = Reduction::custom;
  Graph& g = xs[0].graph();
  xs.insert(xs.end(), inits.begin(), inits.end());
  return g.emit(op::reduce_window, std::move(xs), std::move(attrs));
}
Value select_and_scatter(Value x, Value source, SelectAndScatterAttrs attrs) {
  return emit(op::select_and_scatter, {x, source}, std::move(attrs));
}
Value convolution(Value lhs, Value rhs, ConvAttrs attrs) { return emit(op::convolution, {lhs, rhs}, std::move(attrs)); }

// ---- geometry ----
namespace {

int64_t floor_divided(int64_t x, int64_t by) { return x / by - (x % by < 0); }
/// Of a symbolic dim, `by` must divide the symbols' factors; the rest is a number.
Dim floor_divided(const Dim& x, int64_t by) {
  Bindings zeros;
  x.for_each_symbol([&](const std::string& name) { zeros[name] = 0; });
  Dim rest = x.bound(zeros);
  return (x - rest) / by + Dim(floor_divided(rest.value(), by));
}
Dim dilated(const Dim& extent, int64_t dilation) {
  return extent == Dim(0) || dilation == 1 ? extent : extent * dilation - Dim(dilation - 1);
}

}  // namespace

Dim window_count(const Dim& extent, const Dim& window, int64_t stride, int64_t base_dilation, int64_t window_dilation,
                 const Dim& low, const Dim& high) {
  Dim room = dilated(extent, base_dilation) + low + high - dilated(window, window_dilation);
  if (room.is_static() && room.value() < 0) return 0;
  return floor_divided(room, stride) + Dim(1);
}

namespace {

/// The attributes of a sliding window, completed and checked.
struct Sliding {
  Dims window, low, high;
  Axes stride, base, dilation;

  Sliding(size_t rank, Dims window_dims, const Axes& strides, const Axes& base_dilation, const Axes& window_dilation,
          const Dims& padding_low, const Dims& padding_high)
      : window(std::move(window_dims)) {
    auto complete = [&](auto list, auto otherwise, std::string_view what) {
      if (list.empty()) list.assign(rank, otherwise);
      if (list.size() != rank)
        fail(ErrorCode::invalid_argument, what, " must have one entry for each of the ", rank,
             " dims that the window slides over, got ", list.size());
      return list;
    };
    stride = complete(strides, int64_t{1}, "strides");
    base = complete(base_dilation, int64_t{1}, "the operand's dilation");
    dilation = complete(window_dilation, int64_t{1}, "the window's dilation");
    low = complete(padding_low, Dim(0), "padding_low");
    high = complete(padding_high, Dim(0), "padding_high");
    if (window.size() != rank)
      fail(ErrorCode::invalid_argument, "the window must have an extent for each of the ", rank,
           " dims that it slides over, got ", window.size());
    for (size_t d = 0; d < rank; ++d)
      if (stride[d] < 1 || base[d] < 1 || dilation[d] < 1 || (window[d].is_static() && window[d].value() < 1))
        fail(ErrorCode::invalid_argument, "along dim ", d, " the window has extent ", window[d], ", stride ", stride[d],
             ", dilation ", dilation[d], " over elements ", base[d], " apart; each must be at least 1");
  }
  Dim count(size_t d, const Dim& extent) const {
    return with_context(
        [&] { return text_of("counting the windows along extent ", extent); },
        [&] { return window_count(extent, window[d], stride[d], base[d], dilation[d], low[d], high[d]); });
  }
  /// With numbers: where in the operand the window at `place` has its element `k`, or -1 in padding and gaps.
  int64_t position(size_t d, int64_t place, int64_t k, int64_t extent) const {
    int64_t at = place * stride[d] + k * dilation[d] - low[d].value();
    return at < 0 || at % base[d] != 0 || at / base[d] >= extent ? -1 : at / base[d];
  }
};

Sliding sliding(const ReduceWindowAttrs& a, size_t rank) {
  return {rank, a.window_dims, a.strides, a.base_dilation, a.window_dilation, a.padding_low, a.padding_high};
}
Sliding sliding(const SelectAndScatterAttrs& a, size_t rank) {
  return {rank, a.window_dims, a.strides, {}, a.window_dilation, a.padding_low, a.padding_high};
}
Dims counts(const Sliding& s, const Dims& extents) {
  Dims result;
  for (size_t d = 0; d < extents.size(); ++d) result.push_back(s.count(d, extents[d]));
  return result;
}

/// The layouts of a convolution, completed and checked.
struct ConvLayout {
  Axes lhs, rhs, out, lhs_spatial, rhs_spatial, out_spatial;

  ConvLayout(const ConvAttrs& a, Types in) {
    size_t rank = in[0].rank();
    if (rank < 2 || in[1].rank() != rank)
      fail(ErrorCode::shape_mismatch,
           "a convolution takes an operand and a kernel of one rank, at least 2 (batch and feature), got ", in[0],
           " and ", in[1]);
    if (rank > 5) fail(ErrorCode::unsupported, "a convolution has at most 3 spatial dims; ", in[0], " has ", rank - 2);
    auto complete = [&](const Axes& layout, std::string_view what) {
      Axes axes = layout.empty() ? axes_from(0, rank) : layout;
      if (axes.size() != rank || std::any_of(axes.begin(), axes.end(), [](int64_t d) { return d < 0; }))
        fail(ErrorCode::invalid_argument, what, " must name each dim of rank ", rank, " once, counted from the front");
      return valid_axes(axes, rank);
    };
    lhs = complete(a.lhs_layout, "lhs_layout"), rhs = complete(a.rhs_layout, "rhs_layout"),
    out = complete(a.out_layout, "out_layout");
    lhs_spatial.assign(lhs.begin() + 2, lhs.end());
    rhs_spatial.assign(rhs.begin() + 2, rhs.end());
    out_spatial.assign(out.begin() + 2, out.end());
  }
  Sliding sliding(const ConvAttrs& a, Types in) const {
    return {lhs_spatial.size(), pick(in[1].dims, rhs_spatial), a.strides, a.lhs_dilation, a.rhs_dilation, a.padding_low,
            a.padding_high};
  }
};

Type conv_type(Types in, const ConvAttrs& a) {
  const Type &x = in[0], &w = in[1];
  require_kind(x, kNumber);
  if (x.dtype != w.dtype)
    fail(ErrorCode::invalid_argument, "the operands' dtypes differ: lhs ", x, ", rhs ", w, "; convert one of them");
  ConvLayout layout(a, in);
  Sliding window = layout.sliding(a, in);
  int64_t groups = a.feature_group_count, batch_groups = a.batch_group_count;
  if (groups < 1 || batch_groups < 1 || (groups > 1 && batch_groups > 1))
    fail(ErrorCode::invalid_argument, "feature_group_count is ", groups, " and batch_group_count ", batch_groups,
         "; both are at least 1, and one of them is 1");
  const Dim &batch = x.dims[size_t(layout.lhs[0])], &features = x.dims[size_t(layout.lhs[1])];
  const Dim &made = w.dims[size_t(layout.rhs[0])], &taken = w.dims[size_t(layout.rhs[1])];
  if (features != taken * groups)
    fail(ErrorCode::shape_mismatch, "the kernel ", w, " takes ", taken, " features for each of ", groups,
         " groups, but ", x, " has ", features,
         "; the kernel's layout is output features, input features / groups, spatial dims");
  auto split = [](const Dim& whole, int64_t parts, auto what) {
    if (whole.is_static() && whole.value() % parts != 0)
      fail(ErrorCode::shape_mismatch, what(), " is not a multiple of the ", parts, " groups");
    return whole / parts;
  };
  split(made, groups * batch_groups,
        [&] { return text_of("the number of output features ", made, " of the kernel ", w); });
  Type t{a.accumulate.value_or(x.dtype), Dims(x.rank())};
  if (kind_of(t.dtype) != kind_of(x.dtype))
    fail(ErrorCode::invalid_argument, "products of ", x.dtype, " cannot be accumulated in ", t.dtype);
  t.dims[size_t(layout.out[0])] = split(batch, batch_groups, [&] { return text_of("the batch ", batch, " of ", x); });
  t.dims[size_t(layout.out[1])] = made;
  for (size_t d = 0; d < layout.out_spatial.size(); ++d)
    t.dims[size_t(layout.out_spatial[d])] = window.count(d, x.dims[size_t(layout.lhs_spatial[d])]);
  return t;
}

Tensor convolved(const Tensor& lhs, const Tensor& rhs, const ConvAttrs& a) {
  std::array types{lhs.type(), rhs.type()};
  Type result = conv_type(types, a);
  ConvLayout layout(a, types);
  Sliding window = layout.sliding(a, types);
  int64_t taken = rhs.shape()[size_t(layout.rhs[1])], made = rhs.shape()[size_t(layout.rhs[0])];
  int64_t batch = shape_of(result.dims)[size_t(layout.out[0])];
  return with_kinds<kNumber>(lhs.dtype(), [&]<class T>() {
    Array<T> x(lhs), w(rhs), y(shape_of(result.dims));
    Axes from(lhs.rank()), k(rhs.rank());
    Shape kernel = pick(rhs.shape(), layout.rhs_spatial);
    for_each_index(y.shape, [&](const Axes& to) {
      int64_t feature = to[size_t(layout.out[1])];
      int64_t group = feature / (made / a.feature_group_count), batch_group = feature / (made / a.batch_group_count);
      from[size_t(layout.lhs[0])] = batch_group * batch + to[size_t(layout.out[0])];
      k[size_t(layout.rhs[0])] = feature;
      T sum{};
      for_each_index(kernel, [&](const Axes& at) {
        for (size_t d = 0; d < at.size(); ++d) {
          auto axis = size_t(layout.lhs_spatial[d]);
          from[axis] = window.position(d, to[size_t(layout.out_spatial[d])], at[d], lhs.shape()[axis]);
          if (from[axis] < 0) return;
          k[size_t(layout.rhs_spatial[d])] = at[d];
        }
        for (int64_t c = 0; c < taken; ++c) {
          from[size_t(layout.lhs[1])] = group * taken + c;
          k[size_t(layout.rhs[1])] = c;
          sum = combined(Reduction::sum, sum, combined(Reduction::prod, x.at(from), w.at(k)));
        }
      });
      y.at(to) = sum;
    });
    return y.rounded_to(result.dtype);
  });
}

}  // namespace

OpDef define_reduce_window() {
  return define<ReduceWindowAttrs>({
      .name = "reduce_window",
      .doc = "elements combined within windows that slide over all dims; padding and the gaps of the base dilation "
             "hold what the reduction starts from",
      .source = "StableHLO specification, reduce_window",
      .operands = {"xs..."},
      .infer = [](Types in, const ReduceWindowAttrs& a) -> Many<Type> {
        bool custom = a.kind == Reduction::custom;
        size_t n = custom ? in.size() / 2 : 1;
        if (n == 0 || in.size() != (custom ? 2 * n : 1))
          fail(ErrorCode::invalid_argument,
               custom ? "a custom reduction takes operands, then as many initial scalars; got "
                      : "a reduction takes one operand, got ",
               in.size());
        require_reducible(in[0], a.kind);
        Sliding window = sliding(a, in[0].rank());
        Many<Type> result;
        for (const Type& t : in.first(n)) {
          if (t.dims != in[0].dims)
            fail(ErrorCode::shape_mismatch, "operands differ in their dims: ", in[0], " and ", t);
          if (is_block(t.dtype)) fail(ErrorCode::unsupported, t, " is packed in blocks; dequantize it first");
          result.push_back({t.dtype, counts(window, t.dims)});
        }
        if (custom) require_combiner(a.body, in.first(n), in.subspan(n));
        return result;
      },
      .reference = [](Tensors in, const ReduceWindowAttrs& a, const Run& run) -> Many<Tensor> {
        size_t n = a.kind == Reduction::custom ? in.size() / 2 : 1;
        Sliding window = sliding(a, in[0].rank());
        const Shape& extents = in[0].shape();
        // Pad first: a body may tell padding from nothing.
        Shape whole = shape_of(
            counts(Sliding(extents.size(), Dims(extents.size(), Dim(1)), {}, window.base, {}, window.low, window.high),
                   in[0].type().dims));
        std::vector<Tensor> inits(in.begin() + std::ptrdiff_t(n), in.end()), padded;
        if (a.kind != Reduction::custom) inits = {initial_value(a.kind, in[0].dtype())};
        for (size_t i = 0; i < n; ++i)
          padded.push_back(moved(
              in[i], whole,
              [&](Axes at) -> int64_t {
                for (size_t d = 0; d < at.size(); ++d) {
                  int64_t from = at[d] - window.low[d].value();
                  if (from < 0 || from % window.base[d] != 0 || from / window.base[d] >= extents[d]) return -1;
                  at[d] = from / window.base[d];
                }
                return int64_t(offset_of(extents, at));
              },
              &inits[i]));
        Combiner combine(a.kind, a.body, padded, in.subspan(n), run);
        Combiner::Cells cells(shape_of(counts(window, in[0].type().dims)), combine);
        Axes from(extents.size());
        for_each_index(shape_of(counts(window, in[0].type().dims)), [&](const Axes& to) {
          for_each_index(shape_of(window.window), [&](const Axes& k) {
            for (size_t d = 0; d < k.size(); ++d) from[d] = to[d] * window.stride[d] + k[d] * window.dilation[d];
            cells.add(to, offset_of(whole, from));
          });
        });
        return cells.results();
      },
      .samples =
          [] {
            Type scalar{f64, {}};
            Graph sum_and_greatest = trace(std::vector{scalar, scalar, scalar, scalar}, [](Values v) {
              return std::vector{v[0] + v[2], maximum(v[1], v[3])};
            });
            return std::vector<Sample>{
                {.dims = {{2, 6}}, .attrs = ReduceWindowAttrs{Reduction::sum, {1, 3}}},
                {.dims = {{5, 7}}, .attrs = ReduceWindowAttrs{Reduction::max, {2, 3}, {2, 2}, {}, {}, {1, 0}, {0, 2}}},
                {.dims = {{4, 3}},
                 .attrs = ReduceWindowAttrs{Reduction::min, {3, 2}, {1, 1}, {2, 1}, {2, 1}, {1, 1}, {1, -1}}},
                {.dims = {{6}}, .attrs = ReduceWindowAttrs{Reduction::prod, {2}, {3}}},
                {.dims = {{2, 5}},
                 .dtypes = {i32},
                 .attrs = ReduceWindowAttrs{Reduction::sum, {1, 5}, {}, {}, {}, {0, 4}, {0, 0}},
                 .lo = -9,
                 .hi = 9},
                {.dims = {{6}}, .dtypes = {boolean}, .attrs = ReduceWindowAttrs{Reduction::any, {2}}},
                {.dims = {{5}, {5}, {}, {}},
                 .attrs = ReduceWindowAttrs{Reduction::custom, {2}, {2}, {}, {}, {1}, {0}, sum_and_greatest}},
                {.dims = {{2}}, .attrs = ReduceWindowAttrs{Reduction::sum, {3}}},
                {.dims = {{}}, .attrs = ReduceWindowAttrs{}}};
          },
  });
}

OpDef define_select_and_scatter() {
  return define<SelectAndScatterAttrs>({
      .name = "select_and_scatter",
      .doc = "zeros of x's dims, to which each element of `source` is added where its window of x has the element that "
             "`select` keeps to the end: by "
             "`ge` the first greatest one. A window that lies in padding alone adds nothing",
      .source = "StableHLO specification, select_and_scatter",
      .operands = {"x", "source"},
      .infer =
          [](Types in, const SelectAndScatterAttrs& a) {
            require_kind(in[0], kInteger | kReal);
            if (a.select == Comparison::eq || a.select == Comparison::ne)
              fail(ErrorCode::invalid_argument, "select must be an order (ge, gt, le, lt), not ",
                   names_of(a.select)[size_t(a.select)]);
            Type wanted{in[0].dtype, counts(sliding(a, in[0].rank()), in[0].dims)};
            if (in[1] != wanted)
              fail(ErrorCode::shape_mismatch, "the windows of ", in[0], " need a source ", wanted, ", got ", in[1]);
            return in[0];
          },
      .reference =
          [](Tensors in, const SelectAndScatterAttrs& a) {
            const Shape& extents = in[0].shape();
            Sliding window = sliding(a, extents.size());
            return with_kinds<kInteger | kReal>(in[0].dtype(), [&]<class T>() {
              Array<T> x(in[0]), source(in[1]), y(extents);
              auto stays = [&](T kept, T next) {
                return a.select == Comparison::ge   ? kept >= next
                       : a.select == Comparison::gt ? kept > next
                       : a.select == Comparison::le ? kept <= next
                                                    : kept < next;
              };
              Axes from(extents.size());
              for_each_index(source.shape, [&](const Axes& place) {
                std::optional<size_t> kept;
                for_each_index(shape_of(window.window), [&](const Axes& k) {
                  for (size_t d = 0; d < k.size(); ++d)
                    if ((from[d] = window.position(d, place[d], k[d], extents[d])) < 0) return;
                  size_t next = offset_of(extents, from);
                  if (!kept || !stays(x.data[*kept], x.data[next])) kept = next;
                });
                if (kept) y.data[*kept] = combined(Reduction::sum, y.data[*kept], source.at(place));
              });
              return y.rounded_to(in[0].dtype());
            });
          },
      .samples = {{.dims = {{2, 6}, {2, 3}}, .attrs = SelectAndScatterAttrs{Comparison::ge, {1, 2}, {1, 2}}},
                  {.dims = {{4, 5}, {3, 3}},
                   .attrs = SelectAndScatterAttrs{Comparison::ge, {3, 3}, {2, 2}, {}, {1, 1}, {2, 1}}},
                  {.dims = {{5}, {3}},
                   .dtypes = {i32, i32},
                   .attrs = SelectAndScatterAttrs{Comparison::lt, {2}, {}, {2}},
                   .lo = -9,
                   .hi = 9}},
  });
}

OpDef define_convolution() {
  return define<ConvAttrs>({
      .name = "convolution",
      .doc = "sums products of the kernel rhs with windows of lhs, over the input features and the kernel's places "
             "(the kernel is not flipped). Output "
             "features are made in feature_group_count groups, each from its own input features, or in "
             "batch_group_count groups, each from its own part "
             "of the batch. f16 and bf16 accumulate in f32",
      .source = "StableHLO specification, convolution",
      .operands = {"lhs", "rhs"},
      .infer = [](Types in, const ConvAttrs& a) { return conv_type(in, a); },
      .reference = [](Tensors in, const ConvAttrs& a) { return convolved(in[0], in[1], a); },
      .samples = {{.dims = {{2, 3, 5, 6}, {4, 3, 3, 2}}, .attrs = ConvAttrs{{2, 1}, {1, 0}, {0, 1}}},
                  {.dims = {{1, 4, 7}, {6, 2, 3}}, .attrs = ConvAttrs{{}, {2}, {2}, {}, {2}, 2}},
                  {.dims = {{1, 3, 3, 4}, {3, 2, 4, 2}},
                   .attrs =
                       ConvAttrs{{1, 1}, {1, 1}, {1, 2}, {2, 3}, {}, 1, 1, {0, 3, 1, 2}, {3, 2, 0, 1}, {0, 3, 1, 2}}},
                  {.dims = {{4, 2, 5}, {6, 2, 2}}, .attrs = ConvAttrs{{2}, {}, {}, {}, {}, 1, 2}},
                  {.dims = {{1, 2, 3, 3, 3}, {2, 2, 2, 2, 2}}, .attrs = ConvAttrs{{}, {-1, 0, 1}, {1, 0, 0}}},
                  {.dims = {{3, 4}, {5, 4}}},
                  {.dims = {{1, 2, 4}, {2, 2, 3}},
                   .dtypes = {i8, i8},
                   .attrs = ConvAttrs{{}, {}, {}, {}, {}, 1, 1, {}, {}, {}, i32},
                   .lo = -99,
                   .hi = 99},
                  {.dims = {{1, 2, 4}, {2, 2, 3}},
                   .dtypes = {bf16, bf16},
                   .attrs = ConvAttrs{{}, {}, {}, {}, {}, 1, 1, {}, {}, {}, f32}},
                  {.dims = {{1, 2, 2}, {2, 2, 3}}},
                  {.dims = {{0, 2, 4}, {2, 2, 3}}}},
  });
}

}  // namespace rlx
