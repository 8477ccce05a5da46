// Fake quantization put into a graph; see rlx/quantization.h.
#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/quant/smallest_scale.h"
#include "quantization/plan.h"
#include "rlx/element.h"
#include "rlx/ops.h"

namespace rlx {
namespace {

using quantization::PlannedActivation;
using quantization::PlannedWeight;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

int64_t most_code(int64_t bits) { return (int64_t{1} << (bits - 1)) - 1; }

Quantization::Point point_of(const PlannedActivation& a, const Graph& g, const QuantizationConfig& config) {
  const int64_t high = most_code(a.bits);
  return {a.name, false, g.type(a.value).dtype, config.symmetric ? -high : -high - 1, high, {}, 0};
}
Quantization::Point point_of(const PlannedWeight& w, const Graph& g) {
  const Type& t = g.type(w.value);
  const int64_t high = most_code(w.bits);
  return {w.name, true, t.dtype, -high, high, {t.dims[static_cast<size_t>(w.axis)]}, w.axis};
}

/// How many numbers share a scale: of an activation, those of one example.
double sharing(const Type& t, const Quantization::Point& p) {
  double count = 1;
  for (size_t d = 0; d < t.dims.size(); ++d) {
    if (p.is_weight ? static_cast<int64_t>(d) == p.axis : d == 0 && t.rank() > 1) continue;
    if (!t.dims[d].is_static())
      fail(ErrorCode::shape_mismatch, "the scale of '", p.name, "', ", t,
           ", cannot be learned: its gradient is scaled by how many numbers an example has, and dim ", d,
           " is no number");
    count *= static_cast<double>(t.dims[d].value());
  }
  return std::max(count, 1.0);
}

/// Emits the quantizers of one graph.
class Inserter {
 public:
  Inserter(Quantization& q, bool training) : q_(q), to_(q.graph), training_(training) {}

  Value activation(Value x, const Quantization::Point& p) {
    FakeQuantizeAffineAttrs attrs{p.low, p.high, {}, q_.config.ste};
    switch (q_.config.activations) {
      case ScaleKind::learned: {
        // Q_P of the paper is the number of steps above 0; codes with a zero point count from their lowest.
        const auto steps = static_cast<double>(q_.config.symmetric ? p.high : p.high - p.low);
        attrs.gradient_scale = 1 / std::sqrt(sharing(x.type(), p) * steps);
        [[fallthrough]];
      }
      case ScaleKind::fixed: {
        Value scale = to_.param(p.name + ".scale", p.dtype, {});
        Value zero = q_.config.symmetric ? Value{} : to_.param(p.name + ".zero_point", i32, {});
        return fake_quantize_affine(x, scale, zero, attrs);
      }
      case ScaleKind::ema: {
        Value state = to_.param(p.name + ".range", p.dtype, {2});
        if (!training_) return by_range(x, state, p, attrs);
        Value now = range_of(x), started = compare(element(state, 0), element(state, 1), Comparison::le);
        Value mean = state * q_.config.decay + now * (1 - q_.config.decay);
        Value next = select(broadcast_in_dim(started, {2}, {}), mean, now);
        written_.emplace_back(p.name + ".range", next);
        return by_range(x, next, p, attrs);
      }
      case ScaleKind::per_batch: break;
    }
    return by_range(x, range_of(x), p, attrs);
  }

  Value weight(Value w, const Quantization::Point& p) {
    FakeQuantizeAffineAttrs attrs{p.low, p.high, {p.axis}, q_.config.ste};
    Axes others = other_axes(w.dims().size(), {p.axis});
    auto current = [&] { return at_least(reduce_max(abs(w), others) / static_cast<double>(p.high), kLeastScale); };
    Value scale;
    if (q_.config.weights == ScaleKind::per_batch) scale = current();
    else scale = to_.param(p.name + ".scale", p.dtype, p.scales);
    if (q_.config.weights == ScaleKind::learned)
      attrs.gradient_scale = 1 / std::sqrt(sharing(w.type(), p) * static_cast<double>(p.high));
    if (q_.config.weights == ScaleKind::ema && training_) {
      Value started = compare(scale, zeros_like(scale), Comparison::gt), now = current();
      scale = select(started, scale * q_.config.decay + now * (1 - q_.config.decay), now);
      written_.emplace_back(p.name + ".scale", scale);
    }
    return fake_quantize_affine(w, scale, {}, attrs);
  }

