// The storage planner; see the header.
#include "plan/storage.h"

#include "ir/leaves.h"
#include "rlx/ops/control.h"
#include "rlx/ops/shape.h"

namespace rlx {

namespace {

void set_dense(const Shape& shape, std::vector<int64_t>& strides) {
  strides.resize(shape.size());
  int64_t step = 1;
  for (size_t d = shape.size(); d-- > 0;) {
    strides[d] = step;
    step *= std::max<int64_t>(shape[d], 1);
  }
}

}  // namespace

std::vector<int64_t> dense_strides(const Shape& shape) {
  std::vector<int64_t> strides;
  set_dense(shape, strides);
  return strides;
}
bool is_dense(const Shape& shape, std::span<const int64_t> strides) {
  int64_t step = 1;
  for (size_t d = shape.size(); d-- > 0;) {
    if (shape[d] != 1 && strides[d] != step) return false;
    step *= std::max<int64_t>(shape[d], 1);
  }
  return true;
}

bool may_be_view(const OpDef& op) {
  return &op == &op::reshape || &op == &op::transpose || &op == &op::slice || &op == &op::broadcast_in_dim ||
         &op == &op::optimization_barrier;
}

namespace {

struct Planner {
  const Graph& g;
  const Uses& uses;
  const StorageRules& rules;
  const std::vector<bool>& donated;
  const std::map<size_t, Ref>& takers;
  StoragePlan& plan;
  mutable Shape shape_for_now = {};

  Shape shape(Ref r) const { return shape_of(g.type(r).dims); }
  /// The same, good until it is asked for again: allocates nothing.
  const Shape& shape_now(Ref r) const {
    shape_for_now.clear();
    for (const Dim& dim : g.type(r).dims) shape_for_now.push_back(dim.value());
    return shape_for_now;
  }
  size_t bytes(Ref r) const { return byte_count(g.type(r).dtype, shape_now(r)); }

  size_t new_root(RootKind kind, size_t index, Ref r) {
    auto node = static_cast<size_t>(r.node);
    plan.roots.push_back({kind, index, bytes(r), node, node});
    return plan.roots.size() - 1;
  }

  /// What `node` would be as a view of its operand, or nothing if it is no such op.
  std::optional<Place> view(const Node& node) const {
    if (!may_be_view(*node.op) || node.op == &op::optimization_barrier) return {};
    // Rows of blocks stay whole, as elements do; elements that share a byte do not.
    const DType dtype = g.type(node.operands[0]).dtype;
    if (!is_byte_sized(dtype) && !is_block(dtype)) return {};
    const Place& from = plan.of(node.operands[0]);
    Shape in = shape(node.operands[0]), out = shape_of(node.types[0].dims);
    Place place{from.root, from.offset, {}, true};
    if (node.op == &op::reshape) {
      if (!is_dense(in, from.strides)) return {};
      place.strides = dense_strides(out);
      return place;
    }
    if (node.op == &op::transpose) {
      place.strides = pick(from.strides, valid_axes(node.attrs.as<TransposeAttrs>().permutation, in.size()));
      return place;
    }
    if (node.op == &op::slice) {
      const auto& a = node.attrs.as<SliceAttrs>();
      for (size_t d = 0; d < in.size(); ++d) {
        place.offset += a.starts[d].value() * from.strides[d];
        place.strides.push_back(from.strides[d] * (a.strides.empty() ? 1 : a.strides[d]));
      }
      return place;
    }
    if (node.op == &op::broadcast_in_dim) {
      Axes axes = valid_axes(node.attrs.as<BroadcastAttrs>().axes, out.size());
      place.strides.assign(out.size(), 0);
      for (size_t d = 0; d < in.size(); ++d)
        if (in[d] != 1) place.strides[size_t(axes[d])] = from.strides[d];
      return place;
    }
    return {};
  }

  bool users_read_strided(Ref r, const Shape& shape_of_r, std::span<const int64_t> strides) const {
    if (uses.outputs(r) > 0) return false;
    for (int32_t user : uses.of(r)) {
      const Node& node = g.nodes()[size_t(user)];
      for (size_t i = 0; i < node.operands.size(); ++i) {
        if (node.operands[i] != r) continue;
        // What stands behind a barrier is the same value: its users are asked.
        bool reads = node.op == &op::optimization_barrier ? users_read_strided({user, int32_t(i)}, shape_of_r, strides)
                                                          : rules.reads_strided(node, i, shape_of_r, strides);
        if (!reads) return false;
      }
    }
    return true;
  }

  /// The last node that reads anything in the root: views extend the life of what they look at.
  std::vector<size_t> last_uses() const {
    std::vector<size_t> last(plan.roots.size());
    for (size_t n = 0; n < plan.places.size(); ++n)
      for (size_t r = 0; r < plan.places[n].size(); ++r) {
        Ref ref{int32_t(n), int32_t(r)};
        size_t& at = last[plan.places[n][r].root];
        at = std::max(at, n);
        for (int32_t user : uses.of(ref)) at = std::max(at, size_t(user));
        if (uses.outputs(ref)) at = g.nodes().size();
      }
    return last;
  }

