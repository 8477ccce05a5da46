// Constants as passes see them: through the broadcasts and reshapes that stand between a number and its use.
#pragma once

#include <optional>

#include "rlx/op_def.h"

namespace rlx {

/// The tensor of a constant; null for anything else.
const Tensor* literal(const Graph& g, Ref r);

/// The one number that every element of the value is, where that is a constant, alone or broadcast; nothing for
/// complex numbers, whose arithmetic knows no neutral elements (inf times 1 + 0i has a NaN), and for large literals.
std::optional<double> splat(const Graph& g, Ref r);
inline std::optional<double> splat(Value v) { return splat(v.graph(), v.ref()); }

}  // namespace rlx
