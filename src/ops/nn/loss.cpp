// Losses of classes, one for each position, as composites; see the header. Neighbour: reduced_losses.cpp, losses that
// end in one number.
#include "rlx/ops/loss.h"

#include <cmath>

#include "ops/core/composite_rules.h"
#include "rlx/ops/backward.h"
#include "rlx/ops/elementary.h"

namespace rlx {

Value class_labels(Value numbers) {
  if (!is_float(numbers.dtype())) return numbers;
  Value whole = convert(numbers, i32);
  // NaN, infinities and what i32 does not hold come back as other numbers too.
  Value same = compare(convert(whole, numbers.dtype()), numbers, Comparison::eq);
  return select(same, whole, full_like(whole, kNoClass));
}
Value softmax_cross_entropy_with_logits(Value logits, Value labels, int64_t axis) {
  return emit(op::softmax_cross_entropy_with_logits, {logits, class_labels(labels)}, AxisAttrs{axis});
}
Value softmax_cross_entropy_backward(Value logits, Value labels, Value ct, int64_t axis) {
  return emit(op::softmax_cross_entropy_backward, {logits, labels, ct}, AxisAttrs{axis});
}
Value nll(Value log_probs, Value labels, int64_t axis) {
  return emit(op::nll, {log_probs, class_labels(labels)}, AxisAttrs{axis});
}
Value softmax_cross_entropy(Value logits, Value targets, int64_t axis) {
  return emit(op::softmax_cross_entropy, {logits, targets}, AxisAttrs{axis});
}

namespace {

/// The labels' dims and their kind fit x, which has a dim of classes besides.
Type label_type(const Type& x, const Type& labels, const AxisAttrs& a) {
  require_kind(x, kReal);
  require_kind(labels, kInteger, "index");
  Type t{x.dtype, reduced_dims(x.dims, {valid_axis(a.axis, x.rank())}, false)};
  require_dims(labels, t.dims, "labels");
  return t;
}
/// Where along `axis` of x the class is that the label names.
Value named_classes(Value x, Value labels, int64_t axis) {
  // A row of numbers that is stretched: all of them in memory would take longer than the comparison.
  Value classes = iota(x.graph(), {i64, {x.dims()[static_cast<size_t>(axis)]}}, 0);
  return compare(broadcast_like(convert(labels, i64), x, {axis}), broadcast_in_dim(classes, x.dims(), {axis}),
                 Comparison::eq);
}

/// A loss of x, which has a dim of classes, for labels that name one each: `f` of the classes' values and the
/// label, `parts` of x and of the labels' own values.
OpDef define_label_loss(std::string_view name, std::string_view doc, std::string_view x_name,
                        double (*f)(const std::vector<double>&, size_t label),
                        Value (*parts)(Value x, Value chosen, int64_t axis)) {
  return define<AxisAttrs>({
      .name = name,
      .doc = doc,
      .operands = {x_name, "labels"},
      .infer = [](Types in, const AxisAttrs& a) { return label_type(in[0], in[1], a); },
      .reference =
          [f](Tensors in, const AxisAttrs& a) {
            Array<double> x(in[0]), y(in[1].shape());
            size_t i = 0;
            for (const auto& lane : lanes_of(x.shape, {valid_axis(a.axis, in[0].rank())})) {
              std::vector<double> values;
              for (size_t at : lane) values.push_back(x.data[at]);
              int64_t label = load_index(in[1], i);
              bool valid = label >= 0 && label < static_cast<int64_t>(values.size());
              y.data[i++] = valid ? f(values, static_cast<size_t>(label)) : NAN;
            }
            return y.rounded_to(in[0].dtype());
          },
      .decompose =
          [parts](Values in, const AxisAttrs& a) {
            Value x = in[0];
            int64_t axis = valid_axis(a.axis, x.dims().size());
            Value hit = named_classes(x, in[1], axis);
            Value chosen = reduce_sum(select(hit, x, zeros_like(x)), {axis});
            return select(reduce_any(hit, {axis}), parts(x, chosen, axis), full_like(chosen, NAN));
          },
      .samples = {{.dims = {{4, 5}, {4}}, .dtypes = {f64, i32}, .lo = 0, .hi = 5},
                  {.dims = {{2, 3, 4}, {2, 4}}, .dtypes = {f64, i64}, .attrs = AxisAttrs{1}, .lo = -1, .hi = 4},
                  {.dims = {{3}, {}}, .dtypes = {f64, i32}, .lo = 0, .hi = 3},
                  {.dims = {{0, 3}, {0}}, .dtypes = {f64, i32}},
                  {.dims = {{3, 6}, {3}}, .dtypes = {f64, u8}, .lo = 0, .hi = 200}},
  });
}

double log_sum_exp(const std::vector<double>& x) {
  double max = *std::max_element(x.begin(), x.end()), sum = 0;
  if (std::isinf(max)) return max;
  for (double v : x) sum += std::exp(v - max);
  return max + std::log(sum);
}

}  // namespace

OpDef define_softmax_cross_entropy_with_logits() {
  OpDef op = define_label_loss(
      "softmax_cross_entropy_with_logits",
      "logsumexp(logits) - logits[label] along `axis`; NaN for a label that is no class", "logits",
      [](const std::vector<double>& x, size_t label) { return log_sum_exp(x) - x[label]; },
      [](Value x, Value chosen, int64_t axis) { return logsumexp(x, {axis}) - chosen; });
  op.covers = {"SoftmaxCrossEntropyWithLogits"};
  op.vjp = [](Values in, Values, Values cts, const Attrs& a, const Transforms&) -> Many<Value> {
    return softmax_cross_entropy_backward(in[0], in[1], cts[0], a.as<AxisAttrs>().axis);
  };
  return op;
}
OpDef define_softmax_cross_entropy_backward() {
  return define<AxisAttrs>({
      .name = "softmax_cross_entropy_backward",
      .doc = "(softmax(logits) - one_hot(labels)) ct along `axis`: the cotangent of the logits of "
             "softmax_cross_entropy_with_logits; NaN, as the loss, for a label that is no class",
      .operands = {"logits", "labels", "ct"},
      .covers = {"SoftmaxCrossEntropyBackward"},
      .infer =
          [](Types in, const AxisAttrs& a) {
            Type loss = label_type(in[0], in[1], a);
            if (in[2] != loss) fail(ErrorCode::shape_mismatch, "ct must be ", loss, " as the loss, got ", in[2]);
            return in[0];
          },
      .decompose =
          [](Values in, const AxisAttrs& a) {
            Value x = in[0];
            int64_t axis = valid_axis(a.axis, x.dims().size());
            Value hit = named_classes(x, in[1], axis);
            Value ct = select(reduce_any(hit, {axis}), in[2], full_like(in[2], NAN));
            return (softmax(x, axis) - convert(hit, x.dtype())) * broadcast_like(ct, x, {axis});
          },
      .samples =
          {{.dims = {{4, 5}, {4}, {4}}, .dtypes = {f64, i32, f64}, .lo = 0, .hi = 5},
           {.dims = {{2, 3, 4}, {2, 4}, {2, 4}}, .dtypes = {f64, i64, f64}, .attrs = AxisAttrs{1}, .lo = -1, .hi = 4},
           {.dims = {{3}, {}, {}}, .dtypes = {f64, i32, f64}, .lo = 0, .hi = 3},
           {.dims = {{0, 3}, {0}, {0}}, .dtypes = {f64, i32, f64}},
           {.dims = {{3, 6}, {3}, {3}}, .dtypes = {f64, u8, f64}, .lo = 0, .hi = 200}},
  });
}
OpDef define_nll() {
  OpDef op = define_label_loss(
      "nll", "-log_probs[label] along `axis`; NaN for a label that is no class", "log_probs",
      [](const std::vector<double>& x, size_t label) { return -x[label]; },
      [](Value, Value chosen, int64_t) { return -chosen; });
  // Derived, it would look for the labels among all classes on the way forward too.
  op.vjp = [](Values in, Values, Values cts, const Attrs& a, const Transforms&) -> Many<Value> {
    int64_t axis = valid_axis(a.as<AxisAttrs>().axis, in[0].dims().size());
    Value ct = broadcast_like(-cts[0], in[0], {axis});
    return select(named_classes(in[0], in[1], axis), ct, zeros_like(ct));
  };
  return op;
}

OpDef define_softmax_cross_entropy() {
  return define<AxisAttrs>({
      .name = "softmax_cross_entropy",
      .doc = "-sum of targets * log_softmax(logits) along `axis`; where a target is 0, nothing is added",
      .operands = {"logits", "targets"},
      .covers = {"SoftmaxCrossEntropy"},
      .infer =
          [](Types in, const AxisAttrs& a) {
            require_kind(require_same(in), kReal);
            return Type{in[0].dtype, reduced_dims(in[0].dims, {valid_axis(a.axis, in[0].rank())}, false)};
          },
      .reference =
          [](Tensors in, const AxisAttrs& a) {
            Array<double> x(in[0]), targets(in[1]);
            Axes axes = {valid_axis(a.axis, in[0].rank())};
            Array<double> y(shape_of(reduced_dims(in[0].type().dims, axes, false)));
            size_t i = 0;
            for (const auto& lane : lanes_of(x.shape, axes)) {
              std::vector<double> values;
              for (size_t at : lane) values.push_back(x.data[at]);
              double sum = 0, all = values.empty() ? 0 : log_sum_exp(values);
              for (size_t at : lane)
                if (targets.data[at] != 0) sum += targets.data[at] * (all - x.data[at]);
              y.data[i++] = sum;
            }
            return y.rounded_to(in[0].dtype());
          },
      .decompose =
          [](Values in, const AxisAttrs& a) {
            Value zero = zeros_like(in[0]);
            Value terms = in[1] * -log_softmax(in[0], a.axis);
            terms = select(compare(in[1], zero, Comparison::eq), zero, terms);  // 0 times infinity would be NaN
            return reduce_sum(terms, {a.axis});
          },
      .samples = {{.dims = {{4, 5}, {4, 5}}},
                  {.dims = {{2, 3, 4}, {2, 3, 4}}, .attrs = AxisAttrs{1}, .lo = 0, .hi = 1},
                  {.dims = {{6}, {6}}},
                  {.dims = {{0, 3}, {0, 3}}},
                  {.dims = {{3, 1, 2}, {3, 1, 2}}, .attrs = AxisAttrs{-2}},
                  {.dims = {{3, 19}, {3, 19}}, .dtypes = {f16, f16}, .lo = 0, .hi = 1}},
  });
}

}  // namespace rlx
