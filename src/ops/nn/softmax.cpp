// Softmax, its logarithm, and the logarithm of its denominator. All shift by the maximum first, so that the
// largest term is e^0 and nothing overflows.
#include "rlx/ops/softmax.h"

#include <cmath>

#include "ops/core/composite_rules.h"
#include "rlx/ops/elementary.h"

namespace rlx {

Value softmax(Value x, int64_t axis) { return emit(op::softmax, {x}, AxisAttrs{axis}); }
Value log_softmax(Value x, int64_t axis) { return emit(op::log_softmax, {x}, AxisAttrs{axis}); }
Value logsumexp(Value x, Axes axes, bool keep_dims) {
  return emit(op::logsumexp, {x}, ReduceDimsAttrs{std::move(axes), keep_dims});
}

namespace {

constexpr std::string_view kShift =
    "Blanchard, Higham, Higham, IMA J. Numer. Anal. 41 (2021): the shift by the maximum";

double max_of(const std::vector<double>& x) {
  double max = -INFINITY;
  for (double v : x)
    if (!(v <= max)) max = v;  // NaN is taken and stays: nothing compares with it
  return max;
}

/// An op that maps each lane along `axis` to one of the same length.
OpDef along_axis(std::string_view name, std::string_view doc, void (*f)(std::vector<double>&),
                 Value (*parts)(Value, int64_t), Value (*vjp)(Value y, Value ct, int64_t axis)) {
  return define<AxisAttrs>({
      .name = name,
      .doc = doc,
      .source = kShift,
      .operands = {"x"},
      .infer = [](Types in,
                  const AxisAttrs& a) { return require_kind(in[0], kReal), valid_axis(a.axis, in[0].rank()), in[0]; },
      .reference =
          [f](Tensors in, const AxisAttrs& a) {
            Array<double> x(in[0]);
            for (const auto& lane : lanes_of(x.shape, {valid_axis(a.axis, in[0].rank())})) {
              std::vector<double> values;
              for (size_t at : lane) values.push_back(x.data[at]);
              f(values);
              for (size_t i = 0; i < lane.size(); ++i) x.data[lane[i]] = values[i];
            }
            return x.rounded_to(in[0].dtype());
          },
      .decompose = [parts](Values in,
                           const AxisAttrs& a) { return parts(in[0], valid_axis(a.axis, in[0].dims().size())); },
      .vjp = [vjp](Values, Value y, Value ct, const AxisAttrs& a) { return vjp(y, ct, a.axis); },
      .batch = [name](Values in,
                      const AxisAttrs& a) { return emit(find_op(name), {in[0]}, AxisAttrs{behind_batch(a.axis)}); },
      .samples = {{.dims = {{4, 7}}},
                  {.dims = {{2, 3, 5}}, .attrs = AxisAttrs{1}},
                  {.dims = {{3, 2, 2}}, .attrs = AxisAttrs{-3}},
                  {.dims = {{6}}},
                  {.dims = {{3, 1}}},
                  {.dims = {{2, 0}}},
                  {.dims = {{3, 9}}, .lo = -1e4, .hi = 1e4}},
  });
}

Value shifted(Value x, int64_t axis) { return x - broadcast_like(stop_gradient(reduce_max(x, {axis})), x, {axis}); }

}  // namespace

OpDef define_softmax() {
  return along_axis(
             "softmax", "y_i = e^x_i / sum_j e^x_j along `axis`; NaN where all x are -inf, or one is inf",
             [](std::vector<double>& x) {
               double max = max_of(x), sum = 0;
               for (double& v : x) sum += v = std::exp(v - max);
               for (double& v : x) v /= sum;
             },
             [](Value x, int64_t axis) {
               Value e = exp(shifted(x, axis));
               return e / broadcast_like(reduce_sum(e, {axis}), x, {axis});
             },
             [](Value y, Value ct, int64_t axis) {
               Value yc = y * ct;
               return yc - y * broadcast_like(reduce_sum(yc, {axis}), y, {axis});
             }) |
         Covers{"Softmax"};
}
OpDef define_log_softmax() {
  return along_axis(
      "log_softmax", "y_i = x_i - ln sum_j e^x_j along `axis`",
      [](std::vector<double>& x) {
        double max = max_of(x), sum = 0;
        for (double v : x) sum += std::exp(v - max);
        for (double& v : x) v = v - max - std::log(sum);
      },
      [](Value x, int64_t axis) {
        Value s = shifted(x, axis);
        return s - broadcast_like(log(reduce_sum(exp(s), {axis})), x, {axis});
      },
      [](Value y, Value ct, int64_t axis) { return ct - exp(y) * broadcast_like(reduce_sum(ct, {axis}), y, {axis}); });
}
OpDef define_logsumexp() {
  return define<ReduceDimsAttrs>({
      .name = "logsumexp",
      .doc = "ln of the sum of e^x over `axes`; of no elements, or of -inf alone, -inf",
      .source = kShift,
      .operands = {"x"},
      .infer =
          [](Types in, const ReduceDimsAttrs& a) {
            require_kind(in[0], kReal);
            return Type{in[0].dtype, reduced_dims(in[0].dims, valid_axes(a.axes, in[0].rank()), a.keep_dims)};
          },
      .reference =
          [](Tensors in, const ReduceDimsAttrs& a) {
            Array<double> x(in[0]);
            Axes axes = valid_axes(a.axes, in[0].rank());
            Array<double> y(shape_of(reduced_dims(in[0].type().dims, axes, a.keep_dims)));
            size_t at = 0;
            for (const auto& lane : lanes_of(x.shape, axes)) {
              std::vector<double> values;
              for (size_t i : lane) values.push_back(x.data[i]);
              double max = max_of(values), sum = 0;
              for (double v : values) sum += v == max ? 1 : std::exp(v - max);  // inf - inf would be NaN
              y.data[at++] = values.empty() ? max : max + std::log(sum);
            }
            return y.rounded_to(in[0].dtype());
          },
      .decompose =
          [](Values in, const ReduceDimsAttrs& a) {
            Value x = in[0];
            Axes axes = valid_axes(a.axes, x.dims().size());
            Value max = stop_gradient(reduce_max(x, axes));
            max = select(is_finite(max), max, zeros_like(max));  // an infinite shift would leave inf - inf
            Value sum = reduce_sum(exp(x - broadcast_like(max, x, axes)), axes);
            return reshape(log(sum) + max, reduced_dims(x.dims(), axes, a.keep_dims));
          },
      .vjp =
          [](Values in, Value y, Value ct, const ReduceDimsAttrs& a) {
            Value x = in[0];
            Axes axes = valid_axes(a.axes, x.dims().size());
            Dims kept = reduced_dims(x.dims(), axes, false);
            Value shift = reshape(y, kept);
            shift = select(is_finite(shift), shift, zeros_like(shift));  // an infinite one would leave inf - inf
            return exp(x - broadcast_like(shift, x, axes)) * broadcast_like(reshape(ct, kept), x, axes);
          },
      .samples = {{.dims = {{3, 4}}, .attrs = ReduceDimsAttrs{{1}}},
                  {.dims = {{2, 3, 4}}, .attrs = ReduceDimsAttrs{{0, -1}, true}},
                  {.dims = {{5}}, .attrs = ReduceDimsAttrs{{0}}, .lo = -1e4, .hi = 1e4},
                  {.dims = {{2, 0}}, .attrs = ReduceDimsAttrs{{1}}},
                  {.dims = {{2, 3}}, .attrs = ReduceDimsAttrs{{}}}},
  });
}

}  // namespace rlx
