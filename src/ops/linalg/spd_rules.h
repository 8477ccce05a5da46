// What the ops on positive definite matrices share: functions of eigenvalues, their divided differences, and matrices
// made of these. Neighbour: linalg_rules.h, stacks of matrices.
#pragma once

#include "ops/linalg/linalg_rules.h"
#include "rlx/ops/spd.h"

namespace rlx::spd {

/// Fails unless `x`, called `name`, is a stack of square matrices of f32 or f64; returns their extent.
const Dim& require_spd(const Type& x, std::string_view name);
/// Fails unless `x`, called `name`, has the type of `like`, which is `wanted`.
void require_same(const Type& x, const Type& wanted, std::string_view name, std::string_view like);
void require_floor(double floor);

/// f(max(floor, w)).
Value function_of(Value w, const SpdMatrixFnAttrs& a);
/// (f(a) - f(b)) / (a - b), or f'(a) if a and b are equal. It is exact to a few roundings however close they are,
/// because no difference of almost equal numbers is computed; so its derivatives are accurate too. a and b have equal
/// dims and no floor.
Value divided_difference(Value a, Value b, SpdFunction);
/// The divided differences [..., n, n] of f(max(floor, w)) for all pairs of w[..., n].
Value divided_differences(Value w, const SpdMatrixFnAttrs& a);
/// The divided differences of second order, [..., n, n, n].
Value second_divided_differences(Value w, const SpdMatrixFnAttrs& a);

inline Value symmetric(Value x) { return hermitian(x, Triangle::both); }
/// V diag(w) Vᵀ.
Value from_spectrum(Value values, Value vectors);
/// vᵀ x v, and its inverse v x vᵀ, for stacks of matrices.
Value into_basis(Value x, Value vectors);
Value out_of_basis(Value x, Value vectors);
/// The derivative of a matrix function (Daleckii and Krein): V (F ∘ Vᵀ sym(ct) V) Vᵀ, where F are the divided
/// differences.
Value derivative(Value values, Value vectors, Value ct, const SpdMatrixFnAttrs& a);
/// s x s, s symmetric.
inline Value congruence(Value s, Value x) { return matmul(matmul(s, x), s); }
/// The cotangent of s in s x s, for the cotangent `ct` of that. Only its symmetric part matters.
Value congruence_bar(Value s, Value x, Value ct);
/// The sum of x ∘ y over the last two dims.
Value inner(Value x, Value y);
/// x with a new dim in front of its matrices, [..., 1, n, n], which is broadcast over a batch.
inline Value for_each(Value x) { return expand_dims(x, -3); }
/// x with its eigenvalues raised to `floor` at least, and the cotangent of x from that of the result.
Value floored(Value x, double floor);
Value floored_backward(Value x, Value ct, double floor);

}  // namespace rlx::spd
