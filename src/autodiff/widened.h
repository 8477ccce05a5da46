// The dtypes in which autodiff applies an op's rules (vjp, jvp). On f16, bf16 and narrower floats, most rules compute
// in f32 and convert their results back, as the ops' decompositions do.
#pragma once

#include "rlx/op_def.h"

namespace rlx {

/// Whether the rules of this op must be given f32 instead of f16, bf16 or narrower operands. Not so for ops with
/// sub-graphs, nor for ops that only move elements of f16 or bf16.
bool computes_widened(const OpDef& op, Values operands, const Attrs& attrs);
/// The values, those of low precision converted to f32. Absent values stay absent.
std::vector<Value> widened(Values values);
/// Converts each value whose partner in `like` has low precision to the partner's dtype. Absent values stay absent.
void narrow_to(std::vector<Value>& values, Values like);

/// The types of the values, none of which is absent.
std::vector<Type> types_of(Values values);

}  // namespace rlx
