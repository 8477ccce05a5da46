// The dtype of indices along a dim, and whether it can hold all of them. Neighbour: index_rules.h, which uses indices.
#pragma once

#include "rlx/op_def.h"

namespace rlx {

/// The dtype of indices below `count`: i32 if that is known to hold all of them, else i64.
DType place_dtype(const Dim& count);
/// Fails if `dtype`, in which the op gives indices (places) along `axis` of x, cannot hold all of them; the error ends
/// with `instead`, what to do. Float dtypes pass, because they round. A symbolic extent is checked once it is a number.
void require_places(DType dtype, const Type& x, int64_t axis, std::string_view op, std::string_view instead);

}  // namespace rlx
