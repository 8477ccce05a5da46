// A plan of a graph with symbols, which was made for some extents and moves to others, so that only what has a changed
// symbol in it is computed again. A plan follows from answers to questions about extents: which values are views, which
// buffers are used again, which operands are packed. The answers are kept. For new extents the questions are asked
// again; if the answers are the same, so is the plan, except for its numbers and for the launches that have such a
// symbol. Extents with other answers, often 0 and 1, want a plan of their own.
#pragma once

#include <map>
#include <optional>

#include "plan/executor.h"
#include "plan/planner.h"

namespace rlx {

class MovablePlan {
 public:
  /// `numbered` is `substitute(symbolic, bindings)`, for which `planned` was made by `maker`, with `updates`. Both
  /// graphs and the maker, which makes launches for `numbered` itself, must outlive this. `move` and `reserve` write
  /// other numbers into `numbered`: nothing else may read it during these calls. `fixed` is as for Executor. Call only
  /// if `can_move`.
  MovablePlan(const Graph& symbolic, Graph& numbered, Bindings bindings, LaunchMaker& maker, Planned planned,
              std::vector<Update> updates, const std::vector<const Tensor*>& fixed);

  /// False if any launch computes several nodes, if the graph has no symbols, or if it has more than 64, those in
  /// sub-graphs included.
  static bool can_move(const Graph& symbolic, const Planned& planned);

  /// At the extents of now.
  const Executor& executor() const { return executor_; }
  /// One launch a step. `fresh_launches()[i]` says whether the last move made launch i anew.
  std::span<const std::shared_ptr<Launch>> launches() const { return launches_; }
  const std::vector<bool>& fresh_launches() const { return fresh_; }
  /// Moves to other numbers, one for each symbol. Returns false if these numbers need a plan of another form: other
  /// views, buffers or packed operands, or an update that cannot be made in place; then it is where it was. If it
  /// throws, as for numbers that an op refuses, this must not be used any more. Copies of executor() made before stay
  /// valid.
  bool move(const Bindings& bindings);
  /// Plans the arena for these numbers, so that later moves to numbers no larger than these use it as it is. The
  /// extents stay as they are. Returns false, and nothing changes, if they need a plan of another form, if an op
  /// refuses them, or if the arena would take more than `most_bytes`.
  bool reserve(const Bindings& most, size_t most_bytes);
  /// How often this plan's arena was planned. Copies of executor() made at the same count may share the memory of runs.
  size_t arena_count() const { return arena_count_; }

 private:
  using SymbolSet = uint64_t;
  /// What depends on some symbols, in order.
  struct Affected {
    SymbolSet symbols = 0;
    std::vector<size_t> prepared, placed;  // nodes: see below
    std::vector<size_t> steps;
  };
  const Affected& affected_by(SymbolSet symbols);
  bool move_all(const Bindings& bindings, const Affected& affected);
  void go_back(const Affected& affected, std::vector<std::shared_ptr<Launch>> launches);
  void resubstitute(const Bindings& bindings, const Affected& affected);
  bool make_launches(const Affected& affected);
  bool update_lives(const Affected& affected);
  void find_alike();
  bool has_alike_users(size_t node, size_t other) const;
  bool has_layout_of(size_t node, size_t other) const;
  void plan_arena_anew();
  void place_step(size_t step);

  const Graph& symbolic_;
  Graph& numbered_;
  Bindings bindings_;
  LaunchMaker& maker_;
  std::vector<Update> updates_;
  StoragePlan storage_;
  Uses uses_;
  std::set<Ref> read_;
  std::map<std::string, SymbolSet> symbol_bits_;
  /// By node, the symbols in its attributes; those on which its launch depends (its own, its operands', and those of
  /// what views among its operands look at); and those on which its place depends (these and, if it may be a view, its
  /// users').
  std::vector<SymbolSet> attrs_have_, prepared_for_, placed_for_;
  /// By node that has symbols, the first one that is the same op of operands of the same types with the same
  /// attributes: in layers that repeat, whose types and attributes are then found once for all of them. Else the node
  /// itself.
  std::vector<size_t> alike_;
  /// By node: the same if it may be a view and its users are alike as well, so that where the operands have one layout
  /// both are views or neither is; and if none of its operands is a param or a constant, whose values a launch may
  /// depend on, so that one launch computes both where all views have one layout. Else the node itself.
  std::vector<size_t> alike_as_views_, alike_as_launches_;
  std::vector<size_t> step_of_;           // by node that a step of its own computes; else SIZE_MAX
  Affected affected_;                     // by the symbols that were asked for last
  std::vector<StepSource> sources_;       // by step
  std::vector<BufferLife> lives_, room_;  // what these extents need; what the arena has room for
  ArenaPlan arena_;
  size_t arena_count_ = 1;
  std::optional<size_t> most_reserved_;  // while `reserve` moves: the most that the arena may be
  std::vector<std::shared_ptr<Launch>> launches_;
  std::vector<bool> fresh_;
  Executor executor_;
  // Memory that is used again.
  std::vector<Type> operand_types_;
  Shape shape_;
  std::vector<size_t> offsets_;
};

}  // namespace rlx
