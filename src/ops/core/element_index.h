// Places along a dim, numbered: in which dtype, and whether it holds them all. Neighbour: index_rules.h, what places
// are used for.
#pragma once

#include "rlx/op_def.h"

namespace rlx {

/// The dtype in which `count` places are numbered: i32 where it is known to hold them all.
DType place_dtype(const Dim& count);
/// Fails if `dtype`, in which the op numbers the places along `axis` of x, does not hold them all; `instead` says what
/// to do. Floats round, and hold any; a symbolic extent is judged when it is a number.
void require_places(DType dtype, const Type& x, int64_t axis, std::string_view op, std::string_view instead);

}  // namespace rlx
