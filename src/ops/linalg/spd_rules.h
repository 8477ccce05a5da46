// What the entries on positive definite matrices share: functions of eigenvalues and their divided differences, and how
// matrices are made of them. Neighbour: linalg_rules.h, stacks of matrices.
#pragma once

#include "ops/linalg/linalg_rules.h"
#include "rlx/ops/spd.h"

namespace rlx::spd {

/// `x`, called `name`, is a stack of square matrices of f32 or f64; returns their extent.
const Dim& require_spd(const Type& x, std::string_view name);
/// `x`, called `name`, has this type, which is that of `like`.
void require_same(const Type& x, const Type& wanted, std::string_view name, std::string_view like);
void require_floor(double floor);

/// f(max(floor, w)).
Value function_of(Value w, const SpdMatrixFnAttrs& a);
/// (f(a) - f(b)) / (a - b), f'(a) where they are equal. Exact to a few roundings however near they are: no difference
/// of almost equal numbers is taken, so derivatives of it are right too. Of equal dims; no floor.
Value divided_difference(Value a, Value b, SpdFunction);
/// The divided differences [..., n, n] of f(max(floor, w)) for all pairs of w[..., n].
Value divided_differences(Value w, const SpdMatrixFnAttrs& a);
/// And those of second order, [..., n, n, n].
Value second_divided_differences(Value w, const SpdMatrixFnAttrs& a);

inline Value symmetric(Value x) { return hermitian(x, Triangle::both); }
/// V diag(w) Vᵀ.
Value from_spectrum(Value values, Value vectors);
/// v xᵀ v and v x vᵀ of a stack: a basis changed, and changed back.
Value into_basis(Value x, Value vectors);
Value out_of_basis(Value x, Value vectors);
/// Daleckii and Krein: V (F ∘ Vᵀ sym(ct) V) Vᵀ with the divided differences F.
Value derivative(Value values, Value vectors, Value ct, const SpdMatrixFnAttrs& a);
/// s x s, s symmetric.
inline Value congruence(Value s, Value x) { return matmul(matmul(s, x), s); }
/// The cotangent of s in s x s for `ct`; its symmetric part counts.
Value congruence_bar(Value s, Value x, Value ct);
/// The sum of x ∘ y over the last two dims.
Value inner(Value x, Value y);
/// One matrix for each of a batch: [..., 1, n, n].
inline Value for_each(Value x) { return expand_dims(x, -3); }
/// x with the floor under its eigenvalues, and what a cotangent of that makes of x.
Value floored(Value x, double floor);
Value floored_backward(Value x, Value ct, double floor);

}  // namespace rlx::spd
