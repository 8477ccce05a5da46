// Learned activations: sums of Gaussian bumps on a grid; see the header.
#include "rlx/ops/spline.h"

#include <cmath>

#include "base/growth_limit.h"
#include "ops/core/composite_rules.h"

namespace rlx {

Value spline_activation(Value x, Value coeff, SplineActivationAttrs attrs) {
  return emit(op::spline_activation, {x, coeff}, attrs);
}
Value spline_activation_backward_x(Value x, Value coeff, Value ct, SplineActivationAttrs attrs) {
  return emit(op::spline_activation_backward_x, {x, coeff, ct}, attrs);
}
Value spline_activation_backward_coeff(Value x, Value ct, SplineCoeffAttrs attrs) {
  return emit(op::spline_activation_backward_coeff, {x, ct}, attrs);
}

namespace {

void require_grid(int64_t bumps, double low, double high) {
  if (bumps < 1) fail(ErrorCode::invalid_argument, "a grid of ", bumps, " bumps: at least one is needed");
  if (!std::isfinite(low) || !std::isfinite(high) || (bumps > 1 && !(low < high)))
    fail(ErrorCode::invalid_argument, "the grid goes from ", low, " to ", high,
         "; grid_min must be less than grid_max, and both finite");
}
void require_activation(Types in, const SplineActivationAttrs& a) {
  require_dtype(in, kReal);
  require_rank(in[0], 1, SIZE_MAX, "x");
  require_rank(in[1], 2, 2, "coeff");
  if (in[0].dims.back() != in[1].dims[0])
    fail(ErrorCode::shape_mismatch, "x ", in[0], " has ", in[0].dims.back(), " channels, coeff ", in[1], " has ",
         in[1].dims[0], "; it is [channels, bumps]");
  if (!in[1].dims[1].is_static())
    fail(ErrorCode::unsupported, "the bumps of coeff ", in[1],
         " are a grid of constants: their count must be a number");
  require_grid(in[1].dims[1].value(), a.grid_min, a.grid_max);
}

/// The bumps at x, [..., channels, bumps]: how far x is from each centre, in steps of the grid, and the bump there.
struct Bumps {
  double step;
  Value distance, bump;
  Bumps(Value x, int64_t count, double low, double high)
      : step(count > 1 ? (high - low) / static_cast<double>(count - 1) : 1) {
    GrowthLimit::count_table(count, sizeof(double));
    Array<double> at({count});
    for (int64_t g = 0; g < count; ++g) at.data[size_t(g)] = low + static_cast<double>(g) * step;
    Dims dims = x.dims();
    dims.push_back(count);
    Value centres = x.graph().constant(at.rounded_to(x.dtype()));
    distance = (over_bumps(x, dims) - broadcast_to(centres, dims)) / step;
    bump = exp(-(distance * distance));
  }
  static Value over_bumps(Value x, const Dims& dims) {
    return broadcast_in_dim(x, dims, axes_from(0, x.dims().size()));
  }
};
Bumps bumps_of(Value x, Value coeff, const SplineActivationAttrs& a) {
  return {x, coeff.dim(1).value(), a.grid_min, a.grid_max};
}
Value summed(Value terms) { return reduce_sum(terms, {terms.rank() - 1}); }

}  // namespace

OpDef define_spline_activation() {
  using A = SplineActivationAttrs;
  return define<A>({
      .name = "spline_activation",
      .doc = "sum_g coeff[c, g] exp(-((x - c_g) / h)^2) of x[..., c]: centres c_g uniform on [grid_min, grid_max], h "
             "apart; of one bump, its centre is grid_min and h is 1",
      .source = "Li, arXiv:2405.06721 (FastKAN)",
      .operands = {"x", "coeff"},
      .covers = {"SplineActivation"},
      .infer = [](Types in, const A& a) { return require_activation(in, a), in[0]; },
      .decompose =
          [](Values in, const A& a) {
            Value bump = bumps_of(in[0], in[1], a).bump;
            return summed(broadcast_to(in[1], bump.dims()) * bump);
          },
      .vjp =
          [](Values in, Value, Value ct, const A& a) {
            return Many<Value>{
                spline_activation_backward_x(in[0], in[1], ct, a),
                spline_activation_backward_coeff(in[0], ct, {in[1].dim(1).value(), a.grid_min, a.grid_max})};
          },
      .samples = {{.dims = {{3, 4}, {4, 5}}},
                  {.dims = {{2, 3, 7}, {7, 1}}, .attrs = A{0.5, 0.5}},
                  {.dims = {{5}, {5, 8}}, .attrs = A{-2, 2}},
                  {.dims = {{3, 5}, {5, 3}}, .dtypes = {bf16, bf16}, .attrs = A{-1, 1.5}},
                  {.dims = {{0, 2}, {2, 3}}}},
  });
}

OpDef define_spline_activation_backward_x() {
  using A = SplineActivationAttrs;
  return define<A>({
      .name = "spline_activation_backward_x",
      .doc = "ct sum_g coeff[c, g] (-2 (x - c_g) / h^2) exp(-((x - c_g) / h)^2)",
      .source = "spline_activation, differentiated by x",
      .operands = {"x", "coeff", "ct"},
      .covers = {"SplineActivationBackwardX"},
      .infer =
          [](Types in, const A& a) {
            require_dtype(in, kReal);
            require_activation(in.first(2), a);
            require_dims(in[2], in[0].dims, "ct");
            return in[0];
          },
      .decompose =
          [](Values in, const A& a) {
            Bumps b = bumps_of(in[0], in[1], a);
            Value slope = b.distance * b.bump * (-2 / b.step);
            return in[2] * summed(broadcast_to(in[1], slope.dims()) * slope);
          },
      .samples = {{.dims = {{3, 4}, {4, 5}, {3, 4}}},
                  {.dims = {{2, 3, 7}, {7, 1}, {2, 3, 7}}, .attrs = A{0.5, 0.5}},
                  {.dims = {{5}, {5, 8}, {5}}, .attrs = A{-2, 2}},
                  {.dims = {{3, 5}, {5, 3}, {3, 5}}, .dtypes = {bf16, bf16, bf16}, .attrs = A{-1, 1.5}},
                  {.dims = {{0, 2}, {2, 3}, {0, 2}}}},
  });
}

OpDef define_spline_activation_backward_coeff() {
  using A = SplineCoeffAttrs;
  return define<A>({
      .name = "spline_activation_backward_coeff",
      .doc = "the sum over all dims but the last of ct exp(-((x - c_g) / h)^2) -> [c, num_basis]",
      .source = "spline_activation, differentiated by its coefficients",
      .operands = {"x", "ct"},
      .covers = {"SplineActivationBackwardCoeff"},
      .infer =
          [](Types in, const A& a) {
            DType dtype = require_dtype(in, kReal);
            require_rank(in[0], 1, SIZE_MAX, "x");
            require_dims(in[1], in[0].dims, "ct");
            require_grid(a.num_basis, a.grid_min, a.grid_max);
            return Type{dtype, {in[0].dims.back(), a.num_basis}};
          },
      .decompose =
          [](Values in, const A& a) {
            Value bump = Bumps(in[0], a.num_basis, a.grid_min, a.grid_max).bump;
            Value terms = Bumps::over_bumps(in[1], bump.dims()) * bump;
            return terms.rank() == 2 ? terms : reduce_sum(terms, axes_from(0, terms.dims().size() - 2));
          },
      .samples = {{.dims = {{3, 4}, {3, 4}}, .attrs = A{5}},
                  {.dims = {{2, 3, 7}, {2, 3, 7}}, .attrs = A{1, 0.5, 0.5}},
                  {.dims = {{5}, {5}}, .attrs = A{8, -2, 2}},
                  {.dims = {{3, 5}, {3, 5}}, .dtypes = {bf16, bf16}, .attrs = A{3, -1, 1.5}},
                  {.dims = {{0, 2}, {0, 2}}, .attrs = A{3}}},
  });
}

}  // namespace rlx
