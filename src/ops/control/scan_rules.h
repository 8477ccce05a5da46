// The rules of `scan`. A bounded `while_loop` uses them too, because it is a scan of an if_else.
#pragma once

#include "ops/control/subgraph_rules.h"
#include "rlx/ops/contract.h"
#include "rlx/ops/control.h"

namespace rlx {

/// The operands of a scan, or the inputs of its body, divided into carries, xs and captured values.
template <class T>
struct ScanParts {
  std::span<const T> carries, xs, captured;
  ScanParts(std::span<const T> all, const ScanAttrs& a)
      : carries(all.first(static_cast<size_t>(a.carries))), xs(all.subspan(carries.size(), static_cast<size_t>(a.xs))),
        captured(all.subspan(carries.size() + xs.size())) {}
};

std::vector<Type> scan_types(Types in, const ScanAttrs& a);
/// Runs a scan and returns its results, followed by the stacked carries as they were before each step.
std::vector<Value> scan_saving_carries(Graph& g, Values in, const ScanAttrs& a);
/// The cotangents of a scan's operands. `carried` are the stacked carries of scan_saving_carries(). `y_cts` may be
/// empty for a scan without ys.
Many<Value> scan_vjp(Values in, Values carried, Values carry_cts, Values y_cts, const ScanAttrs& a,
                     const Transforms& t);

}  // namespace rlx
