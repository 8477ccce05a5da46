// Symmetric positive definite matrices as the points of a manifold with the affine-invariant metric: layers of networks
// on them (SPDNet), functions of them, and means, logarithms, exponentials and transport. The last two dims of an
// operand are a matrix, what stands in front of them are batch dims; f32, f64. A matrix counts as its symmetric part.
// What `floor` means everywhere: eigenvalues below it count as it, and have no derivative. A matrix that is not
// positive definite where it must be makes NaN. docs/ir.md, "Positive definite matrices".
#pragma once

#include <limits>

#include "rlx/ops/op.h"

namespace rlx {

namespace op {
extern const OpDef bimap, reeig, reeig_backward, logeig, logeig_backward, spd_matrix_fn, spd_matrix_fn_backward,
    spd_matrix_fn_hessian, spd_log_map, spd_log_map_backward, spd_exp_map, spd_exp_map_backward, spd_parallel_transport,
    spd_parallel_transport_backward, spd_batch_norm, spd_batch_norm_backward, spd_karcher_mean,
    spd_karcher_mean_backward, spd_karcher_solve;
}  // namespace op

// ---- layers ----
/// w x wᵀ: w[..., m, n], x[..., n, n]; batch dims broadcast.
Value bimap(Value w, Value x);

struct EigenFloorAttrs {
  double floor = 1e-4;  ///< smaller eigenvalues count as this
  RLX_FIELDS(EigenFloorAttrs, field("floor", &EigenFloorAttrs::floor));
};
struct SpectralLayer {
  Value y, values, vectors;  ///< and the eigenpairs of x, as `eigh` has them
};
/// V max(floor, w) Vᵀ.
SpectralLayer reeig(Value x, double floor = 1e-4);
/// V log(max(floor, w)) Vᵀ.
SpectralLayer logeig(Value x, double floor = 1e-4);
/// The cotangent of x that a cotangent of `y` makes, from the eigenpairs.
Value reeig_backward(Value values, Value vectors, Value ct, double floor = 1e-4);
Value logeig_backward(Value values, Value vectors, Value ct, double floor = 1e-4);

// ---- functions of matrices ----
enum class SpdFunction { log, exp, sqrt, inverse_sqrt, identity };
constexpr std::array<std::string_view, 5> names_of(SpdFunction) {
  return {"log", "exp", "sqrt", "inverse_sqrt", "identity"};
}
constexpr double kNoFloor = -std::numeric_limits<double>::infinity();
struct SpdMatrixFnAttrs {
  SpdFunction function = SpdFunction::log;
  double floor = kNoFloor;
  RLX_FIELDS(SpdMatrixFnAttrs, field("function", &SpdMatrixFnAttrs::function),
             field("floor", &SpdMatrixFnAttrs::floor));
};
/// V f(max(floor, w)) Vᵀ; all NaN where f of an eigenvalue is not finite.
Value spd_matrix_fn(Value x, SpdFunction function, double floor = kNoFloor);
/// The derivative of that in the direction ct, which is also the cotangent of x: the map is its own transpose.
Value spd_matrix_fn_backward(Value x, Value ct, SpdMatrixFnAttrs attrs);
/// The second derivative in the directions h and k.
Value spd_matrix_fn_hessian(Value x, Value h, Value k, SpdMatrixFnAttrs attrs);

// ---- the manifold ----
struct SpdFloorAttrs {
  double floor = kNoFloor;  ///< of the eigenvalues wherever they are taken to a logarithm or a root
  RLX_FIELDS(SpdFloorAttrs, field("floor", &SpdFloorAttrs::floor));
};
/// The tangent at `base` that points to x: P^½ log(P^-½ x P^-½) P^½.
Value spd_log_map(Value base, Value x, double floor = kNoFloor);
struct SpdMapCts {
  Value base, x;
};
SpdMapCts spd_log_map_backward(Value base, Value x, Value ct, double floor = kNoFloor);
/// Where the geodesic from `base` along v is at time 1: P^½ exp(P^-½ v P^-½) P^½.
Value spd_exp_map(Value base, Value v, double floor = kNoFloor);
SpdMapCts spd_exp_map_backward(Value base, Value v, Value ct, double floor = kNoFloor);
/// The tangent v at `from` carried along the geodesic to `to`: E v Eᵀ, E = (to from⁻¹)^½.
Value spd_parallel_transport(Value from, Value to, Value v, double floor = kNoFloor);
struct SpdTransportCts {
  Value from, to, v;
};
SpdTransportCts spd_parallel_transport_backward(Value from, Value to, Value v, Value ct, double floor = kNoFloor);

/// x[..., b, n, n] carried from around `mean`[..., n, n] to around g[..., n, n]: g^½ (m^-½ x m^-½) g^½.
Value spd_batch_norm(Value x, Value mean, Value g, double floor = kNoFloor);
struct SpdBatchNormCts {
  Value x, mean, g;
};
SpdBatchNormCts spd_batch_norm_backward(Value x, Value mean, Value g, Value ct, double floor = kNoFloor);

struct KarcherAttrs {
  int64_t max_iterations = 200;
  /// Of the Frobenius norm of the mean logarithm, which is 0 at the mean; not less than 32 roundings count.
  double tolerance = 1e-12;
  double floor = kNoFloor;  ///< of the eigenvalues of x
  RLX_FIELDS(KarcherAttrs, field("max_iterations", &KarcherAttrs::max_iterations),
             field("tolerance", &KarcherAttrs::tolerance), field("floor", &KarcherAttrs::floor));
};
/// The matrix with the least sum of squared distances to the x[..., b, n, n], weighted by weights[..., b] if there are
/// any. Weights are not negative; only their ratios count.
Value spd_karcher_mean(Value x, Value weights = {}, KarcherAttrs attrs = {});
struct KarcherCts {
  Value x, weights;
};
/// By implicit differentiation at `mean`; how it was found does not matter.
KarcherCts spd_karcher_mean_backward(Value x, Value mean, Value ct, Value weights = {}, KarcherAttrs attrs = {});
/// The symmetric z with sum_i weights_i Dlog(x_i)[(z x_i + x_i z) / 2] = rhs: the linear system of that. Weights sum
/// to 1.
Value spd_karcher_solve(Value x, Value weights, Value rhs);

}  // namespace rlx