  /// Has the operand, which lies at `place`, a whole buffer of the size of the result?
  bool has_size_of(Ref operand, Ref result) const { return rlx::fills_root(g, plan, operand, bytes(result)); }

  /// May the output's buffer be exchanged for the caller's?
  bool fills_root(Ref r) const { return rlx::fills_root(g, plan, r, bytes(r)); }

  /// The node as a view, if it becomes one: where every user understands its strides.
  std::optional<Place> accepted_view(size_t n) const {
    const Node& node = g.nodes()[n];
    std::optional<Place> seen = view(node);
    if (!seen) return {};
    Shape out = shape_of(node.types[0].dims);
    if (is_dense(out, seen->strides) || users_read_strided({int32_t(n), 0}, out, seen->strides)) return seen;
    return {};
  }

  /// Calls `f` with each answer about a node (see StoragePlan::answers).
  template <class F>
  void for_each_answer(size_t n, bool is_view, F f) const {
    const Node& node = g.nodes()[n];
    if (is_leaf(node) || node.op == &op::optimization_barrier) return;
    f(size_t{is_view});
    for (size_t r = 0; r < node.types.size() && !is_view; ++r)
      for (size_t i : rules.may_overwrite(node, r))
        f(2 * i + (i < node.operands.size() && has_size_of(node.operands[i], {int32_t(n), int32_t(r)})));
  }
  std::vector<size_t> answers(size_t n, bool is_view) const {
    std::vector<size_t> all;
    for_each_answer(n, is_view, [&](size_t answer) { all.push_back(answer); });
    return all;
  }
  bool has_same_answers(size_t n, bool is_view) const {
    const std::vector<size_t>& before = plan.answers[n];
    size_t count = 0;
    bool same = true;
    for_each_answer(n, is_view, [&](size_t answer) {
      same &= count < before.size() && before[count] == answer;
      ++count;
    });
    return same && count == before.size();
  }
  std::vector<size_t> output_answers() const {
    std::vector<size_t> all;
    for (const Output& o : g.outputs()) all.push_back(fills_root(o.ref));
    return all;
  }
  bool have_outputs_same_answers() const {
    const std::vector<size_t>& before = plan.answers.back();
    for (size_t o = 0; o < g.outputs().size(); ++o)
      if (before[o] != size_t{fills_root(g.outputs()[o].ref)}) return false;
    return true;
  }

  /// The same, given that it is found for the earlier node `first` already (see move_storage).
  std::optional<Place> accepted_view(size_t n, size_t first) const {
    if (first == n) return accepted_view(n);
    const Place &from = plan.of(g.nodes()[n].operands[0]), &first_from = plan.of(g.nodes()[first].operands[0]);
    if (from.strides != first_from.strides) return accepted_view(n);
    const Place& seen = plan.places[first][0];
    if (!seen.is_view) return {};
    return Place{from.root, from.offset + seen.offset - first_from.offset, seen.strides, true};
  }

  /// False if the node's place would be of another sort. `first`: as for accepted_view.
  bool move(size_t n, size_t first) {
    const Node& node = g.nodes()[n];
    std::vector<Place>& places = plan.places[n];
    const auto move_own = [&] {
      for (size_t r = 0; r < places.size(); ++r) {
        set_dense(shape_now({int32_t(n), int32_t(r)}), places[r].strides);
        if (Root& root = plan.roots[places[r].root]; root.first == n) root.bytes = bytes({int32_t(n), int32_t(r)});
      }
    };
    if (node.op == &op::optimization_barrier) {
      for (size_t r = 0; r < places.size(); ++r) places[r] = plan.of(node.operands[r]), places[r].is_view = true;
      return true;
    }
    if (is_leaf(node)) return move_own(), true;
    std::optional<Place> seen = accepted_view(n, first);
    if (!has_same_answers(n, seen.has_value())) return false;
    if (seen) places[0] = std::move(*seen);
    else move_own();
    return true;
  }

