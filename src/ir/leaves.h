// The three ops without operands of their own kind: what is fed, what is bound, what is written in the graph.
#pragma once

#include "rlx/op_def.h"

namespace rlx::op {

extern const OpDef input, param, constant;

}  // namespace rlx::op

namespace rlx {

bool is_leaf(const Node& node);

}  // namespace rlx
