// Normalizations. Variances are those of a population; epsilon stands under the root: x / sqrt(variance +
// epsilon).
#pragma once

#include "rlx/ops/reduction.h"

namespace rlx {

namespace op {
extern const OpDef layer_norm, rms_norm, group_norm, instance_norm, layer_norm_2d, batch_norm_inference, l2_normalize,
    fused_residual_layer_norm, fused_residual_rms_norm, ada_layer_norm, gated_residual;
}  // namespace op

struct LayerNormAttrs {
  int64_t axis = -1;  ///< the first of the trailing dims that are normalized together
  double epsilon = 1e-5;
  bool has_gamma = true, has_beta = true;
  RLX_FIELDS(LayerNormAttrs, field("axis", &LayerNormAttrs::axis), field("epsilon", &LayerNormAttrs::epsilon),
             field("has_gamma", &LayerNormAttrs::has_gamma), field("has_beta", &LayerNormAttrs::has_beta));
};
/// (x - mean) / sqrt(variance + epsilon) * gamma + beta over the dims from `axis` on, which gamma and beta
/// have.
Value layer_norm(Value x, Value gamma = {}, Value beta = {}, double epsilon = 1e-5, int64_t axis = -1);
/// x / sqrt(mean(x^2) + epsilon) * gamma + beta, likewise.
Value rms_norm(Value x, Value gamma = {}, Value beta = {}, double epsilon = 1e-6, int64_t axis = -1);

struct GroupNormAttrs {
  int64_t num_groups = 1;
  double epsilon = 1e-5;
  bool has_gamma = true, has_beta = true;
  RLX_FIELDS(GroupNormAttrs, field("num_groups", &GroupNormAttrs::num_groups),
             field("epsilon", &GroupNormAttrs::epsilon), field("has_gamma", &GroupNormAttrs::has_gamma),
             field("has_beta", &GroupNormAttrs::has_beta));
};
/// x[n, c, ...]: the channels of a group and all of space together, for each n; gamma[c], beta[c].
Value group_norm(Value x, int64_t num_groups, Value gamma = {}, Value beta = {}, double epsilon = 1e-5);

struct ChannelNormAttrs {
  double epsilon = 1e-5;
  bool has_gamma = true, has_beta = true;
  RLX_FIELDS(ChannelNormAttrs, field("epsilon", &ChannelNormAttrs::epsilon),
             field("has_gamma", &ChannelNormAttrs::has_gamma), field("has_beta", &ChannelNormAttrs::has_beta));
};
/// x[n, c, ...]: all of space together, for each n and channel; gamma[c], beta[c].
Value instance_norm(Value x, Value gamma = {}, Value beta = {}, double epsilon = 1e-5);
/// x[n, c, ...]: the channels together, for each n and place; gamma[c], beta[c].
Value layer_norm_2d(Value x, Value gamma = {}, Value beta = {}, double epsilon = 1e-5);

struct BatchNormAttrs {
  int64_t feature_axis = -1;
  double epsilon = 1e-5;
  RLX_FIELDS(BatchNormAttrs, field("feature_axis", &BatchNormAttrs::feature_axis),
             field("epsilon", &BatchNormAttrs::epsilon));
};
/// (x - mean) / sqrt(variance + epsilon) * gamma + beta with given statistics; all four are [features].
Value batch_norm_inference(Value x, Value gamma, Value beta, Value mean, Value variance, double epsilon = 1e-5,
                           int64_t feature_axis = -1);

struct L2NormalizeAttrs {
  int64_t axis = -1;
  double epsilon = 1e-12;
  RLX_FIELDS(L2NormalizeAttrs, field("axis", &L2NormalizeAttrs::axis), field("epsilon", &L2NormalizeAttrs::epsilon));
};
/// x / max(sqrt(sum x^2), epsilon)
Value l2_normalize(Value x, int64_t axis = -1, double epsilon = 1e-12);

struct ResidualNormAttrs {
  double epsilon = 1e-5;
  bool has_bias = false, has_beta = true;
  RLX_FIELDS(ResidualNormAttrs, field("epsilon", &ResidualNormAttrs::epsilon),
             field("has_bias", &ResidualNormAttrs::has_bias), field("has_beta", &ResidualNormAttrs::has_beta));
};
struct ResidualNorm {
  Value norm, sum;
};
/// sum = (x + bias) + residual, and its norm over the last dim. Operands: x, residual, bias if has_bias,
/// gamma, beta if has_beta.
ResidualNorm fused_residual_layer_norm(Value x, Value residual, Value bias, Value gamma, Value beta,
                                       double epsilon = 1e-5);
ResidualNorm fused_residual_rms_norm(Value x, Value residual, Value bias, Value gamma, Value beta = {},
                                     double epsilon = 1e-6);

enum class AdaNormKind { layer_norm, rms_norm };
constexpr std::array<std::string_view, 2> names_of(AdaNormKind) { return {"layer_norm", "rms_norm"}; }
struct AdaLayerNormAttrs {
  AdaNormKind kind = AdaNormKind::layer_norm;
  double epsilon = 1e-5;
  RLX_FIELDS(AdaLayerNormAttrs, field("kind", &AdaLayerNormAttrs::kind), field("epsilon", &AdaLayerNormAttrs::epsilon));
};
/// norm(x) (1 + scale) + shift, the norm over the last dim; scale and shift broadcast to x.
Value ada_layer_norm(Value x, Value scale, Value shift, AdaNormKind kind = AdaNormKind::layer_norm,
                     double epsilon = 1e-5);
/// x + gate y; y and gate broadcast to x.
Value gated_residual(Value x, Value y, Value gate);

}  // namespace rlx
