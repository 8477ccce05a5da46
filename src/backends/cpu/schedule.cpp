// Making and running schedules; see the header.
#include "backends/cpu/schedule.h"

#include <array>
#include <chrono>
#include <map>
#include <set>

#include "backends/cpu/convolution_chain.h"
#include "backends/cpu/lowerings.h"
#include "base/large_pages.h"
#include "ir/leaves.h"
#include "plan/arena.h"
#include "rlx/ops/fused.h"

namespace rlx::cpu {

int64_t View::count() const {
  int64_t n = 1;
  for (int64_t extent : shape) n *= extent;
  return n;
}
bool is_dense(const View& v) { return rlx::is_dense(v.shape, v.strides); }

namespace {

std::vector<Type> operand_types(const Graph& g, const Node& node) {
  std::vector<Type> types;
  for (Ref r : node.operands) types.push_back(g.type(r));
  return types;
}

const Lowering& lowering_of(const Graph& g, const Node& node) {
  std::string why_not;
  auto types = operand_types(g, node);
  const Lowering* row = find_lowering({node, types}, why_not);
  if (!row)
    fail(ErrorCode::internal, "the CPU was handed '", node.op->name, "', which it does not take: ", why_not,
         "; if a kernel for it was unregistered meanwhile, compile the graph again");
  return *row;
}

/// Is the output where the input is?
bool lies_in_input(const Graph& g, const StoragePlan& plan, Update u) {
  Ref out = g.outputs()[u.output].ref;
  const Place& place = plan.of(out);
  const Root& root = plan.roots[place.root];
  return root.kind == RootKind::input && root.index == u.input && place.offset == 0 &&
         root.bytes == byte_count(g.type(out).dtype, shape_of(g.type(out).dims)) &&
         rlx::is_dense(shape_of(g.type(out).dims), place.strides);
}
std::vector<bool> with_updates(std::vector<bool> donated, const Graph& g, std::span<const Update> updates) {
  donated.resize(g.inputs().size());
  for (Update u : updates) donated[u.input] = true;
  return donated;
}
/// An updated input is left to its own output.
std::map<size_t, Ref> takers_of(const Graph& g, std::span<const Update> updates) {
  std::map<size_t, Ref> takers;
  for (Update u : updates) takers[u.input] = g.outputs()[u.output].ref;
  return takers;
}
}  // namespace

StorageRules storage_rules(const Graph& g) {
  // Whether a body updates a carry is found by planning the body: once for each loop.
  auto updated = std::make_shared<std::map<const Node*, std::vector<bool>>>();
  return {
      [&g](const Node& node, size_t operand, const Shape& shape, std::span<const int64_t> strides) {
        const Lowering& row = lowering_of(g, node);
        return row.strided && row.strided(node, operand, shape, strides);
      },
      [&g, updated](const Node& node, size_t result) -> std::vector<size_t> {
        Overwrites overwrites = lowering_of(g, node).overwrites;
        if (overwrites == Overwrites::carries) {
          auto [at, is_new] = updated->try_emplace(&node);
          if (is_new) at->second = updated_carries(node);
          return result < at->second.size() && at->second[result] ? std::vector{result} : std::vector<size_t>{};
        }
        if (overwrites == Overwrites::params) return {result == 0 ? 0 : 3 + result};
        // A region writes a tile of a result when all operands of that tile have been read, or keeps a copy of them.
        if (result > 0 && node.op != &op::elementwise_region) return {};
        if (overwrites == Overwrites::any) return overwritable_operands(node);
        if (overwrites == Overwrites::first) return {0};
        return node.op->overwrites ? std::vector{*node.op->overwrites} : std::vector<size_t>{};
      },
  };
}

std::vector<Update> possible_updates(const Graph& g, std::span<const Update> wanted) {
  StorageRules rules = storage_rules(g);
  auto made = [&](std::span<const Update> updates) {
    StoragePlan plan = plan_storage(g, rules, with_updates({}, g, updates), takers_of(g, updates));
    std::vector<Update> some;
    for (Update u : updates)
      if (lies_in_input(g, plan, u)) some.push_back(u);
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

Schedule::~Schedule() = default;

Schedule::Schedule(const Request& request) {
  const Graph& g = request.graph;
  output_types_ = g.output_types();
  StorageRules rules = storage_rules(g);
  StoragePlan plan =
      plan_storage(g, rules, with_updates(request.donated, g, request.updates), takers_of(g, request.updates));

  auto view = [&](Ref r) { return View{g.type(r).dtype, shape_of(g.type(r).dims), plan.of(r).strides}; };
  auto bound_tensor = [&](Ref r) -> const Tensor* {
    const Node& leaf = g.node(r);
    if (leaf.op == &op::constant) return &leaf.attrs.as<ConstantAttrs>().value;
    if (leaf.op == &op::input) {
      auto i = size_t(std::find(g.inputs().begin(), g.inputs().end(), r) - g.inputs().begin());
      return i < request.bound.size() ? request.bound[i] : nullptr;
    }
    return leaf.op == &op::param ? request.param(leaf.name) : nullptr;
  };
  const std::function<std::unique_ptr<Schedule>(const Body&)> nested = [&](const Body& body) {
    auto no_param = [](const std::string&) -> const Tensor* { return nullptr; };
    return std::make_unique<Schedule>(
        Request{body.graph, request.threads, request.policy, request.packed, no_param, {}, body.updates, body.bound});
  };

  std::vector<BufferLife> lives(plan.roots.size());
  for (size_t r = 0; r < plan.roots.size(); ++r)
    if (plan.roots[r].kind == RootKind::arena)
      lives[r] = {plan.roots[r].bytes, plan.roots[r].first, plan.roots[r].last};

  auto add_slot = [&](Ref r, bool packed) {
    const Place& place = plan.of(r);
    const Root& root = plan.roots[place.root];
    Slot slot{root.kind, root.index, static_cast<size_t>(place.offset) * byte_size(g.type(r).dtype)};
    if (root.kind == RootKind::arena) slot.index = place.root;
    if (root.kind == RootKind::param || root.kind == RootKind::constant) {
      Ref leaf = root.kind == RootKind::param ? g.params()[root.index] : Ref{int32_t(root.index), 0};
      if (!packed) {
        kept_.push_back(*bound_tensor(leaf));
        slot.fixed = kept_.back().data() + slot.offset;
      }
    }
    slots_.push_back(slot);
  };

  std::set<Ref> read;
  for (const Node& node : g.nodes()) read.insert(node.operands.begin(), node.operands.end());
  for (const Output& o : g.outputs()) read.insert(o.ref);

  /// Calls f with what the lowering of a node is handed.
  const auto with_lowering = [&](size_t n, auto f) {
    const Node& node = g.nodes()[n];
    std::vector<View> operands, results;
    for (Ref r : node.operands) operands.push_back(view(r));
    std::vector<bool> unread;
    for (size_t r = 0; r < node.types.size(); ++r) {
      results.push_back(view({int32_t(n), int32_t(r)}));
      unread.push_back(!read.contains({int32_t(n), int32_t(r)}));
    }
    const std::function<const Tensor*(size_t)> bound = [&](size_t i) { return bound_tensor(node.operands[i]); };
    return f(LoweringContext{node, std::move(operands), std::move(results), request.threads, request.policy,
                             request.packed, bound, nested, std::move(unread)});
  };
  const auto prepared = [&](const Node& node, auto make) {
    return with_context(
        [&] { return text_of("preparing '", node.op->name, "'", node.name.empty() ? "" : " of '" + node.name + "'"); },
        make);
  };
  const auto add_step = [&](size_t n, std::unique_ptr<Step> step, const std::vector<Ref>& operands) {
    const Node& node = g.nodes()[n];
    auto steps_read = [&made = *step](size_t i) { return made.reads_operand(i); };
    Entry entry{std::move(step), slots_.size(), 0, lives.size(), std::string(node.op->name), node.name};
    for (size_t i = 0; i < operands.size(); ++i) add_slot(operands[i], !steps_read(i));
    entry.first_result = slots_.size();
    for (size_t r = 0; r < node.types.size(); ++r) add_slot({int32_t(n), int32_t(r)}, false);
    lives.push_back({entry.step->scratch_bytes(), n, n});
    steps_.push_back(std::move(entry));
  };

  // Nodes that one step does stand where the last of them does: until then what they read lives, and what lies between
  // them needs no memory.
  std::map<size_t, std::unique_ptr<Step>> joined;
  std::map<size_t, std::vector<Ref>> joined_operands;
  std::set<size_t> done;
  for (ConvolutionPipeline pipeline : convolution_pipelines(g)) {
    if (joined.contains(pipeline.nodes[0]))
      pipeline.nodes.erase(pipeline.nodes.begin());  // it is the last of another one
    const auto of_the_table = [&](size_t n) { return lowering_of(g, g.nodes()[n]).when == when_fused_conv; };
    if (!std::all_of(pipeline.nodes.begin(), pipeline.nodes.end(), of_the_table))
      continue;  // a kernel from outside comes first
    const size_t last = pipeline.nodes.back();
    auto step = prepared(g.nodes()[last], [&] {
      return with_lowering(pipeline.nodes[0], [&](const LoweringContext& a) {
        return with_lowering(pipeline.nodes[1], [&](const LoweringContext& b) {
          if (pipeline.nodes.size() == 2) return lower_convolution_pipeline(std::array{&a, &b});
          return with_lowering(last, [&](const LoweringContext& c) {
            return lower_convolution_pipeline(std::array{&a, &b, &c});
          });
        });
      });
    });
    if (!step) continue;
    std::vector<Ref>& operands = joined_operands[last];
    for (size_t n : pipeline.nodes) {
      const std::vector<Ref>& all = g.nodes()[n].operands;
      operands.insert(operands.end(), all.begin() + (n == pipeline.nodes[0] ? 0 : 1), all.end());
      if (n != last) done.insert(n), lives[plan.of({int32_t(n), 0}).root].bytes = 0;
    }
    for (Ref r : operands) {
      BufferLife& life = lives[plan.of(r).root];
      life.last = std::max(life.last, last);
    }
    joined[last] = std::move(step);
  }

  for (size_t n = 0; n < g.nodes().size(); ++n) {
    const Node& node = g.nodes()[n];
    if (is_leaf(node) || (!plan.places[n].empty() && plan.places[n][0].is_view) || done.contains(n)) continue;
    if (const auto found = joined.find(n); found != joined.end()) {
      add_step(n, std::move(found->second), joined_operands[n]);
      continue;
    }
    add_step(n, prepared(node, [&] { return with_lowering(n, lowering_of(g, node).how); }), node.operands);
  }
  for (size_t o : plan.copied_outputs) {  // outputs that are leaves, views, or twice the same value
    Ref r = g.outputs()[o].ref;
    auto update = std::find_if(request.updates.begin(), request.updates.end(), [&](Update u) { return u.output == o; });
    if (update != request.updates.end()) {
      if (!lies_in_input(g, plan, *update)) fail(ErrorCode::internal, "output ", o, " was to be an update, and is not");
      continue;
    }
    View from = view(r), to{from.dtype, from.shape, dense_strides(from.shape)};
    if (!is_byte_sized(from.dtype)) {  // packed elements and blocks are dense wherever they are: copied as bytes
      auto bytes = static_cast<int64_t>(byte_count(from.dtype, from.shape));
      from = to = View{u8, {bytes}, {1}};
    }
    Entry entry{copy_step(from, to), slots_.size(), slots_.size() + 1, lives.size(), "copy", g.outputs()[o].name};
    add_slot(r, false);
    slots_.push_back({RootKind::output, o, 0});
    lives.push_back({entry.step->scratch_bytes(), g.nodes().size(), g.nodes().size()});
    steps_.push_back(std::move(entry));
  }

  // A product of few rows takes as long as its weights take to arrive from memory, so the product before it prefetches
  // them.
  std::span<const std::byte> weights;
  for (auto entry = steps_.rbegin(); entry != steps_.rend(); ++entry) {
    if (!weights.empty()) entry->step->prefetch_read(weights);
    if (const auto own = entry->step->packed_weights(); !own.empty()) weights = own;
  }

  ArenaPlan arena = plan_arena(lives);
  arena_bytes_ = arena.bytes, live_bytes_ = largest_live_bytes(lives);
  for (Entry& entry : steps_) entry.scratch_offset = arena.offsets[entry.scratch_offset];
  for (size_t s = 0; s < slots_.size(); ++s) {
    Slot& slot = slots_[s];
    if (slot.kind == RootKind::arena) slot.offset += arena.offsets[slot.index];
    if (slot.kind == RootKind::input || slot.kind == RootKind::output)
      patches_.push_back({s, slot.kind == RootKind::output, slot.index, slot.offset});
  }
}

std::vector<Schedule::PlannedStep> Schedule::planned_steps() const {
  std::vector<PlannedStep> planned;
  for (const Entry& entry : steps_)
    if (std::string strategy = entry.step->strategy(); !strategy.empty())
      planned.push_back({entry.node, entry.op, entry.step->kernel(), std::move(strategy)});
  return planned;
}

std::unique_ptr<RunState> Schedule::new_state() const {
  constexpr size_t kAlignment = 64;
  auto state = std::make_unique<RunState>();
  state->memory.reset(new (std::nothrow) std::byte[arena_bytes_ + kAlignment]);
  if (!state->memory) fail(ErrorCode::out_of_memory, "no memory for an arena of ", arena_bytes_, " bytes");
  prefer_large_pages(state->memory.get(), arena_bytes_);
  auto address = reinterpret_cast<uintptr_t>(state->memory.get());
  state->arena = state->memory.get() + (kAlignment - address % kAlignment) % kAlignment;
  state->pointers.resize(slots_.size());
  resolve(state->pointers.data(), state->arena);
  return state;
}

void Schedule::resolve(void** pointers, std::byte* arena) const noexcept {
  for (size_t s = 0; s < slots_.size(); ++s)
    pointers[s] = slots_[s].fixed ? const_cast<std::byte*>(slots_[s].fixed) : arena + slots_[s].offset;
}

void Schedule::run(void** pointers, std::byte* arena, std::span<void* const> inputs, std::span<void* const> outputs,
                   int width, const CancelFlag* cancel, std::vector<StepTime>* profile) const noexcept {
  for (const Patch& patch : patches_)
    pointers[patch.pointer] = static_cast<std::byte*>((patch.is_output ? outputs : inputs)[patch.index]) + patch.offset;
  kernels::ThreadPool& pool = kernels::ThreadPool::shared();
  using Clock = std::chrono::steady_clock;
  Clock::time_point begin = profile ? Clock::now() : Clock::time_point{};
  for (const Entry& entry : steps_) {
    if (is_cancelled(cancel)) return;
    StepArgs args{pointers + entry.first_operand,
                  pointers + entry.first_result,
                  arena + entry.scratch_offset,
                  width,
                  pool,
                  cancel};
    if (!profile) {
      entry.step->run(args);
      continue;
    }
    auto since = [&](Clock::time_point t) { return std::chrono::duration<double, std::micro>(t - begin).count(); };
    double start = since(Clock::now());
    entry.step->run(args);
    profile->push_back({entry.op, entry.node, entry.step->kernel(), start, since(Clock::now()) - start});
  }
}

}  // namespace rlx::cpu
