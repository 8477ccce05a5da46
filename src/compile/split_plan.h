// What a run of a split graph does: parts in an order, and the copies between memories that they need. The steps are
// what the executable runs (runtime/split_executable.h), what the report counts, and what `rlx where --plan` prints.
#pragma once

#include "compile/split.h"
#include "plan/plan.h"

namespace rlx {

struct SplitStep {
  static constexpr size_t kNone = SIZE_MAX;
  size_t part = kNone;             ///< which it runs; of a copy none
  size_t from = 0, to = 0;         ///< places, of a copy: one of them is in the host's memory
  std::vector<size_t> after = {};  ///< steps that make what it reads
};

/// A value in a memory.
struct SplitPlace {
  size_t value, memory;
  bool operator==(const SplitPlace&) const = default;
};

struct SplitPlan {
  static constexpr size_t kHost = 0;  ///< the host's memory; the others are one for each device that has its own
  std::vector<size_t> memory_of;      ///< by device
  std::vector<size_t> device_of;      ///< by memory: the first device that computes in it; SIZE_MAX if none does
  std::vector<SplitPlace> places;
  std::vector<SplitStep> steps;

  /// Which place it is. Fails if the plan has no such place.
  size_t place(size_t value, size_t memory) const;
};

/// Values are copied once to each memory where a part, or the graph's caller, reads them; between two devices with
/// memories of their own by way of the host. `has_own_memory`: by device.
SplitPlan plan_of(const Split& split, const std::vector<bool>& has_own_memory);

/// The copies of each run, in the order of the plan.
std::vector<SplitCopyLine> copies_of(const Split& split, const SplitPlan& plan);

/// The plan of one run as data, with numbers for symbols: docs/plan.md. `donated`: inputs that outputs of their names
/// update in place, where they can. The plan's verifier has passed it.
Plan plan_data(const Graph& g, const Split& split, const SplitPlan& plan, const Bindings& numbers,
               const std::set<std::string>& donated);

}  // namespace rlx
