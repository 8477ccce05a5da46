// The CPU's plans of graphs, and what must hold for each of them.
#pragma once

#include <map>
#include <string>

#include "backends/cpu/schedule.h"
#include "ir/rewrite.h"
#include "passes/hoist_params.h"
#include "plan/plan.h"
#include "rlx/session.h"
#include "support/race_checker.h"

namespace rlx::test {

/// As a session would run it, with 3 for each symbol and zeros for params.
inline Plan planned(const Graph& g, int threads = 1) {
  Bindings numbers;
  for (const Type& type : g.input_types())
    for (const Dim& dim : type.dims) dim.for_each_symbol([&](const std::string& symbol) { numbers[symbol] = 3; });
  const Graph fixed = numbers.empty() ? g : substitute(g, numbers);
  const Hoisted parts = hoist_params(Session(Device::cpu(), {threads}).compile(fixed).lowered());
  std::map<std::string, Tensor> params;
  for (Ref r : parts.main.params()) {
    const Type& type = parts.main.type(r);
    params.emplace(parts.main.node(r).name, Tensor(type.dtype, shape_of(type.dims)));
  }
  cpu::PackedCache packed;
  return cpu::schedule({parts.main, threads, {}, packed, [&](const std::string& name) { return &params.at(name); }},
                       true)
      .plan;
}

/// Why a plan is wrong, or empty: it is verified, reads back from its text as it was printed, and has no race, in its
/// total order and in the weakest one.
inline std::string wrong_in(const Plan& plan) {
  try {
    for (const Plan& ordered : {plan, with_partial_order(plan)}) {
      const std::string printed = text(ordered);
      const Plan read = parse_plan(printed);
      if (text(read) != printed) return "its text reads back as another plan:\n" + printed + text(read);
      verify(read);
      if (const auto races = races_in(ordered); !races.empty()) return races[0] + " in\n" + printed;
    }
  } catch (const Error& e) {
    return text_of(e.what(), " in\n", text(plan));
  }
  return "";
}

}  // namespace rlx::test
