// Rules of f16 and bf16 ops run on f32 values, as their decompositions do.
#pragma once

#include "rlx/op_def.h"

namespace rlx {

/// Whether the rules of this op want f32 in place of f16 and bf16.
bool computes_widened(const OpDef& op, Values operands, const Attrs& attrs);
/// Low precision as f32; absent values stay absent.
std::vector<Value> widened(Values values);
/// Each value converted to the dtype of its partner in `like`, where both are there.
void narrow_to(std::vector<Value>& values, Values like);

std::vector<Type> types_of(Values values);

}  // namespace rlx
