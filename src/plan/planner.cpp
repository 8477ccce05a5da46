// See the header.
#include "plan/planner.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "ir/leaves.h"
#include "plan/byte_offset.h"

namespace rlx {
namespace {

View view_of(const Graph& g, const StoragePlan& storage, Ref r) {
  return {g.type(r).dtype, shape_of(g.type(r).dims), storage.of(r).strides};
}

StoragePlan with_updates(const Graph& g, const StorageRules& rules, std::vector<bool> donated,
                         std::span<const Update> updates) {
  donated.resize(g.inputs().size());
  std::map<size_t, Ref> takers;  // an updated input is left to its own output
  for (Update u : updates) donated[u.input] = true, takers[u.input] = g.outputs()[u.output].ref;
  return plan_storage(g, rules, donated, takers);
}

struct GraphPlanner {
  const PlanRequest& request;
  const Graph& g = request.graph;
  StoragePlan storage = with_updates(g, request.maker.storage_rules(), request.donated, request.updates);
  Planned made = {};
  // The arena's: of each root, then of each step's scratch.
  std::vector<BufferLife> lives = std::vector<BufferLife>(storage.roots.size());
  std::vector<size_t> scratch_lives = {};   // by step
  std::map<size_t, size_t> buffer_of = {};  // by root
  std::map<Ref, PlanValue> value_of = {};   // of what is no view
  std::set<Ref> read = {};
  PlanValue values = 0;

  PlacedNode placed(size_t n) const { return placed_node(g, storage, read, n); }

  /// What stands behind views.
  Ref looked_at(Ref r) const {
    while (storage.of(r).is_view) {
      const Node& node = g.node(r);
      r = node.operands[node.operands.size() > 1 ? static_cast<size_t>(r.result) : 0];  // of several: a barrier
    }
    return r;
  }

  PlanValue new_value(Ref r) { return value_of.emplace(r, values++).first->second; }

  size_t add_buffer(PlanBuffer buffer, Ref fixed = {}) {
    made.plan.buffers.push_back(std::move(buffer));
    made.fixed.push_back(fixed);
    return made.plan.buffers.size() - 1;
  }

  size_t buffer(size_t root) {
    const auto [at, is_new] = buffer_of.try_emplace(root, made.plan.buffers.size());
    if (!is_new) return at->second;
    const Root& r = storage.roots[root];
    return add_buffer({r.kind, r.index, 0, static_cast<int64_t>(r.bytes), kNoValue, 0});
  }

  /// Inputs, params and constants have their buffers before the first step, in this order.
  void add_leaves() {
    for (size_t n = 0; n < g.nodes().size(); ++n) {
      if (!is_leaf(g.nodes()[n])) continue;
      const Ref leaf{static_cast<int32_t>(n), 0};
      const size_t b = buffer(storage.of(leaf).root);
      made.plan.buffers[b].holds = new_value(leaf);
      if (made.plan.buffers[b].kind != RootKind::input) made.fixed[b] = leaf;
    }
  }

  PlanSlot slot(Ref r, PlanValue value) {
    const Place& place = storage.of(r);
    return {buffer(place.root),
            value,
            g.type(r),
            byte_offset(g.type(r).dtype, place.offset),
            Dims(place.strides.begin(), place.strides.end()),
            false};
  }
  PlanSlot operand(Ref r) { return slot(r, value_of.at(looked_at(r))); }

  void add_step(PlanStep step, std::unique_ptr<Launch> launch, size_t at, StepSource source) {
    const size_t scratch = launch->scratch_bytes();
    step.scratch_bytes = static_cast<int64_t>(scratch);
    if (request.is_described) step.kernel = launch->kernel(), step.strategy = launch->strategy();
    scratch_lives.push_back(lives.size());
    lives.push_back({scratch, at, at});
    made.sources.push_back(source);
    made.plan.steps.push_back(std::move(step));
    made.launches.push_back(std::move(launch));
  }

