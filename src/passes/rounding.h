// What fusing may do to the rounding of f16 and bf16 (docs/ir.md, "Low precision").
#pragma once

#include "rlx/dtype.h"
#include "rlx/rounding.h"

namespace rlx {

/// Whether ops on this dtype may be fused into one that rounds once. f32 and f64: always, as they are not computed
/// wider, and so no rounding is left out. f16 and bf16: only if relaxed. Other dtypes: never.
constexpr bool may_round_once(DType t, Rounding rounding) {
  return t == f32 || t == f64 || (rounding == Rounding::relaxed && (t == f16 || t == bf16));
}

}  // namespace rlx
