// Primitives over sliding windows.
#include "rlx/ops/window.h"

#include "ops/control/subgraph_rules.h"
#include "ops/core/combine.h"
#include "ops/core/composite_rules.h"
#include "ops/nn/window_rules.h"

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

namespace {

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
  require_accumulator(x.dtype, t.dtype);
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

/// Of a product, or of a sub-graph: that of the windows' elements, side by side and reduced.
Many<Value> unfolded_vjp(Values in, Values cts, const ReduceWindowAttrs& a, const Transforms& t) {
  bool custom = a.kind == Reduction::custom;
  size_t n = custom ? in.size() / 2 : 1;
  Graph whole = trace(types_of_values(in), [&](Graph& g, Values v) -> Many<Value> {
    Sliding windows(a, v[0].dims().size());
    Axes taps;
    for (size_t d = 0; d < windows.window.size(); ++d) taps.push_back(2 * int64_t(d) + 1);
    std::vector<Value> xs, inits(v.begin() + std::ptrdiff_t(n), v.end());
    if (!custom) inits = {g.constant(initial_value(a.kind, v[0].dtype()))};
    for (size_t i = 0; i < n; ++i) xs.push_back(unfolded(v[i], inits[i], windows));
    if (!custom) return reduce(xs[0], a.kind, taps);
    return reduce_custom(xs, inits, taps, *a.body);
  });
  Mask wrt = floats(in);
  return spread(inlined(in[0].graph(), t.vjp(whole, wrt, mask_of(cts)), joined(in, present(cts))), wrt);
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
        Sliding window(a, in[0].rank());
        Many<Type> result;
        for (const Type& t : in.first(n)) {
          if (t.dims != in[0].dims)
            fail(ErrorCode::shape_mismatch, "operands differ in their dims: ", in[0], " and ", t);
          if (is_block(t.dtype)) fail(ErrorCode::unsupported, t, " is packed in blocks; dequantize it first");
          result.push_back({t.dtype, window.counts(t.dims)});
        }
        if (custom) require_combiner(a.body, in.first(n), in.subspan(n));
        return result;
      },
      .reference = [](Tensors in, const ReduceWindowAttrs& a, const Run& run) -> Many<Tensor> {
        size_t n = a.kind == Reduction::custom ? in.size() / 2 : 1;
        Sliding window(a, in[0].rank());
        const Shape& extents = in[0].shape();
        // Pad first: a body may tell padding from nothing.
        Shape whole =
            shape_of(Sliding(extents.size(), Dims(extents.size(), Dim(1)), {}, window.base, {}, window.low, window.high)
                         .counts(in[0].type().dims));
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
        Combiner::Cells cells(shape_of(window.counts(in[0].type().dims)), combine);
        Axes from(extents.size());
        for_each_index(shape_of(window.counts(in[0].type().dims)), [&](const Axes& to) {
          for_each_index(shape_of(window.window), [&](const Axes& k) {
            for (size_t d = 0; d < k.size(); ++d) from[d] = to[d] * window.stride[d] + k[d] * window.dilation[d];
            cells.add(to, offset_of(whole, from));
          });
        });
        return cells.results();
      },
      .vjp = [](Values in, Values, Values cts, const ReduceWindowAttrs& a, const Transforms& t) -> Many<Value> {
        switch (a.kind) {
          case Reduction::sum: return window_sum_ct(in[0].type(), cts[0], a);
          case Reduction::max:
          case Reduction::min: return window_extreme_ct(in[0], cts[0], a);
          default: return unfolded_vjp(in, cts, a, t);
        }
      },
      .batch = [](Values in, const Mask& batched, const ReduceWindowAttrs& a) -> Many<Value> {
        size_t n = a.kind == Reduction::custom ? in.size() / 2 : 1;
        for (size_t i = n; i < in.size(); ++i)
          if (batched[i]) return {};  // initial values are scalars
        auto operands = all_batched(in.first(n), Mask(batched.begin(), batched.begin() + std::ptrdiff_t(n)));
        operands.insert(operands.end(), in.begin() + std::ptrdiff_t(n), in.end());
        return in[0].graph().emit(op::reduce_window, operands, behind_batch(a));
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
                {.dims = {{5}}, .attrs = ReduceWindowAttrs{Reduction::prod, {3}, {2}, {2}, {1}, {1}, {-1}}},
                {.dims = {{3, 4}},
                 .attrs = ReduceWindowAttrs{Reduction::sum, {2, 3}, {2, 1}, {3, 1}, {1, 2}, {0, 3}, {2, -1}}},
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
            Type wanted{in[0].dtype, Sliding(a, in[0].rank()).counts(in[0].dims)};
            if (in[1] != wanted)
              fail(ErrorCode::shape_mismatch, "the windows of ", in[0], " need a source ", wanted, ", got ", in[1]);
            return in[0];
          },
      .reference =
          [](Tensors in, const SelectAndScatterAttrs& a) {
            const Shape& extents = in[0].shape();
            Sliding window(a, extents.size());
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
      .vjp =
          [](Values in, Value, Value ct, const SelectAndScatterAttrs& a) {
            return Many<Value>{Value{}, kept_elements(in[0], ct, a)};
          },
      .batch = [](Values in,
                  const SelectAndScatterAttrs& a) { return select_and_scatter(in[0], in[1], behind_batch(a)); },
      .samples = {{.dims = {{2, 6}, {2, 3}}, .attrs = SelectAndScatterAttrs{Comparison::ge, {1, 2}, {1, 2}}},
                  {.dims = {{4, 5}, {3, 3}},
                   .attrs = SelectAndScatterAttrs{Comparison::ge, {3, 3}, {2, 2}, {}, {1, 1}, {2, 1}}},
                  {.dims = {{8}, {2}}, .attrs = SelectAndScatterAttrs{Comparison::le, {3}, {3}, {2}, {-1}, {1}}},
                  {.dims = {{}, {}}},
                  {.dims = {{2}, {0}}, .attrs = SelectAndScatterAttrs{Comparison::gt, {3}}},
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
      .vjp = [](Values in, Value, Value ct, const ConvAttrs& a) -> Many<Value> {
        return {convolution_ct_of_lhs(in[0].type(), in[1], ct, a), convolution_ct_of_rhs(in[0], in[1].type(), ct, a)};
      },
      .batch = [](Values in, const Mask& batched, const ConvAttrs& a) { return batched_convolution(in, batched, a); },
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
