// Losses that may end in one number, as composites; see rlx/ops/loss.h. Neighbour: loss.cpp, losses of each position.
#include <cmath>

#include "ops/core/composite_rules.h"
#include "rlx/ops/elementary.h"
#include "rlx/ops/loss.h"
#include "rlx/ops/reduction.h"
#include "rlx/ops/shape.h"
#include "rlx/ops/take.h"

namespace rlx {

Value cross_entropy(Value logits, Value labels, CrossEntropyAttrs attrs) {
  return emit(op::cross_entropy, {logits, class_labels(labels)}, attrs);
}
Value cross_entropy(Value logits, Value labels, Value weight, CrossEntropyAttrs attrs) {
  return emit(op::cross_entropy, {logits, class_labels(labels), weight}, attrs);
}
Value smooth_labels(Value targets, double smoothing, int64_t axis) {
  return emit(op::smooth_labels, {targets}, SmoothLabelsAttrs{smoothing, axis});
}
Value mse(Value prediction, Value target, LossReduction reduction) {
  return emit(op::mse, {prediction, target}, LossAttrs{reduction});
}
Value binary_cross_entropy_with_logits(Value logits, Value target, LossReduction reduction) {
  return emit(op::binary_cross_entropy_with_logits, {logits, target}, LossAttrs{reduction});
}
Value huber(Value prediction, Value target, double delta, LossReduction reduction) {
  return emit(op::huber, {prediction, target}, HuberAttrs{delta, reduction});
}
Value kl_divergence(Value log_prediction, Value target, KlDivergenceAttrs attrs) {
  return emit(op::kl_divergence, {log_prediction, target}, attrs);
}

namespace {

// ---- reductions ----
/// Of losses of type `t`.
Type reduced(const Type& t, LossReduction reduction) {
  if (reduction == LossReduction::batch_mean && t.rank() == 0)
    fail(ErrorCode::shape_mismatch, "batch_mean divides by the extent of the first dim, and the losses are ", t,
         "; reduce by mean or sum");
  return reduction == LossReduction::none ? t : Type{t.dtype, {}};
}
Value reduced(Value losses, LossReduction reduction) {
  Axes all = axes_from(0, losses.dims().size());
  switch (reduction) {
    case LossReduction::none: return losses;
    case LossReduction::mean: return mean_over(losses, all);
    case LossReduction::sum: return reduce_sum(losses, all);
    case LossReduction::batch_mean: return reduce_sum(losses, all) / count_over(losses, {0});
  }
  return losses;
}

/// A loss of each element and its target.
template <class A>
OpDef define_element_loss(std::string_view name, std::string_view doc, std::string_view x_name, std::string_view source,
                          double (*f)(double x, double target, const A&),
                          Value (*parts)(Value x, Value target, const A&), void (*check)(const A&),
                          std::vector<Sample> samples) {
  return define<A>({
      .name = name,
      .doc = doc,
      .source = source,
      .operands = {x_name, "target"},
      .infer =
          [check](Types in, const A& a) {
            check(a);
            require_kind(require_same(in), kReal);
            return reduced(in[0], a.reduction);
          },
      .reference =
          [f](Tensors in, const A& a) {
            Array<double> x(in[0]), target(in[1]);
            double sum = 0;
            for (size_t i = 0; i < x.data.size(); ++i) sum += x.data[i] = f(x.data[i], target.data[i], a);
            if (a.reduction == LossReduction::none) return x.rounded_to(in[0].dtype());
            if (a.reduction == LossReduction::mean) sum /= static_cast<double>(x.data.size());
            if (a.reduction == LossReduction::batch_mean) sum /= static_cast<double>(in[0].shape()[0]);
            return Array<double>({}, sum).rounded_to(in[0].dtype());
          },
      .decompose = [parts](Values in, const A& a) { return reduced(parts(in[0], in[1], a), a.reduction); },
      .samples = [samples = std::move(samples)] { return samples; },
  });
}

/// Samples of losses whose only attribute is the reduction.
std::vector<Sample> plain_samples() {
  return {{.dims = {{3, 4}, {3, 4}}},
          {.dims = {{2, 3, 2}, {2, 3, 2}}, .attrs = LossAttrs{LossReduction::none}},
          {.dims = {{5}, {5}}, .attrs = LossAttrs{LossReduction::sum}},
          {.dims = {{3, 7}, {3, 7}}, .attrs = LossAttrs{LossReduction::batch_mean}},
          {.dims = {{}, {}}},
          {.dims = {{0}, {0}}, .attrs = LossAttrs{LossReduction::sum}}};
}

// ---- cross_entropy ----
void check_smoothing(double smoothing, std::string_view name) {
  if (!(smoothing >= 0 && smoothing <= 1))
    fail(ErrorCode::invalid_argument, name, " is ", smoothing, "; it goes from 0 to 1");
}

/// The losses of all positions, 0 where the label does not count, and what each counts in a mean.
std::pair<Value, Value> position_losses(Values in, const CrossEntropyAttrs& a) {
  Value x = in[0], labels = convert(in[1], i64);
  Value index = x.graph().constant(Tensor::scalar(a.ignore_index));  // any 64 bits, which a double has not room for
  Value ignored = compare(labels, broadcast_to(index, labels.dims()), Comparison::eq);
  labels = select(ignored, zeros_like(labels), labels);  // a class that is there: its gradient is multiplied by 0
  const int64_t axis = valid_axis(a.axis, x.dims().size());
  Value loss = softmax_cross_entropy_with_logits(x, labels, axis), counts;
  if (in.size() > 2) {
    counts = take(in[2], labels, 0);
    if (a.label_smoothing > 0) {
      Value weights = broadcast_in_dim(in[2], x.dims(), {axis});
      Value all = softmax_cross_entropy(x, weights, axis) / count_over(x, {axis});
      loss = loss * counts * (1 - a.label_smoothing) + all * a.label_smoothing;
    } else {
      loss = loss * counts;
    }
  } else {
    counts = full_like(loss, 1);
    // The mean of -log_softmax over the classes is logsumexp less the mean of the logits.
    if (a.label_smoothing > 0)
      loss = loss * (1 - a.label_smoothing) + (logsumexp(x, {axis}) - mean_over(x, {axis})) * a.label_smoothing;
  }
  auto counted = [&](Value v) { return select(ignored, zeros_like(v), v); };
  return {counted(loss), counted(counts)};
}

}  // namespace

OpDef define_cross_entropy() {
  using A = CrossEntropyAttrs;
  return define<A>({
      .name = "cross_entropy",
      .doc = "The losses of softmax_cross_entropy_with_logits, 0 for labels that are `ignore_index`, reduced. "
             "`label_smoothing` gives that part of a label's weight to all classes in equal parts. With `weight` "
             "[classes] each class counts by its own; the mean is over the weights of the labels that count, NaN "
             "if none does",
      .source = "torch.nn.functional.cross_entropy; smoothing: Szegedy et al., CVPR 2016",
      .operands = {"logits", "labels", "weight?"},
      .infer =
          [](Types in, const A& a) {
            check_smoothing(a.label_smoothing, "label_smoothing");
            const Type& x = in[0];
            require_kind(x, kReal);
            require_kind(in[1], kInteger, "index");
            size_t axis = static_cast<size_t>(valid_axis(a.axis, x.rank()));
            Type losses{x.dtype, reduced_dims(x.dims, {static_cast<int64_t>(axis)}, false)};
            require_dims(in[1], losses.dims, "labels");
            if (Type wanted{x.dtype, {x.dims[axis]}}; in.size() > 2 && in[2] != wanted)
              fail(ErrorCode::shape_mismatch, "weight must be ", wanted, ", one for each class, got ", in[2]);
            return reduced(losses, a.reduction);
          },
      .decompose =
          [](Values in, const A& a) {
            auto [losses, counts] = position_losses(in, a);
            if (a.reduction != LossReduction::mean) return reduced(losses, a.reduction);
            return reduced(losses, LossReduction::sum) / reduced(counts, LossReduction::sum);
          },
      .samples = {{.dims = {{4, 5}, {4}}, .dtypes = {f64, i32}, .lo = 0, .hi = 5},
                  {.dims = {{2, 3, 4}, {2, 4}},
                   .dtypes = {f64, i64},
                   .attrs = A{.axis = 1, .ignore_index = 2, .reduction = LossReduction::none},
                   .lo = 0,
                   .hi = 3},
                  {.dims = {{7, 5}, {7}},
                   .dtypes = {f64, i32},
                   .attrs = A{.ignore_index = 1, .label_smoothing = 0.1},
                   .lo = 0,
                   .hi = 5},
                  {.dims = {{6, 3}, {6}, {3}},
                   .dtypes = {f64, u8, f64},
                   .attrs = A{.label_smoothing = 0.2, .reduction = LossReduction::sum},
                   .lo = 0.5,
                   .hi = 3},
                  {.dims = {{3}, {}, {3}}, .dtypes = {f64, i32, f64}, .lo = 0.5, .hi = 3},
                  {.dims = {{3, 19}, {3}},
                   .dtypes = {f16, i32},
                   .attrs = A{.reduction = LossReduction::batch_mean},
                   .lo = 0,
                   .hi = 5}},
  });
}

OpDef define_smooth_labels() {
  using A = SmoothLabelsAttrs;
  return define<A>({
      .name = "smooth_labels",
      .doc = "(1 - smoothing) targets + smoothing / classes, the classes along `axis`: for softmax_cross_entropy",
      .source = "Szegedy et al., CVPR 2016; optax.smooth_labels",
      .operands = {"targets"},
      .infer =
          [](Types in, const A& a) {
            check_smoothing(a.smoothing, "smoothing");
            require_kind(in[0], kReal);
            valid_axis(a.axis, in[0].rank());
            return in[0];
          },
      .decompose =
          [](Values in, const A& a) {
            int64_t axis = valid_axis(a.axis, in[0].dims().size());
            return in[0] * (1 - a.smoothing) + broadcast_to(a.smoothing / count_over(in[0], {axis}), in[0].dims());
          },
      .samples = {{.dims = {{4, 5}}},
                  {.dims = {{2, 3, 4}}, .attrs = A{0.3, 1}},
                  {.dims = {{3}}, .attrs = A{0, 0}},
                  {.dims = {{3, 19}}, .dtypes = {f16}},
                  {.dims = {{0, 3}}}},
  });
}

OpDef define_mse() {
  return define_element_loss<LossAttrs>(
      "mse", "(prediction - target)^2, reduced over all elements", "prediction", "",
      [](double x, double target, const LossAttrs&) { return (x - target) * (x - target); },
      [](Value x, Value target, const LossAttrs&) { return squared_difference(x, target); }, [](const LossAttrs&) {},
      plain_samples());
}
OpDef define_binary_cross_entropy_with_logits() {
  return define_element_loss<LossAttrs>(
      "binary_cross_entropy_with_logits",
      "-(target ln s + (1 - target) ln (1 - s)) with s = 1 / (1 + e^-logit), reduced over all elements", "logits", "",
      [](double x, double target, const LossAttrs&) {
        double large = std::log1p(std::exp(-std::abs(x)));  // -ln of the larger of s and 1 - s
        return target * (large + std::max(-x, 0.0)) + (1 - target) * (large + std::max(x, 0.0));
      },
      [](Value x, Value target, const LossAttrs&) {
        return maximum(x, zeros_like(x)) - x * target + log1p(exp(-abs(x)));
      },
      [](const LossAttrs&) {}, plain_samples());
}
OpDef define_huber() {
  using A = HuberAttrs;
  return define_element_loss<A>(
      "huber",
      "With d = |prediction - target|: d^2 / 2 where d is at most `delta`, else delta (d - delta / 2), reduced over "
      "all "
      "elements",
      "prediction", "Huber 1964, as torch.nn.functional.huber_loss",
      [](double x, double target, const A& a) {
        double d = std::abs(x - target);
        return d <= a.delta ? d * d / 2 : a.delta * (d - a.delta / 2);
      },
      [](Value x, Value target, const A& a) {
        // The parabola of what lies within, and the line of what lies beyond: no square overflows.
        Value d = abs(x - target), near = minimum(d, full_like(d, a.delta));
        return near * (d - near * 0.5);
      },
      [](const A& a) {
        if (!(a.delta > 0 && std::isfinite(a.delta)))
          fail(ErrorCode::invalid_argument, "delta is ", a.delta, "; it must be above 0 and finite");
      },
      {{.dims = {{3, 4}, {3, 4}}, .attrs = A{0.7}},
       {.dims = {{2, 3, 2}, {2, 3, 2}}, .attrs = A{1, LossReduction::none}},
       {.dims = {{5}, {5}}, .attrs = A{10, LossReduction::sum}},
       {.dims = {{3, 19}, {3, 19}}, .dtypes = {f16, f16}, .attrs = A{0.5, LossReduction::batch_mean}},
       {.dims = {{0}, {0}}, .attrs = A{1, LossReduction::sum}}});
}
OpDef define_kl_divergence() {
  using A = KlDivergenceAttrs;
  return define_element_loss<A>(
      "kl_divergence",
      "target (ln target - log_prediction), 0 where the target is 0; with `log_target` the target has logarithms too, "
      "of which "
      "-inf gives NaN. "
      "Reduced over all elements; batch_mean is the mean divergence of a batch of distributions",
      "log_prediction", "Kullback, Leibler 1951, as torch.nn.functional.kl_div",
      [](double x, double target, const A& a) {
        if (a.log_target) return std::exp(target) * (target - x);
        return target == 0 ? 0 : target * (std::log(target) - x);
      },
      [](Value x, Value target, const A& a) {
        if (a.log_target) return exp(target) * (target - x);
        // A target of 0 gets no derivative, and no logarithm of 0 is multiplied by it.
        Value zero = compare(target, zeros_like(target), Comparison::eq), one = full_like(target, 1);
        return select(zero, zeros_like(x), target * (log(select(zero, one, target)) - x));
      },
      [](const A&) {},
      {{.dims = {{3, 4}, {3, 4}}, .lo = 0.1, .hi = 1},
       {.dims = {{2, 3, 2}, {2, 3, 2}}, .attrs = A{true, LossReduction::none}},
       {.dims = {{5, 3}, {5, 3}}, .attrs = A{false, LossReduction::batch_mean}, .lo = 0.1, .hi = 1},
       {.dims = {{3, 19}, {3, 19}}, .dtypes = {f16, f16}, .attrs = A{false, LossReduction::sum}, .lo = 0.1, .hi = 1},
       {.dims = {{0}, {0}}, .attrs = A{true, LossReduction::sum}}});
}

}  // namespace rlx
