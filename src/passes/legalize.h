// Legalization follows claims: a target says of each node whether it takes it. What it does not take is rewritten into
// another shape with the same meaning, or decomposed, until it takes the parts.
#pragma once

#include <functional>
#include <set>

#include "passes/target.h"
#include "rlx/report.h"

namespace rlx {

struct LegalizeOptions {
  bool common = false;                 ///< decompose every composite, whatever the target takes
  std::set<std::string> force_common;  ///< ops to decompose
  std::set<std::string> force_native;  ///< ops that must be taken as they are: else the compile fails
};

struct Legalized {
  Graph graph;
  DispatchReport report;
};

/// Every node that the target does not take becomes nodes that it takes, sub-graphs included, where that can be. The
/// others stay, and are reported together: op, node, reason, and which of `others` would take it. Those are asked for
/// only then: to know what a device takes may mean loading it.
///
///   before  %1 = softmax(%0) {axis = 0}     after, on a target that takes the last axis only
///           %1 = transpose(%0) ...  %2 = softmax(%1) {axis = 1}  %3 = transpose(%2)
///
/// Never fails for a missing op: the caller reads `report` and decides (see `require_complete`).
Legalized legalize(const Graph& g, const Target& target, const LegalizeOptions& options = {},
                   const std::function<std::vector<Target>()>& others = {});

/// Fails if the report has a missing op, listing each with its reason; with `strict` also if one is not native.
void require_complete(const DispatchReport&, bool strict);

}  // namespace rlx
