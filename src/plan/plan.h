// A plan: what a run of a graph does, as data. Buffers, and launches that read and write them, in an order that may be
// total or partial. It knows no backend: kernels are texts. `planner.h` makes plans, `executor.h` runs them.
//
//   plan @"scores" {
//     arena 192
//     %0 = input(0) : 64 holds v0
//     %1 = arena(0) : 64
//     %2 = output(0) : 64
//     #0 = launch exp (%0 v0 f32[16]) -> (%1 v1 f32[16])
//     #1 = launch tanh (%1 v1 f32[16]) -> (%2 v2 f32[16])
//     return %2 v2 @"y"
//   }
//
// docs/plan.md explains each word.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "plan/storage.h"
#include "rlx/scanner.h"

namespace rlx {

/// A number for each value of a plan: what a launch wrote, or a leaf of the graph. A view has the number of what it
/// looks at.
using PlanValue = int64_t;
constexpr PlanValue kNoValue = -1;

struct PlanBuffer {
  RootKind kind = RootKind::arena;
  size_t index = 0;  ///< which input, param or output; of a constant the node; of one of its own a number
  Dim offset = 0;    ///< in the arena, in bytes; for other kinds 0
  Dim bytes = 0;
  PlanValue holds = kNoValue;  ///< before the first launch: of inputs, params and constants
  int64_t line = 0;            ///< of the text that it was read from
  std::string memory = {};     ///< where it lies, in a plan for several devices; else empty
};

/// Where an operand is read or a result is written: element (i, j, ...) lies `offset` bytes and i * strides[0] +
/// j * strides[1] ... elements behind the start of the buffer.
struct PlanSlot {
  size_t buffer = 0;
  PlanValue value = kNoValue;  ///< which value is expected there, or is there afterwards
  Type type;
  Dim offset = 0;
  Dims strides;
  bool is_packed = false;  ///< was read when the launch was prepared; the run does not read it
};

struct Plan;

struct PlanStep {
  enum class Kind { launch, copy, call };
  Kind kind = Kind::launch;
  std::string op, node, kernel, strategy;
  std::vector<PlanSlot> operands, results;
  Dim scratch_offset = 0, scratch_bytes = 0;  ///< memory in the arena that only this step uses
  std::vector<size_t> after;                  ///< steps that must have ended; read only where the order is partial
  std::vector<Plan> bodies;  ///< of a call: branches, loops, combiners; their arenas lie in the scratch
  int64_t line = 0;
  std::string device = {};  ///< which does it, in a plan for several devices; else empty
};

/// A device of a plan for several, and the memory that it computes in. Devices that compute in the host's share one.
struct PlanDevice {
  std::string name, memory;
};

struct PlanOutput {
  std::string name;
  size_t buffer = 0;
  PlanValue value = kNoValue;
};

struct Plan {
  std::string name;
  Dim arena_bytes = 0;
  bool is_partial = false;  ///< steps wait only for those of their `after`; else each waits for the one before it
  std::vector<PlanBuffer> buffers;
  std::vector<PlanStep> steps;
  std::vector<PlanOutput> outputs;
  /// Those among which the steps are divided. Empty: all is done by one, in one memory.
  std::vector<PlanDevice> devices = {};
};

/// Bytes [begin, end) of a memory: the arena, or one other buffer.
struct MemoryRange {
  static constexpr size_t kArena = SIZE_MAX;
  size_t memory = kArena;  ///< the buffer's number, or kArena
  size_t begin = 0, end = 0;
};
/// What a slot, a buffer or a step's scratch covers in its memory. Sizes are numbers.
MemoryRange range_of(const Plan&, const PlanSlot&);
MemoryRange range_of(const Plan&, size_t buffer);
MemoryRange scratch_of(const PlanStep&);

/// With numbers for symbols.
Plan bound(const Plan&, const Bindings&);
/// The plan with the weakest order that keeps the results of running its steps one after another: a step waits for
/// those that wrote bytes that it reads, and for those that read or wrote bytes that it writes, memory that is used
/// again in the arena included. Edges that follow from others are left out. Bodies likewise.
Plan with_partial_order(Plan plan);

/// Which steps have ended whenever another one begins.
class StepOrder {
 public:
  explicit StepOrder(const Plan&);
  bool before(size_t first, size_t second) const {
    return is_partial_ ? (ended_[second * words_ + first / 64] >> (first % 64) & 1) != 0 : first < second;
  }

 private:
  bool is_partial_;
  size_t words_ = 0;
  std::vector<uint64_t> ended_;
};

/// Fails, naming the step and the line, unless every slot lies in its buffer and every buffer in the arena, every value
/// is read where and when it stands, what lives at the same time under the plan's order does not overlap in the arena,
/// and bodies take and give what their calls say. Of a plan for several devices also unless each step reads and writes
/// its device's memory alone, but for a copy, which leads from one memory to another. Sizes are numbers.
void verify(const Plan&);

void print(std::ostream&, const Plan&, int indent = 0);
std::string text(const Plan&);
/// Reads and does not verify; but every number of a buffer or a step in it is one that the plan has.
Plan parse_plan(std::string_view text);

}  // namespace rlx
