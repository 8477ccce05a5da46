// Runs a plan: a flat array of prepared launches and of the pointers that they are handed. Everything that the text of
// a plan says was decided when it was bound; a run sets the pointers to its inputs and outputs, and calls the launches.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/rounded_up.h"
#include "plan/launch.h"
#include "plan/plan.h"
#include "rlx/tensor.h"

namespace rlx {

/// The memory of one run at a time: an arena, and the pointers that each launch is handed.
struct RunState {
  std::unique_ptr<std::byte[]> memory;  // the arena, with room to align it
  std::byte* arena = nullptr;
  std::vector<void*> pointers;  // of every launch's operands and results, one after another
  std::vector<void*> inputs, outputs;
  std::vector<Tensor> copies;  // of inputs that cannot be used where they are
  uint64_t owner = 0;          // of several executors that use it in turn, the one that resolved the pointers
};

class Executor {
 public:
  /// `launches[i]` does step i of the plan, whose sizes are numbers and whose order is total. `fixed[b]` is the tensor
  /// of buffer b, if it is a param or a constant, else null; those that a run reads are kept.
  Executor(const Plan& plan, std::vector<std::shared_ptr<Launch>> launches, const std::vector<const Tensor*>& fixed);

  // The same steps for other extents. Runs that have begun go on with what they began with, if they run a copy.
  /// The launch must read the same operands as the one that it replaces.
  void replace(size_t step, std::shared_ptr<Launch> launch);
  /// `offsets` are in bytes, of the launch's operands and then results, from the start of the arena or, outside of the
  /// arena, of the value's buffer. `scratch_offset` is that of its scratch in the arena.
  void place(size_t step, std::span<const size_t> offsets, size_t scratch_offset);
  void set_arena_bytes(size_t bytes) { arena_bytes_ = bytes; }

  size_t arena_bytes() const { return arena_bytes_; }
  size_t pointer_count() const { return slots_.size(); }
  size_t input_count() const { return inputs_; }
  size_t output_count() const { return outputs_; }
  size_t step_count() const { return bound_.size(); }
  /// Memory for runs of this plan, one at a time.
  std::unique_ptr<RunState> new_state() const;
  /// Fills the pointers that do not change from run to run.
  void resolve(void** pointers, std::byte* arena) const noexcept;
  /// Runs. `inputs` and `outputs` point at dense elements; `pointers` were resolved for this arena. Returns before the
  /// next launch once the run is cancelled or has an error in `control`; then the outputs may hold anything.
  void run(void** pointers, std::byte* arena, std::span<void* const> inputs, std::span<void* const> outputs, int width,
           RunControl& control, std::vector<StepTime>* profile = nullptr) const noexcept;

 private:
  struct Slot {
    size_t offset;           // bytes from the start of the arena, or of the value's own buffer
    const std::byte* fixed;  // of params and constants; else null
  };
  struct Bound {
    const Launch* launch;
    size_t first_operand, first_result;  // in the pointers
    size_t scratch_offset;
  };
  struct Patch {  // pointers that change with every run
    size_t pointer;
    bool is_output;
    size_t index;
    size_t offset;
  };
  struct Name {
    std::string op, node;
  };
  std::vector<Bound> bound_;
  std::vector<Slot> slots_;
  std::vector<Patch> patches_;  // by pointer
  // What `bound_` points at: the launches that it was made with, and by step those that have replaced one.
  std::shared_ptr<const std::vector<std::shared_ptr<Launch>>> launches_;
  std::vector<std::pair<size_t, std::shared_ptr<Launch>>> replaced_;
  std::shared_ptr<const std::vector<Name>> names_;    // for profiles
  std::shared_ptr<const std::vector<Tensor>> fixed_;  // that slots point into
  size_t arena_bytes_ = 0, inputs_ = 0, outputs_ = 0;
};

/// The plan of a sub-graph (branch, loop body, combiner) that a launch runs, with its arena and its pointers in the
/// launch's scratch.
class BodyPlan {
 public:
  explicit BodyPlan(std::shared_ptr<const Executor> executor) : executor_(std::move(executor)) {}

  /// Sub-graphs that do not run at the same time may share an arena, but not a table.
  size_t arena_bytes() const { return aligned(executor_->arena_bytes()); }
  size_t table_bytes() const {
    return aligned((executor_->pointer_count() + executor_->input_count() + executor_->output_count()) * sizeof(void*));
  }

  /// The plan with memory in one run's scratch.
  struct Ready {
    const Executor* executor;
    std::byte* arena;
    void** pointers;
    std::span<void*> inputs, outputs;  ///< to be filled in before `run`
    /// Once the run is cancelled the outputs may hold anything.
    void run(int width, RunControl& control) const noexcept {
      executor->run(pointers, arena, inputs, outputs, width, control);
    }
  };
  Ready ready(std::byte* arena, std::byte* table) const noexcept {
    auto** pointers = reinterpret_cast<void**>(table);
    executor_->resolve(pointers, arena);
    void** inputs = pointers + executor_->pointer_count();
    return {executor_.get(),
            arena,
            pointers,
            {inputs, executor_->input_count()},
            {inputs + executor_->input_count(), executor_->output_count()}};
  }

 private:
  std::shared_ptr<const Executor> executor_;
};

}  // namespace rlx
