// Gradient checkpointing (Chen et al. 2016, "Training deep nets with sublinear memory cost"); see the header.
#include "train/segments.h"

#include <map>
#include <set>

#include "ir/leaves.h"
#include "rlx/ops/control.h"

namespace rlx::train {
namespace {

/// What a node weighs: its results' bytes, a symbol counting as 64.
double weight_of(const Node& node) {
  double all = 0;
  for (const Type& t : node.types) {
    double elements = 1;
    for (const Dim& d : t.dims) elements *= d.is_static() ? static_cast<double>(d.value()) : 64;
    all += elements * info(t.dtype).bits / 8;
  }
  return all;
}

/// For each node the part that it belongs to; leaves to none.
std::vector<int64_t> parts_of(const Graph& g, int64_t count) {
  double total = 0, sum = 0;
  for (const Node& node : g.nodes())
    if (!is_leaf(node)) total += weight_of(node);
  std::vector<int64_t> parts;
  for (const Node& node : g.nodes()) {
    if (is_leaf(node)) {
      parts.push_back(-1);
      continue;
    }
    // By the middle of the node, so that a heavy one does not always open a part.
    double weight = weight_of(node);
    double at = total > 0 ? (sum + weight / 2) / total * static_cast<double>(count) : 0;
    parts.push_back(std::min(count - 1, static_cast<int64_t>(at)));
    sum += weight;
  }
  return parts;
}

}  // namespace

Graph in_segments(const Graph& g, int64_t count) {
  count = std::min(count, static_cast<int64_t>(g.nodes().size()));
  if (count < 2) return g;
  auto parts = parts_of(g, count);
  auto part = [&](Ref r) { return parts[static_cast<size_t>(r.node)]; };
  auto is_constant = [&](Ref r) { return g.node(r).op == &op::constant; };

  // Which values leave their part.
  std::set<Ref> leaving;
  for (size_t n = 0; n < g.nodes().size(); ++n)
    for (Ref r : g.nodes()[n].operands)
      if (part(r) >= 0 && part(r) != parts[n]) leaving.insert(r);
  for (const Output& o : g.outputs())
    if (part(o.ref) >= 0) leaving.insert(o.ref);

  Graph to(g.name());
  std::map<Ref, Value> made;
  for (size_t n = 0; n < g.nodes().size(); ++n) {
    const Node& node = g.nodes()[n];
    Ref self{static_cast<int32_t>(n), 0};
    if (node.op == &op::input) made[self] = to.input(node.name, node.types[0]);
    else if (node.op == &op::param) made[self] = to.param(node.name, node.types[0]);
    else if (node.op == &op::constant) made[self] = to.constant(node.attrs.as<ConstantAttrs>().value);
  }
  auto emit_part = [&](Graph& into, int64_t which, std::map<Ref, Value>& values) {
    for (size_t n = 0; n < g.nodes().size(); ++n) {
      if (parts[n] != which) continue;
      const Node& node = g.nodes()[n];
      std::vector<Value> operands;
      for (Ref r : node.operands) {
        auto [at, is_new] = values.try_emplace(r);
        if (is_new) at->second = into.constant(g.node(r).attrs.as<ConstantAttrs>().value);
        operands.push_back(at->second);
      }
      into.set_scope(node.name);
      auto out = into.emit(*node.op, std::move(operands), node.attrs);
      for (size_t r = 0; r < out.size(); ++r) values[{static_cast<int32_t>(n), static_cast<int32_t>(r)}] = out[r];
    }
    into.set_scope("");
  };
  for (int64_t p = 0; p < count - 1; ++p) {
    std::vector<Ref> in, out;
    for (size_t n = 0; n < g.nodes().size(); ++n) {
      if (parts[n] != p) continue;
      for (Ref r : g.nodes()[n].operands)
        if (part(r) != p && !is_constant(r) && std::find(in.begin(), in.end(), r) == in.end()) in.push_back(r);
      for (size_t r = 0; r < g.nodes()[n].types.size(); ++r)
        if (Ref ref{static_cast<int32_t>(n), static_cast<int32_t>(r)}; leaving.contains(ref)) out.push_back(ref);
    }
    if (out.empty()) continue;
    if (in.empty()) {  // of constants alone
      emit_part(to, p, made);
      continue;
    }
    Graph body(text_of("part_", p));
    std::map<Ref, Value> inside;
    std::vector<Value> operands;
    for (size_t i = 0; i < in.size(); ++i) {
      inside[in[i]] = body.input(text_of("x", i), g.type(in[i]));
      operands.push_back(made.at(in[i]));
    }
    emit_part(body, p, inside);
    for (Ref r : out) body.output(inside.at(r));
    auto results = remat(operands, std::move(body));
    for (size_t i = 0; i < out.size(); ++i) made[out[i]] = results[i];
  }
  emit_part(to, count - 1, made);
  for (const Output& o : g.outputs()) to.output(made.at(o.ref), o.name);
  return to;
}

}  // namespace rlx::train
