// A graph whose shapes are numbers, as a list of steps and a plan of the memory they share. Made once per shape; what a
// run needs of its own is in a RunState.
#pragma once

#include "backends/backend.h"
#include "backends/cpu/lowering.h"
#include "plan/storage.h"

namespace rlx::cpu {

/// The memory of one run at a time: an arena, and the pointers that each step is handed.
struct RunState {
  std::unique_ptr<std::byte[]> memory;  // the arena, with room to align it
  std::byte* arena = nullptr;
  std::vector<void*> pointers;  // of every step's operands and results, one after another
  std::vector<void*> inputs, outputs;
  std::vector<Tensor> copies;  // of inputs that cannot be used where they are
};

class Schedule {
 public:
  struct Request {
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
  explicit Schedule(const Request& request);
  ~Schedule();

  size_t arena_bytes() const { return arena_bytes_; }
  /// The most that values and scratch need at one step: no arena is smaller.
  size_t live_bytes() const { return live_bytes_; }
  size_t pointer_count() const { return slots_.size(); }
  /// Memory for runs of this schedule, one at a time.
  std::unique_ptr<RunState> new_state() const;
  /// Fills the pointers that do not change from run to run.
  void resolve(void** pointers, std::byte* arena) const noexcept;
  /// Runs. `inputs` and `outputs` point at dense elements; `pointers` were resolved for this arena. Returns before the
  /// next step once `cancel` is set; then the outputs may hold anything.
  void run(void** pointers, std::byte* arena, std::span<void* const> inputs, std::span<void* const> outputs, int width,
           const CancelFlag* cancel = nullptr, std::vector<StepTime>* profile = nullptr) const noexcept;

  const std::vector<Type>& output_types() const { return output_types_; }
  size_t step_count() const { return steps_.size(); }
  /// The steps of products and convolutions, in order.
  struct PlannedStep {
    std::string node, op, kernel, strategy;
  };
  std::vector<PlannedStep> planned_steps() const;

 private:
  struct Slot {  // one pointer of one step
    RootKind kind;
    size_t index;                      // of the input, output; else unused
    size_t offset;                     // bytes from the root's start; of the arena's start for arena roots
    const std::byte* fixed = nullptr;  // of params and constants
  };
  struct Entry {
    std::unique_ptr<Step> step;
    size_t first_operand, first_result;  // in the pointers
    size_t scratch_offset;
    std::string op, node;
  };
  struct Patch {  // pointers that change with every run
    size_t pointer;
    bool is_output;
    size_t index;
    size_t offset;
  };
  std::vector<Entry> steps_;
  std::vector<Slot> slots_;
  std::vector<Patch> patches_;
  std::vector<Tensor> kept_;  // constants and params that steps point into
  std::vector<Type> output_types_;
  size_t arena_bytes_ = 0, live_bytes_ = 0;
};

}  // namespace rlx::cpu