  /// The operand whose buffer a `result` of node `n` may take: whole, dense, used by nothing else now or later.
  std::optional<size_t> reusable(size_t n, size_t result) const {
    const Node& node = g.nodes()[n];
    std::vector<size_t> candidates = rules.may_overwrite(node, result);
    std::erase_if(candidates, [&](size_t i) { return i >= node.operands.size(); });
    // An input that is left to this very result comes first: no other buffer makes the update.
    std::stable_partition(candidates.begin(), candidates.end(), [&](size_t i) {
      const Root& root = plan.roots[plan.of(node.operands[i]).root];
      const auto taker = root.kind == RootKind::input ? takers.find(root.index) : takers.end();
      return taker != takers.end() && taker->second == Ref{int32_t(n), int32_t(result)};
    });
    for (size_t i : candidates) {
      Ref r = node.operands[i];
      const Place& place = plan.of(r);
      const Root& root = plan.roots[place.root];
      bool ours = root.kind == RootKind::arena ||
                  (root.kind == RootKind::input && root.index < donated.size() && donated[root.index]);
      if (root.kind == RootKind::input)
        if (auto taker = takers.find(root.index);
            taker != takers.end() && taker->second != Ref{int32_t(n), int32_t(result)})
          continue;
      if (!ours || !has_size_of(r, {int32_t(n), int32_t(result)}) ||
          byte_size(g.type(r).dtype) != byte_size(node.types[result].dtype))
        continue;
      bool needed = false;
      for (size_t m = 0; m < plan.places.size() && !needed; ++m)
        for (size_t k = 0; k < plan.places[m].size(); ++k) {
          Ref other{int32_t(m), int32_t(k)};
          if (plan.of(other).root != place.root) continue;
          needed |= uses.outputs(other) > 0 || m == n;  // of this node another result has taken it
          for (int32_t user : uses.of(other)) needed |= size_t(user) > n || (size_t(user) == n && other != r);
        }
      needed |= std::count(node.operands.begin(), node.operands.end(), r) > 1;
      if (!needed) return i;
    }
    return {};
  }

  void place(size_t n) {
    const Node& node = g.nodes()[n];
    auto& places = plan.places.emplace_back();
    auto own = [&](RootKind kind, size_t index, size_t r) {
      Ref ref{int32_t(n), int32_t(r)};
      places.push_back({new_root(kind, index, ref), 0, dense_strides(shape_of(node.types[r].dims)), false});
    };
    auto position = [&](const std::vector<Ref>& leaves) {
      return size_t(std::find(leaves.begin(), leaves.end(), Ref{int32_t(n), 0}) - leaves.begin());
    };
    if (node.op == &op::input) return own(RootKind::input, position(g.inputs()), 0);
    if (node.op == &op::param) return own(RootKind::param, position(g.params()), 0);
    if (node.op == &op::constant) return own(RootKind::constant, n, 0);
    if (node.op == &op::optimization_barrier) {
      for (Ref r : node.operands) places.push_back(plan.of(r)), places.back().is_view = true;
      return;
    }
    if (auto seen = accepted_view(n)) {
      places.push_back(std::move(*seen));
      return;
    }
    for (size_t r = 0; r < node.types.size(); ++r) {
      if (auto over = reusable(n, r)) {
        places.push_back({plan.of(node.operands[*over]).root, 0, dense_strides(shape_of(node.types[r].dims)), false});
        ++plan.in_place;
      } else {
        own(RootKind::arena, 0, r);
      }
    }
  }

  void run() {
    for (size_t n = 0; n < g.nodes().size(); ++n) place(n);
    auto last = last_uses();
    for (size_t r = 0; r < last.size(); ++r) plan.roots[r].last = last[r];
    for (size_t o = 0; o < g.outputs().size(); ++o) {
      Ref r = g.outputs()[o].ref;
      Root& root = plan.roots[plan.of(r).root];
      // Only a whole arena buffer can be exchanged for the caller's; the first output that asks for it gets it.
      if (root.kind == RootKind::arena && fills_root(r)) root.kind = RootKind::output, root.index = o;
      else plan.copied_outputs.push_back(o);
    }
  }
};

}  // namespace

bool fills_root(const Graph& g, const StoragePlan& plan, Ref value, size_t bytes) {
  const Place& place = plan.of(value);
  if (place.offset != 0 || plan.roots[place.root].bytes != bytes) return false;
  const Dims& dims = g.type(value).dims;
  int64_t step = 1;
  for (size_t d = dims.size(); d-- > 0;) {
    const int64_t extent = dims[d].value();
    if (extent != 1 && place.strides[d] != step) return false;
    step *= std::max<int64_t>(extent, 1);
  }
  return true;
}

StoragePlan plan_storage(const Graph& g, const StorageRules& rules, const std::vector<bool>& donated,
                         const std::map<size_t, Ref>& takers) {
  const Uses uses(g);
  StoragePlan plan;
  Planner{g, uses, rules, donated, takers, plan}.run();
  return plan;
}

namespace {
// A plan that exists already has decided what they decide.
const std::vector<bool> kNoneDonated;
const std::map<size_t, Ref> kNoTakers;
}  // namespace

void add_answers(const Graph& g, const Uses& uses, const StorageRules& rules, std::span<const size_t> nodes,
                 StoragePlan& plan) {
  const Planner planner{g, uses, rules, kNoneDonated, kNoTakers, plan};
  plan.answers.resize(g.nodes().size() + 1);
  for (size_t n : nodes) plan.answers[n] = planner.answers(n, !plan.places[n].empty() && plan.places[n][0].is_view);
  plan.answers.back() = planner.output_answers();
}

bool move_storage(const Graph& g, const Uses& uses, const StorageRules& rules, std::span<const size_t> nodes,
                  std::span<const size_t> alike, StoragePlan& plan) {
  Planner planner{g, uses, rules, kNoneDonated, kNoTakers, plan};
  for (size_t n : nodes)
    if (!planner.move(n, alike[n])) return false;
  return planner.have_outputs_same_answers();
}

}  // namespace rlx
