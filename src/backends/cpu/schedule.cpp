// The CPU's half of planning: a launch for each node, and for the pipelines of convolutions. See the header.
#include "backends/cpu/schedule.h"

#include <array>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>

#include "backends/cpu/convolution_pipeline.h"
#include "backends/cpu/lowerings.h"
#include "base/memory_limit.h"
#include "ir/leaves.h"
#include "plan/movable_plan.h"
#include "rlx/ops/fused.h"
#include "rlx/ops/fused_blocks.h"

namespace rlx::cpu {
namespace {

/// The rows of the table for the nodes of a graph. Each is looked up once, until forget() says that types have changed.
class Rows {
 public:
  explicit Rows(const Graph& g) : g_(g) {}
  /// The types may be other ones from now on.
  void forget() { ++time_; }

  const Lowering& of(const Node& node) {
    Found& found = found_[&node];
    if (found.time == time_) return *found.row;
    // Assigned where the types of another time are: that seldom allocates.
    found.operands.resize(node.operands.size());
    for (size_t i = 0; i < node.operands.size(); ++i) found.operands[i] = g_.type(node.operands[i]);
    std::string why_not;
    found.row = find_lowering({node, found.operands}, why_not);
    if (!found.row)
      fail(ErrorCode::internal, "the CPU was handed '", node.op->name, "', which it does not take: ", why_not,
           "; if a kernel for it was unregistered meanwhile, compile the graph again");
    found.time = time_;
    return *found.row;
  }