  void output_written() {
    for (const auto& [param, value] : written_) {
      q_.written[param] = "new/" + param;
      to_.output(value, q_.written[param]);
    }
  }

 private:
  Value at_least(Value v, double least) { return maximum(v, scalar(to_, least, v.dtype())); }
  static Value element(Value v, int64_t i) { return reshape(slice_axis(v, 0, i, i + 1), {}); }
  static Value range_of(Value x) {
    Axes all = axes_from(0, x.dims().size());
    return concatenate({reshape(reduce_min(x, all), {1}), reshape(reduce_max(x, all), {1})}, 0);
  }
  /// The arithmetic of scale_for, in the graph.
  Value by_range(Value x, Value range, const Quantization::Point& p, const FakeQuantizeAffineAttrs& attrs) {
    Value zero = scalar(to_, 0, x.dtype());
    Value least = minimum(element(range, 0), zero), most = maximum(element(range, 1), zero);
    if (q_.config.symmetric)
      return fake_quantize_affine(x, at_least(maximum(-least, most) / static_cast<double>(p.high), kLeastScale), {},
                                  attrs);
    Value scale = at_least((most - least) / static_cast<double>(p.high - p.low), kLeastScale);
    Value zero_point = static_cast<double>(p.low) - round_nearest_even(least / scale);
    zero_point =
        minimum(at_least(zero_point, static_cast<double>(p.low)), scalar(to_, static_cast<double>(p.high), x.dtype()));
    return fake_quantize_affine(x, scale, convert(zero_point, i32), attrs);
  }

