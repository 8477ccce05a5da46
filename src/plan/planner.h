// Makes the plan of a graph whose types are static: places for values, launches from a backend, the arena. What a
// backend has to bring is a LaunchMaker.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <span>
#include <vector>

#include "plan/arena.h"
#include "plan/launch.h"
#include "plan/plan.h"
#include "plan/storage.h"

namespace rlx {

/// An output that overwrites an input: the caller of a run passes one pointer for both.
struct Update {
  size_t input, output;
};

/// A node, and where its values lie.
struct PlacedNode {
  const Node& node;
  std::vector<View> operands, results;
  std::vector<bool> unread;  ///< by result: neither a node nor an output of the graph reads it
};

/// Several nodes that one launch does, where the last of them stands. Its operands are
/// those of the first node, then those of each later node without its operand 0, which is the result of the node
/// before. No other node or output may read a result of any but the last node.
struct JoinedNodes {
  std::vector<size_t> nodes;
  std::unique_ptr<Launch> launch;
};

struct MadeLaunch {
  std::unique_ptr<Launch> launch;
  std::vector<Plan> bodies = {};  ///< of the sub-graphs that it runs; only if plans are described
};

/// A backend's half of planning.
class LaunchMaker {
 public:
  virtual ~LaunchMaker() = default;
  /// For the types that the graph has now: asked for again when it was given others, before `launch` is.
  virtual StorageRules storage_rules() = 0;
  /// It may depend on the elements of params and constants among the operands, but not of those that are behind views.
  virtual MadeLaunch launch(PlacedNode node) = 0;
  /// Of equal shapes; neither of a packed dtype.
  virtual std::unique_ptr<Launch> copy(const View& from, const View& to) = 0;
  /// No node is in two of them. `place` gives a node's places.
  virtual std::vector<JoinedNodes> joined(const std::function<PlacedNode(size_t node)>& place) {
    (void)place;
    return {};
  }
};

/// The views between which an output is copied that was computed outside of its own buffer. Packed elements and blocks
/// are viewed as bytes.
std::pair<View, View> copied_views(const Graph& g, const StoragePlan& storage, size_t output);
/// The node where the storage plan puts it. `read`: the values that nodes or outputs read.
PlacedNode placed_node(const Graph& g, const StoragePlan& storage, const std::set<Ref>& read, size_t node);
std::set<Ref> read_values(const Graph& g);

struct PlanRequest {
  const Graph& graph;
  LaunchMaker& maker;
  std::vector<bool> donated = {};        ///< inputs that any result may overwrite
  std::span<const Update> updates = {};  ///< see `possible_updates`
  bool is_described = false;             ///< with the texts that only people and tests read: of kernels and strategies
};

/// What a step does: computes a node, or copies an output.
struct StepSource {
  size_t node = SIZE_MAX, output = SIZE_MAX;  ///< exactly one is set
};

struct Planned {
  Plan plan;  ///< of a total order
  std::vector<std::shared_ptr<Launch>> launches;
  /// By buffer: the param or constant that lies there, whether or not a run reads it; `Ref{}` for other buffers.
  std::vector<Ref> fixed;
  size_t live_bytes = 0;  ///< the most that values and scratch need at one step: no arena is smaller

  // What it was made of.
  StoragePlan storage;
  std::vector<StepSource> sources;  ///< by step
  std::vector<BufferLife> lives;    ///< in the arena: of each root, then of each step's scratch
  std::vector<size_t> offsets;      ///< in the arena, in the order of `lives`
  bool has_joined = false;          ///< some launches compute several nodes
};
Planned plan_graph(const PlanRequest& request);

/// Does the output lie where the input of the update does, and has its size?
bool lies_in_input(const Graph& g, const StoragePlan& storage, Update u);
/// The `wanted` updates without those that cannot be made, struck out until all others can be made together: a plan of
/// `g` with the same inputs `donated` may request them.
std::vector<Update> possible_updates(const Graph& g, const StorageRules& rules, const std::vector<bool>& donated,
                                     std::span<const Update> wanted);

}  // namespace rlx
