// Ops whose attributes hold sub-graphs that run conditionally, and barriers.
#pragma once

#include "rlx/ops/op.h"

namespace rlx {

struct IfAttrs {
  Subgraph then_branch, else_branch;  ///< captured operands -> results
  RLX_FIELDS(IfAttrs, field("then_branch", &IfAttrs::then_branch), field("else_branch", &IfAttrs::else_branch));
};
/// Runs one branch on `captured`. `condition` is bool[]; the branches agree in their inputs' and results' types.
std::vector<Value> if_else(Value condition, std::vector<Value> captured, Graph then_branch, Graph else_branch);

/// The operands, unchanged; no pass moves, merges or removes anything across it.
std::vector<Value> optimization_barrier(std::vector<Value> xs);

}  // namespace rlx
