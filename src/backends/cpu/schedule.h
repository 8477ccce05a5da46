// Plans a graph whose shapes are numbers, with the CPU's kernels as launches. Made once per shape.
#pragma once

#include "backends/cpu/lowering.h"

namespace rlx::cpu {

struct ScheduleRequest {
  const Graph& graph;  ///< static and legal
  int threads = 1;
  kernels::ProductPolicy policy;
  PackedCache& packed;
  /// A param's tensor, by name; dense.
  std::function<const Tensor*(const std::string&)> param;
  std::vector<bool> donated = {};
  std::vector<Update> updates = {};       ///< see `possible_updates`
  std::vector<const Tensor*> bound = {};  ///< inputs that are this tensor in every run; null for others
};

struct Schedule {
  Executor executor;
  Plan plan;              ///< with its texts, if it was asked to be described; else empty
  size_t live_bytes = 0;  ///< the most that values and scratch need at one step: no arena is smaller
};
Schedule schedule(const ScheduleRequest& request, bool is_described = false);

}  // namespace rlx::cpu
