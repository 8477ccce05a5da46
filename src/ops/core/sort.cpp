// Ordering: sort is the primitive, the rest is made of it.
#include "rlx/ops/sort.h"

#include <cmath>
#include <numeric>

#include "ops/control/subgraph_rules.h"
#include "ops/core/element_index.h"
#include "ops/core/elementwise_rules.h"
#include "rlx/ops/take.h"

namespace rlx {

std::vector<Value> sort(std::vector<Value> xs, SortAttrs attrs) {
  if (xs.empty()) fail(ErrorCode::invalid_argument, "sort needs at least one operand");
  Graph& g = xs[0].graph();
  return g.emit(op::sort, std::move(xs), std::move(attrs));
}
Value sort_values(Value x, int64_t axis, bool descending) {
  return emit(op::sort_values, {x}, OrderAttrs{axis, descending});
}
Value argsort(Value x, int64_t axis, bool descending) { return emit(op::argsort, {x}, OrderAttrs{axis, descending}); }
TopK top_k(Value x, int64_t k, int64_t axis) {
  auto both = x.graph().emit(op::top_k, {x}, TopKAttrs{k, axis});
  return {both[0], both[1]};
}

namespace {

constexpr std::string_view kSortWithPlaces = "for i64 places sort x together with an i64 iota";

template <class T>
bool less(T x, T y) {
  if constexpr (std::is_same_v<T, double>) return std::isnan(y) ? !std::isnan(x) : x < y;  // NaN is the largest
  else if constexpr (std::is_same_v<T, Complex>) fail(ErrorCode::internal, "complex numbers have no order");
  else return x < y;
}

/// The results, then where each element stood: a further operand that is sorted along.
std::vector<Value> sort_and_places(Values in, SortAttrs a) {
  Graph& g = in[0].graph();
  std::vector<Value> xs(in.begin(), in.end());
  const int64_t axis = valid_axis(a.axis, in[0].dims().size());
  const Type places{place_dtype(in[0].dims()[size_t(axis)]), in[0].dims()};
  xs.push_back(iota(g, places, axis));
  if (a.comparator) {  // it gets the places too, and does not look at them
    auto types = a.comparator->input_types();
    types.insert(types.end(), 2, Type{places.dtype, {}});
    a.comparator =
        trace(types, [&](Graph& body, Values v) { return inlined(body, *a.comparator, v.first(v.size() - 2)); });
  }
  return sort(std::move(xs), std::move(a));
}
/// What arrived at sorted places, back at the places where the elements stood.
Value sent_back(Value x, Value places, Value ct, int64_t axis) {
  return scatter_elements(zeros_like(x), places, ct, axis, ScatterReduction::add);
}

}  // namespace

OpDef define_sort() {
  return define<SortAttrs>({
      .name = "sort",
      .doc = "all operands, reordered along `axis` by the first one (or by `comparator`), stably; NaN counts as the "
             "largest",
      .source = "StableHLO specification, sort",
      .operands = {"xs..."},
      .covers = {"Sort"},
      .infer =
          [](Types in, const SortAttrs& a) {
            if (in.empty()) fail(ErrorCode::invalid_argument, "sort needs at least one operand");
            for (const Type& t : in)
              if (t.dims != in[0].dims)
                fail(ErrorCode::shape_mismatch, "operands differ in their dims: ", in[0], " and ", t);
            valid_axis(a.axis, in[0].rank());
            if (!a.comparator) require_kind(in[0], kBool | kInteger | kReal, "order");
            else {
              std::vector<Type> pairs;
              for (const Type& t : in) pairs.insert(pairs.end(), 2, Type{t.dtype, {}});
              if (a.comparator->input_types() != pairs ||
                  a.comparator->output_types() != std::vector{Type{boolean, {}}})
                fail(ErrorCode::shape_mismatch,
                     "the comparator must map two scalars of each operand's dtype to bool[]");
            }
            return Many<Type>(in.begin(), in.end());
          },
      .reference =
          [](Tensors in, const SortAttrs& a, const Run& run) {
            const Shape& shape = in[0].shape();
            auto axis = size_t(valid_axis(a.axis, shape.size()));
            Shape lanes = shape;
            int64_t n = std::exchange(lanes[axis], 1);
            std::vector<int64_t> source(in[0].element_count());
            auto at = [&](Axes lane, int64_t i) { return lane[axis] = i, offset_of(shape, lane); };
            auto element = [](const Tensor& t, size_t i) {
              return moved(t, {}, [&](const Axes&) { return int64_t(i); });
            };
            auto sort_lanes = [&](auto before) {
              for_each_index(lanes, [&](const Axes& lane) {
                Axes order(static_cast<size_t>(n));
                std::iota(order.begin(), order.end(), 0);
                std::stable_sort(order.begin(), order.end(),
                                 [&](int64_t i, int64_t j) { return before(at(lane, i), at(lane, j)); });
                for (int64_t i = 0; i < n; ++i) source[at(lane, i)] = int64_t(at(lane, order[size_t(i)]));
              });
            };
            if (a.comparator) {
              sort_lanes([&](size_t i, size_t j) {
                std::vector<Tensor> pairs;
                for (const Tensor& t : in) pairs.push_back(element(t, i)), pairs.push_back(element(t, j));
                return load<uint64_t>(run(*a.comparator, pairs)[0], 0) != 0;
              });
            } else {
              with_element_type(in[0].dtype(), [&]<class T>() {
                Array<T> keys(in[0]);
                sort_lanes([&](size_t i, size_t j) {
                  return a.descending ? less(keys.data[j], keys.data[i]) : less(keys.data[i], keys.data[j]);
                });
              });
            }
            Many<Tensor> out;
            for (const Tensor& t : in)
              out.push_back(moved(t, shape, [&](const Axes& i) { return source[offset_of(shape, i)]; }));
            return out;
          },
      .save = sort_and_places,
      .vjp =
          [](Values in, Values out, Values cts, const SortAttrs& a) {
            Many<Value> d(in.size());
            for (size_t i = 0; i < in.size(); ++i)
              if (cts[i]) d[i] = sent_back(in[i], out[in.size()], cts[i], a.axis);
            return d;
          },
      .batch =
          [](Values in, const SortAttrs& a) {
            return sort({in.begin(), in.end()}, {behind_batch(a.axis), a.descending, a.comparator});
          },
      .samples =
          [] {
            Type real{f64, {}};
            Graph by_second = trace(std::vector{real, real, real, real},
                                    [](Values v) { return compare(v[2], v[3], Comparison::gt); });
            return std::vector<Sample>{
                {.dims = {{3, 5}}},
                {.dims = {{4, 2}, {4, 2}, {4, 2}}, .dtypes = {f64, i64}, .attrs = SortAttrs{0, true}},
                {.dims = {{6}, {6}}, .dtypes = {i32}, .attrs = SortAttrs{0}, .lo = -2, .hi = 2},
                {.dims = {{3, 4}, {3, 4}}, .attrs = SortAttrs{-1, false, by_second}},
                {.dims = {{2, 0, 3}}, .attrs = SortAttrs{1}},
                {.dims = {{2, 4, 1}, {2, 4, 1}}, .attrs = SortAttrs{-2, true}}};
          },
  });
}

OpDef define_top_k() {
  return define<TopKAttrs>({
      .name = "top_k",
      .doc = "the k largest along `axis`, largest first, and where they stood (i32); ties in order of place",
      .operands = {"x"},
      .covers = {"TopK"},
      .infer = [](Types in, const TopKAttrs& a) -> Many<Type> {
        require_kind(in[0], kBool | kInteger | kReal, "order");
        require_places(i32, in[0], valid_axis(a.axis, in[0].rank()), "top_k", kSortWithPlaces);
        Type values = in[0];
        Dim& extent = values.dims[size_t(valid_axis(a.axis, values.rank()))];
        if (a.k < 0 || (extent.is_static() && a.k > extent.value()))
          fail(ErrorCode::invalid_argument, "k is ", a.k, ", but ", in[0], " has ", extent, " along axis ", a.axis);
        extent = a.k;
        return {values, Type{i32, values.dims}};
      },
      .decompose = [](Graph& g, Values in, const TopKAttrs& a) -> Many<Value> {
        int64_t axis = valid_axis(a.axis, in[0].dims().size());
        auto sorted = sort({in[0], iota(g, {i32, in[0].dims()}, axis)}, {axis, true});
        return {slice_axis(sorted[0], axis, 0, a.k), slice_axis(sorted[1], axis, 0, a.k)};
      },
      .vjp = [](Values in, Values out, Values cts, const TopKAttrs& a) -> Many<Value> {
        return cts[0] ? sent_back(in[0], out[1], cts[0], a.axis) : Value{};
      },
      .batch =
          [](Values in, const TopKAttrs& a) {
            return in[0].graph().emit(op::top_k, {in[0]}, TopKAttrs{a.k, behind_batch(a.axis)});
          },
      .samples = {{.dims = {{3, 5}}, .attrs = TopKAttrs{2}},
                  {.dims = {{4, 3}}, .attrs = TopKAttrs{3, 0}},
                  {.dims = {{6}}, .dtypes = {i32}, .attrs = TopKAttrs{4}, .lo = -2, .hi = 2},
                  {.dims = {{2, 1, 3}}, .attrs = TopKAttrs{0, 1}},
                  {.dims = {{2, 5, 3}}, .attrs = TopKAttrs{3, -2}}},
  });
}

OpDef define_sort_values() {
  return define<OrderAttrs>({
      .name = "sort_values",
      .doc = "x in order along `axis`; NaN counts as the largest",
      .operands = {"x"},
      .covers = {"Sort"},
      .moves_data = true,
      .infer =
          [](Types in, const OrderAttrs& a) {
            return infer_types(op::sort, in, SortAttrs{a.axis, a.descending});
          },
      .decompose =
          [](Values in, const OrderAttrs& a) {
            return sort({in[0]}, {a.axis, a.descending});
          },
      .batch = [](Values in, const OrderAttrs& a) { return sort_values(in[0], behind_batch(a.axis), a.descending); },
      .samples = {{.dims = {{3, 5}}},
                  {.dims = {{4, 2}}, .attrs = OrderAttrs{0, true}},
                  {.dims = {{6}}, .dtypes = {i32}, .lo = -3, .hi = 3},
                  {.dims = {{2, 4, 3}}, .attrs = OrderAttrs{-2}},
                  {.dims = {{0, 1}}, .attrs = OrderAttrs{0}}},
  });
}

OpDef define_argsort() {
  return define<OrderAttrs>({
      .name = "argsort",
      .doc = "where the elements in order along `axis` stood (i32), equal ones in order of place; NaN counts as the "
             "largest",
      .operands = {"x"},
      .covers = {"ArgSort"},
      .differentiable = false,
      .infer =
          [](Types in, const OrderAttrs& a) {
            Dims dims = infer_types(op::sort, in, SortAttrs{a.axis, a.descending})[0].dims;
            require_places(i32, in[0], valid_axis(a.axis, dims.size()), "argsort", kSortWithPlaces);
            return Type{i32, dims};
          },
      .decompose =
          [](Graph& g, Values in, const OrderAttrs& a) {
            int64_t axis = valid_axis(a.axis, in[0].dims().size());
            return sort({in[0], iota(g, {i32, in[0].dims()}, axis)}, {axis, a.descending})[1];
          },
      .batch = [](Values in, const OrderAttrs& a) { return argsort(in[0], behind_batch(a.axis), a.descending); },
      .samples = {{.dims = {{3, 5}}},
                  {.dims = {{4, 2}}, .attrs = OrderAttrs{0, true}},
                  {.dims = {{6}}, .dtypes = {i32}, .lo = -3, .hi = 3},
                  {.dims = {{2, 4, 3}}, .attrs = OrderAttrs{-2}},
                  {.dims = {{0, 1}}, .attrs = OrderAttrs{0}}},
  });
}

}  // namespace rlx
