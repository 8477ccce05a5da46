// Replaying, pruning and binding graphs; see the header.
#include "ir/rewrite.h"

#include <algorithm>

#include "ir/leaves.h"

namespace rlx {
namespace {

Value param_in(Graph& to, const Node& param) {
  for (Ref r : to.params())
    if (to.node(r).name == param.name) return to.value(r);
  return to.param(param.name, param.types[0]);
}

}  // namespace

std::vector<Value> replay(Graph& to, const Graph& from, const Leaf& leaf, const Rule& rule) {
  std::vector<std::vector<Value>> values(from.nodes().size());
  const std::function<Value(Ref)> value_of = [&](Ref r) { return values[size_t(r.node)].at(size_t(r.result)); };
  std::string scope = to.scope();
  for (size_t i = 0; i < from.nodes().size(); ++i) {
    const Node& node = from.nodes()[i];
    to.set_scope(node.name.empty() ? scope : node.name);
    if (node.op == &op::input || node.op == &op::param) {
      values[i] = {leaf({int32_t(i), 0})};
      continue;
    }
    std::vector<Value> operands;
    for (Ref r : node.operands) operands.push_back(value_of(r));
    std::optional<std::vector<Value>> made;
    if (rule) made = rule({from, to, i, node, operands, value_of});
    values[i] = made ? std::move(*made) : to.emit(*node.op, std::move(operands), node.attrs);
    if (values[i].size() != node.types.size())
      fail(ErrorCode::internal, "a rewrite of '", node.op->name, "' gave ", values[i].size(), " results instead of ",
           node.types.size());
  }
  to.set_scope(scope);
  std::vector<Value> outputs;
  for (const Output& o : from.outputs()) outputs.push_back(value_of(o.ref));
  return outputs;
}

std::vector<Value> replay(Graph& to, const Graph& from, Values inputs, const Rule& rule) {
  if (inputs.size() != from.inputs().size())
    fail(ErrorCode::internal, "graph '", from.name(), "' has ", from.inputs().size(), " inputs, got ", inputs.size());
  size_t next_input = 0;
  auto leaf = [&](Ref r) {
    const Node& node = from.node(r);
    return node.op == &op::input ? inputs[next_input++] : param_in(to, node);
  };
  return replay(to, from, leaf, rule);
}

std::vector<Value> splice(Graph& to, const Graph& from, Values inputs) { return replay(to, from, inputs, nullptr); }

Graph rewritten(const Graph& g, const Rule& rule) {
  Graph to(g.name());
  std::vector<Value> leaves(g.nodes().size());
  for (size_t n = 0; n < g.nodes().size(); ++n) {  // leaves first, so that a rule never changes the signature's order
    const Node& node = g.nodes()[n];
    if (node.op == &op::input) leaves[n] = to.input(node.name, node.types[0]);
    if (node.op == &op::param) leaves[n] = to.param(node.name, node.types[0]);
  }
  auto outputs = replay(
      to, g, [&](Ref r) { return leaves[size_t(r.node)]; }, rule);
  for (size_t i = 0; i < outputs.size(); ++i) to.output(outputs[i], g.outputs()[i].name);
  return prune(std::move(to));
}

Graph with_leaves(const Graph& g, const std::function<Value(Graph&, const Node&)>& leaf, const Rule& rule) {
  Graph to(g.name());
  auto outputs = replay(
      to, g, [&](Ref r) { return leaf(to, g.node(r)); }, rule);
  for (size_t i = 0; i < outputs.size(); ++i) to.output(outputs[i], g.outputs()[i].name);
  return to;
}

namespace {

/// By node: is it a leaf, or needed for an output?
std::vector<bool> needed_nodes(const Graph& g) {
  std::vector<bool> needed(g.nodes().size());
  for (const Output& o : g.outputs()) needed[size_t(o.ref.node)] = true;
  for (size_t n = g.nodes().size(); n-- > 0;) {
    const OpDef* op = g.nodes()[n].op;
    if (op == &op::input || op == &op::param) needed[n] = true;
    if (needed[n])
      for (Ref r : g.nodes()[n].operands) needed[size_t(r.node)] = true;
  }
  return needed;
}
bool are_all(const std::vector<bool>& flags) { return std::find(flags.begin(), flags.end(), false) == flags.end(); }

Graph pruned(const Graph& g, const std::vector<bool>& needed) {
  Graph to(g.name());
  std::vector<std::vector<Value>> values(g.nodes().size());
  for (size_t n = 0; n < g.nodes().size(); ++n) {
    const Node& node = g.nodes()[n];
    if (!needed[n]) continue;
    if (node.op == &op::input) values[n] = {to.input(node.name, node.types[0])};
    else if (node.op == &op::param) values[n] = {to.param(node.name, node.types[0])};
    else {
      std::vector<Value> operands;
      for (Ref r : node.operands) operands.push_back(values[size_t(r.node)][size_t(r.result)]);
      to.set_scope(node.name);
      values[n] = to.emit(*node.op, std::move(operands), node.attrs);
    }
  }
  to.set_scope("");
  for (const Output& o : g.outputs()) to.output(values[size_t(o.ref.node)][size_t(o.ref.result)], o.name);
  return to;
}

}  // namespace

Graph prune(const Graph& g) {
  const std::vector<bool> needed = needed_nodes(g);
  return are_all(needed) ? g : pruned(g, needed);
}
Graph prune(Graph&& g) {
  const std::vector<bool> needed = needed_nodes(g);
  return are_all(needed) ? std::move(g) : pruned(g, needed);
}

Attrs substitute(const Attrs& attrs, const Bindings& bindings) {
  if (attrs.empty() || bindings.empty()) return attrs;
  return attrs.mapped({[&](const Dim& d) { return d.bound(bindings); },
                       [&](const Subgraph& g) { return Subgraph(substitute(*g, bindings)); }});
}
Attrs with_subgraphs(const Attrs& attrs, const std::function<Graph(const Graph&)>& f) {
  return attrs.mapped({[](const Dim& d) { return d; }, [&](const Subgraph& g) { return Subgraph(f(*g)); }});
}
Graph substitute(const Graph& g, const Bindings& bindings) {
  return with_leaves(
      g,
      [&](Graph& to, const Node& leaf) {
        Type type = leaf.types[0];
        for (Dim& d : type.dims) d = d.bound(bindings);
        return leaf.op == &op::input ? to.input(leaf.name, type) : to.param(leaf.name, type);
      },
      [&](const Site& site) {
        return site.to.emit(*site.node.op, {site.operands.begin(), site.operands.end()},
                            substitute(site.node.attrs, bindings));
      });
}

Uses::Uses(const Graph& g) {
  for (const Node& node : g.nodes()) {
    nodes_.emplace_back(node.types.size());
    outputs_.emplace_back(node.types.size());
  }
  for (size_t n = 0; n < g.nodes().size(); ++n)
    for (Ref r : g.nodes()[n].operands) nodes_[size_t(r.node)][size_t(r.result)].push_back(int32_t(n));
  for (const Output& o : g.outputs()) ++outputs_[size_t(o.ref.node)][size_t(o.ref.result)];
}

namespace {

size_t rank_of(const Tensor& t) { return t.rank(); }
DType dtype_of_input(const Tensor& t) { return t.dtype(); }
int64_t extent_of(const Tensor& t, size_t d) { return t.shape()[d]; }
Type type_of(const Tensor& t) { return t.type(); }

size_t rank_of(const Type& t) { return t.rank(); }
DType dtype_of_input(const Type& t) { return t.dtype; }
int64_t extent_of(const Type& t, size_t d) { return t.dims[d].value(); }
const Type& type_of(const Type& t) { return t; }

/// Of tensors or of static types; no type is made of a tensor unless something is wrong, because that allocates.
template <class Given>
Bindings solved_symbols(const Graph& g, std::span<const Given> inputs) {
  if (inputs.size() != g.inputs().size())
    fail(ErrorCode::invalid_argument, "graph '", g.name(), "' has ", g.inputs().size(), " inputs, got ", inputs.size());
  Bindings bindings;
  bool waiting = true;
  for (size_t round = 0; waiting; ++round) {  // a product of symbols waits until another dim has bound one of them
    waiting = false;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const Node& node = g.node(g.inputs()[i]);
      const Type& type = node.types[0];
      if (type.rank() != rank_of(inputs[i]) || type.dtype != dtype_of_input(inputs[i]))
        fail(ErrorCode::shape_mismatch, "input '", node.name, "' is ", type, ", got ", type_of(inputs[i]));
      for (size_t d = 0; d < type.rank(); ++d)
        with_context(
            [&] { return text_of("feeding input '", node.name, "', which is ", type, ", with ", type_of(inputs[i])); },
            [&] { waiting |= !type.dims[d].solve(extent_of(inputs[i], d), bindings); });
    }
    if (waiting && round > 64)
      fail(ErrorCode::shape_mismatch, "the shapes of the inputs of '", g.name(), "' do not determine all its symbols");
  }
  return bindings;
}

}  // namespace

Bindings solve_symbols(const Graph& g, Tensors inputs) { return solved_symbols(g, inputs); }
Bindings solve_symbols(const Graph& g, Types inputs) { return solved_symbols(g, inputs); }

}  // namespace rlx
