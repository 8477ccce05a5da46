// The one home of tolerances: how far two results of a dtype may be apart. An exception is a parameter of the test that
// needs it, with its reason.
#pragma once

#include "rlx/dtype.h"

namespace rlx {

/// |x - y| <= tolerance * (1 + |y|).
inline double tolerance_of(DType t) {
  switch (t) {
    case DType::f64:
    case DType::c128: return 1e-11;  // some 45,000 roundings of f64
    case DType::f32:
    case DType::c64: return 2e-6;  // some 16 roundings of f32
    case DType::f16: return 2e-3;  // two of f16: f32 inside and f64 inside may fall on two sides of a tie
    case DType::bf16: return 1.6e-2;
    default: return 0;  // integers, bools: equal
  }
}

/// The sums of a gradient may cancel, and two correct ways to compute it in f32 are then further apart than the
/// tolerance. So its f32 results may instead lie within the tolerance, and this many times f32's own error, of the same
/// graph in f64. f32's own error is how far the reference in f32 is from f64, at the worst element of the result; of
/// the graph as it is and of the graph in primitives, the larger counts. As references add up in f64, which says
/// nothing of sums in f32, it is also, of each element by itself, how far inputs that are half a unit in f32's last
/// place off move it in f64: what is sensitive to its inputs is so to roundings.
inline constexpr double kTimesOwnError = 4;
/// But never further off than this, however much a graph cancels: |x - y| <= 9e-5 (1 + |y|).
inline constexpr double kMostOfGradients = 9e-5;

}  // namespace rlx
