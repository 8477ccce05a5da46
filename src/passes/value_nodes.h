// The node that makes a value, as rules ask for it.
#pragma once

#include "rlx/ops.h"

namespace rlx {

inline const Node& node_of(Value v) { return v.graph().node(v.ref()); }
inline Value operand(Value v, size_t i = 0) { return v.graph().value(node_of(v).operands[i]); }
inline bool is_broadcast(Value v) { return node_of(v).op == &op::broadcast_in_dim; }

}  // namespace rlx
