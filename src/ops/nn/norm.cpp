// Normalizations as composites; see the header. One reference serves them all: they differ in which elements
// share their statistics (lanes) and in which element of gamma and beta belongs to an element of x.
#include "rlx/ops/norm.h"

#include <cmath>

#include "ops/nn/norm_rules.h"
#include "rlx/ops/backward.h"
#include "rlx/ops/elementary.h"

namespace rlx {

Value layer_norm(Value x, Value gamma, Value beta, double epsilon, int64_t axis) {
  return emit(op::layer_norm, given({x, gamma, beta}), LayerNormAttrs{axis, epsilon, bool(gamma), bool(beta)});
}
Value rms_norm(Value x, Value gamma, Value beta, double epsilon, int64_t axis) {
  return emit(op::rms_norm, given({x, gamma, beta}), LayerNormAttrs{axis, epsilon, bool(gamma), bool(beta)});
}
Value group_norm(Value x, int64_t num_groups, Value gamma, Value beta, double epsilon) {
  return emit(op::group_norm, given({x, gamma, beta}), GroupNormAttrs{num_groups, epsilon, bool(gamma), bool(beta)});
}
Value instance_norm(Value x, Value gamma, Value beta, double epsilon) {
  return emit(op::instance_norm, given({x, gamma, beta}), ChannelNormAttrs{epsilon, bool(gamma), bool(beta)});
}
Value layer_norm_2d(Value x, Value gamma, Value beta, double epsilon) {
  return emit(op::layer_norm_2d, given({x, gamma, beta}), ChannelNormAttrs{epsilon, bool(gamma), bool(beta)});
}
Value batch_norm_inference(Value x, Value gamma, Value beta, Value mean, Value variance, double epsilon,
                           int64_t feature_axis) {
  return emit(op::batch_norm_inference, {x, gamma, beta, mean, variance}, BatchNormAttrs{feature_axis, epsilon});
}
Value l2_normalize(Value x, int64_t axis, double epsilon) {
  return emit(op::l2_normalize, {x}, L2NormalizeAttrs{axis, epsilon});
}

namespace {

ResidualNorm residual_norm(const OpDef& op, std::initializer_list<Value> operands, ResidualNormAttrs attrs) {
  auto values = given(operands);
  auto both = values[0].graph().emit(op, values, attrs);
  return {both[0], both[1]};
}

}  // namespace

ResidualNorm fused_residual_layer_norm(Value x, Value residual, Value bias, Value gamma, Value beta, double epsilon) {
  return residual_norm(op::fused_residual_layer_norm, {x, residual, bias, gamma, beta},
                       {epsilon, bool(bias), bool(beta)});
}
ResidualNorm fused_residual_rms_norm(Value x, Value residual, Value bias, Value gamma, Value beta, double epsilon) {
  return residual_norm(op::fused_residual_rms_norm, {x, residual, bias, gamma, beta},
                       {epsilon, bool(bias), bool(beta)});
}
Value ada_layer_norm(Value x, Value scale, Value shift, AdaNormKind kind, double epsilon) {
  return emit(op::ada_layer_norm, {x, scale, shift}, AdaLayerNormAttrs{kind, epsilon});
}
Value gated_residual(Value x, Value y, Value gate) { return emit(op::gated_residual, {x, y, gate}); }

namespace {

enum class Statistics { mean_and_variance, mean_square };

// ---- inference ----
void require_positive(double epsilon) {
  if (!(epsilon >= 0) || std::isinf(epsilon))
    fail(ErrorCode::invalid_argument, "epsilon must be a number >= 0, got ", epsilon);
}
/// x, then gamma and beta of `dims` where the attributes have them.
template <class A>
void require_affine(Types in, const A& a, const Dims& dims) {
  require_dtype(in, kReal);
  require_positive(a.epsilon);
  size_t wanted = size_t{1} + a.has_gamma + a.has_beta;
  require_operands(in.size(), wanted,
                   flag_text("has_gamma", a.has_gamma) + " and " + flag_text("has_beta", a.has_beta));
  if (a.has_gamma) require_dims(in[1], dims, "gamma");
  if (a.has_beta) require_dims(in.back(), dims, "beta");
}

// ---- reference ----
/// Normalizes the elements at these positions.
void normalize(Array<double>& x, const std::vector<size_t>& lane, Statistics statistics, double epsilon) {
  auto n = static_cast<double>(lane.size());
  double mean = 0, square = 0;
  if (statistics == Statistics::mean_and_variance) {
    for (size_t at : lane) mean += x.data[at];
    mean /= n;
  }
  for (size_t at : lane) square += (x.data[at] - mean) * (x.data[at] - mean);
  double root = std::sqrt(square / n + epsilon);
  for (size_t at : lane) x.data[at] = (x.data[at] - mean) / root;
}
/// x * gamma + beta, which lie along `axes` of x.
template <class A>
void apply_affine(Array<double>& x, Tensors in, const A& a, const Axes& axes) {
  Shape shape = pick(x.shape, axes);
  Array<double> gamma(a.has_gamma ? Array<double>(in[1]) : Array<double>(shape, 1));
  Array<double> beta(a.has_beta ? Array<double>(in[in.size() - 1]) : Array<double>(shape, 0));
  for_each_index(x.shape, [&](const Axes& i) {
    size_t at = offset_of(shape, pick(i, axes));
    double& v = x.at(i);
    v = v * gamma.data[at] + beta.data[at];
  });
}
template <class A>
Tensor normalized(Tensors in, const A& a, Statistics statistics, const Axes& axes, const Axes& affine) {
  Array<double> x(in[0]);
  for (const auto& lane : lanes_of(x.shape, axes)) normalize(x, lane, statistics, a.epsilon);
  apply_affine(x, in, a, affine);
  return x.rounded_to(in[0].dtype());
}

// ---- decomposition ----
Value normalized_parts(Value x, Statistics statistics, const Axes& axes, double epsilon) {
  Value y = statistics == Statistics::mean_and_variance ? centered(x, axes) : x;
  return y * broadcast_like(rsqrt(mean_over(square(y), axes) + epsilon), x, axes);
}
template <class A>
Value affine_parts(Value y, Values in, const A& a, const Axes& axes) {
  if (a.has_gamma) y = y * broadcast_in_dim(in[1], y.dims(), axes);
  if (a.has_beta) y = y + broadcast_in_dim(in.back(), y.dims(), axes);
  return y;
}

template <class A>
Value gamma_of(Values in, const A& a) {
  return a.has_gamma ? in[1] : Value{};
}

OpDef define_trailing_norm(std::string_view name, std::string_view doc, std::string_view source,
                           Statistics statistics) {
  return define<LayerNormAttrs>({
      .name = name,
      .doc = doc,
      .source = source,
      .operands = {"x", "gamma?", "beta?"},
      .infer =
          [](Types in, const LayerNormAttrs& a) {
            require_affine(in, a, pick(in[0].dims, trailing_axes(a.axis, in[0].rank())));
            return in[0];
          },
      .reference =
          [statistics](Tensors in, const LayerNormAttrs& a) {
            Axes axes = trailing_axes(a.axis, in[0].rank());
            return normalized(in, a, statistics, axes, axes);
          },
      .decompose =
          [statistics](Values in, const LayerNormAttrs& a) {
            Axes axes = trailing_axes(a.axis, in[0].dims().size());
            return affine_parts(normalized_parts(in[0], statistics, axes, a.epsilon), in, a, axes);
          },
      .vjp =
          [statistics](Values in, Value, Value ct, const LayerNormAttrs& a) {
            bool centers = statistics == Statistics::mean_and_variance;
            return Many<Value>((centers ? layer_norm_backward : rms_norm_backward)(in[0], gamma_of(in, a), ct, a));
          },
      .samples =
          {{.dims = {{3, 4}, {4}, {4}}},
           {.dims = {{2, 3, 5}, {3, 5}, {3, 5}}, .attrs = LayerNormAttrs{.axis = 1, .epsilon = 1e-3}},
           {.dims = {{2, 3, 5}, {5}}, .attrs = LayerNormAttrs{.has_beta = false}},
           {.dims = {{3, 4}, {4}}, .attrs = LayerNormAttrs{.has_gamma = false}},
           {.dims = {{6}}, .attrs = LayerNormAttrs{.has_gamma = false, .has_beta = false}, .lo = -1e3, .hi = 1e3},
           {.dims = {{3, 1}, {1}, {1}}},
           {.dims = {{0, 3}, {3}, {3}}}},
  });
}

Axes space_of(size_t rank) { return axes_from(2, rank - 2); }

/// A norm of x[n, c, ...] with gamma[c] and beta[c]; `axes` are those whose elements share their statistics.
OpDef define_channel_norm(std::string_view name, std::string_view doc, std::string_view source, size_t least_rank,
                          Axes (*axes)(size_t rank)) {
  return define<ChannelNormAttrs>({
      .name = name,
      .doc = doc,
      .source = source,
      .operands = {"x", "gamma?", "beta?"},
      .infer =
          [least_rank](Types in, const ChannelNormAttrs& a) {
            require_rank(in[0], least_rank, SIZE_MAX, "x");
            require_affine(in, a, {in[0].dims[1]});
            return in[0];
          },
      .reference =
          [axes](Tensors in, const ChannelNormAttrs& a) {
            return normalized(in, a, Statistics::mean_and_variance, axes(in[0].rank()), {1});
          },
      .decompose =
          [axes](Values in, const ChannelNormAttrs& a) {
            Axes over = axes(in[0].dims().size());
            return affine_parts(normalized_parts(in[0], Statistics::mean_and_variance, over, a.epsilon), in, a, {1});
          },
      .samples = {{.dims = {{2, 3, 4}, {3}, {3}}},
                  {.dims = {{2, 3, 2, 4}, {3}, {3}}, .attrs = ChannelNormAttrs{.epsilon = 1e-3}},
                  {.dims = {{1, 2, 3, 2, 2}, {2}}, .attrs = ChannelNormAttrs{.has_beta = false}},
                  {.dims = {{2, 1, 3}}, .attrs = ChannelNormAttrs{.has_gamma = false, .has_beta = false}}},
  });
}

/// The operands behind x and residual, by the attributes.
template <class T>
struct ResidualOperands {
  const T *bias = nullptr, *gamma, *beta = nullptr;
  ResidualOperands(std::span<const T> in, const ResidualNormAttrs& a) : gamma(&in[size_t{2} + a.has_bias]) {
    if (a.has_bias) bias = &in[2];
    if (a.has_beta) beta = &in.back();
  }
};

OpDef define_residual_norm(std::string_view name, std::string_view doc, Statistics statistics) {
  return define<ResidualNormAttrs>({
      .name = name,
      .doc = doc,
      .operands = {"x", "residual", "bias?", "gamma", "beta?"},
      .infer = [](Types in, const ResidualNormAttrs& a) -> Many<Type> {
        require_dtype(in, kReal);
        require_positive(a.epsilon);
        size_t wanted = size_t{3} + a.has_bias + a.has_beta;
        require_operands(in.size(), wanted,
                         flag_text("has_bias", a.has_bias) + " and " + flag_text("has_beta", a.has_beta));
        require_rank(in[0], 1, SIZE_MAX, "x");
        require_dims(in[1], in[0].dims, "residual");
        ResidualOperands<Type> operands(in, a);
        Dims last = {in[0].dims.back()};
        if (operands.bias) require_dims(*operands.bias, last, "bias");
        require_dims(*operands.gamma, last, "gamma");
        if (operands.beta) require_dims(*operands.beta, last, "beta");
        return {in[0], in[0]};
      },
      .reference = [statistics](Tensors in, const ResidualNormAttrs& a) -> Many<Tensor> {
        ResidualOperands<Tensor> operands(in, a);
        Array<double> x(in[0]), residual(in[1]), gamma(*operands.gamma);
        size_t n = gamma.data.size();
        Array<double> bias(operands.bias ? Array<double>(*operands.bias) : Array<double>(gamma.shape, 0));
        Array<double> beta(operands.beta ? Array<double>(*operands.beta) : Array<double>(gamma.shape, 0));
        for (size_t i = 0; i < x.data.size(); ++i) x.data[i] = (x.data[i] + bias.data[i % n]) + residual.data[i];
        Tensor sum = x.rounded_to(in[0].dtype());
        for (const auto& lane : lanes_of(x.shape, {int64_t(in[0].rank()) - 1}))
          normalize(x, lane, statistics, a.epsilon);
        for (size_t i = 0; i < x.data.size(); ++i) x.data[i] = x.data[i] * gamma.data[i % n] + beta.data[i % n];
        return {x.rounded_to(in[0].dtype()), sum};
      },
      .decompose = [statistics](Values in, const ResidualNormAttrs& a) -> Many<Value> {
        ResidualOperands<Value> operands(in, a);
        Value sum = (operands.bias ? in[0] + *operands.bias : in[0]) + in[1];
        Value y = normalized_parts(sum, statistics, {sum.rank() - 1}, a.epsilon) * *operands.gamma;
        return {operands.beta ? y + *operands.beta : y, sum};
      },
      .vjp = [statistics](Values in, Values, Values cts, const ResidualNormAttrs& a) -> Many<Value> {
        ResidualOperands<Value> operands(in, a);
        Value d_sum = cts[1], d_gamma, d_beta;
        if (cts[0]) {
          Value sum = (operands.bias ? in[0] + *operands.bias : in[0]) + in[1];
          bool centers = statistics == Statistics::mean_and_variance;
          auto d = (centers ? layer_norm_backward : rms_norm_backward)(
              sum, *operands.gamma, cts[0], LayerNormAttrs{.epsilon = a.epsilon, .has_beta = a.has_beta});
          d_sum = d_sum ? d_sum + d[0] : d[0];
          d_gamma = d[1];
          if (a.has_beta) d_beta = d[2];
        }
        Many<Value> all = {d_sum, d_sum};
        if (a.has_bias) all.push_back(summed_to(d_sum, operands.bias->dims()));
        all.push_back(d_gamma);
        if (a.has_beta) all.push_back(d_beta);
        return all;
      },
      .samples = {{.dims = {{3, 4}, {3, 4}, {4}, {4}}},
                  {.dims = {{2, 3, 4}, {2, 3, 4}, {4}, {4}, {4}}, .attrs = ResidualNormAttrs{1e-6, true, true}},
                  {.dims = {{2, 5}, {2, 5}, {5}}, .attrs = ResidualNormAttrs{.has_beta = false}},
                  {.dims = {{5}, {5}, {5}, {5}}, .attrs = ResidualNormAttrs{1e-12, true, false}},
                  {.dims = {{0, 4}, {0, 4}, {4}, {4}}}},
  });
}

}  // namespace

OpDef define_layer_norm() {
  return define_trailing_norm("layer_norm",
                              "(x - mean) / sqrt(variance + epsilon) * gamma + beta over the dims from `axis` on",
                              "Ba, Kiros, Hinton, arXiv:1607.06450", Statistics::mean_and_variance) |
         Covers{"LayerNorm", "LayerNormBackwardInput", "LayerNormBackwardGamma"};
}
OpDef define_rms_norm() {
  return define_trailing_norm("rms_norm", "x / sqrt(mean(x^2) + epsilon) * gamma + beta over the dims from `axis` on",
                              "Zhang, Sennrich, NeurIPS 2019", Statistics::mean_square) |
         Covers{"RmsNorm", "RmsNormBackwardInput", "RmsNormBackwardGamma", "RmsNormBackwardBeta"};
}
OpDef define_instance_norm() {
  return define_channel_norm("instance_norm",
                             "layer_norm of x[n, c, ...] over all of space, for each n and channel; gamma[c], beta[c]",
                             "Ulyanov, Vedaldi, Lempitsky, arXiv:1607.08022", 3, space_of);
}
OpDef define_layer_norm_2d() {
  return define_channel_norm("layer_norm_2d",
                             "layer_norm of x[n, c, ...] over the channels, for each n and place; gamma[c], beta[c]",
                             "Liu et al., CVPR 2022", 2, [](size_t) { return Axes{1}; }) |
         Covers{"LayerNorm2d"};
}

OpDef define_group_norm() {
  return define<GroupNormAttrs>({
      .name = "group_norm",
      .doc = "layer_norm of x[n, c, ...] over the channels of a group and all of space, for each n; "
             "gamma[c], beta[c]",
      .source = "Wu, He, ECCV 2018",
      .operands = {"x", "gamma?", "beta?"},
      .covers = {"GroupNorm"},
      .infer =
          [](Types in, const GroupNormAttrs& a) {
            grouped_dims(in[0], a.num_groups);
            require_affine(in, a, {in[0].dims[1]});
            return in[0];
          },
      .reference =
          [](Tensors in, const GroupNormAttrs& a) {
            Array<double> x(in[0]);
            int64_t in_group = x.shape[1] / a.num_groups;
            for (int64_t n = 0; n < x.shape[0]; ++n)
              for (int64_t group = 0; group < a.num_groups; ++group) {
                std::vector<size_t> lane;
                for_each_index(x.shape, [&](const Axes& i) {
                  if (i[0] == n && i[1] / in_group == group) lane.push_back(offset_of(x.shape, i));
                });
                normalize(x, lane, Statistics::mean_and_variance, a.epsilon);
              }
            apply_affine(x, in, a, {1});
            return x.rounded_to(in[0].dtype());
          },
      .decompose =
          [](Values in, const GroupNormAttrs& a) {
            Value x = reshape(in[0], grouped_dims(in[0].type(), a.num_groups));
            Value y = normalized_parts(x, Statistics::mean_and_variance, space_of(x.dims().size()), a.epsilon);
            return affine_parts(reshape(y, in[0].dims()), in, a, {1});
          },
      .vjp = [](Values in, Value, Value ct, const GroupNormAttrs& a) -> Many<Value> {
        return group_norm_backward(in[0], gamma_of(in, a), ct, a);
      },
      .samples = {{.dims = {{2, 4, 3, 2}, {4}, {4}}, .attrs = GroupNormAttrs{2}},
                  {.dims = {{2, 4, 3}, {4}},
                   .attrs = GroupNormAttrs{.num_groups = 4, .epsilon = 1e-3, .has_beta = false}},
                  {.dims = {{3, 6}, {6}, {6}}, .attrs = GroupNormAttrs{2}},
                  {.dims = {{1, 4, 2, 2, 2}}, .attrs = GroupNormAttrs{.has_gamma = false, .has_beta = false}}},
  });
}

OpDef define_batch_norm_inference() {
  return define<BatchNormAttrs>({
      .name = "batch_norm_inference",
      .doc = "(x - mean) / sqrt(variance + epsilon) * gamma + beta, the last four given for each place along "
             "feature_axis",
      .source = "Ioffe, Szegedy, ICML 2015",
      .operands = {"x", "gamma", "beta", "mean", "variance"},
      .covers = {"BatchNormInference", "BatchNormInferenceBackwardInput", "BatchNormInferenceBackwardGamma",
                 "BatchNormInferenceBackwardBeta"},
      .infer =
          [](Types in, const BatchNormAttrs& a) {
            require_dtype(in, kReal);
            require_positive(a.epsilon);
            Dims features = {in[0].dims[size_t(valid_axis(a.feature_axis, in[0].rank()))]};
            const char* names[] = {"gamma", "beta", "mean", "variance"};
            for (size_t i = 1; i < 5; ++i) require_dims(in[i], features, names[i - 1]);
            return in[0];
          },
      .reference =
          [](Tensors in, const BatchNormAttrs& a) {
            Array<double> x(in[0]), gamma(in[1]), beta(in[2]), mean(in[3]), variance(in[4]);
            auto axis = size_t(valid_axis(a.feature_axis, in[0].rank()));
            for_each_index(x.shape, [&](const Axes& i) {
              auto f = size_t(i[axis]);
              x.at(i) =
                  (x.at(i) - mean.data[f]) / std::sqrt(variance.data[f] + a.epsilon) * gamma.data[f] + beta.data[f];
            });
            return x.rounded_to(in[0].dtype());
          },
      .decompose =
          [](Values in, const BatchNormAttrs& a) {
            Axes axis = {valid_axis(a.feature_axis, in[0].dims().size())};
            auto along = [&](Value v) { return broadcast_in_dim(v, in[0].dims(), axis); };
            return (in[0] - along(in[3])) * along(rsqrt(in[4] + a.epsilon) * in[1]) + along(in[2]);
          },
      .vjp = [](Values in, Value, Value ct, const BatchNormAttrs& a) -> Many<Value> {
        return batch_norm_inference_backward(in[0], in[1], in[3], in[4], ct, a);
      },
      .samples = {{.dims = {{3, 4}, {4}, {4}, {4}, {4}}, .lo = 0.1, .hi = 2},
                  {.dims = {{2, 3, 2, 2}, {3}, {3}, {3}, {3}}, .attrs = BatchNormAttrs{1, 1e-3}, .lo = 0.1, .hi = 2},
                  {.dims = {{5}, {5}, {5}, {5}, {5}}, .lo = 0.1, .hi = 2},
                  {.dims = {{2, 1, 0}, {1}, {1}, {1}, {1}}, .attrs = BatchNormAttrs{-2}, .lo = 0.1, .hi = 2}},
  });
}

OpDef define_l2_normalize() {
  return define<L2NormalizeAttrs>({
      .name = "l2_normalize",
      .doc = "x / max(sqrt(sum x^2), epsilon) along `axis`",
      .source = "PyTorch, torch.nn.functional.normalize",
      .operands = {"x"},
      .infer =
          [](Types in, const L2NormalizeAttrs& a) {
            require_kind(in[0], kReal);
            require_positive(a.epsilon);
            return valid_axis(a.axis, in[0].rank()), in[0];
          },
      .reference =
          [](Tensors in, const L2NormalizeAttrs& a) {
            Array<double> x(in[0]);
            for (const auto& lane : lanes_of(x.shape, {valid_axis(a.axis, in[0].rank())})) {
              double sum = 0;
              for (size_t at : lane) sum += x.data[at] * x.data[at];
              double length = std::sqrt(sum);
              for (size_t at : lane) x.data[at] /= length < a.epsilon ? a.epsilon : length;  // NaN stays
            }
            return x.rounded_to(in[0].dtype());
          },
      .decompose =
          [](Values in, const L2NormalizeAttrs& a) {
            Axes axis = {valid_axis(a.axis, in[0].dims().size())};
            Value length = norm(in[0], NormKind::l2, axis);
            return in[0] / broadcast_like(maximum(length, full_like(length, a.epsilon)), in[0], axis);
          },
      .samples = {{.dims = {{3, 4}}},
                  {.dims = {{2, 3, 4}}, .attrs = L2NormalizeAttrs{1, 1e-6}},
                  {.dims = {{5}}, .attrs = L2NormalizeAttrs{0, 10}},
                  {.dims = {{2, 1}}}},
  });
}

OpDef define_fused_residual_layer_norm() {
  return define_residual_norm("fused_residual_layer_norm",
                              "sum = (x + bias) + residual, and layer_norm(sum) over the last dim; the norm "
                              "is of the sum before it is rounded",
                              Statistics::mean_and_variance) |
         Covers{"FusedResidualLN"};
}
OpDef define_fused_residual_rms_norm() {
  return define_residual_norm("fused_residual_rms_norm",
                              "sum = (x + bias) + residual, and rms_norm(sum) over the last dim; the norm is "
                              "of the sum before it is rounded",
                              Statistics::mean_square) |
         Covers{"FusedResidualRmsNorm"};
}

OpDef define_ada_layer_norm() {
  return define<AdaLayerNormAttrs>({
      .name = "ada_layer_norm",
      .doc = "norm(x) (1 + scale) + shift, the norm over the last dim; scale and shift broadcast to x",
      .source = "Peebles, Xie, ICCV 2023",
      .operands = {"x", "scale", "shift"},
      .covers = {"AdaLayerNorm"},
      .infer =
          [](Types in, const AdaLayerNormAttrs& a) {
            require_dtype(in, kReal);
            require_positive(a.epsilon);
            require_rank(in[0], 1, SIZE_MAX, "x");
            require_broadcasts(in[1], in[0].dims, "scale");
            require_broadcasts(in[2], in[0].dims, "shift");
            return in[0];
          },
      .decompose =
          [](Values in, const AdaLayerNormAttrs& a) {
            Statistics statistics =
                a.kind == AdaNormKind::layer_norm ? Statistics::mean_and_variance : Statistics::mean_square;
            return normalized_parts(in[0], statistics, {in[0].rank() - 1}, a.epsilon) * (1.0 + in[1]) + in[2];
          },
      .vjp = [](Values in, Value, Value ct, const AdaLayerNormAttrs& a) -> Many<Value> {
        return ada_layer_norm_backward(in[0], in[1], in[2], ct, a);
      },
      .samples = {{.dims = {{2, 3, 4}, {2, 1, 4}, {2, 1, 4}}},
                  {.dims = {{3, 4}, {4}, {3, 1}}, .attrs = AdaLayerNormAttrs{AdaNormKind::rms_norm, 1e-6}},
                  {.dims = {{4}, {}, {1}}},
                  {.dims = {{0, 3}, {3}, {1, 1}}}},
  });
}

OpDef define_gated_residual() {
  return define<>({
      .name = "gated_residual",
      .doc = "x + gate y; y and gate broadcast to x",
      .source = "Peebles, Xie, ICCV 2023",
      .operands = {"x", "y", "gate"},
      .covers = {"GatedResidual"},
      .infer =
          [](Types in) {
            require_dtype(in, kReal);
            require_broadcasts(in[1], in[0].dims, "y");
            require_broadcasts(in[2], in[0].dims, "gate");
            return in[0];
          },
      .decompose = [](Values in) { return in[0] + broadcast_to(in[2] * in[1], in[0].dims()); },
      .vjp = [](Values in, Value, Value ct) -> Many<Value> { return gated_residual_backward(in[1], in[2], ct); },
      .samples = {{.dims = {{2, 3, 4}, {2, 3, 4}, {2, 1, 4}}},
                  {.dims = {{3, 4}, {4}, {}}},
                  {.dims = {{}, {}, {}}},
                  {.dims = {{2, 0}, {1}, {2, 1}}}},
  });
}

}  // namespace rlx