  Quantization& q_;
  Graph& to_;
  bool training_;
  std::vector<std::pair<std::string, Value>> written_;
};

Tensor filled(DType dtype, const Shape& shape, std::initializer_list<double> values) {
  Tensor t(dtype, shape);
  size_t i = 0;
  for (double value : values) store<double>(t, i++, value);
  return t;
}

/// max|w| / high for each place along the axis.
Tensor weight_scales(const Tensor& w, const Quantization::Point& p) {
  const auto axis = static_cast<size_t>(p.axis);
  Tensor scales(p.dtype, {w.shape()[axis]});
  size_t inner = 1;
  for (size_t d = axis + 1; d < w.rank(); ++d) inner *= static_cast<size_t>(w.shape()[d]);
  const auto channels = static_cast<size_t>(w.shape()[axis]);
  std::vector<double> most(channels, 0);
  for (size_t i = 0; i < w.element_count(); ++i) {
    double value = std::abs(load_number(w, i));
    if (!std::isfinite(value))
      fail(ErrorCode::invalid_argument, "element ", i, " of the weight '", p.name, "' is ", load_number(w, i),
           "; a scale needs finite numbers");
    double& so_far = most[i / inner % channels];
    so_far = std::max(so_far, value);
  }
  for (size_t c = 0; c < channels; ++c)
    store<double>(scales, c, std::max(most[c] / static_cast<double>(p.high), kLeastScale));
  return scales;
}

/// A scale that stands for no number cannot be fixed: training would never leave what its codes reach.
void check_fixed(const Tensor& scales, const Quantization::Point& p) {
  double most = 0;
  for (size_t i = 0; i < scales.element_count(); ++i) most = std::max(most, load_number(scales, i));
  if (scales.element_count() > 0 && most <= 1.01 * kLeastScale)  // as bf16 rounds it
    fail(ErrorCode::invalid_argument, "the weight '", p.name, "' is 0, or nearly, in all of its ",
         scales.element_count(),
         " channels, so that no fixed scale follows from it; take per_batch for the scales of weights, or leave its "
         "layer float");
}

/// The number that `dtype` has for the scale of `p`.
Tensor activation_scale(double scale, const Quantization::Point& p, Range range) {
  Tensor rounded = filled(p.dtype, {}, {scale});
  if (!std::isfinite(load_number(rounded, 0)))
    fail(ErrorCode::invalid_argument, "a range from ", range.low, " to ", range.high, " has the scale ", scale,
         ", which ", p.dtype, " does not hold");
  return rounded;
}

}  // namespace

Quantization add_quantization(const Graph& g, const QuantizationConfig& config, bool training) {
  const quantization::Plan plan = quantization::plan_of(g, config);
  Quantization q{config, Graph(g.name()), {}, {}};
  Inserter insert(q, training);
  std::map<Ref, size_t> activations;   // places in q.points
  std::map<size_t, size_t> weight_of;  // the same, by the node
  for (const PlannedActivation& a : plan.activations) {
    activations.emplace(a.value, q.points.size());
    q.points.push_back(point_of(a, g, config));
  }
  for (const PlannedWeight& w : plan.weights) {
    for (size_t node : w.nodes) weight_of[node] = q.points.size();
    q.points.push_back(point_of(w, g));
  }
  std::vector<Value> made(q.points.size());
  auto outputs = quantization::copied(q.graph, g,
                                      {.operands =
                                           [&](size_t node, std::vector<Value>& operands) {
                                             auto found = weight_of.find(node);
                                             if (found == weight_of.end()) return;
                                             Value& weight = made[found->second];
                                             Quantization::Point& point = q.points[found->second];
                                             point.value = operands[1].ref();
                                             if (!weight) weight = insert.weight(operands[1], point);
                                             operands[1] = weight;
                                           },
                                       .result =
                                           [&](Ref r, Value v) {
                                             auto found = activations.find(r);
                                             if (found == activations.end()) return v;
                                             q.points[found->second].value = v.ref();
                                             return insert.activation(v, q.points[found->second]);
                                           }});
  for (size_t i = 0; i < outputs.size(); ++i) q.graph.output(outputs[i], g.outputs()[i].name);
  insert.output_written();
  return q;
}

NamedTensors Quantization::initial(const NamedTensors& params, const Calibration* ranges) const {
  const Session device;
  NamedTensors values;
  for (const Point& p : points) {
    const ScaleKind kind = p.is_weight ? config.weights : config.activations;
    if (kind == ScaleKind::per_batch) continue;
    if (p.is_weight) {
      const Tensor weight = quantization::known_values(graph, {&p.value, 1}, params, device)[0];
      Tensor scales = weight_scales(weight, p);
      if (kind == ScaleKind::fixed) check_fixed(scales, p);
      values.emplace(p.name + ".scale", std::move(scales));
    } else if (kind == ScaleKind::ema) {
      Range range = ranges ? ranges->at(p.name).range : Range{kInfinity, -kInfinity};
      values.emplace(p.name + ".range", filled(p.dtype, {2}, {range.low, range.high}));
    } else {
      if (!ranges)
        fail(ErrorCode::invalid_argument, "the scale of '", p.name, "' is ", names_of(kind)[static_cast<size_t>(kind)],
             ": it begins with a range that was observed; calibrate the graph first");
      const Range& range = ranges->at(p.name).range;
      with_context([&] { return "the scale of '" + p.name + "'"; },
                   [&] {
                     CodeScale scale = scale_for(range, p.low, p.high, config.symmetric);
                     values.emplace(p.name + ".scale", activation_scale(scale.scale, p, range));
                     if (!config.symmetric)
                       values.emplace(p.name + ".zero_point",
                                      Tensor::scalar<int32_t>(static_cast<int32_t>(scale.zero_point)));
                   });
    }
  }
  return values;
}

std::vector<ParamGroup> Quantization::groups() const {
  ParamGroup frozen, learned;
  frozen.frozen = true, learned.weight_decay = 0;
  for (const Point& p : points) {
    const ScaleKind kind = p.is_weight ? config.weights : config.activations;
    if (kind == ScaleKind::learned) learned.params.push_back(p.name + ".scale");
    if (kind == ScaleKind::fixed) frozen.params.push_back(p.name + ".scale");
  }
  std::vector<ParamGroup> all;
  if (!frozen.params.empty()) all.push_back(std::move(frozen));
  if (!learned.params.empty()) all.push_back(std::move(learned));
  return all;
}

}  // namespace rlx
