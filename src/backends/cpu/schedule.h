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

/// The schedule of a graph with symbols: made for some extents, and moved to others (plan/movable_plan.h).
class MovableSchedule {
 public:
  /// `numbered` is `substitute(symbolic, bindings)` and the request's graph. What the request refers to has to outlive
  /// this, and so has `symbolic`.
  MovableSchedule(const Graph& symbolic, std::unique_ptr<Graph> numbered, const Bindings& bindings,
                  ScheduleRequest request);
  ~MovableSchedule();

  /// Not where pipelines of convolutions depend on extents.
  bool can_move() const;
  /// False if the schedule for these numbers would have another form, or kernels were registered since this was made;
  /// then, and if it fails, it stays where it is.
  bool move(const Bindings& bindings);
  const Executor& executor() const;
  const Graph& numbered() const { return *numbered_; }
  const std::vector<Update>& updates() const;
  /// Runs of executors with the same count may use the same memory.
  size_t arena_count() const;

 private:
  struct Made;
  std::unique_ptr<Graph> numbered_;
  std::unique_ptr<Made> made_;
};

}  // namespace rlx::cpu
