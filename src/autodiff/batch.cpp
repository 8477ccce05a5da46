// Batching (vmap). The batch is always dim 0.
#include <map>

#include "autodiff/rules.h"
#include "autodiff/transforms.h"
#include "autodiff/widened.h"
#include "ir/rewrite.h"
#include "rlx/ops/control.h"
#include "rlx/ops/shape.h"

namespace rlx {
namespace {

struct Batcher {
  Graph& to;
  Dim size;
  std::map<Ref, bool> batched = {};

  bool is_batched(Value v) const { return batched.contains(v.ref()); }
  Value widened(Value v) const { return is_batched(v) ? v : repeat_front(v, size); }
  static Type lane(Type t) { return t.dims.erase(t.dims.begin()), t; }

  /// What is always possible: one lane after the other.
  std::vector<Value> loop(const Node& node, Values in) {
    std::vector<Value> xs, captured;
    std::vector<Type> types, rest;
    for (const Value& v : in) (is_batched(v) ? xs : captured).push_back(v);
    for (const Value& v : xs) types.push_back(lane(v.type()));
    for (const Value& v : captured) types.push_back(v.type());
    Graph body = trace(types, [&](Graph& inner, Values v) {
      std::vector<Value> operands;
      size_t next_x = 0, next_captured = xs.size();
      for (const Value& original : in) operands.push_back(v[is_batched(original) ? next_x++ : next_captured++]);
      return inner.emit(*node.op, operands, node.attrs);
    });
    auto operands = xs;
    operands.insert(operands.end(), captured.begin(), captured.end());
    return scan(to, operands, {.xs = int64_t(xs.size()), .length = size, .body = body});
  }

  std::vector<Value> batched_node(const Node& node, Values operands) {
    const OpDef& op = *node.op;
    std::vector<Value> in(operands.begin(), operands.end());
    if (op.batch || op.elementwise) {
      Mask which;
      for (Value& v : in) {
        which.push_back(is_batched(v));
        if (!op.batch_takes_unbatched) v = widened(v);
      }
      if (!op.batch) return to.emit(op, in, node.attrs);
      auto out = batched_by_rule(op, in, which, node);
      if (!out.empty()) return out;
      in.assign(operands.begin(), operands.end());
    }
    if (op.decompose) {
      std::vector<Type> types;
      for (const Value& v : in) types.push_back(is_batched(v) ? lane(v.type()) : v.type());
      auto out = walk(trace(types, [&](Graph& part, Values v) { return decompose(part, op, v, node.attrs); }), in);
      for (Value& v : out) v = widened(v);  // a part may depend on shared operands alone
      return out;
    }
    return loop(node, in);
  }

  std::vector<Value> walk(const Graph& g, Values inputs) {
    return replay(to, g, inputs, [&](const Site& site) -> std::optional<std::vector<Value>> {
      Values in = site.operands;
      if (std::none_of(in.begin(), in.end(), [&](Value v) { return is_batched(v); })) return std::nullopt;
      auto out = with_context([&] { return text_of("batching '", site.node.op->name, "'"); },
                              [&] { return batched_node(site.node, in); });
      for (const Value& v : out) batched[v.ref()] = true;
      return out;
    });
  }
};

}  // namespace

Graph batch(const Graph& g, const Mask& batched, const Dim& size) {
  Graph to(g.name());
  Batcher batcher{to, size};
  std::vector<Value> inputs;
  for (const Type& t : g.input_types()) {
    bool wide = batched[inputs.size()];
    inputs.push_back(to.input(text_of("x", inputs.size()), wide ? Type{t.dtype, prepend(size, t.dims)} : t));
    if (wide) batcher.batched[inputs.back().ref()] = true;
  }
  auto outputs = batcher.walk(g, inputs);
  for (const Value& v : outputs) to.output(batcher.widened(v));
  return prune(to);
}

}  // namespace rlx
