// What fusing may do to the rounding of f16 and bf16 (docs/ir.md, "Low precision").
#pragma once

#include "rlx/dtype.h"
#include "rlx/rounding.h"

namespace rlx {

/// May ops on this dtype become one that computes wider and rounds once?
constexpr bool may_round_once(DType t, Rounding rounding) {
  return t == f32 || t == f64 || (rounding == Rounding::relaxed && (t == f16 || t == bf16));
}

}  // namespace rlx