  void add_node(size_t n, MadeLaunch launch, const std::vector<Ref>& operands) {
    const Node& node = g.nodes()[n];
    PlanStep step;
    step.op = node.op->name, step.node = node.name;
    if (!launch.bodies.empty()) step.kind = PlanStep::Kind::call, step.bodies = std::move(launch.bodies);
    for (size_t i = 0; i < operands.size(); ++i) {
      step.operands.push_back(operand(operands[i]));
      step.operands.back().is_packed = !launch.launch->reads_operand(i);
    }
    for (size_t r = 0; r < node.types.size(); ++r) {
      const Ref ref{static_cast<int32_t>(n), static_cast<int32_t>(r)};
      step.results.push_back(slot(ref, new_value(ref)));
    }
    add_step(std::move(step), std::move(launch.launch), n, {.node = n});
  }

  /// Outputs that are leaves, views, or twice the same value.
  void copy_output(size_t o) {
    const Ref r = g.outputs()[o].ref;
    const auto [from, to] = copied_views(g, storage, o);
    const Type type{from.dtype, Dims(from.shape.begin(), from.shape.end())};
    PlanStep step;
    step.kind = PlanStep::Kind::copy, step.op = "copy", step.node = g.outputs()[o].name;
    step.operands.push_back(operand(r));
    step.operands[0].type = type;
    step.operands[0].strides = Dims(from.strides.begin(), from.strides.end());
    const auto bytes = static_cast<int64_t>(byte_count(from.dtype, from.shape));
    const size_t to_buffer = add_buffer({RootKind::output, o, 0, bytes, kNoValue, 0});
    step.results.push_back(
        {to_buffer, step.operands[0].value, type, 0, Dims(to.strides.begin(), to.strides.end()), false});
    made.plan.outputs[o] = {g.outputs()[o].name, to_buffer, step.operands[0].value};
    add_step(std::move(step), request.maker.copy(from, to), g.nodes().size(), {.output = o});
  }

