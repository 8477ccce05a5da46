// Complex numbers beyond their parts (real, imag, complex: rlx/ops/elementwise.h).
#pragma once

#include "rlx/ops/elementwise.h"

namespace rlx {

namespace op {
extern const OpDef conjugate, complex_norm_sq, complex_norm_sq_backward;
}  // namespace op

/// real - i imag; x itself if it is real.
Value conjugate(Value x);
/// |x|^2, without the root that abs takes; x * x if it is real.
Value complex_norm_sq(Value x);
/// ct * x: the derivative of |x|^2 by the conjugate of x, times a real ct. (Half of, and the conjugate of, what vjp
/// gives: docs/ir.md, "Derivatives of complex functions".)
Value complex_norm_sq_backward(Value x, Value ct);
/// The angle of x in (-pi, pi]: 0 or pi of a real number.
Value angle(Value x);

}  // namespace rlx
