// See the header. Two steps: ops are put into groups, each op joining those of its operands as long as the graph of
// groups has no cycle; then groups are emitted, each when the first of its results is needed.
#include "passes/fuse_elementwise.h"

#include "ir/leaves.h"
#include "ir/rewrite.h"
#include "passes/hoist_params.h"
#include "rlx/ops.h"

namespace rlx {
namespace {

constexpr size_t kMostNodes = 64, kMostOperands = 16;
constexpr int32_t kNone = -1;

class Grouping {
 public:
  Grouping(const Graph& g, const std::function<bool(const Node&)>& can_fuse)
      : g_(g), group_of_(g.nodes().size(), kNone), seen_(g.nodes().size()) {
    auto hoisted = hoisted_nodes(g);
    for (size_t n = 0; n < g.nodes().size(); ++n) {
      const Node& node = g.nodes()[n];
      if (!node.op->elementwise || node.types.size() != 1 || hoisted[n] || touches_packed(node) || !can_fuse(node))
        continue;
      group_of_[n] = int32_t(n);
      members_[int32_t(n)] = {int32_t(n)};
      for (Ref r : node.operands)
        if (int32_t with = group_of_[size_t(r.node)];
            with != kNone && with != group_of_[n] && g.type(r).dims == node.types[0].dims)
          try_join(group_of_[n], with);
    }
    std::erase_if(members_, [&](const auto& group) {
      if (group.second.size() < 2) group_of_[size_t(group.second[0])] = kNone;
      return group.second.size() < 2;
    });
  }

  bool empty() const { return members_.empty(); }

  int32_t of(int32_t node) const { return group_of_[size_t(node)]; }
  const std::vector<int32_t>& members(int32_t group) const { return members_.at(group); }

  /// The value that a region reads for an operand: what is behind a broadcast.
  Ref source(Ref r) const {
    const Node& node = g_.node(r);
    return node.op == &op::broadcast_in_dim ? node.operands[0] : r;
  }
  bool is_scalar_literal(Ref r) const {
    const Node& node = g_.node(r);
    return node.op == &op::constant && node.attrs.as<ConstantAttrs>().value.element_count() == 1;
  }
  /// What the nodes read from outside, scalar constants apart, in order.
  std::vector<Ref> inputs(const std::vector<int32_t>& nodes) const {
    std::vector<Ref> all;
    for (int32_t n : nodes)
      for (Ref r : g_.nodes()[size_t(n)].operands) {
        if (std::binary_search(nodes.begin(), nodes.end(), r.node)) continue;
        Ref from = source(r);
        if (!is_scalar_literal(from) && std::find(all.begin(), all.end(), from) == all.end()) all.push_back(from);
      }
    return all;
  }

 private:
  /// Elements narrower than a byte have no address: what converts them stands alone.
  bool touches_packed(const Node& node) const {
    auto packed = [](const Type& t) { return !is_byte_sized(t.dtype); };
    return packed(node.types[0]) ||
           std::any_of(node.operands.begin(), node.operands.end(), [&](Ref r) { return packed(g_.type(r)); });
  }
  void try_join(int32_t a, int32_t b) {
    std::vector<int32_t> both;
    std::merge(members_[a].begin(), members_[a].end(), members_[b].begin(), members_[b].end(),
               std::back_inserter(both));
    if (both.size() > kMostNodes || inputs(both).size() > kMostOperands || !is_convex(both)) return;
    for (int32_t n : both) group_of_[size_t(n)] = a;
    spans_.erase(members_[a].front()), spans_.erase(members_[b].front());
    spans_[both.front()] = both.back();
    longest_ = std::max(longest_, both.back() - both.front());
    members_.erase(b);
    members_[a] = std::move(both);
  }

  /// Is there no way out of `nodes` and back in? Groups are passed as a whole: what one member needs, all wait for.
  bool is_convex(const std::vector<int32_t>& nodes) {
    ++walk_;
    const int32_t first = closed_from(nodes.front());
    std::vector<int32_t> open;
    auto visit = [&](int32_t n) {
      if (n < first || seen_[size_t(n)] == walk_) return;
      seen_[size_t(n)] = walk_;
      open.push_back(n);
    };
    auto is_in = [&](int32_t n) { return std::binary_search(nodes.begin(), nodes.end(), n); };
    for (int32_t n : nodes)
      for (Ref r : g_.nodes()[size_t(n)].operands)
        if (!is_in(r.node)) visit(r.node);
    while (!open.empty()) {
      int32_t n = open.back();
      open.pop_back();
      if (is_in(n)) return false;
      if (of(n) != kNone)
        for (int32_t member : members(of(n))) visit(member);
      for (Ref r : g_.nodes()[size_t(n)].operands) visit(r.node);
    }
    return true;
  }

