// Reductions as composites of `reduce`: statistics, norms, positions of extremes, counts. Scans are in
// cumulate.cpp.
#include "rlx/ops/reduction.h"

#include <cmath>

#include "base/growth_limit.h"
#include "ops/core/composite_rules.h"
#include "ops/core/element_index.h"
#include "rlx/ops/elementary.h"

namespace rlx {

Value reduce(Value x, Reduction kind, Axes axes, bool keep_dims) {
  axes = valid_axes(axes, x.dims().size());
  Dims dims = reduced_dims(x.dims(), axes, keep_dims);
  return reshape(reduce(x, kind, std::move(axes)), std::move(dims));
}
Value mean(Value x, Axes axes, bool keep_dims) {
  return emit(op::mean, {x}, ReduceDimsAttrs{std::move(axes), keep_dims});
}
Value variance(Value x, Axes axes, bool keep_dims, int64_t correction) {
  return emit(op::variance, {x}, VarianceAttrs{std::move(axes), keep_dims, correction});
}
Moments moments(Value x, Axes axes, bool keep_dims) {
  auto both = x.graph().emit(op::moments, {x}, ReduceDimsAttrs{std::move(axes), keep_dims});
  return {both[0], both[1]};
}
Value norm(Value x, NormKind kind, Axes axes, bool keep_dims) {
  return emit(op::norm, {x}, NormAttrs{kind, std::move(axes), keep_dims});
}
Value argmax(Value x, int64_t axis, bool keep_dims) { return emit(op::argmax, {x}, ArgReduceAttrs{axis, keep_dims}); }
Value argmin(Value x, int64_t axis, bool keep_dims) { return emit(op::argmin, {x}, ArgReduceAttrs{axis, keep_dims}); }
Value one_hot(Value index, Dim depth, DType dtype, int64_t axis, double on_value, double off_value) {
  return emit(op::one_hot, {index}, OneHotAttrs{std::move(depth), axis, dtype, on_value, off_value});
}
Value histogram(Value x, int64_t bins, double min, double max) {
  return emit(op::histogram, {x}, HistogramAttrs{bins, min, max});
}

namespace {

template <class A>
Type reduced_type(const Type& x, const A& a, DType dtype) {
  return {dtype, reduced_dims(x.dims, valid_axes(a.axes, x.rank()), a.keep_dims)};
}
/// y[lane] = f(the lane's elements).
template <class R, class T, class A, class F>
Tensor reduce_lanes(const Tensor& x, const A& a, DType dtype, F f) {
  Array<T> in(x);
  Array<R> y(shape_of(reduced_type(x.type(), a, dtype).dims));
  size_t i = 0;
  for (const auto& lane : lanes_of(x.shape(), valid_axes(a.axes, x.rank()))) {
    std::vector<T> values;
    for (size_t at : lane) values.push_back(in.data[at]);
    y.data[i++] = f(values);
  }
  return y.rounded_to(dtype);
}
template <class A>
Value with_dims(Value reduced, Value x, const Axes& axes, const A& a) {
  return reshape(reduced, reduced_dims(x.dims(), axes, a.keep_dims));
}

template <class T>
T mean_of(const std::vector<T>& values) {
  T sum{};
  for (const T& v : values) sum += v;
  return sum / static_cast<double>(values.size());
}
double variance_of(const std::vector<double>& values, double correction) {
  double mean = mean_of(values), sum = 0;
  for (double v : values) sum += (v - mean) * (v - mean);
  return sum / std::fmax(static_cast<double>(values.size()) - correction, 0);
}

// The corrected two passes: the sum of the squares of d = x - mean, less the square of d's sum over the count, which is
// 0 but for the rounding of the mean. Far from 0 that rounding is large beside the deviation: of f32 numbers near 1e6
// it changes the variance by percents. The result does not depend on which mean was subtracted, so no derivative flows
// through it. Rounding must not leave the difference below 0, whose square root would be NaN.
Value variance_parts(Value x, const Axes& axes, int64_t correction) {
  Value d = x - stop_gradient(broadcast_like(mean_over(x, axes), x, axes)), count = count_over(x, axes);
  Value rest = reduce_sum(d, axes), least = maximum(count, full_like(count, 1));  // of no numbers the sum is 0
  Value sum = reduce_sum(square(d), axes) - rest * (rest / least);
  if (correction) count = maximum(count - static_cast<double>(correction), zeros_like(count));
  return maximum(sum, zeros_like(sum)) / count;
}

/// Where the norm is 0 its derivative is taken to be 0, as PyTorch does; the quotient would be NaN.
Value norm_vjp(Values in, Value y, Value ct, const NormAttrs& a) {
  Value x = in[0];
  Axes axes = valid_axes(a.axes, x.dims().size());
  auto spread = [&](Value v) {  // one value a lane, at each of its elements
    v = reshape(v, pick(x.dims(), other_axes(x.dims().size(), axes)));
    return convert(broadcast_like(v, x, axes), x.dtype());
  };
  if (a.kind == NormKind::l1) return spread(ct) * conjugate(sign(x));
  Value none = zeros_like(y), is_zero = compare(y, none, Comparison::eq);
  return spread(select(is_zero, none, ct / select(is_zero, full_like(y, 1), y))) * conjugate(x);
}

std::vector<Sample> samples_over_axes() {
  return {{.dims = {{3, 4}}, .attrs = ReduceDimsAttrs{{1}}},
          {.dims = {{2, 3, 4}}, .attrs = ReduceDimsAttrs{{0, -1}, true}},
          {.dims = {{2, 3, 4}}, .attrs = ReduceDimsAttrs{{-2}}},
          {.dims = {{5}}, .attrs = ReduceDimsAttrs{{0}}},
          {.dims = {{2, 1}}, .attrs = ReduceDimsAttrs{{1}}},
          {.dims = {{2, 3}}, .attrs = ReduceDimsAttrs{{}, true}},
          {.dims = {{0, 3}}, .attrs = ReduceDimsAttrs{{1}}}};
}

OpDef define_position(std::string_view name, std::string_view doc, bool largest) {
  return define<ArgReduceAttrs>({
      .name = name,
      .doc = doc,
      .source = "NumPy, argmax",
      .operands = {"x"},
      .differentiable = false,
      .infer =
          [name](Types in, const ArgReduceAttrs& a) {
            require_kind(in[0], kBool | kInteger | kReal, "order");
            int64_t axis = valid_axis(a.axis, in[0].rank());
            require_places(i32, in[0], axis, name,
                           "for i64 places take reduce_min of an i64 iota where x equals its extreme");
            if (in[0].dims[size_t(axis)] == Dim(0))
              fail(ErrorCode::invalid_argument, "there is no extreme among the 0 elements along axis ", a.axis, " of ",
                   in[0]);
            return Type{i32, reduced_dims(in[0].dims, {axis}, a.keep_dims)};
          },
      .reference =
          [largest](Tensors in, const ArgReduceAttrs& a) {
            Axes axes = {valid_axis(a.axis, in[0].rank())};
            Array<int64_t> y(shape_of(reduced_dims(in[0].type().dims, axes, a.keep_dims)));
            with_element_type(in[0].dtype(), [&]<class T>() {
              if constexpr (!std::is_same_v<T, Complex>) {
                Array<T> x(in[0]);
                size_t at = 0;
                for (const auto& lane : lanes_of(x.shape, axes)) {
                  size_t best = 0;
                  for (size_t i = 1; i < lane.size(); ++i) {
                    T v = x.data[lane[i]], b = x.data[lane[best]];
                    if (b == b && (v != v || (largest ? b < v : v < b))) best = i;
                  }
                  y.data[at++] = static_cast<int64_t>(best);
                }
              }
            });
            return y.rounded_to(i32);
          },
      .decompose =
          [largest](Values in, const ArgReduceAttrs& a) {
            Value x = in[0];
            Axes axes = {valid_axis(a.axis, x.dims().size())};
            Value extreme = broadcast_like(reduce(x, largest ? Reduction::max : Reduction::min, axes), x, axes);
            Value hit = compare(x, extreme, Comparison::eq);
            // If there is a NaN, the extreme is NaN and equals nothing; then the NaNs are what is looked for.
            if (is_float(x.dtype())) hit = bitwise_or(hit, compare(x, x, Comparison::ne));
            Value place = iota(x.graph(), {i32, x.dims()}, axes[0]);
            Value first = reduce_min(select(hit, place, full_like(place, INT32_MAX)), axes);
            return with_dims(first, x, axes, a);
          },
      .batch =
          [largest](Values in, const ArgReduceAttrs& a) {
            return (largest ? argmax : argmin)(in[0], behind_batch(a.axis), a.keep_dims);
          },
      .samples = {{.dims = {{3, 5}}},
                  {.dims = {{4, 3}}, .attrs = ArgReduceAttrs{0, true}},
                  {.dims = {{2, 3, 4}}, .attrs = ArgReduceAttrs{1}},
                  {.dims = {{7}}, .dtypes = {i32}, .lo = -2, .hi = 2},
                  {.dims = {{2, 6}}, .dtypes = {boolean}},
                  {.dims = {{3, 1}}},
                  {.dims = {{0, 3}}}},
  });
}

/// Part i of [min, max] holds edge(i) <= x < edge(i + 1). The edges are rounded to the dtype in which x is
/// compared: then every backend counts alike, whatever its arithmetic.
Tensor edges(const HistogramAttrs& a, DType dtype, int64_t first) {
  GrowthLimit::count_table(a.bins, sizeof(double));
  Array<double> edge({a.bins});
  for (int64_t i = 0; i < a.bins; ++i) {
    double part = static_cast<double>(i + first) / static_cast<double>(a.bins);
    edge.data[size_t(i)] = a.min + (a.max - a.min) * part;
  }
  if (first == 1) {  // the last part includes max
    double& last = edge.data.back();
    last = dtype == f64 ? std::nextafter(a.max, INFINITY)
                        : static_cast<double>(std::nextafter(static_cast<float>(a.max), static_cast<float>(INFINITY)));
  }
  return edge.rounded_to(dtype);
}

}  // namespace

OpDef define_mean() {
  return define<ReduceDimsAttrs>({
      .name = "mean",
      .doc = "the mean over `axes`; of no elements NaN",
      .operands = {"x"},
      .covers = {"Reduce"},
      .infer =
          [](Types in, const ReduceDimsAttrs& a) {
            return require_kind(in[0], kReal | kComplex), reduced_type(in[0], a, in[0].dtype);
          },
      .reference =
          [](Tensors in, const ReduceDimsAttrs& a) {
            return with_kinds<kReal | kComplex>(
                in[0].dtype(), [&]<class T>() { return reduce_lanes<T, T>(in[0], a, in[0].dtype(), mean_of<T>); });
          },
      .decompose =
          [](Values in, const ReduceDimsAttrs& a) {
            Axes axes = valid_axes(a.axes, in[0].dims().size());
            return with_dims(mean_over(in[0], axes), in[0], axes, a);
          },
      .batch = [](Values in, const ReduceDimsAttrs& a) { return mean(in[0], behind_batch(a.axes), a.keep_dims); },
      .samples = samples_over_axes,
  });
}

OpDef define_variance() {
  return define<VarianceAttrs>({
      .name = "variance",
      .doc = "the mean of (x - mean)^2 over `axes`; the sum is divided by the count less `correction`, at "
             "least 0",
      .source = "Chan, Golub, LeVeque, The American Statistician 37 (1983): two passes, corrected",
      .operands = {"x"},
      .infer = [](Types in,
                  const VarianceAttrs& a) { return require_kind(in[0], kReal), reduced_type(in[0], a, in[0].dtype); },
      .reference =
          [](Tensors in, const VarianceAttrs& a) {
            return reduce_lanes<double, double>(in[0], a, in[0].dtype(), [&](const std::vector<double>& values) {
              return variance_of(values, static_cast<double>(a.correction));
            });
          },
      .decompose =
          [](Values in, const VarianceAttrs& a) {
            Axes axes = valid_axes(a.axes, in[0].dims().size());
            return with_dims(variance_parts(in[0], axes, a.correction), in[0], axes, a);
          },
      .batch = [](Values in,
                  const VarianceAttrs& a) { return variance(in[0], behind_batch(a.axes), a.keep_dims, a.correction); },
      .samples = {{.dims = {{3, 4}}, .attrs = VarianceAttrs{{1}}},
                  {.dims = {{2, 3, 4}}, .attrs = VarianceAttrs{{0, -1}, true, 1}},
                  {.dims = {{5}}, .attrs = VarianceAttrs{{0}}, .lo = 99, .hi = 101},
                  {.dims = {{2, 1}}, .attrs = VarianceAttrs{{1}, false, 1}},
                  {.dims = {{2, 3, 2}}, .attrs = VarianceAttrs{{-2}, false, 1}},
                  {.dims = {{}}, .attrs = VarianceAttrs{}}},
  });
}

OpDef define_moments() {
  return define<ReduceDimsAttrs>({
      .name = "moments",
      .doc = "the mean over `axes`, and the variance of that population",
      .operands = {"x"},
      .infer = [](Types in, const ReduceDimsAttrs& a) -> Many<Type> {
        require_kind(in[0], kReal);
        return {reduced_type(in[0], a, in[0].dtype), reduced_type(in[0], a, in[0].dtype)};
      },
      .reference = [](Tensors in, const ReduceDimsAttrs& a) -> Many<Tensor> {
        DType t = in[0].dtype();
        return {reduce_lanes<double, double>(in[0], a, t, mean_of<double>),
                reduce_lanes<double, double>(in[0], a, t, [](const auto& values) { return variance_of(values, 0); })};
      },
      .decompose = [](Values in, const ReduceDimsAttrs& a) -> Many<Value> {
        Axes axes = valid_axes(a.axes, in[0].dims().size());
        return {with_dims(mean_over(in[0], axes), in[0], axes, a),
                with_dims(variance_parts(in[0], axes, 0), in[0], axes, a)};
      },
      .batch = [](Values in, const ReduceDimsAttrs& a) -> Many<Value> {
        Moments both = moments(in[0], behind_batch(a.axes), a.keep_dims);
        return {both.mean, both.variance};
      },
      .samples = samples_over_axes,
  });
}

OpDef define_norm() {
  return define<NormAttrs>({
      .name = "norm",
      .doc = "over `axes`: l1, the sum of |x|; l2, the root of the sum of |x|^2. Of complex numbers a real "
             "number",
      .operands = {"x"},
      .infer =
          [](Types in, const NormAttrs& a) {
            return require_kind(in[0], kReal | kComplex), reduced_type(in[0], a, real_part(in[0].dtype));
          },
      .reference =
          [](Tensors in, const NormAttrs& a) {
            return with_kinds<kReal | kComplex>(in[0].dtype(), [&]<class T>() {
              return reduce_lanes<double, T>(in[0], a, real_part(in[0].dtype()), [&](const std::vector<T>& values) {
                double sum = 0;
                for (const T& v : values) sum += a.kind == NormKind::l1 ? std::abs(v) : std::norm(v);
                return a.kind == NormKind::l1 ? sum : std::sqrt(sum);
              });
            });
          },
      .decompose =
          [](Values in, const NormAttrs& a) {
            Axes axes = valid_axes(a.axes, in[0].dims().size());
            Value size = is_float(in[0].dtype()) && a.kind == NormKind::l2 ? in[0] : abs(in[0]);
            Value sum = reduce_sum(a.kind == NormKind::l2 ? square(size) : size, axes);
            return with_dims(a.kind == NormKind::l2 ? sqrt(sum) : sum, in[0], axes, a);
          },
      .vjp = norm_vjp,
      .batch = [](Values in, const NormAttrs& a) { return norm(in[0], a.kind, behind_batch(a.axes), a.keep_dims); },
      .samples = {{.dims = {{3, 4}}, .attrs = NormAttrs{NormKind::l2, {1}}},
                  {.dims = {{3, 4}}, .attrs = NormAttrs{NormKind::l1, {0}, true}},
                  {.dims = {{2, 3, 4}}, .attrs = NormAttrs{NormKind::l2, {-1, 0}}},
                  {.dims = {{2, 0}}, .attrs = NormAttrs{NormKind::l1, {1}}},
                  {.dims = {{2, 3}}, .dtypes = {c128}, .attrs = NormAttrs{NormKind::l2, {1}}},
                  {.dims = {{2, 3}}, .dtypes = {c128}, .attrs = NormAttrs{NormKind::l1, {1}}}},
  });
}

OpDef define_argmax() {
  return define_position("argmax",
                         "where the largest element stands along `axis` (i32): the first of equals, the "
                         "first NaN if there is one",
                         true) |
         Covers{"ArgMax"};
}
OpDef define_argmin() {
  return define_position(
             "argmin",
             "where the least element stands along `axis` (i32): the first of equals, the first NaN if there is one",
             false) |
         Covers{"ArgMin"};
}

OpDef define_one_hot() {
  return define<OneHotAttrs>({
      .name = "one_hot",
      .doc = "a new dim of extent `depth` at `axis`: on_value where the position equals the index, else "
             "off_value",
      .operands = {"index"},
      .differentiable = false,
      .infer =
          [](Types in, const OneHotAttrs& a) {
            require_kind(in[0], kInteger, "index");
            require_kind({a.dtype, {}}, kBool | kNumber, "result");
            if (a.depth.is_static() && a.depth.value() < 0)
              fail(ErrorCode::invalid_argument, "depth is ", a.depth, "; it counts classes and cannot be negative");
            for (double value : {a.on_value, a.off_value})
              if (is_integer(a.dtype) && load_number(full(a.dtype, {}, value), 0) != value)
                fail(ErrorCode::invalid_argument, a.dtype, " cannot hold ", value, "; use a float as dtype");
            Type t{a.dtype, in[0].dims};
            t.dims.insert(t.dims.begin() + valid_axis(a.axis, t.rank() + 1), a.depth);
            return t;
          },
      .reference =
          [](Tensors in, const OneHotAttrs& a) {
            Shape shape = in[0].shape();
            auto axis = size_t(valid_axis(a.axis, shape.size() + 1));
            shape.insert(shape.begin() + std::ptrdiff_t(axis), a.depth.value());
            Tensor y = full(a.dtype, shape, a.off_value), on = full(a.dtype, {}, a.on_value);
            with_element_type(a.dtype, [&]<class T>() {
              for_each_index(shape, [&](const Axes& i) {
                Axes at = i;
                at.erase(at.begin() + std::ptrdiff_t(axis));
                if (load_index(in[0], offset_of(in[0].shape(), at)) == i[axis])
                  store<T>(y, offset_of(shape, i), load<T>(on, 0));
              });
            });
            return y;
          },
      .decompose =
          [](Graph& g, Values in, const OneHotAttrs& a) {
            Dims dims = in[0].dims();
            int64_t axis = valid_axis(a.axis, dims.size() + 1);
            dims.insert(dims.begin() + axis, a.depth);
            // Positions must not wrap in a narrow index dtype; a huge u64 becomes negative and meets none.
            Value index = broadcast_in_dim(convert(in[0], i64), dims, other_axes(dims.size(), {axis}));
            Value hit = compare(index, iota(g, {i64, dims}, axis), Comparison::eq);
            return select(hit, full(g, a.on_value, {a.dtype, dims}), full(g, a.off_value, {a.dtype, dims}));
          },
      .batch =
          [](Values in, const OneHotAttrs& a) {
            return one_hot(in[0], a.depth, a.dtype, behind_batch(a.axis), a.on_value, a.off_value);
          },
      .samples = {{.dims = {{4}}, .dtypes = {i32}, .attrs = OneHotAttrs{5}, .lo = -1, .hi = 6},
                  {.dims = {{2, 3}}, .dtypes = {i64}, .attrs = OneHotAttrs{4, 0, f64, 2, -1}, .lo = 0, .hi = 4},
                  {.dims = {{2, 3}}, .dtypes = {u8}, .attrs = OneHotAttrs{3, 1, boolean}, .lo = 0, .hi = 5},
                  {.dims = {{}}, .dtypes = {i32}, .attrs = OneHotAttrs{3, -1, i32}, .lo = 0, .hi = 3}},
  });
}

OpDef define_histogram() {
  return define<HistogramAttrs>({
      .name = "histogram",
      .doc = "how many elements fall into each of `bins` equal parts of [min, max] (i32); a part includes "
             "its lower edge, the last "
             "one also max; what is outside, or NaN, is not counted",
      .source = "NumPy, histogram",
      .operands = {"x"},
      .covers = {"Histogram"},
      .differentiable = false,
      .infer =
          [](Types in, const HistogramAttrs& a) {
            require_kind(in[0], kReal);
            if (a.bins < 1 || !(a.min < a.max) || !std::isfinite(a.min) || !std::isfinite(a.max))
              fail(ErrorCode::invalid_argument, "a histogram needs at least one bin, and min < max, both finite; got ",
                   a.bins, " bins over [", a.min, ", ", a.max, "]");
            if (Dim count = element_count(in[0].dims); count.is_static() && count.value() > INT32_MAX)
              fail(ErrorCode::invalid_argument, "a histogram counts in i32, up to ", INT32_MAX, ", and ", in[0],
                   " has ", count, " elements; add up the histograms of its parts in i64");
            return Type{i32, {a.bins}};
          },
      .reference =
          [](Tensors in, const HistogramAttrs& a) {
            DType at_least_f32 = in[0].dtype() == f64 ? f64 : f32;
            Array<double> x(in[0]), lower(edges(a, at_least_f32, 0)), upper(edges(a, at_least_f32, 1));
            Array<int64_t> count({a.bins});
            for (double v : x.data)
              for (size_t i = 0; i < count.data.size(); ++i) count.data[i] += lower.data[i] <= v && v < upper.data[i];
            return count.rounded_to(i32);
          },
      .decompose =
          [](Graph& g, Values in, const HistogramAttrs& a) {
            Value x = reshape(in[0], {element_count(in[0].dims()), 1});
            Value lower = g.constant(edges(a, x.dtype(), 0)), upper = g.constant(edges(a, x.dtype(), 1));
            Value within = bitwise_and(compare(x, lower, Comparison::ge), compare(x, upper, Comparison::lt));
            return reduce_sum(convert(within, i32), {0});
          },
      .samples = {{.dims = {{9}}, .attrs = HistogramAttrs{4, -1, 2}},
                  {.dims = {{3, 5}}, .attrs = HistogramAttrs{1, -3, 3}},
                  {.dims = {{0}}, .attrs = HistogramAttrs{3}},
                  {.dims = {{}}, .attrs = HistogramAttrs{3, -2, 2}}},
  });
}

}  // namespace rlx
