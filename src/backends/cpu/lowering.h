// The table that is the CPU's claim: which op, when, by which kernel, and what its operands may look like. Claim and
// kernel stand in one row, so they cannot drift apart.
#pragma once

#include "backends/cpu/packed_cache.h"
#include "backends/cpu/step.h"
#include "passes/legalize.h"
#include "plan/executor.h"
#include "plan/planner.h"

namespace rlx::cpu {

/// A sub-graph that a step runs, and which of its inputs are constant or updated.
struct Body {
  const Graph& graph;
  std::vector<const Tensor*> bound = {};  ///< inputs that are this tensor in every run: weights are packed once
  std::vector<Update> updates = {};
};

/// The arguments with which a row of the table makes its step.
struct LoweringContext {
  const Node& node;
  std::vector<View> operands, results;
  int threads;
  kernels::ProductPolicy policy;  ///< what the step's products may do
  PackedCache& packed;
  /// The tensor of an operand that is a param or a constant; null for anything else.
  const std::function<const Tensor*(size_t operand)>& bound;
  /// Plans a sub-graph, whose inputs and results are dense.
  const std::function<BodyPlan(const Body&)>& body_plan;
  std::vector<bool> unread = {};  ///< by result: neither a node nor an output of the graph reads it

  template <class A>
  const A& attrs() const {
    return node.attrs.as<A>();
  }
};

using When = std::string (*)(const Question&);  ///< empty, or why not
using How = std::unique_ptr<Step> (*)(const LoweringContext&);
using Strided = bool (*)(const Node&, size_t operand, const Shape&, std::span<const int64_t> strides);

/// Which operand's buffer result 0 may overwrite, if that operand has its size and is not read later. `carries`: the
/// result of each carry of a loop may overwrite the carry's first value, if the body updates it in place. `params`: in
/// an optimizer's step, the new param may overwrite the param, and each new state the old one.
enum class Overwrites { none, first, any, carries, params };

struct Lowering {
  const OpDef* op;
  When when;
  How how;
  Strided strided = nullptr;  ///< which strides its operands may have; null: dense only
  Overwrites overwrites = Overwrites::none;
};

std::span<const Lowering> lowerings();
/// The row that takes the node, or null; then `why_not` gives the reason. Kernels from outside the library
/// (rlx/kernel.h) are tried first, and share one row. An op that is not in the table and has only a reference is taken
/// by a row that runs the reference.
const Lowering* find_lowering(const Question&, std::string& why_not);
/// Whether the row is the one that runs the op's reference.
bool runs_reference(const Lowering&);

/// The table's answers to the storage planner, for this graph.
StorageRules storage_rules(const Graph&);

namespace when {
std::string always(const Question&);
/// No operand or result is of a packed or block dtype: each element has an address.
std::string is_byte_sized(const Question&);
/// f32, f16, bf16 or f64 throughout.
std::string is_float(const Question&);
}  // namespace when

namespace strided {
inline bool any(const Node&, size_t, const Shape&, std::span<const int64_t>) { return true; }
/// The elements of the last dim are contiguous.
inline bool rows(const Node&, size_t, const Shape& shape, std::span<const int64_t> strides) {
  return shape.empty() || shape.back() == 1 || strides.back() == 1;
}
}  // namespace strided

}  // namespace rlx::cpu
