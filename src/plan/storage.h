// Where each value of a graph with static types lives: a buffer of its own, a view of another value's, or the buffer of
// an operand that is dead by then. Nothing in the IR knows of mutation: an op that updates returns the new value, and
// here the old one's memory is reused.
//
//   roots   buffers: of inputs, params, constants, outputs, and of the arena
//   views   reshape of a dense value; slice, transpose and broadcast if the result is dense or every user reads it
//           with its strides
//   reuse   a result takes an operand's buffer if the op allows it, the bytes agree, and nothing needs the old value
#pragma once

#include <map>

#include "ir/rewrite.h"

namespace rlx {

/// `own`: memory of its own, for one run: only in plans of graphs that run on several devices.
enum class RootKind { arena, input, param, constant, output, own };

struct Root {
  RootKind kind = RootKind::arena;
  size_t index = 0;  ///< which input, param or output; of a constant the node
  size_t bytes = 0;
  size_t first = 0, last = 0;  ///< nodes between which it lives
};

/// A value's place: element (i, j, ...) is at offset + i * strides[0] + j * strides[1] ... elements from the start of
/// the root.
struct Place {
  size_t root = 0;
  int64_t offset = 0;
  std::vector<int64_t> strides;
  bool is_view = false;  ///< no step has to compute it
};

/// What the planner asks of a backend.
struct StorageRules {
  /// Can this operand of this node be read with these strides? Dense ones are always understood.
  std::function<bool(const Node&, size_t operand, const Shape&, std::span<const int64_t> strides)> reads_strided;
  /// Operands whose buffer a result may take.
  std::function<std::vector<size_t>(const Node&, size_t result)> may_overwrite;
};

struct StoragePlan {
  std::vector<std::vector<Place>> places;  ///< of each node's results
  std::vector<Root> roots;
  /// Outputs that are not computed in the caller's buffer: inputs, params, constants, views, repeated outputs, values
  /// in an input's buffer. They are copied there at the end, except for updates, which stay in the input's buffer.
  std::vector<size_t> copied_outputs;
  size_t in_place = 0;  ///< results that took over an operand's buffer
  /// One list a node, and a last one for the outputs: the answers about extents and strides that gave the plan its
  /// form. Other extents that give the same answers have the same roots, views and copies.
  std::vector<std::vector<size_t>> answers;

  const Place& of(Ref r) const { return places[static_cast<size_t>(r.node)][static_cast<size_t>(r.result)]; }
};

/// `donated[i]`: input i may be overwritten; if it is in `takers`, by that value alone.
StoragePlan plan_storage(const Graph& g, const StorageRules& rules, const std::vector<bool>& donated = {},
                         const std::map<size_t, Ref>& takers = {});

/// Whether results of the op may be views: whether they are depends on their users as well.
bool may_be_view(const OpDef& op);
/// Fills `answers` for these nodes and for the outputs: afterwards the plan can be moved.
void add_answers(const Graph& g, const Uses& uses, const StorageRules& rules, std::span<const size_t> nodes,
                 StoragePlan& plan);
/// Places and sizes for other extents. `g` is the graph for which `plan` was made, with other numbers in its types and
/// attributes. `nodes`, in order: each node with a new number in its types, in its attributes or in the places of its
/// operands, and those that may be views and have one in the types of their users. alike[n]: an earlier node with the
/// same op, types, attributes and users as node n, or n itself; if the operands of both have the same strides, node n
/// is a view if and only if alike[n] is. False if a plan made for these extents would have another form; then the
/// places in `plan` are a mix of old and new, and it must be moved back, with the same nodes, before it is used.
bool move_storage(const Graph& g, const Uses& uses, const StorageRules& rules, std::span<const size_t> nodes,
                  std::span<const size_t> alike, StoragePlan& plan);

/// Is the value a whole root of so many bytes: dense, from the first of them to the last?
bool fills_root(const Graph& g, const StoragePlan& plan, Ref value, size_t bytes);

std::vector<int64_t> dense_strides(const Shape& shape);
/// Row-major without gaps, as `dense_strides` says; dims of extent 1 may have any stride.
bool is_dense(const Shape& shape, std::span<const int64_t> strides);

}  // namespace rlx
