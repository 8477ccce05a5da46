// What fusing may do to the rounding of f16 and bf16 (docs/ir.md, "Low precision"): the policy as the passes see it.
#pragma once

#include "rlx/dtype.h"

namespace rlx {

enum class Rounding {
  after_each,  ///< every op rounds to its dtype, fused or not
  at_the_end,  ///< a fused op may compute in f32 and round its results alone
};

/// May ops on this dtype become one that computes wider and rounds once?
constexpr bool may_round_once(DType t, Rounding rounding) {
  return t == f32 || t == f64 || (rounding == Rounding::at_the_end && (t == f16 || t == bf16));
}

}  // namespace rlx
