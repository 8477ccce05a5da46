// See the header. One walk backwards decides where the cut is: a value that the main part needs is hoisted if it may
// be, and then nothing behind it is needed.
#include "passes/hoist_params.h"

#include "ir/leaves.h"
#include "ir/rewrite.h"
#include "passes/bound_values.h"
#include "rlx/ops.h"

namespace rlx {
namespace {

bool packs_weights(const OpDef* op) {
  for (const OpDef* product : {&op::matmul, &op::linear, &op::fused_matmul, &op::dot_general, &op::lora_matmul,
                               &op::grouped_matmul, &op::convolution, &op::fused_conv})
    if (op == product) return true;
  return false;
}

struct ParamCut {
  const Graph& g;
  Uses uses{g};
  std::vector<bool> bound = bound_nodes(g);
  std::vector<bool> in_main, hoisted;  // by node; hoisted ones are needed by main, and computed before

  explicit ParamCut(const Graph& graph) : g(graph), in_main(g.nodes().size()), hoisted(g.nodes().size()) {
    auto leaf_bytes = bytes_behind();
    for (const Output& o : g.outputs()) in_main[size_t(o.ref.node)] = true;
    for (size_t n = g.nodes().size(); n-- > 0;) {
      if (!in_main[n]) continue;
      if (can_hoist(n, leaf_bytes[n])) in_main[n] = false, hoisted[n] = true;
      else
        for (Ref r : g.nodes()[n].operands) in_main[size_t(r.node)] = true;
    }
  }

  /// Bytes of the params and constants from which each bound node is computed. One that is read twice counts twice.
  std::vector<double> bytes_behind() const {
    std::vector<double> bytes(g.nodes().size());
    for (size_t n = 0; n < bytes.size(); ++n) {
      const Node& node = g.nodes()[n];
      if (!bound[n]) continue;
      if (is_leaf(node)) bytes[n] = static_cast<double>(byte_count(node.types[0].dtype, shape_of(node.types[0].dims)));
      for (Ref r : node.operands) bytes[n] += bytes[size_t(r.node)];
    }
    return bytes;
  }
  bool can_hoist(size_t n, double leaf_bytes) const {
    constexpr double kFewBytes = 1 << 16;
    const Node& node = g.nodes()[n];
    if (!bound[n] || is_leaf(node) || node.op == &op::broadcast_in_dim || node.op == &op::iota) return false;
    if (node.op == &op::reshape || node.op == &op::transpose || node.op == &op::slice) {
      const auto& users = uses.of({int32_t(n), 0});
      if (std::none_of(users.begin(), users.end(), [&](int32_t u) { return packs_weights(g.nodes()[size_t(u)].op); }))
        return false;
    }
    double bytes = 0;
    for (const Type& t : node.types) bytes += static_cast<double>(byte_count(t.dtype, shape_of(t.dims)));
    return bytes <= std::max(kFewBytes, 2 * leaf_bytes);
  }
};

/// Nodes from which the marked ones are computed, these included.
std::vector<bool> cone_of(const Graph& g, std::vector<bool> marked) {
  for (size_t n = marked.size(); n-- > 0;)
    if (marked[n])
      for (Ref r : g.nodes()[n].operands) marked[size_t(r.node)] = true;
  return marked;
}

/// Emits nodes of one graph into another, in order.
struct Copy {
  const Graph& from;
  Graph& to;
  std::map<Ref, Value> values = {};

  void add(size_t n) {
    const Node& node = from.nodes()[n];
    std::vector<Value> results;
    if (node.op == &op::input) results = {to.input(node.name, node.types[0])};
    else if (node.op == &op::param) results = {to.param(node.name, node.types[0])};
    else {
      std::vector<Value> operands;
      for (Ref r : node.operands) operands.push_back(values.at(r));
      to.set_scope(node.name);
      results = to.emit(*node.op, std::move(operands), node.attrs);
    }
    for (size_t r = 0; r < results.size(); ++r) values[{int32_t(n), int32_t(r)}] = results[r];
  }
};

bool names_a_leaf(const Graph& g, const std::string& name) {
  for (const auto* leaves : {&g.inputs(), &g.params()})
    for (Ref r : *leaves)
      if (g.node(r).name == name) return true;
  return false;
}

}  // namespace

Hoisted hoist_params(const Graph& g) {
  ParamCut cut(g);
  Hoisted result{Graph(g.name() + ".prologue"), Graph(g.name()), {}};
  auto in_prologue = cone_of(g, cut.hoisted);
  Copy prologue{g, result.prologue}, main{g, result.main};
  // The signature first: inputs, then params.
  for (Ref r : g.inputs()) main.add(size_t(r.node));
  for (Ref r : g.params()) {
    auto n = size_t(r.node);
    if (in_prologue[n]) prologue.add(n);
    if (cut.in_main[n] || !in_prologue[n]) main.add(n);
  }
  size_t number = 0;
  for (size_t n = 0; n < g.nodes().size(); ++n) {
    const Node& node = g.nodes()[n];
    if (in_prologue[n] && node.op != &op::param) prologue.add(n);
    if (!cut.hoisted[n]) continue;
    for (size_t i = 0; i < node.types.size(); ++i) {
      Ref r{int32_t(n), int32_t(i)};
      bool is_read = cut.uses.outputs(r) > 0;
      for (int32_t user : cut.uses.of(r)) is_read |= cut.in_main[size_t(user)];
      if (!is_read) continue;
      std::string name;
      do name = text_of("hoisted.", number++);
      while (names_a_leaf(g, name));
      result.prologue.output(prologue.values.at(r), name);
      main.values[r] = result.main.param(name, node.types[i]);
      result.names.push_back(std::move(name));
    }
  }
  for (size_t n = 0; n < g.nodes().size(); ++n)
    if (const Node& node = g.nodes()[n]; cut.in_main[n] && node.op != &op::input && node.op != &op::param) main.add(n);
  result.prologue.set_scope(""), result.main.set_scope("");
  for (const Output& o : g.outputs()) result.main.output(main.values.at(o.ref), o.name);
  return result;
}

std::vector<bool> hoisted_nodes(const Graph& g) {
  ParamCut cut(g);
  auto nodes = cone_of(g, cut.hoisted);
  for (size_t n = 0; n < nodes.size(); ++n) nodes[n] = nodes[n] && !cut.in_main[n];
  return nodes;
}

}  // namespace rlx
