// Makes the executor of a graph whose shapes are numbers; its launches are kernels of the CPU. A MovableSchedule can
// also move it to other shapes.
#pragma once

#include "backends/cpu/lowering.h"

namespace rlx::cpu {

struct ScheduleRequest {
  const Graph& graph;  ///< all its shapes are numbers, and the CPU supports all its nodes
  int threads = 1;
  kernels::ProductPolicy policy;
  PackedCache& packed;
  /// Returns the dense tensor of the param of that name.
  std::function<const Tensor*(const std::string&)> param;
  std::vector<bool> donated = {};         ///< inputs that any result may overwrite
  std::vector<Update> updates = {};       ///< outputs that overwrite an input: see `possible_updates`
  std::vector<const Tensor*> bound = {};  ///< inputs that are this tensor in every run; null for others
  Bindings bounds = {};                   ///< upper bounds of symbols, not every symbol needs one
};

struct Schedule {
  Executor executor;
  Plan plan;              ///< with its texts if `is_described`; else empty
  size_t live_bytes = 0;  ///< the most that values and scratch need at any step: the least size of an arena
};
Schedule schedule(const ScheduleRequest& request, bool is_described = false);

/// The schedule of a graph with symbols. It is made for some extents and can be moved to others (plan/movable_plan.h).
class MovableSchedule {
 public:
  /// `numbered` is `substitute(symbolic, bindings)`, and `request.graph` refers to it. What else the request refers to
  /// must outlive this, and so must `symbolic`.
  MovableSchedule(const Graph& symbolic, std::unique_ptr<Graph> numbered, const Bindings& bindings,
                  ScheduleRequest request);
  ~MovableSchedule();

  /// False if a result of a fused convolution has a symbol, because other extents may make other pipelines of
  /// convolutions, or if MovablePlan cannot move. Then the schedule serves only the extents it was made for.
  bool can_move() const;
  /// Returns false if it cannot move, if these numbers need a schedule of another form, or if kernels were registered
  /// or unregistered since this was made; then nothing has changed. If it throws, it must not be used any more.
  bool move(const Bindings& bindings);
  const Executor& executor() const;
  const Graph& numbered() const { return *numbered_; }
  const std::vector<Update>& updates() const;
  /// How often the arena was planned. Copies of executor() made at the same count may share the memory of runs.
  size_t arena_count() const;

 private:
  struct Made;
  void reserve(const Bindings& bindings);
  std::unique_ptr<Graph> numbered_;
  std::unique_ptr<Made> made_;
};

}  // namespace rlx::cpu