  Planned run() {
    made.plan.name = g.name();
    for (size_t r = 0; r < storage.roots.size(); ++r)
      if (const Root& root = storage.roots[r]; root.kind == RootKind::arena)
        lives[r] = {root.bytes, root.first, root.last};
    read = read_values(g);
    add_leaves();

    // Nodes that one launch does stand where the last of them does: until then what they read lives, and what lies
    // between them needs no memory.
    std::map<size_t, JoinedNodes> joined;
    std::map<size_t, std::vector<Ref>> joined_operands;
    std::set<size_t> done;
    for (JoinedNodes& j : request.maker.joined([this](size_t n) { return placed(n); })) {
      const size_t last = j.nodes.back();
      std::vector<Ref>& operands = joined_operands[last];
      for (size_t n : j.nodes) {
        const std::vector<Ref>& all = g.nodes()[n].operands;
        operands.insert(operands.end(), all.begin() + (n == j.nodes[0] ? 0 : 1), all.end());
        if (n != last) done.insert(n), lives[storage.of({int32_t(n), 0}).root].bytes = 0;
      }
      for (Ref r : operands) {
        BufferLife& life = lives[storage.of(r).root];
        life.last = std::max(life.last, last);
      }
      joined.emplace(last, std::move(j));
    }

    for (size_t n = 0; n < g.nodes().size(); ++n) {
      const Node& node = g.nodes()[n];
      if (is_leaf(node) || (!storage.places[n].empty() && storage.places[n][0].is_view) || done.contains(n)) continue;
      if (const auto found = joined.find(n); found != joined.end())
        add_node(n, {std::move(found->second.launch)}, joined_operands[n]);
      else add_node(n, request.maker.launch(placed(n)), node.operands);
    }
    made.plan.outputs.resize(g.outputs().size());
    std::set<size_t> copied(storage.copied_outputs.begin(), storage.copied_outputs.end());
    for (Update u : request.updates) {
      if (!copied.erase(u.output)) continue;
      if (!lies_in_input(g, storage, u))
        fail(ErrorCode::internal, "output ", u.output, " was to be an update, and is not");
    }
    for (size_t o = 0; o < g.outputs().size(); ++o) {
      const Ref r = g.outputs()[o].ref;
      if (copied.contains(o)) copy_output(o);
      else made.plan.outputs[o] = {g.outputs()[o].name, buffer(storage.of(r).root), value_of.at(looked_at(r))};
    }

    made.has_joined = !joined.empty();
    ArenaPlan arena = plan_arena(lives);
    made.live_bytes = largest_live_bytes(lives);
    made.plan.arena_bytes = static_cast<int64_t>(arena.bytes);
    for (const auto& [root, b] : buffer_of)
      if (made.plan.buffers[b].kind == RootKind::arena)
        made.plan.buffers[b].offset = static_cast<int64_t>(arena.offsets[root]);
    for (size_t s = 0; s < scratch_lives.size(); ++s)
      made.plan.steps[s].scratch_offset = static_cast<int64_t>(arena.offsets[scratch_lives[s]]);
    made.storage = std::move(storage), made.lives = std::move(lives), made.offsets = std::move(arena.offsets);
    return std::move(made);
  }
};

}  // namespace

bool lies_in_input(const Graph& g, const StoragePlan& storage, Update u) {
  Ref out = g.outputs()[u.output].ref;
  const Place& place = storage.of(out);
  const Root& root = storage.roots[place.root];
  return root.kind == RootKind::input && root.index == u.input &&
         fills_root(g, storage, out, byte_count(g.type(out).dtype, shape_of(g.type(out).dims)));
}

std::pair<View, View> copied_views(const Graph& g, const StoragePlan& storage, size_t output) {
  View from = view_of(g, storage, g.outputs()[output].ref);
  if (!is_byte_sized(from.dtype)) {  // packed elements are dense wherever they are, blocks as outputs: copied as bytes
    View bytes{u8, {static_cast<int64_t>(byte_count(from.dtype, from.shape))}, {1}};
    return {bytes, bytes};
  }
  View to{from.dtype, from.shape, dense_strides(from.shape)};
  return {std::move(from), std::move(to)};
}

PlacedNode placed_node(const Graph& g, const StoragePlan& storage, const std::set<Ref>& read, size_t n) {
  const Node& node = g.nodes()[n];
  PlacedNode placed{node, {}, {}, {}};
  for (Ref r : node.operands) placed.operands.push_back(view_of(g, storage, r));
  for (size_t r = 0; r < node.types.size(); ++r) {
    const Ref result{int32_t(n), int32_t(r)};
    placed.results.push_back(view_of(g, storage, result));
    placed.unread.push_back(!read.contains(result));
  }
  return placed;
}

std::set<Ref> read_values(const Graph& g) {
  std::set<Ref> read;
  for (const Node& node : g.nodes()) read.insert(node.operands.begin(), node.operands.end());
  for (const Output& o : g.outputs()) read.insert(o.ref);
  return read;
}

Planned plan_graph(const PlanRequest& request) { return GraphPlanner{request}.run(); }

std::vector<Update> possible_updates(const Graph& g, const StorageRules& rules, const std::vector<bool>& donated,
                                     std::span<const Update> wanted) {
  auto made = [&](std::span<const Update> updates) {
    StoragePlan storage = with_updates(g, rules, donated, updates);
    std::vector<Update> some;
    for (Update u : updates)
      if (lies_in_input(g, storage, u)) some.push_back(u);
    return some;
  };
  // One that is found impossible is left out, and no longer limits the others: until all agree.
  std::vector<Update> possible(wanted.begin(), wanted.end());
  for (;;) {
    auto agreed = made(possible);
    if (agreed.size() == possible.size()) return possible;
    possible = std::move(agreed);
  }
}

}  // namespace rlx