  /// The last place up to `n` that no group reaches across. What stands before it cannot lead behind it: a node needs
  /// what stands before it, and through a group what that group's other members need.
  int32_t closed_from(int32_t n) const {
    for (auto span = spans_.lower_bound(n); span != spans_.begin();) {
      --span;
      if (span->first + longest_ < n) break;
      if (span->second >= n) n = span->first;
    }
    return n;
  }

  const Graph& g_;
  std::vector<int32_t> group_of_;                    // by node: the first node that joined, or none
  std::map<int32_t, std::vector<int32_t>> members_;  // sorted
  std::map<int32_t, int32_t> spans_;                 // of groups of several nodes: the first and the last one
  int32_t longest_ = 0;                              // of the spans
  std::vector<int32_t> seen_;                        // by node: the last walk that came by
  int32_t walk_ = 0;
};

class Emitter {
 public:
  Emitter(const Graph& g, const Grouping& groups)
      : g_(g), groups_(groups), uses_(g), to_(g.name()), values_(g.nodes().size()) {}

  Graph run() {
    for (Ref r : g_.inputs()) values_[size_t(r.node)] = {to_.input(g_.node(r).name, g_.type(r))};
    for (Ref r : g_.params()) values_[size_t(r.node)] = {to_.param(g_.node(r).name, g_.type(r))};
    for (int32_t n = 0; n < int32_t(g_.nodes().size()); ++n) {
      // As late as the original has them: a group with its last member, what regions may take in when it is read.
      const OpDef* op = g_.nodes()[size_t(n)].op;
      bool waits = op == &op::broadcast_in_dim || op == &op::constant ||
                   (groups_.of(n) != kNone && groups_.members(groups_.of(n)).back() != n);
      if (!waits) need(n);
    }
    for (const Output& o : g_.outputs()) need(o.ref.node);
    to_.set_scope("");
    for (const Output& o : g_.outputs()) to_.output(value(o.ref), o.name);
    return std::move(to_);
  }

 private:
  Value value(Ref r) const { return values_[size_t(r.node)].at(size_t(r.result)); }

  void need(int32_t n) {
    if (!values_[size_t(n)].empty()) return;
    const Node& node = g_.nodes()[size_t(n)];
    if (groups_.of(n) != kNone) return emit_region(groups_.members(groups_.of(n)));
    std::vector<Value> operands;
    for (Ref r : node.operands) {
      need(r.node);
      operands.push_back(value(r));
    }
    to_.set_scope(node.name);
    values_[size_t(n)] = to_.emit(*node.op, std::move(operands), node.attrs);
  }

  void emit_region(const std::vector<int32_t>& members) {
    std::vector<Ref> inputs = groups_.inputs(members);
    Graph body("region");
    std::map<Ref, Value> known;  // in the body
    std::vector<Value> operands;
    for (Ref r : inputs) {
      need(r.node);
      operands.push_back(value(r));
      known[r] = body.input(text_of("x", known.size()), g_.type(r));
    }
    auto inside = [&](Ref r) {
      if (auto found = known.find(r); found != known.end()) return found->second;
      Ref from = groups_.source(r);
      if (!known.contains(from)) known[from] = body.constant(g_.node(from).attrs.as<ConstantAttrs>().value);
      if (from != r) known[r] = body.emit(op::broadcast_in_dim, {known[from]}, g_.node(r).attrs)[0];
      return known[r];
    };
    std::vector<int32_t> results;
    std::string name;
    for (int32_t n : members) {
      const Node& node = g_.nodes()[size_t(n)];
      if (name.empty()) name = node.name;
      std::vector<Value> in;
      for (Ref r : node.operands) in.push_back(inside(r));
      known[{n, 0}] = body.emit(*node.op, std::move(in), node.attrs)[0];
      if (is_read_outside(n, members)) results.push_back(n);
    }
    if (results.empty()) results.push_back(members.back());  // dead code keeps its place until it is pruned
    for (int32_t n : results) body.output(known[{n, 0}]);
    to_.set_scope(name);
    auto made =
        to_.emit(op::elementwise_region, std::move(operands), ElementwiseRegionAttrs{Subgraph(std::move(body))});
    for (int32_t n : members) values_[size_t(n)] = {made[0]};  // nobody reads those that are no results
    for (size_t i = 0; i < results.size(); ++i) values_[size_t(results[i])] = {made[i]};
  }
  bool is_read_outside(int32_t n, const std::vector<int32_t>& members) const {
    if (uses_.outputs({n, 0}) > 0) return true;
    for (int32_t user : uses_.of({n, 0}))
      if (!std::binary_search(members.begin(), members.end(), user)) return true;
    return false;
  }

  const Graph& g_;
  const Grouping& groups_;
  Uses uses_;
  Graph to_;
  std::vector<std::vector<Value>> values_;  // by node, in the new graph
};

}  // namespace

Graph fuse_elementwise(const Graph& g, const std::function<bool(const Node&)>& can_fuse) {
  Grouping groups(g, can_fuse);
  if (groups.empty()) return g;
  return prune(Emitter(g, groups).run());
}

}  // namespace rlx
