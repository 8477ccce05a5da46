// The public derivatives, by name; see rlx/autodiff.h.
#include "autodiff/named.h"

#include "autodiff/transforms.h"
#include "ir/leaves.h"
#include "ir/rewrite.h"
#include "rlx/ops/elementwise.h"
#include "rlx/ops/shape.h"

namespace rlx {

Closed::Closed(const Graph& g) : graph(g.name()) {
  for (const auto* refs : {&g.inputs(), &g.params()})
    for (Ref r : *refs) leaves.push_back(g.node(r));
  std::vector<Value> inputs;
  for (const Node& leaf : leaves) inputs.push_back(graph.input(leaf.name, leaf.types[0]));
  auto params = std::span(inputs).subspan(g.inputs().size());
  // Params are found by name in what is replayed into; here they are inputs already.
  std::vector<std::vector<Value>> values(g.nodes().size());
  size_t next_input = 0;
  for (size_t n = 0; n < g.nodes().size(); ++n) {
    const Node& node = g.nodes()[n];
    if (node.op == &op::input) {
      values[n] = {inputs[next_input++]};
    } else if (node.op == &op::param) {
      size_t at = 0;
      while (g.params()[at].node != int32_t(n)) ++at;
      values[n] = {params[at]};
    } else {
      std::vector<Value> operands;
      for (Ref r : node.operands) operands.push_back(values[size_t(r.node)][size_t(r.result)]);
      graph.set_scope(node.name);
      values[n] = graph.emit(*node.op, std::move(operands), node.attrs);
    }
  }
  graph.set_scope("");
  for (const Output& o : g.outputs()) graph.output(values[size_t(o.ref.node)][size_t(o.ref.result)], o.name);
}

Mask Closed::wrt(const Names& names) const {
  Mask mask(leaves.size());
  if (names.empty()) {
    bool any_param = std::any_of(leaves.begin(), leaves.end(), [](const Node& leaf) {
      return leaf.op == &op::param && has_derivative(leaf.types[0].dtype);
    });
    for (size_t i = 0; i < leaves.size(); ++i)
      mask[i] = has_derivative(leaves[i].types[0].dtype) && (leaves[i].op == &op::param) == any_param;
    if (std::find(mask.begin(), mask.end(), true) == mask.end())
      fail(ErrorCode::invalid_argument, "graph '", graph.name(), "' has no float input or param to differentiate");
    return mask;
  }
  for (const std::string& name : names) {
    auto leaf = std::find_if(leaves.begin(), leaves.end(), [&](const Node& n) { return n.name == name; });
    if (leaf == leaves.end()) {
      std::string list;
      for (const Node& n : leaves) list += (list.empty() ? "" : ", ") + n.name;
      fail(ErrorCode::not_found, "graph '", graph.name(), "' has no input or param '", name, "'; there are ", list);
    }
    if (!has_derivative(leaf->types[0].dtype))
      fail(ErrorCode::invalid_argument, "'", name, "' is ", leaf->types[0], ": only floats and complex numbers have ",
           "derivatives");
    mask[size_t(leaf - leaves.begin())] = true;
  }
  return mask;
}

std::vector<Value> Closed::leaves_in(Graph& to) const {
  std::vector<Value> values;
  for (const Node& leaf : leaves)
    values.push_back(leaf.op == &op::param ? to.param(leaf.name, leaf.types[0]) : to.input(leaf.name, leaf.types[0]));
  return values;
}

void require_scalar(const Graph& g, std::string_view what) {
  if (g.outputs().empty()) fail(ErrorCode::invalid_argument, what, " needs an output; graph '", g.name(), "' has none");
  const Type& t = g.type(g.outputs()[0].ref);
  if (t.rank() != 0 || !is_float(t.dtype))
    fail(ErrorCode::invalid_argument, what, " needs a float scalar; output '", g.outputs()[0].name, "' is ", t,
         t.rank() != 0 ? "; sum it, or use vjp or jacrev" : "");
}

namespace {

void output_each(Graph& to, Values values, const Closed& c, const Mask& wrt, std::string_view prefix) {
  size_t next = 0;
  for (size_t i = 0; i < wrt.size(); ++i)
    if (wrt[i]) to.output(values[next++], text_of(prefix, c.leaves[i].name));
}

Graph gradients(const Graph& g, const Names& names, bool with_outputs, std::string_view what) {
  require_scalar(g, what);
  Closed c(g);
  Mask wrt = c.wrt(names), given(g.outputs().size());
  given[0] = true;
  Graph back = value_and_vjp(c.graph, wrt, given), to(g.name());
  auto inputs = c.leaves_in(to);
  inputs.push_back(scalar(to, 1, g.type(g.outputs()[0].ref).dtype));
  auto out = splice(to, back, inputs);
  if (with_outputs)
    for (size_t i = 0; i < g.outputs().size(); ++i) to.output(out[i], g.outputs()[i].name);
  output_each(to, Values(out).subspan(g.outputs().size()), c, wrt, "grad_");
  return prune(to);
}

}  // namespace

Graph vjp(const Graph& g, const Names& names, bool with_outputs) {
  Closed c(g);
  Mask wrt = c.wrt(names), given = differentiable_outputs(c.graph);
  Graph back = value_and_vjp(c.graph, wrt, given), to(g.name());
  auto inputs = c.leaves_in(to);
  for (size_t i = 0; i < given.size(); ++i)
    if (given[i]) inputs.push_back(to.input("ct_" + g.outputs()[i].name, g.type(g.outputs()[i].ref)));
  auto out = splice(to, back, inputs);
  if (with_outputs)
    for (size_t i = 0; i < given.size(); ++i) to.output(out[i], g.outputs()[i].name);
  output_each(to, Values(out).subspan(given.size()), c, wrt, "grad_");
  return prune(to);
}
Graph grad(const Graph& g, const Names& wrt) { return gradients(g, wrt, false, "grad"); }
Graph value_and_grad(const Graph& g, const Names& wrt) { return gradients(g, wrt, true, "value_and_grad"); }

Graph jvp(const Graph& g, const Names& names) {
  Closed c(g);
  Mask active = c.wrt(names), moving = differentiable_outputs(c.graph);
  Graph forth = jvp(c.graph, active), to(g.name());
  auto inputs = c.leaves_in(to);
  for (size_t i = 0; i < active.size(); ++i)
    if (active[i]) inputs.push_back(to.input("tangent_" + c.leaves[i].name, c.leaves[i].types[0]));
  auto out = splice(to, forth, inputs);
  for (size_t i = 0; i < moving.size(); ++i) to.output(out[i], g.outputs()[i].name);
  for (size_t i = 0, next = moving.size(); i < moving.size(); ++i)
    if (moving[i]) to.output(out[next++], "tangent_" + g.outputs()[i].name);
  return prune(to);
}

Graph hvp(const Graph& g, const Names& names) {
  require_scalar(g, "hvp");
  Closed c(g);
  Mask wrt = c.wrt(names), given(g.outputs().size());
  given[0] = true;
  Graph back = vjp(c.graph, wrt, given);
  Mask active = wrt;
  active.push_back(false);  // the cotangent is constant
  Graph forth = jvp(back, active), to(g.name());
  auto inputs = c.leaves_in(to);
  inputs.push_back(scalar(to, 1, g.type(g.outputs()[0].ref).dtype));
  for (size_t i = 0; i < wrt.size(); ++i)
    if (wrt[i]) inputs.push_back(to.input("tangent_" + c.leaves[i].name, c.leaves[i].types[0]));
  auto out = splice(to, forth, inputs);
  size_t n = out.size() / 2;
  output_each(to, Values(out).first(n), c, wrt, "grad_");
  output_each(to, Values(out).subspan(n), c, wrt, "hvp_");
  return prune(to);
}

Graph vmap(const Graph& g, const BatchAxes& axes, Dim size) {
  Closed c(g);
  Mask batched(c.leaves.size());
  if (axes.inputs.empty())
    fail(ErrorCode::invalid_argument, "vmap of '", g.name(), "' names no input that has a batch; name at least one");
  for (const auto& [name, axis] : axes.inputs) {
    auto leaf =
        std::find_if(c.leaves.begin(), c.leaves.end(), [&, &wanted = name](const Node& n) { return n.name == wanted; });
    if (leaf == c.leaves.end()) fail(ErrorCode::not_found, "graph '", g.name(), "' has no input or param '", name, "'");
    batched[size_t(leaf - c.leaves.begin())] = true;
  }
  for (const auto& [name, axis] : axes.outputs)
    if (std::none_of(g.outputs().begin(), g.outputs().end(),
                     [&, &wanted = name](const Output& o) { return o.name == wanted; }))
      fail(ErrorCode::not_found, "graph '", g.name(), "' has no output '", name, "'");
  Graph wide = batch(c.graph, batched, size), to(g.name());
  std::vector<Value> inputs;
  for (size_t i = 0; i < c.leaves.size(); ++i) {
    const Node& leaf = c.leaves[i];
    Type type = leaf.types[0];
    int64_t axis = 0;
    if (batched[i]) {
      axis = with_context([&] { return text_of("placing the batch of '", leaf.name, "', which is ", type); },
                          [&] { return valid_axis(axes.inputs.at(leaf.name), type.rank() + 1); });
      type.dims.insert(type.dims.begin() + axis, size);
    }
    Value v = leaf.op == &op::param ? to.param(leaf.name, type) : to.input(leaf.name, type);
    inputs.push_back(batched[i] ? move_axis(v, axis, 0) : v);
  }
  auto out = splice(to, wide, inputs);
  for (size_t i = 0; i < out.size(); ++i) {
    const std::string& name = g.outputs()[i].name;
    auto axis = axes.outputs.find(name);
    to.output(axis == axes.outputs.end() ? out[i] : move_axis(out[i], 0, axis->second), name);
  }
  return prune(to);
}

}  // namespace rlx
