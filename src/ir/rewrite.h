// How a graph becomes another: nodes are emitted again, one by one, and a rule may emit something else instead.
// A rule sees the old graph whole and the new one as far as it is built; what it leaves unused is pruned.
#pragma once

#include "rlx/op_def.h"

namespace rlx {

/// Where a rewrite stands: a node of the old graph, and its operands in the new one.
struct Site {
  const Graph& from;
  Graph& to;
  size_t index;  // of the node in `from`
  const Node& node;
  Values operands;
  /// The value in `to` of an earlier result in `from`.
  const std::function<Value(Ref)>& value_of;
};
/// What stands for the node's results; nothing means "as it was".
using Rule = std::function<std::optional<std::vector<Value>>(const Site&)>;

/// What stands in the new graph for an input or a param of the old one.
using Leaf = std::function<Value(Ref)>;

/// Emits every node of `from` again into `to`, and gives what stands for its outputs.
/// Nodes keep their names; what a rule emits for a named node carries that name.
std::vector<Value> replay(Graph& to, const Graph& from, const Leaf& leaf, const Rule& rule);
/// The same with `inputs` for its inputs; params are found by name or made.
std::vector<Value> replay(Graph& to, const Graph& from, Values inputs, const Rule& rule);
/// Emits every node of `from` again as it is: inlines it.
std::vector<Value> splice(Graph& to, const Graph& from, Values inputs);
/// The whole graph, rewritten and pruned: same name, inputs, params and output names. Sub-graphs are left alone.
Graph rewritten(const Graph& g, const Rule& rule);
/// The whole graph with other leaves, which `leaf` puts into the new graph in the order of the old one; nothing is
/// pruned. Same name and output names.
Graph with_leaves(const Graph& g, const std::function<Value(Graph& to, const Node& leaf)>& leaf, const Rule& rule = {});

/// Without the nodes that no output needs. Inputs and params stay: they are the graph's signature.
Graph prune(const Graph& g);
Graph prune(Graph&& g);

/// Puts numbers for symbols, in types, attributes and sub-graphs.
Graph substitute(const Graph&, const Bindings&);
Attrs substitute(const Attrs&, const Bindings&);
/// A copy of the attributes with every sub-graph mapped by `f`.
Attrs with_subgraphs(const Attrs&, const std::function<Graph(const Graph&)>& f);

/// For each node and result: the nodes that use it, in order, once per use; `outputs` counts uses as an output.
struct Uses {
  explicit Uses(const Graph&);
  const std::vector<int32_t>& of(Ref r) const {
    return nodes_[static_cast<size_t>(r.node)][static_cast<size_t>(r.result)];
  }
  size_t outputs(Ref r) const { return outputs_[static_cast<size_t>(r.node)][static_cast<size_t>(r.result)]; }
  /// Exactly one node uses it, once, and no output does.
  bool only_one(Ref r) const { return of(r).size() == 1 && outputs(r) == 0; }

 private:
  std::vector<std::vector<std::vector<int32_t>>> nodes_;
  std::vector<std::vector<size_t>> outputs_;
};

/// The numbers for which the types of g's inputs are those of `inputs`; fails naming the input that does not fit.
Bindings solve_symbols(const Graph& g, Tensors inputs);
/// The same of static types: for elements that are not on the host.
Bindings solve_symbols(const Graph& g, Types inputs);

}  // namespace rlx
