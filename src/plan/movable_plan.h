// A plan of a graph with symbols, which was made for some extents and moves to others: for a length that is new, only
// what has the symbol in it is computed again. What a plan decides (which values are views, which buffers are used
// again, which operands are packed) are answers to questions about extents; they are kept, and asked again. Extents
// that give the same answers have the same plan but for numbers and for the launches that have the symbol. Others,
// often 0 and 1, want a plan of their own.
#pragma once

#include <map>
#include <optional>

#include "plan/executor.h"
#include "plan/planner.h"

namespace rlx {

class MovablePlan {
 public:
  /// `numbered` is `substitute(symbolic, bindings)`, for which `planned` was made by `maker`, with `updates`. Both
  /// graphs and the maker must outlive this. Call only if `can_move`.
  MovablePlan(const Graph& symbolic, Graph& numbered, Bindings bindings, LaunchMaker& maker, Planned planned,
              std::vector<Update> updates, const std::vector<const Tensor*>& fixed);

  /// Not if a launch computes several nodes that have symbols, or the symbols are more than 64.
  static bool can_move(const Graph& symbolic, const Planned& planned);

  /// At the extents of now.
  const Executor& executor() const { return executor_; }
  /// By step; those of `fresh_launches` were made by the last move.
  std::span<const std::shared_ptr<Launch>> launches() const { return launches_; }
  const std::vector<bool>& fresh_launches() const { return fresh_; }
  /// Moves to other numbers. False if the plan for them would be another one; then, and if it fails, it is where it
  /// was.
  bool move(const Bindings& bindings);
  /// How often arenas were planned: runs of executors with the same count may use the same memory.
  size_t arena_count() const { return arena_count_; }

 private:
  using SymbolSet = uint64_t;
  std::vector<size_t> nodes_with(const std::vector<SymbolSet>& symbols, SymbolSet changed) const;
  bool move_all(const Bindings& bindings, SymbolSet changed);
  bool make_launches(SymbolSet changed);
  void fit_arena();
  void collect_offsets();

  const Graph& symbolic_;
  Graph& numbered_;
  Bindings bindings_;
  LaunchMaker& maker_;
  std::vector<Update> updates_;
  StoragePlan storage_;
  Uses uses_;
  std::set<Ref> read_;
  std::map<std::string, SymbolSet> symbol_bits_;
  /// By node: the symbols in its types and attributes and in its operands' types and places; those in its users', too.
  std::vector<SymbolSet> prepared_for_, placed_for_;
  std::vector<StepSource> sources_;       // by step
  std::vector<BufferLife> lives_, room_;  // what is needed, and for what the arena was planned
  ArenaPlan arena_;
  size_t arena_count_ = 1;
  std::vector<std::shared_ptr<Launch>> launches_;
  std::vector<bool> fresh_;
  std::vector<size_t> offsets_, scratch_offsets_;
  Executor executor_;
};

}  // namespace rlx
