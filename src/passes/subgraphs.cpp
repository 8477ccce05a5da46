// See the header.
#include "passes/subgraphs.h"

#include <algorithm>

#include "ir/leaves.h"
#include "ir/rewrite.h"
#include "rlx/ops/control.h"

namespace rlx {

bool holds_programs(const Node& node) {
  for (const OpDef* op :
       {&op::if_else, &op::while_loop, &op::scan, &op::checkpointed_scan, &op::call, &op::remat, &op::custom_fn})
    if (node.op == op) return true;
  return false;
}

Graph with_bodies(const Graph& g, const std::function<Graph(const Graph&)>& pass) {
  if (std::none_of(g.nodes().begin(), g.nodes().end(), holds_programs)) return pass(g);
  return pass(rewritten(g, [&](const Site& site) -> std::optional<std::vector<Value>> {
    if (!holds_programs(site.node)) return std::nullopt;
    Attrs attrs = with_subgraphs(site.node.attrs, [&](const Graph& body) { return with_bodies(body, pass); });
    return site.to.emit(*site.node.op, {site.operands.begin(), site.operands.end()}, std::move(attrs));
  }));
}

namespace {

struct Contents {
  size_t nodes = 0, constant_bytes = 0;

  void add(const Node& node) {
    ++nodes;
    if (node.op == &op::constant) constant_bytes += node.attrs.as<ConstantAttrs>().value.byte_count();
    if (holds_programs(node)) with_subgraphs(node.attrs, [&](const Graph& body) { return add(body), body; });
  }
  void add(const Graph& g) {
    for (const Node& node : g.nodes()) add(node);
  }
  Growth room() const {
    constexpr size_t kForEachByte = 32;  // 4-bit values become f32 by way of i32
    // What many nodes ask for at most: a file of some kilobytes must not fill the memory because it has a hundred of
    // them.
    constexpr size_t kMostBytes = size_t{1} << 30, kManyNodes = size_t{1} << 22, kForEachOfMany = 32;
    Growth room = Growth::of(nodes);
    room.bytes = std::min(room.bytes, kMostBytes) + kForEachByte * constant_bytes;
    room.nodes = std::min(room.nodes, kManyNodes + kForEachOfMany * nodes);
    return room;
  }
};

}  // namespace

Growth room_to_grow(const Graph& g) {
  Contents contents;
  contents.add(g);
  return contents.room();
}
Growth room_to_grow(const Graph& g, const Node& node, std::span<const Ref> operands) {
  Contents contents;
  contents.add(node);
  for (const Ref& r : operands)
    if (g.node(r).op == &op::constant)
      contents.constant_bytes += g.node(r).attrs.as<ConstantAttrs>().value.byte_count();
  return contents.room();
}

Graph with_outputs(const Graph& g, std::span<const size_t> outputs) {
  Graph to(g.name());
  std::vector<Value> inputs;
  for (Ref r : g.inputs()) inputs.push_back(to.input(g.node(r).name, g.type(r)));
  auto values = splice(to, g, inputs);
  for (size_t o : outputs) to.output(values[o], g.outputs()[o].name);
  return prune(to);
}

Graph with_inputs(const Graph& g, Types types, std::span<const std::optional<size_t>> become) {
  Graph live = prune(g), to(g.name());
  std::vector<Value> inputs, given;
  for (size_t i = 0; i < types.size(); ++i) {
    size_t old = size_t(std::find(become.begin(), become.end(), i) - become.begin());
    inputs.push_back(to.input(old < become.size() ? g.node(g.inputs()[old]).name : text_of("x.", i), types[i]));
  }
  for (auto i : become) given.push_back(i ? inputs[*i] : Value());
  auto values = splice(to, live, given);
  for (size_t o = 0; o < values.size(); ++o) to.output(values[o], g.outputs()[o].name);
  return to;
}

Mask inputs_in_use(const Graph& g) {
  Uses uses(g);
  Mask used;
  for (Ref r : g.inputs()) used.push_back(!uses.of(r).empty() || uses.outputs(r) > 0);
  return used;
}

}  // namespace rlx
