// See the header. Backwards over the graph: what is needed of a node decides what is left of it, and that decides which
// operands are needed. A body is a graph like that, of which the results that are needed are the outputs; carries are
// needed if the others that are need them.
#include "passes/trim_control_flow.h"

#include <map>

#include "ir/rewrite.h"
#include "passes/subgraphs.h"
#include "rlx/ops/control.h"

namespace rlx {
namespace {

/// What is left of a node.
struct Trimmed {
  std::vector<Ref> operands;  ///< in the old graph
  Attrs attrs;
  /// For each old result: the new one; else the operand that it always is, or nothing if it is not needed.
  struct Result {
    std::optional<size_t> made, operand;
  };
  std::vector<Result> results;
};

Graph trimmed(const Graph& g, std::span<const size_t> outputs) { return trim_control_flow(with_outputs(g, outputs)); }

/// Old inputs of a body become inputs of a new one; equal operands become one.
struct Rewiring {
  const Node& node;
  size_t skipped;  // operands that no body is handed: the condition of an if_else
  std::vector<Ref> operands = {};
  std::vector<Type> types = {};
  std::vector<std::optional<size_t>> become = std::vector<std::optional<size_t>>(node.operands.size() - skipped);

  void add(size_t input, const Type& type) {
    become[input] = operands.size();
    operands.push_back(node.operands[skipped + input]);
    types.push_back(type);
  }
  /// Among inputs that are handed the same in every trip.
  void add_shared(size_t input, const Type& type, size_t first_shared) {
    for (size_t i = first_shared; i < operands.size(); ++i)
      if (operands[i] == node.operands[skipped + input]) {
        become[input] = i;
        return;
      }
    add(input, type);
  }
  Graph applied(const Graph& g) const { return with_inputs(g, types, become); }
};

Trimmed trim_if(const Node& node, const Mask& used) {
  const auto& a = node.attrs.as<IfAttrs>();
  Trimmed result{{}, {}, std::vector<Trimmed::Result>(used.size())};
  std::vector<size_t> kept;
  for (size_t r = 0; r < used.size(); ++r)
    if (used[r]) result.results[r].made = kept.size(), kept.push_back(r);
  Graph on_true = trimmed(*a.then_branch, kept), on_false = trimmed(*a.else_branch, kept);
  Mask read = inputs_in_use(on_true), read_too = inputs_in_use(on_false);
  Rewiring rewiring{node, 1};
  auto types = on_true.input_types();
  for (size_t i = 0; i < types.size(); ++i)
    if (read[i] || read_too[i]) rewiring.add_shared(i, types[i], 0);
  result.operands = rewiring.operands;
  result.operands.insert(result.operands.begin(), node.operands[0]);
  result.attrs = IfAttrs{rewiring.applied(on_true), rewiring.applied(on_false)};
  return result;
}

/// The carries that are needed, and the body that computes them and the `extra` outputs.
struct Carries {
  Mask needed, constant;  // of the needed ones: handed on as they are
  Mask read;              // the body's inputs
  Graph body;

