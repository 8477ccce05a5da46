// Backward kinds of the norms; see rlx/ops/backward.h. With h the normalized x, r the root by which it was divided and
// g = ct gamma, all take dx = (g - mean(g) - h mean(g h)) / r; the rms norms leave out the first mean.
#include "ops/nn/norm_rules.h"
#include "rlx/ops/backward.h"
#include "rlx/ops/elementary.h"

namespace rlx {

std::vector<Value> layer_norm_backward(Value x, Value gamma, Value ct, LayerNormAttrs attrs) {
  return x.graph().emit(op::layer_norm_backward, given({x, gamma, ct}), attrs);
}
std::vector<Value> rms_norm_backward(Value x, Value gamma, Value ct, LayerNormAttrs attrs) {
  return x.graph().emit(op::rms_norm_backward, given({x, gamma, ct}), attrs);
}
std::vector<Value> group_norm_backward(Value x, Value gamma, Value ct, GroupNormAttrs attrs) {
  return x.graph().emit(op::group_norm_backward, given({x, gamma, ct}), attrs);
}
std::vector<Value> batch_norm_inference_backward(Value x, Value gamma, Value mean, Value variance, Value ct,
                                                 BatchNormAttrs attrs) {
  return x.graph().emit(op::batch_norm_inference_backward, {x, gamma, mean, variance, ct}, attrs);
}
std::vector<Value> ada_layer_norm_backward(Value x, Value scale, Value shift, Value ct, AdaLayerNormAttrs attrs) {
  return x.graph().emit(op::ada_layer_norm_backward, {x, scale, shift, ct}, attrs);
}
std::vector<Value> gated_residual_backward(Value y, Value gate, Value ct) {
  return ct.graph().emit(op::gated_residual_backward, {y, gate, ct});
}

namespace {

struct Normalized {
  Axes axes;
  Value h, inverse_root;  // both like x
  bool is_centered;

