// The CPU's half of planning: a launch for each node, and for the pipelines of convolutions. See the header.
#include "backends/cpu/schedule.h"

#include <array>
#include <map>
#include <set>

#include "backends/cpu/convolution_chain.h"
#include "backends/cpu/lowerings.h"
#include "ir/leaves.h"
#include "rlx/ops/fused.h"

namespace rlx::cpu {
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

  StorageRules storage_rules() override { return cpu::storage_rules(g_); }

  MadeLaunch launch(PlacedNode placed) override {
    bodies_.clear();
    const Node& node = placed.node;
    auto step = prepared(node, [&] {
      return with_context_of(std::move(placed), [&](const LoweringContext& c) { return lowering_of(g_, node).how(c); });
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
      const auto of_the_table = [&](size_t n) { return lowering_of(g_, g_.nodes()[n]).when == when_fused_conv; };
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
  bool is_described_;
  std::vector<Plan> bodies_;  // of the launch that is being made
};

}  // namespace

Schedule schedule(const ScheduleRequest& request, bool is_described) {
  CpuLaunches maker(request, is_described);
  Planned made = plan_graph({request.graph, maker, request.donated, request.updates, is_described});

  // A product of few rows takes as long as its weights take to arrive from memory, so the product before it prefetches
  // them.
  std::span<const std::byte> weights;
  for (auto launch = made.launches.rbegin(); launch != made.launches.rend(); ++launch) {
    auto& step = static_cast<Step&>(**launch);  // all launches of this maker are steps
    if (!weights.empty()) step.prefetch_read(weights);
    if (const auto own = step.packed_weights(); !own.empty()) weights = own;
  }

  std::vector<const Tensor*> fixed;
  for (Ref leaf : made.fixed) fixed.push_back(leaf == Ref{} ? nullptr : maker.bound_tensor(leaf));
  return {Executor(made.plan, std::move(made.launches), fixed), is_described ? std::move(made.plan) : Plan{},
          made.live_bytes};
}

}  // namespace rlx::cpu
