// Legalization follows claims: a target says of each node whether it takes it. What it does not take is rewritten into
// another shape with the same meaning, or decomposed, until it takes the parts.
#pragma once

#include <set>

#include "ir/rewrite.h"
#include "rlx/report.h"

namespace rlx {

/// What a target is asked about: a node and the types of its operands, which may be symbolic.
struct Question {
  const Node& node;
  Types operands;
  /// Whether the elements of an operand are known before any input is (`is_weight` in passes/bound_values.h). Nothing
  /// is known of any if there is no function.
  std::function<bool(size_t)> is_weight = {};
};

/// Another shape with the same meaning, for a target that takes an op only in some shape (a softmax whose axis is not
/// the last, transposed around one whose axis is).
struct Rewriting {
  const OpDef* op;
  bool (*applies)(const Question&);
  std::vector<Value> (*build)(Graph&, Values, const Attrs&);
  std::string_view what;
};

struct Target {
  std::string name;
  /// Nothing if the target takes the node, else why not.
  std::function<std::optional<std::string>(const Question&)> refusal;
  std::span<const Rewriting> rewritings = {};
  /// Whether a node that it takes runs there by the op's reference; nothing if none does.
  std::function<bool(const Question&)> interprets = {};
  /// What the report says of a node that it takes, where there is something to say: a kernel from outside the library.
  std::function<std::string(const Question&)> remark = {};
};

struct LegalizeOptions {
  bool common = false;                 ///< decompose every composite, whatever the target takes
  std::set<std::string> force_common;  ///< ops to decompose
  std::set<std::string> force_native;  ///< ops that must be taken as they are: else the compile fails
};

struct Legalized {
  Graph graph;
  DispatchReport report;
};

/// Every node that the target does not take becomes nodes that it takes, sub-graphs included. Missing ones are
/// reported together: op, node, reason, and which of `others` would take it.
///
///   before  %1 = softmax(%0) {axis = 0}     after, on a target that takes the last axis only
///           %1 = transpose(%0) ...  %2 = softmax(%1) {axis = 1}  %3 = transpose(%2)
///
/// Never fails for a missing op: the caller reads `report` and decides (see `require_complete`).
Legalized legalize(const Graph& g, const Target& target, const LegalizeOptions& options = {},
                   std::span<const Target> others = {});

/// Fails if the report has a missing op, listing each with its reason; with `strict` also if one is not native.
void require_complete(const DispatchReport&, bool strict);

}  // namespace rlx