  Normalized(Value x, const Axes& over, double epsilon, bool with_mean) : axes(over), is_centered(with_mean) {
    Value y = with_mean ? centered(x, axes) : x;
    inverse_root = broadcast_like(rsqrt(mean_over(square(y), axes) + epsilon), x, axes);
    h = y * inverse_root;
  }
  Value ct_of_x(Value g) const {
    Value d = g - h * broadcast_like(mean_over(g * h, axes), g, axes);
    if (is_centered) d = d - broadcast_like(mean_over(g, axes), g, axes);
    return d * inverse_root;
  }
};

/// x, gamma if there is one, ct.
template <class A>
Many<Type> norm_backward_types(Types in, const A& a, const Dims& affine) {
  require_dtype(in, kReal);
  require_operands(in.size(), size_t{2} + a.has_gamma, flag_text("has_gamma", a.has_gamma));
  if (a.has_gamma) require_dims(in[1], affine, "gamma");
  require_dims(in.back(), in[0].dims, "ct");
  Many<Type> types = {in[0]};
  types.resize(size_t{1} + a.has_gamma + a.has_beta, Type{in[0].dtype, affine});
  return types;
}
/// The results, with gamma and beta along `along` of x. `h` and `d_x` are made by the norm.
template <class A>
Many<Value> norm_backward(Value x, Value gamma, Value ct, const A& a, const Axes& along,
                          const std::function<std::pair<Value, Value>(Value g)>& parts) {
  Axes summed = other_axes(x.dims().size(), along);
  auto [h, d_x] = parts(a.has_gamma ? ct * broadcast_in_dim(gamma, x.dims(), along) : ct);
  Many<Value> all = {d_x};
  if (a.has_gamma) all.push_back(reduce_sum(ct * h, summed));
  if (a.has_beta) all.push_back(reduce_sum(ct, summed));
  return all;
}

OpDef define_trailing_norm_backward(std::string_view name, std::string_view doc, std::vector<std::string_view> covers,
                                    bool with_mean) {
  return define<LayerNormAttrs>({
      .name = name,
      .doc = doc,
      .operands = {"x", "gamma?", "ct"},
      .covers = std::move(covers),
      .infer =
          [](Types in, const LayerNormAttrs& a) {
            return norm_backward_types(in, a, pick(in[0].dims, trailing_axes(a.axis, in[0].rank())));
          },
      .decompose =
          [with_mean](Values in, const LayerNormAttrs& a) {
            Axes axes = trailing_axes(a.axis, in[0].dims().size());
            return norm_backward(in[0], in[1], in.back(), a, axes, [&](Value g) {
              Normalized x(in[0], axes, a.epsilon, with_mean);
              return std::pair(x.h, x.ct_of_x(g));
            });
          },
      .samples = {{.dims = {{3, 4}, {4}, {3, 4}}},
                  {.dims = {{2, 3, 5}, {3, 5}, {2, 3, 5}}, .attrs = LayerNormAttrs{.axis = 1, .epsilon = 1e-3}},
                  {.dims = {{2, 3, 5}, {5}, {2, 3, 5}}, .attrs = LayerNormAttrs{.has_beta = false}},
                  {.dims = {{3, 4}, {3, 4}}, .attrs = LayerNormAttrs{.has_gamma = false}},
                  {.dims = {{6}, {6}}, .attrs = LayerNormAttrs{.has_gamma = false, .has_beta = false}},
                  {.dims = {{0, 3}, {3}, {0, 3}}}},
  });
}

}  // namespace

OpDef define_layer_norm_backward() {
  return define_trailing_norm_backward("layer_norm_backward",
                                       "the cotangents of x, gamma and beta of layer_norm, whose attributes it takes",
                                       {"LayerNormBackwardInput", "LayerNormBackwardGamma"}, true);
}
OpDef define_rms_norm_backward() {
  return define_trailing_norm_backward("rms_norm_backward",
                                       "the cotangents of x, gamma and beta of rms_norm, whose attributes it takes",
                                       {"RmsNormBackwardInput", "RmsNormBackwardGamma", "RmsNormBackwardBeta"}, false);
}

OpDef define_group_norm_backward() {
  return define<GroupNormAttrs>({
      .name = "group_norm_backward",
      .doc = "the cotangents of x, gamma and beta of group_norm, whose attributes it takes",
      .operands = {"x", "gamma?", "ct"},
      .covers = {"GroupNormBackwardInput", "GroupNormBackwardGamma", "GroupNormBackwardBeta"},
      .infer =
          [](Types in, const GroupNormAttrs& a) {
            grouped_dims(in[0], a.num_groups);
            return norm_backward_types(in, a, {in[0].dims[1]});
          },
      .decompose =
          [](Values in, const GroupNormAttrs& a) {
            Dims dims = in[0].dims(), grouped = grouped_dims(in[0].type(), a.num_groups);
            return norm_backward(in[0], in[1], in.back(), a, {1}, [&](Value g) {
              Normalized x(reshape(in[0], grouped), axes_from(2, grouped.size() - 2), a.epsilon, true);
              return std::pair(reshape(x.h, dims), reshape(x.ct_of_x(reshape(g, grouped)), dims));
            });
          },
      .samples = {{.dims = {{2, 4, 3, 2}, {4}, {2, 4, 3, 2}}, .attrs = GroupNormAttrs{2}},
                  {.dims = {{2, 4, 3}, {4}, {2, 4, 3}},
                   .attrs = GroupNormAttrs{.num_groups = 4, .epsilon = 1e-3, .has_beta = false}},
                  {.dims = {{3, 6}, {6}, {3, 6}}, .attrs = GroupNormAttrs{2}},
                  {.dims = {{1, 4, 2, 1, 2}, {1, 4, 2, 1, 2}},
                   .attrs = GroupNormAttrs{.has_gamma = false, .has_beta = false}}},
  });
}

OpDef define_batch_norm_inference_backward() {
  return define<BatchNormAttrs>({
      .name = "batch_norm_inference_backward",
      .doc = "the cotangents of x, gamma, beta, mean and variance of batch_norm_inference, whose attributes it takes",
      .operands = {"x", "gamma", "mean", "variance", "ct"},
      .covers = {"BatchNormInferenceBackwardInput", "BatchNormInferenceBackwardGamma",
                 "BatchNormInferenceBackwardBeta"},
      .infer = [](Types in, const BatchNormAttrs& a) -> Many<Type> {
        require_dtype(in, kReal);
        Dims features = {in[0].dims[size_t(valid_axis(a.feature_axis, in[0].rank()))]};
        const char* names[] = {"gamma", "mean", "variance"};
        for (size_t i = 1; i < 4; ++i) require_dims(in[i], features, names[i - 1]);
        require_dims(in[4], in[0].dims, "ct");
        return {in[0], in[1], in[1], in[2], in[3]};
      },
      .decompose = [](Values in, const BatchNormAttrs& a) -> Many<Value> {
        Value x = in[0], gamma = in[1], ct = in[4];
        Axes axis = {valid_axis(a.feature_axis, x.dims().size())}, summed = other_axes(x.dims().size(), axis);
        auto along = [&](Value v) { return broadcast_in_dim(v, x.dims(), axis); };
        Value inverse_root = rsqrt(in[3] + a.epsilon), slope = gamma * inverse_root;
        Value d_beta = reduce_sum(ct, summed);
        Value d_gamma = reduce_sum(ct * (x - along(in[2])), summed) * inverse_root;
        return {ct * along(slope), d_gamma, d_beta, -(slope * d_beta), -0.5 * (slope * inverse_root * d_gamma)};
      },
      .samples =
          {{.dims = {{3, 4}, {4}, {4}, {4}, {3, 4}}, .lo = 0.1, .hi = 2},
           {.dims = {{2, 3, 2, 2}, {3}, {3}, {3}, {2, 3, 2, 2}}, .attrs = BatchNormAttrs{1, 1e-3}, .lo = 0.1, .hi = 2},
           {.dims = {{2, 1, 3}, {2}, {2}, {2}, {2, 1, 3}}, .attrs = BatchNormAttrs{-3}, .lo = 0.1, .hi = 2},
           {.dims = {{5}, {5}, {5}, {5}, {5}}, .lo = 0.1, .hi = 2},
           {.dims = {{0, 2}, {2}, {2}, {2}, {0, 2}}, .lo = 0.1, .hi = 2}},
  });
}

OpDef define_ada_layer_norm_backward() {
  return define<AdaLayerNormAttrs>({
      .name = "ada_layer_norm_backward",
      .doc = "the cotangents of x, scale and shift of ada_layer_norm, whose attributes it takes",
      .operands = {"x", "scale", "shift", "ct"},
      .covers = {"AdaLayerNormBackward"},
      .infer = [](Types in, const AdaLayerNormAttrs& a) -> Many<Type> {
        require_dims(in[3], infer_types(op::ada_layer_norm, in.first(3), a)[0].dims, "ct");
        require_dtype(in, kReal);
        return {in[0], in[1], in[2]};
      },
      .decompose = [](Values in, const AdaLayerNormAttrs& a) -> Many<Value> {
        Value ct = in[3];
        Normalized x(in[0], {in[0].rank() - 1}, a.epsilon, a.kind == AdaNormKind::layer_norm);
        return {x.ct_of_x(ct * (1.0 + in[1])), summed_to(ct * x.h, in[1].dims()), summed_to(ct, in[2].dims())};
      },
      .samples = {{.dims = {{2, 3, 4}, {2, 1, 4}, {2, 1, 4}, {2, 3, 4}}},
                  {.dims = {{3, 4}, {4}, {3, 1}, {3, 4}}, .attrs = AdaLayerNormAttrs{AdaNormKind::rms_norm, 1e-6}},
                  {.dims = {{4}, {}, {1}, {4}}},
                  {.dims = {{0, 3}, {3}, {1, 1}, {0, 3}}}},
  });
}

OpDef define_gated_residual_backward() {
  return define<>({
      .name = "gated_residual_backward",
      .doc = "the cotangents of x, y and gate of gated_residual",
      .operands = {"y", "gate", "ct"},
      .covers = {"GatedResidualBackward"},
      .infer = [](Types in) -> Many<Type> {
        require_dtype(in, kReal);
        require_broadcasts(in[0], in[2].dims, "y");
        require_broadcasts(in[1], in[2].dims, "gate");
        return {in[2], in[0], in[1]};
      },
      .decompose = [](Values in) -> Many<Value> {
        Value y = in[0], gate = in[1], ct = in[2];
        return {ct, summed_to(ct * gate, y.dims()), summed_to(ct * y, gate.dims())};
      },
      .samples = {{.dims = {{2, 3, 4}, {2, 1, 4}, {2, 3, 4}}},
                  {.dims = {{4}, {}, {3, 4}}},
                  {.dims = {{}, {}, {}}},
                  {.dims = {{1, 3}, {2, 1}, {2, 3}}},
                  {.dims = {{2, 0}, {1}, {2, 0}}}},
  });
}

}  // namespace rlx
