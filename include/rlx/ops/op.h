// The handles: `op::softmax` is an object, so a misspelt op does not compile and a listed one that nobody defines
// does not link.
#pragma once

#include "rlx/op_def.h"

namespace rlx::op {

#define RLX_OP(name) extern const OpDef name;
#include "rlx/ops/ops.def"

}  // namespace rlx::op

namespace rlx {

/// Emits an op with one result into the graph of its first operand.
Value emit(const OpDef& op, std::vector<Value> operands, Attrs attrs = {});

}  // namespace rlx