  /// `needed`: for themselves. At least one stays, for whom a loop without any is no loop.
  Carries(const Graph& whole, Mask wanted, const std::vector<size_t>& extra, const Mask& read_outside, bool keep_one)
      : needed(std::move(wanted)), constant(needed.size()) {
    size_t n = needed.size();
    for (size_t i = 0; i < n; ++i) {
      constant[i] = whole.outputs()[i].ref == whole.inputs()[i];
      needed[i] = needed[i] || (i < read_outside.size() && read_outside[i]);
    }
    if (keep_one && std::all_of(constant.begin(), constant.end(), [](bool c) { return c; })) constant[0] = false;
    for (;;) {
      std::vector<size_t> outputs;
      for (size_t i = 0; i < n; ++i)
        if (needed[i] && !constant[i]) outputs.push_back(i);
      if (keep_one && outputs.empty()) {
        needed[size_t(std::find(constant.begin(), constant.end(), false) - constant.begin())] = true;
        continue;
      }
      outputs.insert(outputs.end(), extra.begin(), extra.end());
      body = trimmed(whole, outputs);
      read = inputs_in_use(body);
      bool more = false;
      for (size_t i = 0; i < n; ++i)
        if (read[i] && !needed[i]) needed[i] = more = true;
      if (!more) return;
    }
  }
};

/// The carries that stay become the first operands of `rewiring`; returns how many. A result that is handed on as it is
/// is the operand.
size_t keep_carries(const Carries& carries, const Mask& used, const std::vector<Type>& types, Rewiring& rewiring,
                    Trimmed& result) {
  for (size_t i = 0; i < carries.needed.size(); ++i) {
    if (carries.constant[i]) {
      if (used[i]) result.results[i].operand = i;
    } else if (carries.needed[i]) {
      result.results[i].made = rewiring.operands.size();
      rewiring.add(i, types[i]);
    }
  }
  return rewiring.operands.size();
}

Trimmed trim_while(const Node& node, const Mask& used) {
  const auto& a = node.attrs.as<WhileAttrs>();
  auto n = static_cast<size_t>(a.carries);
  Graph condition = trimmed(*a.condition, std::vector<size_t>{0});
  Mask read_too = inputs_in_use(condition);
  Carries carries(*a.body, used, {}, read_too, true);
  Trimmed result{{}, {}, std::vector<Trimmed::Result>(n)};
  Rewiring rewiring{node, 0};
  auto types = a.body->input_types();
  size_t kept = keep_carries(carries, used, types, rewiring, result);
  for (size_t i = 0; i < types.size(); ++i)
    if (!rewiring.become[i] && (carries.read[i] || read_too[i])) rewiring.add_shared(i, types[i], kept);
  result.operands = rewiring.operands;
  result.attrs = WhileAttrs{int64_t(kept), rewiring.applied(condition), rewiring.applied(carries.body), a.max_trips};
  return result;
}

Trimmed trim_scan(const Node& node, const Mask& used) {
  const auto& a = node.attrs.as<ScanAttrs>();
  auto n = static_cast<size_t>(a.carries), xs = static_cast<size_t>(a.xs);
  Trimmed result{{}, {}, std::vector<Trimmed::Result>(used.size())};
  std::vector<size_t> ys;
  std::vector<std::pair<size_t, size_t>> y_of;  // result, place among `ys`
  for (size_t r = n; r < used.size(); ++r) {
    if (!used[r]) continue;
    size_t y = 0;
    while (y < ys.size() && a.body->outputs()[ys[y]].ref != a.body->outputs()[r].ref) ++y;
    if (y == ys.size()) ys.push_back(r);
    y_of.emplace_back(r, y);
  }
  Carries carries(*a.body, Mask(used.begin(), used.begin() + std::ptrdiff_t(n)), ys, {}, false);
  Rewiring rewiring{node, 0};
  auto types = a.body->input_types();
  size_t kept = keep_carries(carries, used, types, rewiring, result);
  for (size_t i = n; i < n + xs; ++i)
    if (carries.read[i]) rewiring.add_shared(i, types[i], kept);
  size_t slices = rewiring.operands.size() - kept;
  for (size_t i = 0; i < types.size(); ++i)
    if (!rewiring.become[i] && (i < n || i >= n + xs) && carries.read[i])
      rewiring.add_shared(i, types[i], kept + slices);
  for (auto [r, y] : y_of) result.results[r].made = kept + y;
  result.operands = rewiring.operands;
  result.attrs = ScanAttrs{int64_t(kept), int64_t(slices), a.length, a.reverse, rewiring.applied(carries.body)};
  return result;
}

bool is_trimmed(const Node& node) {
  return node.op == &op::if_else || node.op == &op::while_loop || node.op == &op::scan;
}

}  // namespace

Graph trim_control_flow(const Graph& g) {
  if (std::none_of(g.nodes().begin(), g.nodes().end(), is_trimmed)) return g;
  std::vector<Mask> used;
  for (const Node& node : g.nodes()) used.emplace_back(node.types.size());
  auto use = [&](Ref r) { used[size_t(r.node)][size_t(r.result)] = true; };
  for (const Output& o : g.outputs()) use(o.ref);
  auto is_used = [&](size_t n) { return std::find(used[n].begin(), used[n].end(), true) != used[n].end(); };
  std::map<size_t, Trimmed> left;
  for (size_t n = g.nodes().size(); n-- > 0;) {
    const Node& node = g.nodes()[n];
    if (!is_used(n)) continue;
    if (!is_trimmed(node)) {
      for (Ref r : node.operands) use(r);
      continue;
    }
    auto trim = node.op == &op::if_else ? trim_if : node.op == &op::scan ? trim_scan : trim_while;
    Trimmed& t = left[n] = trim(node, used[n]);
    for (Ref r : t.operands) use(r);
    for (const auto& result : t.results)
      if (result.operand) use(node.operands[*result.operand]);
  }
  return rewritten(g, [&](const Site& site) -> std::optional<std::vector<Value>> {
    std::vector<Value> results(site.node.types.size()), made;
    if (!is_used(site.index)) return results;  // nobody asks for them, and what they are made of may be gone
    if (!is_trimmed(site.node)) return std::nullopt;
    const Trimmed& t = left.at(site.index);
    if (std::any_of(t.results.begin(), t.results.end(), [](const auto& r) { return r.made.has_value(); })) {
      std::vector<Value> operands;
      for (Ref r : t.operands) operands.push_back(site.value_of(r));
      made = site.to.emit(*site.node.op, std::move(operands), t.attrs);
    }
    for (size_t r = 0; r < results.size(); ++r) {
      if (t.results[r].made) results[r] = made[*t.results[r].made];
      else if (t.results[r].operand) results[r] = site.operands[*t.results[r].operand];
    }
    return results;
  });
}

}  // namespace rlx
