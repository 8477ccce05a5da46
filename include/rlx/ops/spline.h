// Activations that are learned: a sum of bumps on a grid, with coefficients for each channel (Kolmogorov-Arnold
// networks).
#pragma once

#include "rlx/ops/op.h"

namespace rlx {

namespace op {
extern const OpDef spline_activation, spline_activation_backward_x, spline_activation_backward_coeff;
}  // namespace op

/// The centres c_g of the bumps are uniform on [grid_min, grid_max], h apart; of one bump, the centre is grid_min and h
/// is 1.
struct SplineActivationAttrs {
  double grid_min = -1, grid_max = 1;
  RLX_FIELDS(SplineActivationAttrs, field("grid_min", &SplineActivationAttrs::grid_min),
             field("grid_max", &SplineActivationAttrs::grid_max));
};
/// sum_g coeff[c, g] exp(-((x - c_g) / h)^2): x[..., c], coeff[c, g].
Value spline_activation(Value x, Value coeff, SplineActivationAttrs attrs = {});
/// ct times the derivative of spline_activation by x.
Value spline_activation_backward_x(Value x, Value coeff, Value ct, SplineActivationAttrs attrs = {});

struct SplineCoeffAttrs {
  int64_t num_basis = 1;  ///< g
  double grid_min = -1, grid_max = 1;
  RLX_FIELDS(SplineCoeffAttrs, field("num_basis", &SplineCoeffAttrs::num_basis),
             field("grid_min", &SplineCoeffAttrs::grid_min), field("grid_max", &SplineCoeffAttrs::grid_max));
};
/// The sum over all dims but the last of ct exp(-((x - c_g) / h)^2) -> [c, num_basis].
Value spline_activation_backward_coeff(Value x, Value ct, SplineCoeffAttrs attrs);

}  // namespace rlx
