// Plans a graph whose shapes are numbers, with the CPU's kernels as launches: for one set of shapes, or to be moved to
// others.
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
  Bindings bounds = {};                   ///< the most that symbols can be, of those that have a bound
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
  /// `numbered` is `substitute(symbolic, bindings)`, and `request.graph` refers to it. What else the request refers to
  /// must outlive this, and so must `symbolic`.
  MovableSchedule(const Graph& symbolic, std::unique_ptr<Graph> numbered, const Bindings& bindings,
                  ScheduleRequest request);
  ~MovableSchedule();

  /// False where a result of a fused convolution has a symbol, as more convolutions may be computed together at other
  /// extents, and where MovablePlan cannot move: then the schedule serves the extents it was made for.
  bool can_move() const;
  /// Returns false if it cannot move, if these numbers need a schedule of another form, or if kernels were registered
  /// or unregistered since this was made; then it is where it was. If it throws, it must not be used any more.
  bool move(const Bindings& bindings);
  const Executor& executor() const;
  const Graph& numbered() const { return *numbered_; }
  const std::vector<Update>& updates() const;
  /// Runs of executors with the same count may use the same memory.
  size_t arena_count() const;

 private:
  struct Made;
  void reserve(const Bindings& bindings);
  std::unique_ptr<Graph> numbered_;
  std::unique_ptr<Made> made_;
};

}  // namespace rlx::cpu