 private:
  struct Found {
    uint64_t time = 0;
    const Lowering* row = nullptr;
    std::vector<Type> operands = {};
  };
  const Graph& g_;
  uint64_t time_ = 1;
  std::unordered_map<const Node*, Found> found_ = {};
};

StorageRules storage_rules_of(const std::shared_ptr<Rows>& rows) {
  // Whether a body updates a carry is found by planning the body: once for each loop.
  auto updated = std::make_shared<std::map<const Node*, std::vector<bool>>>();
  return {
      [rows](const Node& node, size_t operand, const Shape& shape, std::span<const int64_t> strides) {
        const Lowering& row = rows->of(node);
        return row.strided && row.strided(node, operand, shape, strides);
      },
      [rows, updated](const Node& node, size_t result) -> std::vector<size_t> {
        Overwrites overwrites = rows->of(node).overwrites;
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

}  // namespace

StorageRules storage_rules(const Graph& g) { return storage_rules_of(std::make_shared<Rows>(g)); }

namespace {

class CpuLaunches final : public LaunchMaker {
 public:
  CpuLaunches(const ScheduleRequest& request, bool is_described)
      : request_(request), g_(request.graph), is_described_(is_described) {}

  /// The tensor that a leaf is in every run, or null.
  const Tensor* bound_tensor(Ref r) const {
    const Node& leaf = g_.node(r);
    if (leaf.op == &op::constant) return &leaf.attrs.as<ConstantAttrs>().value;
    if (leaf.op == &op::input) {
      auto i = size_t(std::find(g_.inputs().begin(), g_.inputs().end(), r) - g_.inputs().begin());
      return i < request_.bound.size() ? request_.bound[i] : nullptr;
    }
    return leaf.op == &op::param ? request_.param(leaf.name) : nullptr;
  }

  StorageRules storage_rules() override {
    rows_->forget();
    return storage_rules_of(rows_);
  }

  MadeLaunch launch(PlacedNode placed) override {
    bodies_.clear();
    const Node& node = placed.node;
    auto step = prepared(node, [&] {
      return with_context_of(std::move(placed), [&](const LoweringContext& c) { return rows_->of(node).how(c); });
    });
    return {std::move(step), std::move(bodies_)};
  }

  std::unique_ptr<Launch> copy(const View& from, const View& to) override { return copy_step(from, to); }

  std::vector<JoinedNodes> joined(const std::function<PlacedNode(size_t)>& place) override {
    std::vector<JoinedNodes> all;
    std::set<size_t> last_ones;
    for (ConvolutionPipeline pipeline : convolution_pipelines(g_)) {
      std::vector<size_t>& nodes = pipeline.nodes;
      if (last_ones.contains(nodes[0])) nodes.erase(nodes.begin());  // it is the last of another one
      const auto of_the_table = [&](size_t n) { return rows_->of(g_.nodes()[n]).when == when_fused_conv; };
      if (!std::all_of(nodes.begin(), nodes.end(), of_the_table)) continue;  // a kernel from outside comes first
      auto step = prepared(g_.nodes()[nodes.back()], [&] {
        return with_context_of(place(nodes[0]), [&](const LoweringContext& a) {
          return with_context_of(place(nodes[1]), [&](const LoweringContext& b) {
            if (nodes.size() == 2) return lower_convolution_pipeline(std::array{&a, &b});
            return with_context_of(place(nodes[2]), [&](const LoweringContext& c) {
              return lower_convolution_pipeline(std::array{&a, &b, &c});
            });
          });
        });
      });
      if (!step) continue;
      last_ones.insert(nodes.back());
      all.push_back({std::move(nodes), std::move(step)});
    }
    return all;
  }

 private:
  template <class Make>
  static std::unique_ptr<Step> prepared(const Node& node, Make make) {
    return with_context(
        [&] { return text_of("preparing '", node.op->name, "'", node.name.empty() ? "" : " of '" + node.name + "'"); },
        make);
  }

  /// Calls f with what the lowering of a node is handed.
  template <class F>
  std::unique_ptr<Step> with_context_of(PlacedNode placed, F f) {
    const Node& node = placed.node;
    const std::function<const Tensor*(size_t)> bound = [&](size_t i) { return bound_tensor(node.operands[i]); };
    const std::function<BodyPlan(const Body&)> body_plan = [&](const Body& body) {
      auto no_param = [](const std::string&) -> const Tensor* { return nullptr; };
      Schedule made = schedule(
          {body.graph, request_.threads, request_.policy, request_.packed, no_param, {}, body.updates, body.bound},
          is_described_);
      if (is_described_) bodies_.push_back(std::move(made.plan));
      return BodyPlan(std::make_shared<const Executor>(std::move(made.executor)));
    };
    return f(LoweringContext{node, std::move(placed.operands), std::move(placed.results), request_.threads,
                             request_.policy, request_.packed, bound, body_plan, std::move(placed.unread)});
  }

  const ScheduleRequest& request_;
  const Graph& g_;
  const std::shared_ptr<Rows> rows_ = std::make_shared<Rows>(g_);
  bool is_described_;
  std::vector<Plan> bodies_;  // of the launch that is being made
};

/// A product of few rows takes as long as its weights take to arrive from memory, so the product before it prefetches
/// them. Launches that are not `fresh` may be running elsewhere: they know already what to prefetch.
void set_prefetches(std::span<const std::shared_ptr<Launch>> launches, const std::vector<bool>& fresh = {}) {
  std::span<const std::byte> weights;
  for (size_t i = launches.size(); i-- > 0;) {
    auto& step = static_cast<Step&>(*launches[i]);  // all launches of this maker are steps
    if (!weights.empty() && (fresh.empty() || fresh[i])) step.prefetch_read(weights);
    if (const auto own = step.packed_weights(); !own.empty()) weights = own;
  }
}

std::vector<const Tensor*> fixed_tensors(const CpuLaunches& maker, const Planned& made) {
  std::vector<const Tensor*> fixed;
  for (Ref leaf : made.fixed) fixed.push_back(leaf == Ref{} ? nullptr : maker.bound_tensor(leaf));
  return fixed;
}

bool has_symbol(const Type& type) { return !is_static(type.dims); }

}  // namespace

Schedule schedule(const ScheduleRequest& request, bool is_described) {
  CpuLaunches maker(request, is_described);
  Planned made = plan_graph({request.graph, maker, request.donated, request.updates, is_described});

  set_prefetches(made.launches);
  const std::vector<const Tensor*> fixed = fixed_tensors(maker, made);
  return {Executor(made.plan, std::move(made.launches), fixed), is_described ? std::move(made.plan) : Plan{},
          made.live_bytes};
}

struct MovableSchedule::Made {
  ScheduleRequest request;
  CpuLaunches maker{request, false};
  size_t registered = registered_kernels_hash();
  std::optional<MovablePlan> plan = {};
  std::optional<Executor> executor = {};  // if the plan cannot move
};

MovableSchedule::MovableSchedule(const Graph& symbolic, std::unique_ptr<Graph> numbered, const Bindings& bindings,
                                 ScheduleRequest request)
    : numbered_(std::move(numbered)), made_(new Made{std::move(request)}) {
  const ScheduleRequest& asked = made_->request;
  Planned planned = plan_graph({asked.graph, made_->maker, asked.donated, asked.updates, false});
  set_prefetches(planned.launches);
  const std::vector<const Tensor*> fixed = fixed_tensors(made_->maker, planned);
  const bool may_join = std::any_of(symbolic.nodes().begin(), symbolic.nodes().end(), [](const Node& node) {
    return node.op == &op::fused_conv && std::any_of(node.types.begin(), node.types.end(), has_symbol);
  });
  if (!may_join && MovablePlan::can_move(symbolic, planned))
    made_->plan.emplace(symbolic, *numbered_, bindings, made_->maker, std::move(planned), asked.updates, fixed);
  else made_->executor.emplace(planned.plan, std::move(planned.launches), fixed);
  if (made_->plan) reserve(bindings);
}
MovableSchedule::~MovableSchedule() = default;

/// If all symbols have bounds, memory is planned for them. Bounds that would take more than half of the memory that
/// this process may have still bound, and memory then grows with the extents that come.
void MovableSchedule::reserve(const Bindings& bindings) {
  Bindings most;
  for (const auto& [symbol, number] : bindings) {
    const auto at = made_->request.bounds.find(symbol);
    if (at == made_->request.bounds.end()) return;
    most.emplace(symbol, at->second);
  }
  if (made_->plan->reserve(most, memory_limit() / 2))
    set_prefetches(made_->plan->launches(), made_->plan->fresh_launches());
}

bool MovableSchedule::can_move() const { return made_->plan.has_value(); }
bool MovableSchedule::move(const Bindings& bindings) {
  if (!made_->plan || made_->registered != registered_kernels_hash() || !made_->plan->move(bindings)) return false;
  set_prefetches(made_->plan->launches(), made_->plan->fresh_launches());
  return true;
}
const Executor& MovableSchedule::executor() const { return made_->plan ? made_->plan->executor() : *made_->executor; }
const std::vector<Update>& MovableSchedule::updates() const { return made_->request.updates; }
size_t MovableSchedule::arena_count() const { return made_->plan ? made_->plan->arena_count() : 1; }

}  // namespace rlx::cpu
