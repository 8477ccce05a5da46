// What every family's header stands on. A header declares the handles of its family (`op::softmax` is an object, so a
// misspelt op does not compile, and a listed one that nobody defines does not link), its attributes and its builders.
#pragma once

#include "rlx/op_def.h"

namespace rlx {

namespace op {
extern const OpDef input, param, constant;
}

/// Emits an op with one result into the graph of its first operand.
Value emit(const OpDef& op, std::vector<Value> operands, Attrs attrs = {});

}  // namespace rlx
