// The schedule of a sub-graph (branch, loop body, combiner) that a step runs. Its arena and its table of pointers are
// in the step's scratch.
#pragma once

#include "backends/cpu/schedule.h"
#include "base/rounded_up.h"

namespace rlx::cpu {

class Nested {
 public:
  Nested(const LoweringContext& c, const Body& body)
      : schedule_(c.nested(body)), inputs_(body.graph.inputs().size()), outputs_(body.graph.outputs().size()) {}

  /// Bytes of scratch. Sub-graphs that do not run at the same time may share an arena, but not a table of pointers.
  size_t arena_bytes() const { return aligned(schedule_->arena_bytes()); }
  size_t table_bytes() const { return aligned((schedule_->pointer_count() + inputs_ + outputs_) * sizeof(void*)); }

  /// The schedule, with memory in the scratch of one run.
  struct Ready {
    const Schedule* schedule;
    std::byte* arena;
    void** pointers;
    std::span<void*> inputs, outputs;  ///< to be filled in before `run`
    /// Runs the schedule. Once the run is cancelled, the outputs may hold anything.
    void run(int width, const CancelFlag* cancel = nullptr) const noexcept {
      schedule->run(pointers, arena, inputs, outputs, width, cancel);
    }
  };
  Ready ready(std::byte* arena, std::byte* table) const noexcept {
    auto** pointers = reinterpret_cast<void**>(table);
    schedule_->resolve(pointers, arena);
    void** inputs = pointers + schedule_->pointer_count();
    return {schedule_.get(), arena, pointers, {inputs, inputs_}, {inputs + inputs_, outputs_}};
  }

 private:
  std::shared_ptr<const Schedule> schedule_;
  size_t inputs_, outputs_;
};

}  // namespace rlx::cpu
